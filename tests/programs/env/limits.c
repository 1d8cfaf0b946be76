// Resource limits: soft not above hard, changed and told back, refused when
// wrong; getrlimit, setrlimit and prlimit agree. Prints two inherited ones.
#include "../common/check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void print_limit(const char *name, int resource)
{
    struct rlimit r;
    need(getrlimit(resource, &r) == 0, "getrlimit");
    if (r.rlim_cur == RLIM_INFINITY)
        printf("     %s: unlimited\n", name);
    else
        printf("     %s: %llu\n", name, (unsigned long long)r.rlim_cur);
}

// Whether more can be read of the list of mappings, also when it is read again from its beginning.
static int lists_more_than(ssize_t bytes)
{
    char text[4096];
    int fd = open("/proc/self/maps", O_RDONLY), more = fd >= 0;
    for (int times = 0; times < 2 && more; times++) {
        ssize_t got, total = 0;
        while ((got = read(fd, text, sizeof text)) > 0)
            total += got;
        more = got == 0 && total > bytes && lseek(fd, 0, SEEK_SET) == 0;
    }
    close(fd);
    return more;
}

int main(void)
{
    struct rlimit r, again, set;
    int sane = 0;
    for (int i = 0; i < RLIM_NLIMITS; i++)
        sane += getrlimit(i, &r) == 0 && r.rlim_cur <= r.rlim_max;
    check(sane == RLIM_NLIMITS, "%d limits, soft not above hard", RLIM_NLIMITS);
    /* Not the number: a rank's proxy keeps some of the descriptors when soft and hard limit are equal. */
    need(getrlimit(RLIMIT_NOFILE, &r) == 0, "getrlimit");
    check(r.rlim_cur >= 256 && r.rlim_cur <= r.rlim_max, "RLIMIT_NOFILE allows 256 files");
    print_limit("RLIMIT_STACK", RLIMIT_STACK);

    need(getrlimit(RLIMIT_NOFILE, &r) == 0, "getrlimit");
    set.rlim_cur = 100;
    set.rlim_max = r.rlim_max;
    check(setrlimit(RLIMIT_NOFILE, &set) == 0 && getrlimit(RLIMIT_NOFILE, &again) == 0 && again.rlim_cur == 100,
          "RLIMIT_NOFILE set to 100");
    check(sysconf(_SC_OPEN_MAX) == 100, "sysconf says so too");
    check(prlimit(0, RLIMIT_NOFILE, &r, &again) == 0 && again.rlim_cur == 100, "prlimit sets and gives the old one");
    check(prlimit(getpid(), RLIMIT_NOFILE, NULL, &again) == 0 && again.rlim_cur == r.rlim_cur, "prlimit by pid");
    set.rlim_cur = 10;
    set.rlim_max = 5;
    check_fails(setrlimit(RLIMIT_NOFILE, &set), EINVAL, "a soft limit above the hard one");
    check_fails(getrlimit(99, &r), EINVAL, "an unknown limit");
    check_fails(getrlimit(RLIMIT_NOFILE, (struct rlimit *)8), EFAULT, "a bad pointer");

    set.rlim_cur = set.rlim_max = 0;
    check(setrlimit(RLIMIT_CORE, &set) == 0 && getrlimit(RLIMIT_CORE, &again) == 0 && again.rlim_max == 0,
          "RLIMIT_CORE set to 0");
    need(getrlimit(RLIMIT_FSIZE, &r) == 0, "getrlimit");
    set.rlim_cur = 1000;
    set.rlim_max = r.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    check(setrlimit(RLIMIT_FSIZE, &set) == 0, "RLIMIT_FSIZE set to 1000");
    FILE *f = fopen("f", "w");
    need(f != NULL, "fopen");
    char buf[2000] = {0};
    check(write(fileno(f), buf, 2000) == 1000, "a write of 2000 bytes gives 1000");
    check_fails(write(fileno(f), buf, 1), EFBIG, "the next one EFBIG");

    // More than is printed here; a line of each mapping.
    enum { LIMIT = 4096, PAGES = 200, PAGE_BYTES = 4096 };
    char *pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(pages != MAP_FAILED, "mmap");
    for (int i = 0; i < PAGES; i += 2)
        need(mprotect(pages + i * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
    set.rlim_cur = set.rlim_max = LIMIT;
    check(setrlimit(RLIMIT_FSIZE, &set) == 0, "RLIMIT_FSIZE set to 4096 for good");
    signal(SIGXFSZ, SIG_DFL);
    check(lists_more_than(LIMIT), "files of /proc are longer nevertheless");
    signal(SIGXFSZ, SIG_IGN);
    check_fails(pwrite(fileno(f), buf, 1, LIMIT), EFBIG, "a file is not");
    check(getrlimit(RLIMIT_FSIZE, &again) == 0 && again.rlim_cur == LIMIT && again.rlim_max == LIMIT, "the limit is told");
    return check_done();
}
