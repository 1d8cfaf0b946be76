// What one thread does to memory holds for all once its call has returned: a
// thread that had used the page, and made no system call since, has no old
// translation left. One case per run; ROUNDS times each.
#include "../common/parallel.h"

enum { ROUNDS = 10, PAGES = 4, BYTES = PAGES * PAGE_BYTES, LARGE_BYTES = 4 << 20 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

// The other thread's side: it uses `at`, waits until that has changed, and uses it again.
static char *volatile at;
static atomic_int warm, changed;
static __thread sigjmp_buf back;
static __thread volatile int faults;
struct seen {
    int read_faults, write_faults;
    char value;
};

static void on_fault(int signo)
{
    (void)signo;
    faults++;
    siglongjmp(back, 1);
}

static void *use(void *arg)
{
    struct seen *seen = arg;
    char *page = at;
    *seen = (struct seen){0};
    *(volatile char *)page = 'b';
    (void)*(volatile char *)page;
    warm++;
    // No system call, so that the processor keeps the translation unless it is made to forget it.
    while (!changed)
        ;
    faults = 0;
    if (sigsetjmp(back, 1) == 0)
        seen->value = *(volatile char *)page;
    seen->read_faults = faults;
    faults = 0;
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)page = 'c';
    seen->write_faults = faults;
    return NULL;
}

// Has another thread use the page while it is changed.
static struct seen after(void (*change)(char *), size_t bytes)
{
    struct seen seen;
    catch_signal(SIGSEGV, on_fault, 0);
    at = mmap(NULL, bytes, READ_WRITE, ANON, -1, 0);
    need(at != MAP_FAILED, "mmap");
    warm = changed = 0;
    pthread_t thread = start(use, &seen);
    AWAIT(warm);
    change(at);
    changed = 1;
    joined(thread);
    signal(SIGSEGV, SIG_DFL);
    return seen;
}

// The accesses that fault and the value that is read, each round.
static void expect(void (*change)(char *), size_t bytes, int read_faults, int write_faults, char value, const char *what)
{
    int right = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct seen seen = after(change, bytes);
        right += seen.read_faults == read_faults && seen.write_faults == write_faults && seen.value == value;
        munmap(at, bytes);
    }
    check(right == ROUNDS, "%s", what);
}

static void do_unmap(char *page) { munmap(page, BYTES); }
static void do_none(char *page) { mprotect(page, BYTES, PROT_NONE); }
static void do_read(char *page) { mprotect(page, BYTES, PROT_READ); }
static void do_replace(char *page) { mmap(page, BYTES, READ_WRITE, ANON | MAP_FIXED, -1, 0); }
static void do_discard(char *page) { madvise(page, BYTES, MADV_DONTNEED); }
static void do_unmap_large(char *page) { munmap(page, LARGE_BYTES); }
static void do_read_large(char *page) { mprotect(page, LARGE_BYTES, PROT_READ); }
static void do_discard_large(char *page) { madvise(page, LARGE_BYTES, MADV_DONTNEED); }

static void unmapped(void) { expect(do_unmap, BYTES, 1, 1, 0, "munmap: the next read and write fault"); }
static void no_access(void) { expect(do_none, BYTES, 1, 1, 0, "PROT_NONE: the next read and write fault"); }
static void read_only(void) { expect(do_read, BYTES, 0, 1, 'b', "PROT_READ: the next write faults, not the read"); }
static void replaced(void) { expect(do_replace, BYTES, 0, 0, 0, "MAP_FIXED over it: the next read sees zero"); }
static void discarded(void) { expect(do_discard, BYTES, 0, 0, 0, "MADV_DONTNEED: the next read sees zero"); }
static void unmapped_large(void) { expect(do_unmap_large, LARGE_BYTES, 1, 1, 0, "munmap of 4 MiB"); }
static void read_only_large(void) { expect(do_read_large, LARGE_BYTES, 0, 1, 'b', "PROT_READ for 4 MiB"); }
static void discarded_large(void) { expect(do_discard_large, LARGE_BYTES, 0, 0, 0, "MADV_DONTNEED of 4 MiB"); }

// A page of a large one is protected, and the rest stays as it was.
static void do_none_in_large(char *page) { mprotect(page, PAGE_BYTES, PROT_NONE); }
static void split_large(void) { expect(do_none_in_large, LARGE_BYTES, 1, 1, 0, "PROT_NONE for the first page of 4 MiB"); }

static char *moved_to;
static void do_move(char *page)
{
    moved_to = mremap(page, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, moved_to);
}
static void moved(void)
{
    int right = 0;
    for (int i = 0; i < ROUNDS; i++) {
        moved_to = mmap(NULL, BYTES, PROT_NONE, ANON, -1, 0);
        struct seen seen = after(do_move, BYTES);
        right += seen.read_faults == 1 && seen.write_faults == 1 && moved_to[0] == 'b';
        munmap(moved_to, BYTES);
    }
    check(right == ROUNDS, "mremap: the old place faults, the new one has what was there");
}

// Memory that is given away and comes back elsewhere is not written to through the old place.
static void do_recycle(char *page)
{
    munmap(page, BYTES);
    moved_to = mmap(NULL, 64 * BYTES, READ_WRITE, ANON, -1, 0);
    memset(moved_to, 'r', 64 * BYTES);
}
static void recycled(void)
{
    int right = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct seen seen = after(do_recycle, BYTES);
        // If the new memory came to lie over the old place, the access is good; then its one byte has changed.
        int over = at >= moved_to && at < moved_to + 64 * BYTES;
        if (over && seen.write_faults == 0)
            *at = 'r';
        right += (over || (seen.read_faults == 1 && seen.write_faults == 1)) && all_bytes(moved_to, 'r', 64 * BYTES);
        munmap(moved_to, 64 * BYTES);
    }
    check(right == ROUNDS, "memory that comes next is not reached through the old place");
}

// The heap's end drawn in.
static void shrunk(void)
{
    struct seen seen;
    int right = 0;
    catch_signal(SIGSEGV, on_fault, 0);
    for (int i = 0; i < ROUNDS; i++) {
        char *end = (char *)(((uintptr_t)syscall(SYS_brk, 0) + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES);
        need(syscall(SYS_brk, end + BYTES) == (long)(end + BYTES), "brk");
        at = end;
        warm = changed = 0;
        pthread_t thread = start(use, &seen);
        AWAIT(warm);
        syscall(SYS_brk, end);
        changed = 1;
        joined(thread);
        right += seen.read_faults == 1 && seen.write_faults == 1;
    }
    signal(SIGSEGV, SIG_DFL);
    check(right == ROUNDS, "brk: what was drawn in faults");
}

// Several use the page at once; all of them see the change.
static void seen_by_all(void)
{
    enum { USERS = 4 };
    int right = 0;
    catch_signal(SIGSEGV, on_fault, 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct seen seen[USERS];
        pthread_t threads[USERS];
        at = mmap(NULL, BYTES, READ_WRITE, ANON, -1, 0);
        need(at != MAP_FAILED, "mmap");
        warm = changed = 0;
        for (int k = 0; k < USERS; k++) {
            threads[k] = start(use, &seen[k]);
            AWAIT(warm == k + 1);
        }
        munmap(at, BYTES);
        changed = 1;
        for (int k = 0; k < USERS; k++) {
            joined(threads[k]);
            right += seen[k].read_faults == 1 && seen[k].write_faults == 1;
        }
    }
    signal(SIGSEGV, SIG_DFL);
    check(right == ROUNDS * USERS, "four threads that used the page see that it is gone");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(unmapped), CASE(no_access), CASE(read_only), CASE(replaced), CASE(discarded), CASE(unmapped_large),
        CASE(read_only_large), CASE(discarded_large), CASE(split_large), CASE(moved), CASE(recycled),
        CASE(shrunk), CASE(seen_by_all),
    };
    return RUN_CASES(cases);
}
