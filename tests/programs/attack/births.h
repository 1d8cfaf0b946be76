// What all parts of births.c use: what it keeps, how it fails, `birth`, places in memory, strings.
#ifndef MARGAY_BIRTHS_H
#define MARGAY_BIRTHS_H

#define _GNU_SOURCE
#include "bare.h"
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MOST_STRINGS = 40, MOST_ERRORS = 16, HANG_S = 100 };
// Descriptors.
enum { NO_FD = 590, SELF = 600, HERE, PIPE, SOCKET, GARBAGE, SELF_PATH, TEXT, EVENT, SCRIPT_ONCE, SELF_ONCE, OUT = 650, LIFE };
// What the second thread does meanwhile.
enum { RESTS, MOVES, BEARS, IS_REFUSED, BECOMES };
// For `birth`, too. How a child ends: with an errno of its execve, or with one of these.
#define CANARY_WORDS 8192
#define CANARY_FACTOR 0x9E3779B97F4A7C15
#define EXECED 200
#define MISTAKEN 201
#define BORN 210
#define HARMED 211

// What outlives the program.
static struct life {
    int64_t pid;
    uint64_t state, left, births, threads, children, refused_births, executed, programs, refused_programs, races, words_moved, signals;
    uint32_t rank, on_node, listed_fds;
    // What the next program must find: the strings with these numbers, or, when they were raced for, any of them, or any at all.
    uint32_t raced, prefix, counts[2];
    uint8_t strings[2][MOST_STRINGS];
    char self[256];
} life;

static long own_pid;
static uint64_t canary[CANARY_WORDS] __attribute__((used));
// Written by `birth`, and seen where memory is shared.
static _Atomic uint32_t born __attribute__((used)), harmed __attribute__((used));

static uint64_t next(uint64_t below) { return draw(&life.state) % below; }
#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

// ---- Failures -------------------------------------------------------------

// What may come of a call: success where no error is named, or where it may be either.
struct verdict {
    int errors[MOST_ERRORS], count, either;
};
static struct verdict last_verdict;

static uint64_t tries;
static struct {
    long number, args[6], result, then, beside;
} last[8];

static void note(long number, const long *args, long then, int beside)
{
    unsigned slot = tries++ % 8;
    last[slot].number = number;
    last[slot].result = LONG_MAX;
    last[slot].then = then;
    last[slot].beside = beside;
    memcpy(last[slot].args, args, sizeof last[slot].args);
}
static void note_result(long result) { last[(tries - 1) % 8].result = result; }

static void fail(const char *what, long value)
{
    dprintf(OUT, "FAIL rank %u: %s: %ld, with %lu tries left\n", life.rank, what, value, life.left);
    for (uint64_t i = tries > 8 ? tries - 8 : 0; i < tries; i++) {
        long *a = last[i % 8].args;
        dprintf(OUT, "  %ld(%#lx, %#lx, %#lx, %#lx, %#lx, %#lx) = %ld, then %ld, beside %ld\n", last[i % 8].number, a[0], a[1], a[2],
                a[3], a[4], a[5], last[i % 8].result, last[i % 8].then, last[i % 8].beside);
    }
    dprintf(OUT, "  the last verdict: %s", last_verdict.either || last_verdict.count == 0 ? "success" : "");
    for (int i = 0; i < last_verdict.count; i++)
        dprintf(OUT, " %d", last_verdict.errors[i]);
    dprintf(OUT, "\n");
    CALL(SYS_exit_group, 1);
    __builtin_unreachable();
}
#define must(condition) ((condition) ? (void)0 : fail(#condition, 0))

static void may(struct verdict *verdict, int error)
{
    must(verdict->count < MOST_ERRORS);
    verdict->errors[verdict->count++] = error;
}
static int is_right(const struct verdict *verdict, long result)
{
    int found = result >= 0 && (verdict->count == 0 || verdict->either);
    for (int i = 0; i < verdict->count; i++)
        found |= result == -verdict->errors[i];
    last_verdict = *verdict;
    return found;
}

static time_t seconds(void)
{
    struct timespec now;
    CALL(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}
#define AWAIT(condition)                                                                                               \
    for (time_t end = seconds() + HANG_S; !(condition); CALL(SYS_sched_yield))                                         \
        if (seconds() > end)                                                                                           \
            fail("still waiting for " #condition, 0)

// ---- What is born ---------------------------------------------------------

struct then {
    long number, args[5]; // 0: nothing
    volatile long result; // of a thread's
};

// Makes a call with six arguments; returns its result, or LONG_MIN when registers are not what they were. What is born
// makes the call of `then`, and ends.
long birth(long number, const long *args, struct then *then);
#define MARKS(use)                                                                                                     \
    use("$0x1122334455667788", "%r12") use("$0x99aabbccddeeff00", "%r13") use("$0x123456789abcdef", "%r14") use("$0xfedcba987654321", "%r15")
#define SET(mark, where) "mov " mark ", " where "\n"
#define COMPARE(mark, where) "mov " mark ", %rcx\n cmp %rcx, " where "\n jne 9f\n"
#define TEXT_(value) #value
#define AS_TEXT(value) TEXT_(value)
__asm__("birth: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rdi, %rax\n mov %rsi, %rbx\n mov %rdx, %rbp\n" MARKS(SET) "movq %r14, %xmm15\n"
        "mov (%rbx), %rdi\n mov 8(%rbx), %rsi\n mov 16(%rbx), %rdx\n mov 24(%rbx), %r10\n mov 32(%rbx), %r8\n mov 40(%rbx), %r9\n"
        "syscall\n test %rax, %rax\n jz 1f\n" MARKS(COMPARE) "jmp 8f\n"
        "9: mov $0x8000000000000000, %rax\n"
        "8: pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
        "1:" MARKS(COMPARE) "movq %xmm15, %rcx\n cmp %rcx, %r14\n jne 9f\n"
        "lea canary(%rip), %rsi\n mov $" AS_TEXT(CANARY_WORDS) ", %ecx\n mov $" AS_TEXT(CANARY_FACTOR) ", %rdx\n xor %edi, %edi\n"
        "2: add %rdx, %rdi\n cmp %rdi, (%rsi)\n jne 9f\n add $8, %rsi\n dec %ecx\n jnz 2b\n"
        "mov $" AS_TEXT(BORN) ", %edi\n mov (%rbp), %rax\n test %rax, %rax\n jz 3f\n"
        "mov 8(%rbp), %rdi\n mov 16(%rbp), %rsi\n mov 24(%rbp), %rdx\n mov 32(%rbp), %r10\n mov 40(%rbp), %r8\n syscall\n"
        "mov %rax, 48(%rbp)\n mov %eax, %edi\n neg %edi\n"
        "3: lock incl born(%rip)\n mov $" AS_TEXT(SYS_exit) ", %eax\n syscall\n"
        "9: lock incl harmed(%rip)\n mov $" AS_TEXT(HARMED) ", %edi\n mov $" AS_TEXT(SYS_exit) ", %eax\n syscall\n");

// Waits for the end of what was born; returns its status as wait(2) has it, -1: it was a thread.
static int settle(long id)
{
    int status = 0;
    long got = CALL(SYS_wait4, id, &status, __WALL, 0);
    if (got == id)
        return status;
    if (got != -ECHILD)
        fail("wait4", got);
    AWAIT(CALL(SYS_tgkill, own_pid, id, 0) == -ESRCH);
    return -1;
}

// ---- Places ---------------------------------------------------------------

// Memory that is at the same addresses in all ranks: areas, each with nothing behind it. In PEERS other ranks write.
#define AREA(number) ((char *)(UINT64_C(0x2000000000) + (uint64_t)(number) * 2 * AREA_BYTES))
enum { AREA_BYTES = 4 * PAGE, TOLD = 0, ARGUMENTS, ENVIRONMENT, PATH, CLONE_ARGS, RACED, ENDLESS, READ_ONLY, PEERS, AREAS };

// Where nothing can be read or written, here or natively.
static const uint64_t wild[] = {
    1, 8, 4095, 65535, 65536, 0x400000, 0x7ffffff000, 0x7fffffffff, 0x8000000000, 0x8000010000, 0x400000000000, 0x7ffffffff000, 0x7fffffffffff,
    0x800000000000, 0x8000000000000000, 0xffff7fffffffffff, 0xffff800000000000, 0xffff800000100000, 0xffffff0000000000,
    0xffffffff80000000, 0xffffffff80100000, 0xfffffffffffff000, 0xfffffffffffffff8, 0xffffffffffffffff,
};
static uint64_t window(char *address) { return (1 + next(next(4) ? 17 : 255)) << 39 | (uint64_t)address; }
static uint64_t in_hole(int area) { return (uint64_t)AREA(area) + AREA_BYTES + next(AREA_BYTES - PAGE); }

// A place for `bytes`, at most a page, anywhere in an area: aligned, at any address, across a page's end, up to the end.
static char *place(int area, uint64_t bytes)
{
    uint64_t page = next(3) * PAGE;
    switch (next(4)) {
    case 0: return AREA(area) + page + next((PAGE - bytes) / 8 + 1) * 8;
    case 1: return AREA(area) + page + next(PAGE);
    case 2: return AREA(area) + page + PAGE - 1 - next(bytes);
    default: return AREA(area) + AREA_BYTES - bytes;
    }
}
// One of which the last bytes are not there.
static char *place_cut(int area, uint64_t bytes) { return AREA(area) + AREA_BYTES - 1 - next(bytes - 1); }
// Copies there what has room.
static void put(int area, char *at, const void *from, uint64_t bytes)
{
    uint64_t room = (uint64_t)(AREA(area) + AREA_BYTES - at);
    memcpy(at, from, bytes < room ? bytes : room);
}

// ---- Strings --------------------------------------------------------------

// They are known by their letters. One of letters r and R changes while it is read.
enum { LONGEST = 131071, LONG_STRING = 5, KINDS_OF_STRINGS };
static const int lengths[KINDS_OF_STRINGS] = {0, 1, 7, 100, 4095, LONGEST};
static char strings[LONG_STRING][PAGE], too_long_string[1 + LONGEST + 1];
static char *string(int number) { return number == LONG_STRING ? too_long_string + 1 : strings[number]; }

static void make_strings(void)
{
    for (int i = 0; i < LONG_STRING; i++)
        memset(strings[i], 'a' + i, (size_t)lengths[i]);
    memset(too_long_string, 'a' + LONG_STRING, 1 + LONGEST);
    memset(AREA(ENDLESS), 'x', AREA_BYTES);
}

// The number of a string that was handed over; -1: it was not one of these.
static int number_of(const char *text)
{
    size_t length = strlen(text);
    int number = length ? text[0] - 'a' : 0;
    int known = number >= 0 && number < KINDS_OF_STRINGS && length == (size_t)lengths[number];
    return known && strspn(text, (char[]){text[0], 0}) == length ? number : -1;
}

// ---- What changes meanwhile -----------------------------------------------

// Words, and the values that the second thread gives each in turn.
enum { VECTOR_AT = 0, PATH_AT = 48, STRING_AT = 80, RACED_WORDS = 96, CHOICES = 4 };
static uint64_t choices[RACED_WORDS][CHOICES];
static volatile uint64_t *const raced_words = (volatile uint64_t *)AREA(RACED);

static void begin_race(void)
{
    for (int i = 0; i < RACED_WORDS; i++)
        raced_words[i] = choices[i][0];
}

#endif
