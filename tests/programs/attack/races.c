// Races: `races SEED CHANGES`. One thread changes what is mapped, by every call that does (mmap over it, munmap, mprotect, mremap, brk,
// shmat, shmdt, madvise), at random; others read and write it all the while, by instructions and in system calls, and other ranks do through
// windows. On Linux the one waits for the other. So:
//  - pages that are replaced, and can be used before and after, never fault, nor does a call fail there;
//  - elsewhere what comes of a use is the use, or SIGSEGV, SIGBUS or EFAULT;
//  - what is seen are zeros, the file's words, and what users have stored;
//  - other memory of the program stays as it is.
#define _GNU_SOURCE
#include "races.h"

enum { CANARY_WORDS = 8192, CHECK_EVERY = 64 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static uint64_t state, canary[CANARY_WORDS];
static int segment;
static int shared = MAP_SHARED;
static char *attached;
static char line[256]; // no memory of the C library

static uint64_t next(uint64_t below) { return draw(&state) % below; }

static uint64_t canary_word(uint64_t i) { return (i + 1) * UINT64_C(0x9E3779B97F4A7C15); }

struct range {
    char *at;
    size_t bytes;
};

static struct range any_range(char *base, uint64_t pages, uint64_t most)
{
    static const uint64_t lengths[] = {1, 1, 2, 3, 5, 16, 33, 64, 511, 512, 513};
    uint64_t first = next(2) ? next(pages) : next(pages < 64 ? pages : 64), count = PICK(lengths);
    count = count > most ? most : count;
    count = count > pages - first ? pages - first : count;
    return (struct range){base + first * PAGE, count * PAGE};
}

static int any_protection(void)
{
    static const int protections[] = {PROT_NONE, PROT_READ, READ_WRITE, READ_WRITE, READ_WRITE, PROT_READ | PROT_EXEC};
    return PICK(protections);
}

// One call that leaves the pages readable and writable, or fails for want of memory.
static void replace(struct range range)
{
    long offset = (long)next(FILE_PAGES - range.bytes / PAGE + 1) * PAGE;
    char *other;
    switch (next(5)) {
    case 0: mmap(range.at, range.bytes, READ_WRITE, ANON | MAP_FIXED, -1, 0); break;
    case 1: mmap(range.at, range.bytes, READ_WRITE, MAP_PRIVATE | MAP_FIXED, files[next(2)], offset); break;
    case 2: mmap(range.at, range.bytes, READ_WRITE, shared | MAP_FIXED, files[next(2)], offset); break;
    case 3: madvise(range.at, range.bytes, next(2) ? MADV_DONTNEED : MADV_WILLNEED); break;
    default:
        other = mmap(NULL, range.bytes, READ_WRITE, ANON, -1, 0);
        if (other != MAP_FAILED && mremap(other, range.bytes, range.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, range.at) == MAP_FAILED)
            munmap(other, range.bytes);
    }
}

// What was mapped where Linux, or Margay, chose.
static void drop(void *at, size_t bytes)
{
    if (at != MAP_FAILED && !is_in(at, BASE, PAGES))
        munmap(at, bytes);
}

static void resize(struct range range)
{
    size_t bytes = (1 + next(64)) * PAGE;
    void *moved = mremap(range.at, range.bytes, bytes, next(2) ? MREMAP_MAYMOVE : 0);
    if (moved == MAP_FAILED || moved == range.at)
        // What has grown out of the territory is taken back.
        munmap(BASE + PAGES * PAGE, 64 * PAGE);
    else
        drop(moved, bytes);
}

static void segments(struct range range)
{
    if (attached != NULL)
        shmdt(attached);
    attached = shmat(segment, range.at, SHM_REMAP | (next(2) ? SHM_RDONLY : 0));
    if (attached == (char *)-1)
        attached = NULL;
}

static void change(void)
{
    struct range range = any_range(BASE, PAGES, 513), to = any_range(BASE, PAGES, 513);
    switch (next(16)) {
    case 0: case 1: case 2: replace(any_range(KEPT, KEPT_PAGES, FILE_PAGES)); break;
    case 3: replace(any_range(BASE, PAGES, FILE_PAGES)); break;
    case 4: mmap(range.at, FILE_PAGES * PAGE > range.bytes ? range.bytes : FILE_PAGES * PAGE, READ_WRITE, MAP_SHARED | MAP_FIXED, files[next(2)], 0); break;
    case 5: mmap(range.at, range.bytes, any_protection(), ANON | MAP_FIXED, -1, 0); break;
    case 6: munmap(range.at, range.bytes); break;
    case 7: case 8: mprotect(range.at, range.bytes, any_protection()); break;
    case 9: mremap(range.at, range.bytes, to.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to.at); break;
    case 10: resize(range); break;
    case 11: syscall(SYS_brk, heap + next(HEAP_PAGES + 1) * PAGE); break;
    case 12: segments(any_range(BASE, PAGES - FILE_PAGES, 1)); break;
    case 13: drop(mmap(range.at, range.bytes, READ_WRITE, ANON, -1, 0), range.bytes); break;
    default: mmap(range.at, range.bytes, READ_WRITE, ANON | MAP_FIXED, -1, 0);
    }
}

static int made(const char *name)
{
    static uint64_t words[PAGE / 8];
    for (int i = 0; i < PAGE / 8; i++)
        words[i] = OF_FILE << 32 | (uint64_t)i;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    for (int i = 0; fd >= 0 && i < FILE_PAGES; i++)
        if (write(fd, words, PAGE) != PAGE)
            fail("write", 0, 0);
    if (fd < 0 || unlink(name) != 0)
        fail(name, 0, (uint64_t)errno);
    return fd;
}

static void prepare(void)
{
    struct sigaction action = {.sa_sigaction = met, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const char *rank = getenv("MARGAY_RANK"), *size = getenv("MARGAY_SIZE");
    own = rank ? strtoull(rank, NULL, 10) : 0;
    ranks = size ? strtoull(size, NULL, 10) : 1;
    char names[3][32];
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "races_%llu_%d", (unsigned long long)own, i);
    files[0] = made(names[0]);
    files[1] = made(names[1]);
    sink = made(names[2]);
    // On a co-kernel files cannot be shared, and where it was to be mapped nothing is then.
    void *file = mmap(NULL, PAGE, READ_WRITE, MAP_SHARED, files[0], 0);
    if (file == MAP_FAILED && errno == ENODEV)
        shared = MAP_PRIVATE;
    else
        munmap(file, PAGE);
    zeros = open("/dev/zero", O_RDONLY);
    segment = shmget(IPC_PRIVATE, FILE_PAGES * PAGE, 0600);
    if (zeros < 0 || segment < 0 || shmctl(segment, IPC_RMID, NULL) != 0)
        segment = -1; // once it is attached nowhere, it is gone
    for (uint64_t i = 0; i < CANARY_WORDS; i++)
        canary[i] = canary_word(i);
    if (mmap(BASE, PAGES * PAGE, READ_WRITE, ANON | MAP_FIXED, -1, 0) != BASE ||
        mmap(KEPT, KEPT_PAGES * PAGE, READ_WRITE, ANON | MAP_FIXED, -1, 0) != KEPT)
        fail("mmap", 0, (uint64_t)errno);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void check_rest(void)
{
    for (uint64_t i = 0; i < CANARY_WORDS; i++)
        if (canary[i] != canary_word(i))
            fail("its own memory was changed", (uint64_t)&canary[i], canary[i]);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, wanted = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    pthread_t users[USERS];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    prepare();
    state = (seed << 8 | own) * 2 + 1;
    heap = (char *)(((uint64_t)sbrk(0) + PAGE - 1) / PAGE * PAGE) + 16 * PAGE;
    if (brk(heap) != 0)
        fail("brk", (uint64_t)heap, (uint64_t)errno);
    for (uint64_t i = 0; i < USERS; i++)
        if (pthread_create(&users[i], NULL, use, (void *)i) != 0)
            fail("a thread", i, (uint64_t)errno);
    // Below the break lies what the C library has: no more is asked of it from here on.
    while (changes < wanted || uses == 0 || calls == 0 || faults == 0) {
        change();
        if (++changes % CHECK_EVERY == 0) {
            check_rest();
            sched_yield();
        }
    }
    over = 1;
    for (int i = 0; i < USERS; i++)
        pthread_join(users[i], NULL);
    check_rest();
    printf("%llu changes\n%llu uses\n%llu calls\n%llu faults\n", (unsigned long long)changes, (unsigned long long)uses, (unsigned long long)calls,
           (unsigned long long)faults);
    return 0;
}
