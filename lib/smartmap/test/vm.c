/*
 * process_vm_readv and process_vm_writev answer as Linux does.  Every random
 * call is made twice, through the preload and by syscall(2), and return value,
 * errno and all bytes of both sides are compared.
 */
#include "harness.h"
#include <sys/syscall.h>
#include <sys/uio.h>

enum { BYTES = 1 << 16, CALLS = 4000, PARTS = 5 };

static char statics[BYTES];

/** Random pieces of `area`, now and then with something wrong about them. */
static unsigned long pieces(unsigned *seed, struct iovec *iov, char *area)
{
    unsigned long count = (unsigned long)(rand_r(seed) % (PARTS + 1));
    for (unsigned long i = 0; i < count; i++) {
        size_t length = (size_t)rand_r(seed) % 9000;
        iov[i] = (struct iovec){ area + (size_t)rand_r(seed) % (BYTES - 9000), length };
        switch (rand_r(seed) % 24) {
        case 0: iov[i].iov_len = 0; break;
        case 1: iov[i].iov_base = (void *)8; break;
        case 2: iov[i].iov_len = (size_t)-1; break;
        case 3: iov[i].iov_base = (void *)((uintptr_t)511 << 30); break;
        }
    }
    return count;
}

static void compare_calls(unsigned *seed, char *mine, char *again, pid_t pid, char *theirs)
{
    struct iovec local[PARTS], local2[PARTS], remote[PARTS];
    unsigned long locals = pieces(seed, local, mine);
    unsigned long remotes = pieces(seed, remote, theirs);
    unsigned long flags = rand_r(seed) % 40 == 0;
    for (unsigned long i = 0; i < locals; i++) {
        local2[i] = local[i];
        if ((char *)local[i].iov_base >= mine && (char *)local[i].iov_base < mine + BYTES)
            local2[i].iov_base = again + ((char *)local[i].iov_base - mine);
    }
    memset(mine, 0x55, BYTES);
    memset(again, 0x55, BYTES);
    errno = 0;
    ssize_t got = process_vm_readv(pid, local, locals, remote, remotes, flags);
    int error = errno;
    errno = 0;
    ssize_t want = syscall(SYS_process_vm_readv, pid, local2, locals, remote, remotes, flags);
    CHECK(got == want && error == errno);
    CHECK(memcmp(mine, again, BYTES) == 0);
}

static void compare_writes(unsigned *seed, char *mine, pid_t pid, char *theirs, char *theirs2)
{
    struct iovec local[PARTS], remote[PARTS], remote2[PARTS];
    unsigned long locals = pieces(seed, local, mine);
    unsigned long remotes = pieces(seed, remote, theirs);
    for (unsigned long i = 0; i < remotes; i++) {
        remote2[i] = remote[i];
        if ((char *)remote[i].iov_base >= theirs && (char *)remote[i].iov_base < theirs + BYTES)
            remote2[i].iov_base = theirs2 + ((char *)remote[i].iov_base - theirs);
    }
    errno = 0;
    ssize_t got = process_vm_writev(pid, local, locals, remote, remotes, 0);
    int error = errno;
    errno = 0;
    ssize_t want = syscall(SYS_process_vm_writev, pid, local, locals, remote2, remotes, 0);
    CHECK(got == want && error == errno);
}

/** Linux answers ESRCH for the dead and EFAULT for what was unmapped. */
static void edges(int rank, int size, char *mine)
{
    int next = (rank + 1) % size;
    char *theirs = board->address[next];
    struct iovec l = { mine, 4096 }, r = { theirs, 4096 };
    CHECK(process_vm_readv(1 << 30, &l, 1, &r, 1, 0) == -1 && errno == ESRCH);
    CHECK(process_vm_readv(board->pid[next], &l, 1, &r, 1, 0) == 4096);
    meet(2, size);
    char *page = (char *)(((uintptr_t)mine + 8191) & ~(uintptr_t)4095);
    CHECK(mprotect(page, 4096, PROT_NONE) == 0);
    CHECK(smartmap_exports(mine, 10) == is_on_margay()); /* what is mapped there does not count */
    meet(3, size);
    r = (struct iovec){ (char *)(((uintptr_t)theirs + 8191) & ~(uintptr_t)4095), 4096 };
    l.iov_base = statics;
    CHECK(process_vm_readv(board->pid[next], &l, 1, &r, 1, 0) == -1 && errno == EFAULT);
    meet(4, size);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

int rank_main(int rank, int size, const char *mode)
{
    (void)mode;
    unsigned seed = (unsigned)rank + 1;
    char *mine = malloc(BYTES), *twin = malloc(BYTES), *buffer = malloc(2 * BYTES);
    for (int i = 0; i < BYTES; i++)
        mine[i] = twin[i] = (char)rand_r(&seed);
    board->address[rank] = mine;
    meet(0, size);
    pid_t pid = board->pid[(rank + 1) % size];
    char *theirs = board->address[(rank + 1) % size];
    for (int call = 0; call < CALLS; call++)
        compare_calls(&seed, call % 5 ? buffer : statics, buffer + BYTES, pid, theirs);
    meet(1, size);
    board->address[rank + size] = twin;
    meet(5, size);
    char *theirs2 = board->address[(rank + 1) % size + size];
    for (int call = 0; call < CALLS; call++)
        compare_writes(&seed, buffer, pid, theirs, theirs2);
    meet(6, size);
    CHECK(memcmp(mine, twin, BYTES) == 0);
    edges(rank, size, mine);
    meet(7, size);
    return 0;
}

int judge(const int *status, int size, const char *mode)
{
    (void)mode;
    return all_succeeded(status, size);
}
