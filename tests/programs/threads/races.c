// Threads that change memory at the same time: each checks its own, and what
// is common to all stays whole. `races CASE [ROUNDS]`.
#include "../common/parallel.h"

#include <fcntl.h>

enum { THREADS = 4, PAGES = 16, BYTES = PAGES * PAGE_BYTES };
enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static long rounds = 60;
static atomic_int wrong;
static char *common;

// A small generator per thread: the same numbers each time.
static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

// A thread that leaves holes in memory begins when all stacks are there: one might be put into a hole.
static atomic_int go;

static void in_threads(void *(*body)(void *), const char *what)
{
    pthread_t threads[THREADS];
    wrong = go = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start(body, (void *)(i + 1));
    go = 1;
    for (int i = 0; i < THREADS; i++)
        joined(threads[i]);
    check(wrong == 0, "%s", what);
}

// ---- Memory of one's own ----------------------------------------------------

static void *map_own(void *arg)
{
    int own = (int)(intptr_t)arg;
    for (long i = 0; i < rounds; i++) {
        char *at = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
        if (at == MAP_FAILED || !all_bytes(at, 0, BYTES)) {
            wrong++;
            continue;
        }
        memset(at, own, BYTES);
        wrong += munmap(at + BYTES / 2, BYTES / 4) != 0;
        wrong += !all_bytes(at, own, BYTES / 2) || !all_bytes(at + 3 * BYTES / 4, own, BYTES / 4);
        wrong += munmap(at, BYTES) != 0;
    }
    return NULL;
}
static void own_maps(void) { in_threads(map_own, "each thread's maps start as zeros and keep what is theirs"); }

static void *protect_own(void *arg)
{
    int own = (int)(intptr_t)arg;
    char *at = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
    memset(at, own, BYTES);
    for (long i = 0; i < rounds; i++) {
        size_t page = (size_t)i % PAGES * PAGE_BYTES;
        wrong += mprotect(at + page, PAGE_BYTES, PROT_READ) != 0 || at[page] != own;
        wrong += mprotect(at + page, PAGE_BYTES, PROT_NONE) != 0;
        wrong += mprotect(at, BYTES, READ_WRITE) != 0 || !all_bytes(at, own, BYTES);
    }
    munmap(at, BYTES);
    return NULL;
}
static void own_protections(void) { in_threads(protect_own, "each thread's protections are its own"); }

static void *remap_own(void *arg)
{
    int own = (int)(intptr_t)arg;
    size_t size = BYTES;
    char *at = mmap(NULL, size, READ_WRITE, ANON, -1, 0);
    memset(at, own, size);
    for (long i = 0; i < rounds; i++) {
        size_t new = (size_t)(1 + i * 7 % 40) * PAGE_BYTES, kept = new < size ? new : size;
        at = mremap(at, size, new, MREMAP_MAYMOVE);
        if (at == MAP_FAILED) {
            wrong++;
            return NULL;
        }
        wrong += !all_bytes(at, own, kept) || !all_bytes(at + kept, 0, new - kept);
        memset(at, own, new);
        size = new;
    }
    munmap(at, size);
    return NULL;
}
static void own_moves(void) { in_threads(remap_own, "what each thread moves, grows and shrinks keeps its contents"); }

static void *discard_own(void *arg)
{
    int own = (int)(intptr_t)arg;
    char *at = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
    for (long i = 0; i < rounds; i++) {
        memset(at, own, BYTES);
        wrong += madvise(at + BYTES / 4, BYTES / 2, MADV_DONTNEED) != 0;
        wrong += !all_bytes(at, own, BYTES / 4) || !all_bytes(at + BYTES / 4, 0, BYTES / 2) ||
                 !all_bytes(at + 3 * BYTES / 4, own, BYTES / 4);
    }
    munmap(at, BYTES);
    return NULL;
}
static void own_discards(void) { in_threads(discard_own, "what each thread discards is zero, the rest is not"); }

static void *all_kinds(void *arg)
{
    static void *(*const bodies[])(void *) = {map_own, protect_own, remap_own, discard_own};
    return bodies[((intptr_t)arg - 1) % 4](arg);
}
static void mixed(void) { in_threads(all_kinds, "one maps, one protects, one moves, one discards"); }

// ---- Memory of all ----------------------------------------------------------

// The end of the heap is one for all, so no thread may rely on it; only that nothing breaks.
static void *move_break(void *arg)
{
    for (long i = 0; i < rounds; i++) {
        char *end = (char *)syscall(SYS_brk, 0);
        syscall(SYS_brk, end + (i % 2 ? PAGE_BYTES : -PAGE_BYTES) * (long)(intptr_t)arg);
    }
    return NULL;
}
static void common_break(void)
{
    char *base = (char *)syscall(SYS_brk, 0);
    // Room below, so that it never goes under what the C library has.
    need(syscall(SYS_brk, base + (8 << 20)) == (long)(base + (8 << 20)), "brk");
    in_threads(move_break, "four threads move the heap's end");
    check(syscall(SYS_brk, base) == (long)base, "it can be brought back");
}

// All map, protect and unmap the same range; what is there is either zero or was written.
static void *fight(void *arg)
{
    uint32_t state = (uint32_t)(intptr_t)arg;
    AWAIT(go);
    for (long i = 0; i < rounds; i++) {
        size_t first = next(&state) % PAGES, count = 1 + next(&state) % (PAGES - first);
        char *at = common + first * PAGE_BYTES;
        size_t bytes = count * PAGE_BYTES;
        switch (next(&state) % 5) {
        case 0:
            wrong += mmap(at, bytes, READ_WRITE, ANON | MAP_FIXED, -1, 0) != at;
            break;
        case 1:
            wrong += munmap(at, bytes) != 0;
            break;
        case 2:
            if (mprotect(at, bytes, next(&state) % 2 ? PROT_READ : READ_WRITE) != 0)
                wrong += errno != ENOMEM;
            break;
        case 3:
            if (madvise(at, bytes, MADV_DONTNEED) != 0)
                wrong += errno != ENOMEM;
            break;
        default:
            if (mremap(at, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, common + next(&state) % PAGES * PAGE_BYTES) ==
                MAP_FAILED)
                wrong += errno != EFAULT && errno != EINVAL;
        }
    }
    return NULL;
}
static void common_make(void)
{
    common = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
    need(common != MAP_FAILED, "mmap");
}
static void common_range(void)
{
    common_make();
    in_threads(fight, "four threads map, unmap, protect, discard and move the same range");
    check(mmap(common, BYTES, READ_WRITE, ANON | MAP_FIXED, -1, 0) == common && all_bytes(common, 0, BYTES),
          "mapped once more it is zero");
    memset(common, 1, BYTES);
    check(all_bytes(common, 1, BYTES), "and can be written");
    munmap(common, BYTES);
}

// ---- Memory that calls use meanwhile -----------------------------------------

static int zero_fd, null_fd, pipe_ends[2];
static atomic_int stop;
static int is_fault(ssize_t result) { return result == -1 && errno == EFAULT; }

// Reads into and writes from the range: all of it, a part of it, or EFAULT.
static void *use_by_calls(void *arg)
{
    (void)arg;
    for (long i = 0; i < rounds; i++) {
        ssize_t got = read(zero_fd, common, BYTES);
        wrong += !(is_fault(got) || (got > 0 && got <= BYTES));
        got = write(null_fd, common, BYTES);
        wrong += !(is_fault(got) || (got > 0 && got <= BYTES));
    }
    stop = 1;
    return NULL;
}
static void use_while(void *(*body)(void *), const char *what)
{
    wrong = stop = go = 0;
    zero_fd = open("/dev/zero", O_RDONLY);
    null_fd = open("blackhole", O_RDWR | O_CREAT | O_TRUNC, 0600);
    pthread_t other = start(body, (void *)3), caller = start(use_by_calls, NULL);
    go = 1;
    joined(caller);
    joined(other);
    check(wrong == 0, "%s", what);
    close(zero_fd);
    close(null_fd);
    unlink("blackhole");
}
static void calls_against(void *(*body)(void *), const char *what)
{
    common_make();
    use_while(body, what);
    mmap(common, BYTES, READ_WRITE, ANON | MAP_FIXED, -1, 0);
    munmap(common, BYTES);
}
static void *unmap_and_map(void *arg)
{
    AWAIT(go);
    while (!stop) {
        munmap(common + 4 * PAGE_BYTES, 4 * PAGE_BYTES);
        wrong += mmap(common + 4 * PAGE_BYTES, 4 * PAGE_BYTES, READ_WRITE, ANON | MAP_FIXED, -1, 0) == MAP_FAILED;
    }
    return arg;
}
static void *protect_again(void *arg)
{
    while (!stop)
        wrong += mprotect(common, BYTES, PROT_NONE) != 0 || mprotect(common, BYTES, READ_WRITE) != 0;
    return arg;
}
static void *discard_again(void *arg)
{
    while (!stop)
        wrong += madvise(common, BYTES, MADV_DONTNEED) != 0;
    return arg;
}
static void *move_again(void *arg)
{
    char *other = mmap(NULL, BYTES, PROT_NONE, ANON, -1, 0);
    AWAIT(go);
    while (!stop) {
        wrong += mremap(common, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, other) != other;
        wrong += mremap(other, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, common) != common;
    }
    return arg;
}
// The heap's end goes below the memory that the calls use, and comes back.
static void *break_again(void *arg)
{
    char *end = common + BYTES, *low = common + BYTES / 2;
    while (!stop)
        wrong += (char *)syscall(SYS_brk, low) != low || (char *)syscall(SYS_brk, end) != end;
    return arg;
}
static void calls_and_unmap(void) { calls_against(unmap_and_map, "read and write against munmap"); }
static void calls_and_protect(void) { calls_against(protect_again, "read and write against mprotect"); }
static void calls_and_discard(void) { calls_against(discard_again, "read and write against MADV_DONTNEED"); }
static void calls_and_break(void)
{
    char *base = (char *)syscall(SYS_brk, 0);
    common = base + (-(uintptr_t)base % PAGE_BYTES);
    need((char *)syscall(SYS_brk, common + BYTES) == common + BYTES, "brk");
    use_while(break_again, "read and write against brk");
    check((char *)syscall(SYS_brk, base) == base, "the heap is as it was");
}
static void calls_and_move(void) { calls_against(move_again, "read and write against mremap"); }

// A page under a read that waits is taken away: the read then gets EFAULT, or what it gets goes nowhere.
static void *read_waiting(void *arg)
{
    ssize_t got = read(pipe_ends[0], common, PAGE_BYTES);
    return (void *)(intptr_t)(got == 5 || is_fault(got) ? (intptr_t)arg : 0);
}
static void unmap_under_read(void)
{
    int right = 0;
    for (int i = 0; i < 20; i++) {
        common_make();
        need(pipe(pipe_ends) == 0, "pipe");
        pthread_t thread = start(read_waiting, (void *)1);
        for (int k = 0; k < i % 5; k++)
            sched_yield();
        munmap(common, BYTES);
        char *again = mmap(NULL, 4 * BYTES, READ_WRITE, ANON, -1, 0);
        int over = common >= again && common < again + 4 * BYTES;
        write(pipe_ends[1], "hello", 5);
        right += joined(thread) != NULL && (over || all_bytes(again, 0, 4 * BYTES));
        munmap(again, 4 * BYTES);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
    }
    check(right == 20, "memory that is gone is not written to by a read that waited, nor is what came after");
}

// ---- Descriptors ---------------------------------------------------------------

enum { NUMBER = 100 };
static int to_write, to_read;

static void *replace(void *arg)
{
    for (long i = 0; i < 40 * rounds; i++)
        wrong += dup2(i % 2 ? to_read : to_write, NUMBER) != NUMBER;
    go = 0;
    return arg;
}
/* The kernel looked at a descriptor twice: what it was to be, and what was mapped. In between it may become another file's. */
static void replaced_descriptor(void)
{
    char held[16] = "";
    to_write = open("races.write", O_RDWR | O_CREAT, 0600);
    need(to_write >= 0 && ftruncate(to_write, PAGE_BYTES) == 0, "a file to write to");
    int other = open("races.read", O_RDWR | O_CREAT, 0600);
    need(other >= 0 && ftruncate(other, PAGE_BYTES) == 0 && close(other) == 0, "a file to read");
    to_read = open("races.read", O_RDONLY);
    need(to_read >= 0 && dup2(to_write, NUMBER) == NUMBER, "descriptors");
    wrong = 0;
    go = 1;
    pthread_t thread = start(replace, NULL);
    while (go) {
        char *at = mmap(NULL, PAGE_BYTES, READ_WRITE, MAP_SHARED, NUMBER, 0);
        if (at == MAP_FAILED) {
            wrong += errno != EACCES;
            continue;
        }
        strcpy(at, "stored");
        wrong += pread(to_read, held, sizeof held, 0) != sizeof held || held[0];
        wrong += munmap(at, PAGE_BYTES) != 0;
    }
    joined(thread);
    check(wrong == 0, "a file that was opened for reading is not written to");
    need(unlink("races.write") == 0 && unlink("races.read") == 0, "unlink");
}

// ---- The end -----------------------------------------------------------------

static atomic_int fighters;
static void *fight_on(void *arg)
{
    fighters++;
    while (arg)
        fight(arg);
    return NULL;
}
static void against_exit(void)
{
    common_make();
    go = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        start(fight_on, (void *)(i + 1));
    AWAIT(fighters == THREADS);
    check(1, "four threads are there");
    go = 1;
    sched_yield();
    check(1, "the process ends while four threads change its memory");
    check_done();
    exit(6);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(own_maps), CASE(own_protections), CASE(own_moves), CASE(own_discards), CASE(mixed),
        CASE(common_break), CASE(common_range), CASE(calls_and_unmap), CASE(calls_and_protect),
        CASE(calls_and_discard), CASE(calls_and_move), CASE(calls_and_break), CASE(unmap_under_read),
        CASE(replaced_descriptor), CASE(against_exit),
    };
    rounds = argc > 1 && strcmp(argv[1], "all") != 0 ? number_arg(argc, argv, 2, rounds) : rounds;
    return RUN_CASES(cases);
}
