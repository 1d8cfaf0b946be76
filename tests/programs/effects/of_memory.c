// What the local calls about memory do.
#include "../common/effects.h"
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char *pages(int count)
{
    char *at = mmap(NULL, (size_t)count * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    return at;
}

static int resident(char *at)
{
    unsigned char page = 0;
    return mincore(at, PAGE_BYTES, &page) == 0 && (page & 1);
}

static void mappings(void)
{
    call("mmap");
    char *at = pages(4);
    check(can_write(at) && at[0] == 0 && at[4 * PAGE_BYTES - 1] == 0, "zeroed memory");
    call("mprotect");
    check(mprotect(at, PAGE_BYTES, PROT_READ) == 0 && can_read(at) && !can_write(at), "write access is gone");
    check(mprotect(at, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0 && can_write(at), "and comes back");
    call("mremap");
    memset(at, 7, PAGE_BYTES);
    char *to = mremap(at, PAGE_BYTES, 2 * PAGE_BYTES, MREMAP_MAYMOVE);
    check(to != MAP_FAILED && all_bytes(to, 7, PAGE_BYTES) && can_write(to + PAGE_BYTES), "larger, with its contents");
    check(to == at || !can_read(at), "the old place is gone");
    call("munmap");
    check(munmap(to, 2 * PAGE_BYTES) == 0 && !can_read(to), "nothing is there any more");
    call("brk");
    char *end = (char *)syscall(SYS_brk, 0);
    check((char *)syscall(SYS_brk, end + PAGE_BYTES) == end + PAGE_BYTES && can_write(end + PAGE_BYTES - 1), "the heap grows");
    check((char *)syscall(SYS_brk, end) == end && (char *)syscall(SYS_brk, 0) == end, "and shrinks");
}

static void segments(void)
{
    int id = shmget(IPC_PRIVATE, PAGE_BYTES, IPC_CREAT | 0600);
    call("shmat");
    char *p = shmat(id, NULL, 0), *q = shmat(id, NULL, 0);
    need(p != (char *)-1 && q != (char *)-1, "shmat");
    p[5] = 5;
    check(q[5] == 5, "what is stored at one place is at the other");
    call("shmdt");
    check(shmdt(p) == 0 && !can_read(p) && q[5] == 5, "nothing is there any more");
    shmdt(q);
    shmctl(id, IPC_RMID, NULL);
}

static void of_locked_pages(void)
{
    char *at = pages(1);
    memset(at, 7, PAGE_BYTES);
    need(mlock(at, PAGE_BYTES) == 0, "mlock");
    int gone = madvise(at, PAGE_BYTES, MADV_DONTNEED_LOCKED) == 0; // since Linux 5.18
    check(all_bytes(at, gone ? 0 : 7, PAGE_BYTES), "DONTNEED_LOCKED: those of a locked page are gone, too, or it was refused");
}

static void of_pages_to_come(void)
{
    char *at = pages(2), *shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(shared != MAP_FAILED, "mmap");
    int read = madvise(at, PAGE_BYTES, MADV_POPULATE_READ) == 0; // since Linux 5.14
    check(!read || resident(at), "POPULATE_READ: resident without having been touched, or it was refused");
    int written = madvise(at + PAGE_BYTES, PAGE_BYTES, MADV_POPULATE_WRITE) == 0;
    check(!written || resident(at + PAGE_BYTES), "POPULATE_WRITE: so it is");
    memset(shared, 7, PAGE_BYTES);
    int gone = madvise(shared, PAGE_BYTES, MADV_REMOVE) == 0;
    check(all_bytes(shared, gone ? 0 : 7, PAGE_BYTES), "REMOVE: contents are gone, or it was refused");
}

// What a child reads where the parent has 7, after advice about children; 0 when that was refused.
static int reads_in_child(int advice)
{
    char *at = pages(1);
    int status = 0;
    at[0] = 7;
    if (madvise(at, PAGE_BYTES, advice) != 0)
        return 0;
    fflush(stdout);
    pid_t child = forked();
    if (child == 0)
        _exit(at[0]);
    need(waitpid(child, &status, 0) == child && WIFEXITED(status), "a child");
    return WEXITSTATUS(status);
}

// What MADV_DONTDUMP and MADV_DODUMP do is seen in a core file: debug/dies.c, by tests/gdb/core.rs.
static void advice(void)
{
    char *at = pages(2);
    call("madvise");
    memset(at, 7, PAGE_BYTES);
    check(madvise(at, PAGE_BYTES, MADV_DONTNEED) == 0 && all_bytes(at, 0, PAGE_BYTES), "DONTNEED: contents are gone");
    at[0] = 7;
    check(madvise(at, PAGE_BYTES, MADV_FREE) == 0 && (at[0] == 7 || at[0] == 0), "FREE: they may be gone");
    of_locked_pages();
    of_pages_to_come();
    check(reads_in_child(MADV_WIPEONFORK) == 0, "WIPEONFORK: a child has zeros, or it was refused");
    call("mincore");
    at[0] = 1;
    check(resident(at), "a page that was touched is resident");
    munmap(at + PAGE_BYTES, PAGE_BYTES);
    unsigned char page;
    check_fails(mincore(at + PAGE_BYTES, PAGE_BYTES, &page), ENOMEM, "one that is not mapped");
    call("msync");
    check(msync(at, PAGE_BYTES, MS_SYNC) == 0, "what is mapped can be written back");
    check_fails(msync(at + PAGE_BYTES, PAGE_BYTES, MS_SYNC), ENOMEM, "what is not cannot");
}

static void other_pages(void)
{
    char *at = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    at[PAGE_BYTES] = 7;
    call("remap_file_pages");
    check(remap_file_pages(at, PAGE_BYTES, 0, 1, 0) == 0 && at[0] == 7, "shows the other page");
    at[1] = 8;
    check(at[PAGE_BYTES + 1] == 8, "which is the same");
    check_fails(remap_file_pages(pages(1), PAGE_BYTES, 0, 0, 0), EINVAL, "memory that is not shared");
}

// As /proc shows.
static int kib_locked(void) { return atoi(proc_line("/proc/self/status", "VmLck:")); }

static int discarded(char *at) { return madvise(at, PAGE_BYTES, MADV_DONTNEED) == 0; }

// Regression: it was as if nothing had been locked.
static void everything(void)
{
    char *before = pages(1);
    call("mlockall");
    check(mlockall(MCL_FUTURE) == 0 && discarded(before), "what comes: not what is there");
    char *between = pages(1), *heap = sbrk(PAGE_BYTES);
    check(resident(between) && !discarded(between) && errno == EINVAL, "what has come cannot be discarded");
    check(resident(heap) && madvise(heap, PAGE_BYTES, MADV_DONTNEED) != 0, "nor what the heap has grown by");
    check(mlockall(MCL_CURRENT) == 0 && resident(before) && !discarded(before) && errno == EINVAL, "all that is there");
    char *after = pages(1);
    check(discarded(after) && !discarded(between), "and nothing that comes");
    check(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 && !discarded(after) && !discarded(pages(1)), "both");
    check(kib_locked() >= 4 * PAGE_BYTES >> 10, "and /proc says so");
    check_fails(mlockall(0), EINVAL, "nothing to lock");
    call("munlockall");
    check(munlockall() == 0 && discarded(before) && discarded(between) && discarded(pages(1)), "may be discarded again");
    check(kib_locked() == 0, "and /proc says that nothing is locked");
}

// Locked is resident, and stays so: nothing is paged out.
//
// Regression: /proc said of locked memory that there was none, and then that all was.
static void locking(void)
{
    char *at = pages(4);
    munmap(at + PAGE_BYTES, PAGE_BYTES);
    int before = kib_locked();
    call("mlock");
    check(mlock(at, PAGE_BYTES) == 0 && resident(at), "resident without having been touched");
    check(kib_locked() == before + (PAGE_BYTES >> 10), "and /proc says so");
    check_fails(mlock(at + PAGE_BYTES, PAGE_BYTES), ENOMEM, "what is not mapped");
    call("mlock2");
    at += 2 * PAGE_BYTES;
    check(syscall(SYS_mlock2, at, PAGE_BYTES, 0) == 0 && resident(at), "resident without having been touched");
    check_fails(syscall(SYS_mlock2, at, PAGE_BYTES, 8), EINVAL, "an unknown flag");
    call("munlock");
    check(munlock(at, PAGE_BYTES) == 0 && madvise(at, PAGE_BYTES, MADV_DONTNEED) == 0, "may be discarded again");
    check_fails(munlock(at - PAGE_BYTES, PAGE_BYTES), ENOMEM, "what is not mapped");
    everything();
    other_pages();
}

// On ourselves, which is as good as any process.
static void processes(void)
{
    char *from = pages(2), *to = pages(2);
    struct iovec local = {to, 2 * PAGE_BYTES}, remote = {from, 2 * PAGE_BYTES};
    memset(from, 7, 2 * PAGE_BYTES);
    call("process_vm_readv");
    check(syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == 2 * PAGE_BYTES &&
              all_bytes(to, 7, 2 * PAGE_BYTES),
          "what was there is here");
    munmap(from + PAGE_BYTES, PAGE_BYTES);
    check(syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == PAGE_BYTES, "as far as there was anything");
    call("process_vm_writev");
    memset(to, 8, 2 * PAGE_BYTES);
    check(syscall(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0) == PAGE_BYTES && all_bytes(from, 8, PAGE_BYTES),
          "what is here is there");
    remote.iov_base = from + PAGE_BYTES;
    check_fails(syscall(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0), EFAULT, "where nothing is");
}

int main(void)
{
    mappings();
    segments();
    advice();
    locking();
    processes();
    return check_done();
}
