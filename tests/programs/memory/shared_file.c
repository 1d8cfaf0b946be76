// Shared maps of files: what is stored is what the file holds, and the other
// way round, by every call that reads, writes or cuts a file.
#include "../common/check.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { RW = PROT_READ | PROT_WRITE, PAGES = 6, FILE_BYTES = PAGES * PAGE_BYTES };

static char *map(int fd, size_t len_bytes, off_t offset)
{
    char *p = mmap(NULL, len_bytes, RW, MAP_SHARED, fd, offset);
    need(p != MAP_FAILED, "mmap");
    return p;
}

static int holds(int fd, off_t offset, const char *text)
{
    char bytes[64] = {0};
    return pread(fd, bytes, strlen(text), offset) == (ssize_t)strlen(text) && strcmp(bytes, text) == 0;
}

static void calls_see_stores(int fd, char *m)
{
    check(memcmp(m, "begin", 5) == 0 && m[PAGE_BYTES] == 0, "the file's contents");
    strcpy(m + 100, "stored");
    check(holds(fd, 100, "stored"), "pread sees what was stored");
    strcpy(m + PAGE_BYTES - 3, "border");
    char a[3] = {0}, b[8] = {0};
    struct iovec two[] = {{a, 2}, {b, 4}};
    check(preadv(fd, two, 2, PAGE_BYTES - 3) == 6 && memcmp(a, "bo", 2) == 0 && memcmp(b, "rder", 4) == 0,
          "preadv, over two pages and two buffers");
    need(lseek(fd, 100, SEEK_SET) == 100, "lseek");
    check(read(fd, b, 6) == 6 && memcmp(b, "stored", 6) == 0 && lseek(fd, 0, SEEK_CUR) == 106, "read moves on");
    check(readv(fd, two, 2) == 6 && lseek(fd, 0, SEEK_CUR) == 112, "so does readv");
    char *private = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    check(private != MAP_FAILED && memcmp(private + 100, "stored", 6) == 0, "a private map sees it");
    munmap(private, PAGE_BYTES);
}

static void stores_see_calls(int fd, char *m)
{
    check(pwrite(fd, "written", 8, 200) == 8 && strcmp(m + 200, "written") == 0, "pwrite is seen");
    struct iovec two[] = {{"left ", 5}, {"right", 6}};
    check(pwritev(fd, two, 2, PAGE_BYTES - 4) == 11 && strcmp(m + PAGE_BYTES - 4, "left right") == 0,
          "pwritev, over two pages");
    lseek(fd, 300, SEEK_SET);
    check(write(fd, "one", 3) == 3 && write(fd, "two", 4) == 4 && strcmp(m + 300, "onetwo") == 0, "write moves on");
    check(writev(fd, two, 2) == 11 && strcmp(m + 307, "left right") == 0, "so does writev");
    int append = open("f", O_WRONLY | O_APPEND);
    char *end = map(fd, 2 * PAGE_BYTES, FILE_BYTES - PAGE_BYTES);
    check(ftruncate(fd, FILE_BYTES - 10) == 0 && write(append, "appended", 9) == 9 &&
              strcmp(end + PAGE_BYTES - 10, "appended") == 0, "O_APPEND writes at the end");
    need(ftruncate(fd, FILE_BYTES) == 0, "ftruncate");
    close(append);
    munmap(end, 2 * PAGE_BYTES);
}

static void one_object(int fd, char *m)
{
    int again = open("f", O_RDONLY);
    char *r = mmap(NULL, 2 * PAGE_BYTES, PROT_READ, MAP_SHARED, again, PAGE_BYTES);
    need(r != MAP_FAILED, "mmap");
    check_fails((long)mmap(NULL, PAGE_BYTES, RW, MAP_SHARED, again, 0), EACCES, "writable, of a file open for reading");
    check_fails(mprotect(r, PAGE_BYTES, RW), EACCES, "made writable later");
    close(again);
    m[PAGE_BYTES + 7] = 'q';
    check(r[7] == 'q' && !can_write(r), "another map of the file shows the same, as it may");
    check(mprotect(m, PAGE_BYTES, PROT_NONE) == 0 && !can_read(m) && mprotect(m, PAGE_BYTES, RW) == 0 &&
              memcmp(m, "begin", 5) == 0, "without access and back it keeps what it holds");
    char *moved = mremap(r, 2 * PAGE_BYTES, PAGE_BYTES, 0);
    check(moved == r && r[7] == 'q' && munmap(r, PAGE_BYTES) == 0, "made shorter");
    char *over = mmap(m + 4 * PAGE_BYTES, PAGE_BYTES, RW, MAP_SHARED | MAP_FIXED, fd, 0);
    check(over == m + 4 * PAGE_BYTES && memcmp(over, "begin", 5) == 0, "a fixed map over a part of it");
    over[1] = 'E';
    check(m[1] == 'E' && holds(fd, 0, "bEgin"), "which shows the same page twice");
    check(mmap(over, PAGE_BYTES, RW, MAP_SHARED | MAP_FIXED, fd, 4 * PAGE_BYTES) == over && m[1] == 'E', "and back");
    m[1] = 'e';
}

static void end_of_the_file(int fd, char *m)
{
    char *p = map(fd, FILE_BYTES + 3 * PAGE_BYTES, 0);
    struct fault f = fault_of(touch_read, p + FILE_BYTES);
    check(f.signo == SIGBUS && f.code == BUS_ADRERR && f.addr == p + FILE_BYTES, "behind the end: SIGBUS");
    check(ftruncate(fd, FILE_BYTES + PAGE_BYTES + 5) == 0 && can_write(p + FILE_BYTES), "the file grows: memory");
    check(all_bytes(p + FILE_BYTES, 0, 2 * PAGE_BYTES), "of zeros");
    check(fault_of(touch_write, p + FILE_BYTES + 2 * PAGE_BYTES).signo == SIGBUS, "up to its last page");
    strcpy(p + FILE_BYTES, "grown");
    check(holds(fd, FILE_BYTES, "grown"), "which is the file's");
    check(posix_fallocate(fd, 0, FILE_BYTES + 3 * PAGE_BYTES) == 0 && can_read(p + FILE_BYTES + 2 * PAGE_BYTES),
          "posix_fallocate grows it as well");
    check(ftruncate(fd, FILE_BYTES) == 0 && ftruncate(fd, FILE_BYTES + PAGE_BYTES) == 0 && p[FILE_BYTES] == 0,
          "cut and grown again it is zero");
    strcpy(p + FILE_BYTES, "cut off");
    f = ftruncate(fd, FILE_BYTES) == 0 ? fault_of(touch_write, p + FILE_BYTES) : (struct fault){0};
    check(f.signo == SIGBUS && f.code == BUS_ADRERR && f.addr == p + FILE_BYTES, "what is cut off is SIGBUS at once");
    check(pwrite(fd, "anew", 4, FILE_BYTES) == 4 && memcmp(p + FILE_BYTES, "anew\0\0\0", 7) == 0,
          "where it grows again it shows what the file has");
    munmap(p, FILE_BYTES + 3 * PAGE_BYTES);
    need(ftruncate(fd, FILE_BYTES) == 0, "ftruncate");
    strcpy(m + 2 * PAGE_BYTES, "punched");
    int punched = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * PAGE_BYTES, PAGE_BYTES);
    check((punched == 0 || errno == EOPNOTSUPP) && (punched != 0 || m[2 * PAGE_BYTES] == 0), "a hole is zero");
}

static void written_back(int fd, char *m)
{
    strcpy(m + 3 * PAGE_BYTES, "kept");
    check(msync(m, FILE_BYTES, MS_SYNC) == 0 && msync(m, PAGE_BYTES, MS_ASYNC) == 0, "msync");
    need(mlock(m + PAGE_BYTES, PAGE_BYTES) == 0, "mlock");
    check_fails(msync(m, FILE_BYTES, MS_ASYNC | MS_INVALIDATE), EBUSY, "msync of what is locked"); // Regression: it succeeded
    check(msync(m, PAGE_BYTES, MS_INVALIDATE) == 0 && munlock(m + PAGE_BYTES, PAGE_BYTES) == 0, "of what is not");
    strcpy(m + 5 * PAGE_BYTES, "last");
    check(munmap(m, FILE_BYTES) == 0, "unmapped");
    check(holds(fd, 3 * PAGE_BYTES, "kept") && holds(fd, 5 * PAGE_BYTES, "last"), "the file has it all");
    m = map(fd, FILE_BYTES, 0);
    check(strcmp(m + 5 * PAGE_BYTES, "last") == 0, "and a new map shows it");
    int cut = open("f", O_WRONLY | O_TRUNC);
    need(cut >= 0 && ftruncate(cut, FILE_BYTES) == 0, "cut");
    check(all_bytes(m, 0, FILE_BYTES), "O_TRUNC clears it");
    strcpy(m + PAGE_BYTES - 4, "old text");
    check(truncate("f", PAGE_BYTES) == 0 && truncate("f", FILE_BYTES) == 0 && memcmp(m + PAGE_BYTES - 4, "old \0\0\0\0", 8) == 0,
          "so does truncate, from the new end on");
    check(truncate("f", 0) == 0 && truncate("f", FILE_BYTES) == 0 && all_bytes(m, 0, FILE_BYTES), "nothing is left");
    char bytes[8] = "old text";
    check(pread(fd, bytes, 8, PAGE_BYTES - 4) == 8 && all_bytes(bytes, 0, 8), "nor in the file");
    strcpy(m, "not unmapped");
}

/* What lies in the heap goes with it: once what had been stored there was lost, and the pages never came back. */
static void in_the_heap(void)
{
    int fd = open("heap", O_CREAT | O_RDWR, 0600); // mapped nowhere else
    need(fd >= 0 && ftruncate(fd, PAGE_BYTES) == 0, "a file");
    char *end = (char *)syscall(SYS_brk, NULL);
    char *at = (char *)(((uintptr_t)end + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
    for (int round = 0; round < 3; round++) {
        char *top = at + 4 * PAGE_BYTES;
        need((char *)syscall(SYS_brk, top) == top, "brk");
        char *m = mmap(at + PAGE_BYTES, PAGE_BYTES, RW, MAP_SHARED | MAP_FIXED, fd, 0);
        need(m == at + PAGE_BYTES, "mapped into the heap");
        sprintf(m, "heap %d", round);
        check((char *)syscall(SYS_brk, end) == end && !can_read(m), "the heap shrinks");
        char held[8] = "";
        check(pread(fd, held, sizeof held, 0) == sizeof held && held[5] == '0' + round, "the file has what was stored");
    }
    close(fd);
}

static void others(void)
{
    int fd = memfd_create("object", 0);
    need(fd >= 0 && ftruncate(fd, 4 << 20) == 0, "memfd_create");
    char *m = map(fd, 4 << 20, 0), *n = map(fd, PAGE_BYTES, 3 << 20);
    m[3 << 20] = 'm';
    check(n[0] == 'm' && munmap(m, 4 << 20) == 0 && n[0] == 'm', "a memfd is a file like others");
    close(fd);
    check(n[0] == 'm' && munmap(n, PAGE_BYTES) == 0, "closed, too");
    check_fails((long)mmap(NULL, PAGE_BYTES, RW, MAP_SHARED, open("/dev/null", O_RDWR), 0), ENODEV, "/dev/null");
    char *anonymous = mmap(NULL, PAGE_BYTES, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(anonymous != MAP_FAILED && can_write(anonymous), "anonymous shared memory");
    sem_t *sem = (sem_t *)(map(open("f", O_RDWR), PAGE_BYTES, 0) + 256);
    check(sem_init(sem, 1, 1) == 0 && sem_wait(sem) == 0 && sem_trywait(sem) == -1 && sem_post(sem) == 0,
          "a semaphore in it");
}

int main(void)
{
    int fd = open("f", O_CREAT | O_RDWR, 0600);
    need(fd >= 0 && write_all(fd, "begin", 5) && ftruncate(fd, FILE_BYTES) == 0, "file");
    char *m = map(fd, FILE_BYTES, 0);
    calls_see_stores(fd, m);
    stores_see_calls(fd, m);
    one_object(fd, m);
    end_of_the_file(fd, m);
    written_back(fd, m);
    in_the_heap();
    others();
    return check_done();
}
