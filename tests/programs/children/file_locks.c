// Record locks on a file that is mapped and shared: a process loses them when
// it closes a descriptor of the file, and not when it unmaps it.
#include "../common/children.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, BYTES = 2 * PAGE_BYTES };

static int make(int flags)
{
    int fd = open("locked", O_RDWR | O_CREAT | flags, 0600);
    need(fd >= 0 && ftruncate(fd, BYTES) == 0, "locked");
    return fd;
}

static void lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    need(fcntl(fd, F_SETLK, &lock) == 0, "F_SETLK");
}

static void *map(int fd, int prot)
{
    void *p = mmap(NULL, BYTES, prot, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED, "mmap");
    return p;
}

// In a child: by a descriptor of its own, for its parent's are its own to close.
static int parent_has_the_lock(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open("locked", O_RDWR);
    return fd < 0 || fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_WRLCK || lock.l_pid != getppid();
}

static void unmapped(int flags)
{
    int fd = make(flags);
    lock(fd);
    char *p = map(fd, RW);
    strcpy(p, "stored");
    IN_CHILD("a file that is mapped stays locked", parent_has_the_lock);
    need(munmap(p, BYTES) == 0, "munmap");
    IN_CHILD("and when it is unmapped", parent_has_the_lock);
    check(close(dup(fd)) == 0 && in_child(parent_has_the_lock) != 0, "a descriptor that is closed unlocks it");
}

static void of_maps(void) { unmapped(0); }
static void of_append(void) { unmapped(O_APPEND); }

static void of_second_map(void)
{
    int fd = make(0), again = open("locked", O_RDONLY);
    lock(fd);
    char *r = map(again, PROT_READ), *w = map(fd, RW);
    IN_CHILD("mapped to be read and then to be written it stays locked", parent_has_the_lock);
    need(munmap(r, BYTES) == 0 && munmap(w, BYTES) == 0, "munmap");
    IN_CHILD("and when both are unmapped", parent_has_the_lock);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {CASE(of_maps), CASE(of_append), CASE(of_second_map)};
    return RUN_CASES(cases);
}
