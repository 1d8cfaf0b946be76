// Programs for births.c: execve and execveat, what may come of them, and what the program that has replaced another must find.
#ifndef MARGAY_BIRTHS_PROGRAMS_H
#define MARGAY_BIRTHS_PROGRAMS_H

#include "births.h"

#include <sys/socket.h>
#include <sys/stat.h>

enum { RACED_STRINGS = 1, ANY_STRINGS };
enum { EMPTY_PATH = 0x1000, NO_FOLLOW = 0x100, UNKNOWN = 0x20000, GOOD_PROGRAMS = 12, NO_SCRIPTS = 9 };
static const struct program {
    int at;
    const char *path; // NULL: its own
    int flags, error;
    uint32_t prefix; // arguments that scripts put in the place of the first
} programs[] = {
    {AT_FDCWD, NULL, 0, 0, 0}, {AT_FDCWD, "self", 0, 0, 0}, {AT_FDCWD, "../births.link/self", 0, 0, 0}, {HERE, "self", 0, 0, 0},
    {NO_FD, NULL, 0, 0, 0}, {-1, NULL, NO_FOLLOW, 0, 0}, {SELF, "", EMPTY_PATH, 0, 0}, {SELF_PATH, "", EMPTY_PATH, 0, 0},
    {SELF_ONCE, "", EMPTY_PATH, 0, 0}, {AT_FDCWD, "script", 0, 0, 3}, {HERE, "nested", 0, 0, 5}, {AT_FDCWD, "./nested", EMPTY_PATH, 0, 5},
    {AT_FDCWD, "missing", 0, ENOENT, 0}, {AT_FDCWD, "", 0, ENOENT, 0}, {HERE, "", 0, ENOENT, 0}, {AT_FDCWD, ".", 0, EACCES, 0},
    {AT_FDCWD, "/dev/null", 0, EACCES, 0}, {AT_FDCWD, "plain", 0, EACCES, 0}, {AT_FDCWD, "fifo", 0, EACCES, 0},
    {AT_FDCWD, "text", 0, ENOEXEC, 0}, {AT_FDCWD, "empty", 0, ENOEXEC, 0}, {AT_FDCWD, "cut", 0, ENOEXEC, 0},
    {AT_FDCWD, "loop", 0, ELOOP, 0}, {AT_FDCWD, "again", 0, ELOOP, 0}, {AT_FDCWD, "text/x", 0, ENOTDIR, 0}, {SELF, "self", 0, ENOTDIR, 0},
    {NO_FD, "self", 0, EBADF, 0}, {-1, "", EMPTY_PATH, EBADF, 0}, {HERE, "", EMPTY_PATH, EACCES, 0}, {AT_FDCWD, "", EMPTY_PATH, EACCES, 0},
    {PIPE, "", EMPTY_PATH, EACCES, 0}, {SOCKET, "", EMPTY_PATH, EACCES, 0}, {EVENT, "", EMPTY_PATH, EACCES, 0},
    {GARBAGE, "", EMPTY_PATH, ENOEXEC, 0}, {LIFE, "", EMPTY_PATH, ENOEXEC, 0}, {TEXT, "", EMPTY_PATH, ENOEXEC, 0},
    {SCRIPT_ONCE, "", EMPTY_PATH, ENOENT, 0}, {HERE, "self", NO_FOLLOW, ELOOP, 0}, {HERE, "self", 1, EINVAL, 0}, {SELF, "", EMPTY_PATH | UNKNOWN, EINVAL, 0},
};

static void make_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0 && close(fd) == 0);
}

// In a directory of the rank's.
static void make_files(void)
{
    char text[512];
    snprintf(text, sizeof text, "births.%u", life.rank);
    mkdir(text, 0700);
    symlink(text, "births.link");
    must(chdir(text) == 0);
    symlink(life.self, "self");
    symlink("loop", "loop");
    mkfifo("fifo", 0700);
    make_file("text", "no program, and longer than the header of one; so it is read as far as that would be, but no more\n", 0700);
    make_file("plain", "#!/bin/sh\n", 0600);
    make_file("empty", "", 0700);
    make_file("cut", "\177ELF\2\1\1", 0700);
    make_file("again", "#!./again\n", 0700);
    make_file("nested", "#!./script two\n", 0700);
    snprintf(text, sizeof text, "#!%s one word\n", life.self);
    make_file("script", text, 0700);
}

static void keep_open(int fd, int as, int flags) { must(fd >= 0 && dup3(fd, as, flags) == as && close(fd) == 0); }

static void open_descriptors(void)
{
    int pair[2];
    keep_open(open(life.self, O_RDONLY), SELF, 0);
    keep_open(open(life.self, O_RDONLY), SELF_ONCE, O_CLOEXEC);
    keep_open(open(life.self, O_PATH), SELF_PATH, 0);
    keep_open(open(".", O_RDONLY | O_DIRECTORY), HERE, 0);
    keep_open(open("text", O_RDONLY), TEXT, 0);
    keep_open(open("script", O_RDONLY), SCRIPT_ONCE, O_CLOEXEC);
    keep_open(socket(AF_UNIX, SOCK_STREAM, 0), SOCKET, 0);
    keep_open((int)CALL(SYS_eventfd2, 0, 0), EVENT, 0);
    keep_open(memfd_create("garbage", 0), GARBAGE, 0);
    must(write(GARBAGE, "garbage", 7) == 7 && pipe(pair) == 0 && close(pair[1]) == 0);
    keep_open(pair[0], PIPE, 0);
}

// ---- Arguments --------------------------------------------------------------

// One that ends with its area: not at all.
static uint64_t unended(uint64_t most) { return (uint64_t)AREA(ENDLESS) + AREA_BYTES - 1 - next(most); }

// Arguments or environment, and where they may be. What other ranks have, if it is that, is read on a node.
static uint64_t vector(int which, struct verdict *verdict, int *of_peers)
{
    uint64_t count = next(4) ? next(5) : next(MOST_STRINGS), words[MOST_STRINGS + 1] = {0}, bytes = (count + 1) * 8;
    int kind = (int)next(24), area = ARGUMENTS + which;
    for (uint64_t i = 0; i < count; i++) {
        int number = next(100) ? (int)next(LONG_STRING) : LONG_STRING;
        life.strings[which][i] = (uint8_t)number;
        words[i] = (uint64_t)string(number);
    }
    life.counts[which] = kind == 0 ? 0 : (uint32_t)count;
    const uint64_t unfit[] = {PICK(wild), in_hole(area), unended(PAGE)}, nowhere[] = {PICK(wild), in_hole(area), unended(7)};
    const uint64_t peers[] = {window(AREA(READ_ONLY)), window(AREA(PEERS)), window((char *)string((int)next(LONG_STRING)))};
    if (kind == 1 && count > 0) {
        words[next(count)] = PICK(unfit);
        may(verdict, EFAULT);
    } else if (kind == 2 && count > 0) {
        words[next(count)] = (uint64_t)too_long_string;
        may(verdict, E2BIG);
    } else if (kind == 3 || kind == 4) {
        may(verdict, EFAULT);
    } else if ((kind == 5 && count > 0) || kind == 6) {
        *of_peers = 1;
    }
    if (kind == 5 && count > 0)
        words[next(count)] = PICK(peers);
    char *there = kind == 4 ? place_cut(area, bytes) : place(area, bytes);
    put(area, there, words, bytes);
    return kind == 0 ? 0 : kind == 3 ? PICK(nowhere) : kind == 6 ? window(there) : (uint64_t)there;
}

static uint64_t path_of(const struct program *program, struct verdict *verdict)
{
    const char *text = program->path ? program->path : life.self;
    const uint64_t no_rank = (uint64_t)255 << 39 | (uint64_t)AREA(PATH), unfit[] = {0, PICK(wild), in_hole(PATH), unended(PATH_MAX - 1), no_rank};
    uint64_t bytes = strlen(text) + 1, kind = next(24);
    char *there = place(PATH, bytes);
    put(PATH, there, text, bytes);
    int error = kind == 0 ? EFAULT : kind == 1 ? ENAMETOOLONG : program->error;
    if (error)
        may(verdict, error);
    return kind == 0 ? PICK(unfit) : kind == 1 ? (uint64_t)AREA(ENDLESS) + next(PAGE) : (uint64_t)there;
}

// The path, the words of both vectors, and one of the strings change. Each path that there is is a program's, or nothing.
static void choose_raced_program(struct then *call, struct verdict *verdict)
{
    static const int errors[] = {EFAULT, E2BIG, ENOENT, EACCES, ENOTDIR};
    static const char letters[CHOICES][9] = {"rrrrrrrr", "RRRRRRRR", "rRrRrRrR", "RRRRrrrr"};
    char path[(STRING_AT - PATH_AT) * 8] = "";
    strcpy(path, life.self);
    memset(choices, 0, sizeof choices);
    for (int i = 0; i < RACED_WORDS - 1; i++)
        for (int k = 0; k < CHOICES; k++) {
            const uint64_t pointers[] = {0, (uint64_t)&raced_words[STRING_AT], (uint64_t)&raced_words[STRING_AT], (uint64_t)string((int)next(LONG_STRING))};
            if (i < PATH_AT)
                choices[i][k] = next(200) == 0 ? PICK(wild) : pointers[next(4) ? 3 : next(3)];
            else
                memcpy(&choices[i][k], i < STRING_AT ? path + (i - PATH_AT) * 8 : letters[k], 8);
        }
    uint64_t word = next(strlen(path) / 8);
    if (next(2))
        ((char *)&choices[PATH_AT + word][next(CHOICES)])[next(8)] = next(2) ? 0 : '!';
    begin_race();
    uint64_t arguments = (uint64_t)&raced_words[VECTOR_AT], environment = next(2) ? arguments + 8 * next(16) : 0;
    *call = (struct then){SYS_execve, {(long)&raced_words[PATH_AT], (long)arguments, (long)environment, 0, 0}, 0};
    for (int i = 0; i < COUNT(errors); i++)
        may(verdict, errors[i]);
    verdict->either = 1;
    life.raced = RACED_STRINGS;
}

// Both vectors are written as the next program must find them.
static void choose_program(struct then *call, struct verdict *verdict, int beside)
{
    memset(verdict, 0, sizeof *verdict);
    // What has become another program without arguments of the path's finds no script's.
    life.raced = beside == BECOMES ? RACED_STRINGS : 0;
    if (beside == MOVES) {
        choose_raced_program(call, verdict);
        return;
    }
    const struct program *program = beside == BECOMES ? &programs[next(NO_SCRIPTS)] : next(2) ? &programs[next(GOOD_PROGRAMS)] : &PICK(programs);
    int of_peers = 0;
    long path = (long)path_of(program, verdict), vectors[] = {(long)vector(0, verdict, &of_peers), (long)vector(1, verdict, &of_peers)};
    int long_ones = 0, plain = program->at == AT_FDCWD && program->flags == 0 && next(2);
    for (uint32_t i = 0; i < 2 * MOST_STRINGS; i++)
        long_ones += i % MOST_STRINGS < life.counts[i / MOST_STRINGS] && life.strings[i / MOST_STRINGS][i % MOST_STRINGS] == LONG_STRING;
    if (long_ones > 1) { // the limit on the stack may leave no room for two
        verdict->either = verdict->count == 0;
        may(verdict, E2BIG);
    }
    if (of_peers) { // who write there, or have nothing there
        verdict->either |= verdict->count == 0;
        verdict->either &= life.on_node;
        may(verdict, EFAULT);
        may(verdict, E2BIG);
        life.raced |= ANY_STRINGS;
    }
    life.prefix = program->prefix;
    // Of the descriptor and the flags Linux uses 32 bits.
    long at = (long)((uint32_t)program->at | (next(2) ? next(1 << 16) << 32 : 0)), flags = (long)((uint32_t)program->flags | next(2) << 40);
    if (plain)
        *call = (struct then){SYS_execve, {path, vectors[0], vectors[1], (long)PICK(wild), (long)PICK(wild)}, 0};
    else
        *call = (struct then){SYS_execveat, {at, path, vectors[0], vectors[1], flags}, 0};
}

// ---- What it finds ------------------------------------------------------------

static int is_any(char **given)
{
    int right = 1;
    for (; *given != NULL; given++)
        right &= number_of(*given) >= 0 || strspn(*given, "rR") == strlen(*given);
    return right;
}

// Strings with these numbers behind `first` others.
static int are_these(char **given, uint32_t first, const uint8_t *numbers, uint32_t count)
{
    int right = 1;
    for (uint32_t i = 0; i < first + count && right; i++)
        right = given[i] != NULL && (i < first || number_of(given[i]) == numbers[i - first]);
    return right && given[first + count] == NULL;
}

// Whether the program was given what it should have been.
static int is_as_told(char **argv, char **envp)
{
    if (life.raced & ANY_STRINGS)
        return 1;
    if (life.raced)
        return is_any(argv) && is_any(envp);
    // Without arguments there is one that is empty (Linux 5.18); that of a script is not handed on.
    static const uint8_t empty[] = {0};
    uint32_t count = life.counts[0] ? life.counts[0] : 1, from = life.prefix > 0;
    const uint8_t *numbers = life.counts[0] ? life.strings[0] : empty;
    int right = are_these(argv, life.prefix, numbers + from, count - from) && are_these(envp, 0, life.strings[1], life.counts[1]);
    return right && (life.prefix == 0 || (strcmp(argv[0], life.self) == 0 && strcmp(argv[1], "one word") == 0));
}

#endif
