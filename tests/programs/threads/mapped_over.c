// One thread changes what is mapped at some pages, in ways that leave them accessible all the time, while another uses them, by
// instructions or in system calls. Linux makes the one wait for the other: nothing faults, no call fails with EFAULT, and no page is
// seen half made. Here a fault between two steps of a change was a SIGSEGV. `mapped_over CASE [ROUNDS]`.
#include "../common/parallel.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/shm.h>
#include <sys/uio.h>

enum { PAGES = 16, BYTES = PAGES * PAGE_BYTES, LARGE_BYTES = 2 << 20 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, NOWHERE = 0x51ed };

static long rounds = 40;
static char *pages;
static int files[2], zeros, sink, segment;
static atomic_int over;
static atomic_long uses, wrong;

// ---- Changes ------------------------------------------------------------------

static void here(const void *at) { wrong += at != pages; }
static void fixed(int prot, int flags, int fd) { here(mmap(pages, BYTES, prot, flags | MAP_FIXED, fd, 0)); }

static void anonymous(long round)
{
    (void)round;
    fixed(READ_WRITE, ANON, -1);
}
static void private_file(long round) { fixed(READ_WRITE, MAP_PRIVATE, files[round % 2]); }
static void text(long round) { fixed(PROT_READ, MAP_PRIVATE, files[round % 2]); }
static void shared_file(long round) { fixed(READ_WRITE, MAP_SHARED, files[round % 2]); }
static void discarded(long round)
{
    (void)round;
    wrong += madvise(pages, BYTES, MADV_DONTNEED) != 0;
}
static void without_write(long round) { wrong += mprotect(pages, BYTES, round % 2 ? READ_WRITE : PROT_READ) != 0; }
static void part_of_large(long round)
{
    wrong += mprotect(pages + 2 * PAGE_BYTES, PAGE_BYTES, round % 2 ? READ_WRITE : PROT_READ) != 0;
}
static void moved_over(long round)
{
    (void)round;
    char *other = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
    here(mremap(other, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, pages));
}
static void segment_over(long round) { here(shmat(segment, pages, SHM_REMAP | (round % 2 ? SHM_RDONLY : 0))); }

// ---- Users --------------------------------------------------------------------

static void *reads(void *unused)
{
    (void)unused;
    for (; !over; uses++)
        for (int at = 0; at < BYTES; at += PAGE_BYTES)
            (void)*(volatile char *)(pages + at);
    return NULL;
}

static void *writes(void *unused)
{
    (void)unused;
    for (; !over; uses++)
        for (int at = 0; at < BYTES; at += PAGE_BYTES)
            *(volatile char *)(pages + at) = 1;
    return NULL;
}

// Of two files, each of one letter.
static void *compares(void *unused)
{
    (void)unused;
    for (; !over; uses++)
        for (int at = 0; at < BYTES; at += PAGE_BYTES / 2) {
            char found = *(volatile char *)(pages + at);
            wrong += found != 'a' && found != 'b';
        }
    return NULL;
}

static void *local_calls(void *unused)
{
    (void)unused;
    static char copy[BYTES];
    struct iovec to = {copy, BYTES}, from = {pages, BYTES};
    for (; !over; uses++) {
        wrong += syscall(SYS_clock_gettime, CLOCK_MONOTONIC, pages + PAGE_BYTES) != 0;
        wrong += syscall(SYS_futex, pages, FUTEX_WAIT, NOWHERE, NULL, NULL, 0) != -1 || errno != EAGAIN;
        wrong += syscall(SYS_futex, pages, FUTEX_WAKE_OP_PRIVATE, 1, 1, pages + 64, 0) < 0;
        wrong += process_vm_readv(getpid(), &to, 1, &from, 1, 0) != BYTES;
    }
    return NULL;
}

static void *shipped_calls(void *unused)
{
    (void)unused;
    for (; !over; uses++) {
        wrong += pread(zeros, pages, 64, 0) != 64;
        wrong += pwrite(sink, pages + BYTES - 64, 64, 0) != 64;
    }
    return NULL;
}

static void *shipped_reads(void *unused)
{
    (void)unused;
    for (; !over; uses++)
        wrong += pwrite(sink, pages + BYTES - 64, 64, 0) != 64;
    return NULL;
}

// Of a file, they are Linux's.
static void *futexes(void *unused)
{
    (void)unused;
    for (; !over; uses++) {
        wrong += syscall(SYS_futex, pages, FUTEX_WAIT, NOWHERE, NULL, NULL, 0) != -1 || errno != EAGAIN;
        wrong += syscall(SYS_futex, pages + 64, FUTEX_WAKE, 1) != 0;
    }
    return NULL;
}

// ---- Both ---------------------------------------------------------------------

static void against(void *(*use)(void *), void (*change)(long), const char *what)
{
    over = uses = wrong = 0;
    pages = mmap(NULL, 2 * LARGE_BYTES, READ_WRITE, ANON, -1, 0);
    need(pages != MAP_FAILED, "mmap");
    char *whole = pages;
    pages += LARGE_BYTES - (uintptr_t)pages % LARGE_BYTES;
    memset(pages, 'a', BYTES);
    pthread_t thread = start(use, NULL);
    AWAIT(uses > 0);
    for (long round = 0; round < rounds; round++) {
        change(round);
        if (round % 8 == 7)
            sched_yield();
    }
    over = 1;
    joined(thread);
    check(wrong == 0, "%s", what);
    need(munmap(whole, 2 * LARGE_BYTES) == 0, "munmap");
}

static int made(const char *name, char letter)
{
    char bytes[BYTES];
    memset(bytes, letter, BYTES);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    need(fd >= 0 && write(fd, bytes, BYTES) == BYTES && unlink(name) == 0, "a file");
    return fd;
}

static void make_files(void)
{
    files[0] = made("a", 'a');
    files[1] = made("b", 'b');
}

static void read_meanwhile(void)
{
    against(reads, anonymous, "anonymous memory comes");
    against(reads, private_file, "a private file comes");
    against(reads, text, "text comes");
    against(reads, shared_file, "a shared file comes");
    against(reads, discarded, "what is there is discarded");
    against(reads, without_write, "the right to write goes and comes");
    against(reads, part_of_large, "that of a part");
    against(reads, moved_over, "other memory is moved there");
    against(reads, segment_over, "a segment comes");
}

static void written_meanwhile(void)
{
    against(writes, anonymous, "anonymous memory comes");
    against(writes, private_file, "a private file comes");
    against(writes, shared_file, "a shared file comes");
    against(writes, discarded, "what is there is discarded");
    against(writes, moved_over, "other memory is moved there");
}

static void compared_meanwhile(void)
{
    // Another case may have stored in them, by a shared mapping.
    make_files();
    against(compares, private_file, "a private file comes as a whole");
    against(compares, text, "text comes as a whole");
}

static void in_local_calls(void)
{
    against(local_calls, anonymous, "anonymous memory comes");
    against(local_calls, private_file, "a private file comes");
    against(local_calls, discarded, "what is there is discarded");
    against(local_calls, moved_over, "other memory is moved there");
}

// Text that ranks share, which files that were just made are not.
static void text_that_stays(void)
{
    int program = open("/proc/self/exe", O_RDONLY);
    pages = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
    need(program >= 0 && pages != MAP_FAILED, "the program, memory");
    fixed(PROT_READ, MAP_PRIVATE, program);
    check(pwrite(sink, pages, BYTES, 0) == BYTES, "text has come");
    need(munmap(pages, BYTES) == 0 && close(program) == 0, "munmap");
}

static void in_shipped_calls(void)
{
    against(shipped_calls, anonymous, "anonymous memory comes");
    against(shipped_calls, private_file, "a private file comes");
    against(shipped_calls, shared_file, "a shared file comes");
    against(shipped_calls, discarded, "what is there is discarded");
    against(shipped_calls, moved_over, "other memory is moved there");
    against(shipped_reads, segment_over, "a segment comes");
    text_that_stays();
}

static void under_futexes(void)
{
    against(futexes, shared_file, "a shared file comes");
    against(futexes, anonymous, "anonymous memory comes");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(read_meanwhile), CASE(written_meanwhile), CASE(compared_meanwhile), CASE(in_local_calls),
        CASE(in_shipped_calls),  CASE(under_futexes),
    };
    rounds = argc > 1 && strcmp(argv[1], "all") != 0 ? number_arg(argc, argv, 2, rounds) : rounds;
    make_files();
    sink = made("sink", 0);
    zeros = open("/dev/zero", O_RDONLY);
    segment = shmget(IPC_PRIVATE, BYTES, 0600);
    need(zeros >= 0 && segment >= 0, "/dev/zero, a segment");
    int done = RUN_CASES(cases);
    shmctl(segment, IPC_RMID, NULL);
    return done;
}
