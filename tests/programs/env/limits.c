// Resource limits: soft not above hard, changed and told back, refused when
// wrong; getrlimit, setrlimit and prlimit agree. Prints two inherited ones.
#include "../common/check.h"
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
    return check_done();
}
