// A memfd of the program's own that has the number of a file of /proc that was closed.
//
// Regression: it was taken for that file: it could not be mapped (ENODEV), and its mode was not to be changed (EPERM).
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(void)
{
    char bytes[16];
    struct stat about;
    int text = open("/proc/self/status", O_RDONLY);
    need(text >= 0 && read(text, bytes, sizeof bytes) == sizeof bytes && close(text) == 0, "a file of /proc");
    int fd = memfd_create("own", 0);
    check(fd == text && ftruncate(fd, PAGE_BYTES) == 0, "its number is given again");
    check(mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED, "a private mapping");
    check(mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED, "a shared one");
    check(fchmod(fd, 0600) == 0, "another mode");
    check(fstat(fd, &about) == 0 && about.st_size == PAGE_BYTES && (about.st_mode & 0777) == 0600, "and its size");
    return check_done();
}
