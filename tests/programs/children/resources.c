// Limits, processor and much memory, as a child and its parent see them: `resources CASE`.
#include "../common/children.h"

#include <cpuid.h>
#include <fcntl.h>
#include <sys/resource.h>

// ---- Limits --------------------------------------------------------------------

enum { RESOURCES = RLIM_NLIMITS, LINE_BYTES = 128, NAME_BYTES = 26 };

// The limits of /proc/PID/limits, whose lines are in the order of RLIMIT_* behind a heading; whether there are all.
static int listed(pid_t pid, struct rlimit *limits)
{
    char line[LINE_BYTES], path[64], soft[24], hard[24];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    FILE *file = fopen(path, "r");
    need(file != NULL && fgets(line, sizeof line, file) != NULL, path);
    while (count < RESOURCES && fgets(line, sizeof line, file) != NULL) {
        if (strlen(line) < NAME_BYTES || sscanf(line + NAME_BYTES, "%23s %23s", soft, hard) != 2)
            break;
        limits[count].rlim_cur = soft[0] == 'u' ? RLIM_INFINITY : strtoull(soft, NULL, 10);
        limits[count++].rlim_max = hard[0] == 'u' ? RLIM_INFINITY : strtoull(hard, NULL, 10);
    }
    fclose(file);
    return count == RESOURCES;
}

static struct rlimit wanted[RESOURCES];
static int has_wanted(void)
{
    struct rlimit found[RESOURCES], limit, other;
    if (!listed(getpid(), found))
        return 1;
    for (int i = 0; i < RESOURCES; i++) {
        if (getrlimit(i, &limit) != 0 || prlimit(getpid(), i, NULL, &other) != 0)
            return 2;
        if (memcmp(&limit, &wanted[i], sizeof limit) != 0 || memcmp(&limit, &other, sizeof limit) != 0)
            return 3 + i;
        if (memcmp(&limit, &found[i], sizeof limit) != 0)
            return 100 + i;
    }
    return 0;
}

// The proxy's limit on descriptors was higher than the rank's, and children had it; and those that only the node has were not
// listed.
static void limits(void)
{
    for (int i = 0; i < RESOURCES; i++)
        need(getrlimit(i, &wanted[i]) == 0, "getrlimit");
    check(has_wanted() == 0, "limits that were inherited are listed");
    IN_CHILD("and a child's", has_wanted);
    wanted[RLIMIT_NOFILE] = (struct rlimit){200, 300};
    wanted[RLIMIT_CPU] = (struct rlimit){1000, 2000};
    wanted[RLIMIT_CORE] = (struct rlimit){0, 4096};
    static const int set[] = {RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_CORE};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        need(setrlimit(set[i], &wanted[set[i]]) == 0, "setrlimit");
    check(has_wanted() == 0, "so are limits that were set");
    IN_CHILD("and a child's", has_wanted);
    check(WEXITSTATUS(system("test $(ulimit -n) = 200 && test $(ulimit -Hn) = 300 && test $(ulimit -Ht) = 2000")) == 0,
          "and those of a program that it starts");
}

// Once the proxy had no more room than the rank: files that were mapped and shared had none.
static void few_files(void)
{
    struct rlimit few = {10, 10}, more = {11, 11};
    char byte = 0;
    int last = -1;
    need(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    for (int fd; (fd = open("f", O_RDWR | O_CREAT, 0600)) >= 0;)
        last = fd;
    check(errno == EMFILE && last == 9, "descriptors up to the limit");
    if (geteuid() != 0)
        check_fails(setrlimit(RLIMIT_NOFILE, &more), EPERM, "which stays");
    need(ftruncate(last, PAGE_BYTES) == 0, "ftruncate");
    char *shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, last, 0);
    check(shared != MAP_FAILED, "a file is mapped and shared");
    pid_t pid = forked();
    if (pid == 0) {
        shared[0] = 'c';
        _exit(open("f", O_RDONLY) != -1 || errno != EMFILE);
    }
    check(status_of(pid) == 0 && shared[0] == 'c', "with a child");
    check(pread(last, &byte, 1, 0) == 1 && byte == 'c', "and read");
    close(last);
    check(readlink("/proc/self/exe", &byte, 1) == 1 && open("/proc/self/limits", O_RDONLY) == 9, "and /proc is there");
    execl("/proc/self/exe", "resources", "began", NULL);
    check(0, "another program takes its place");
}

// ---- The processor ---------------------------------------------------------------

// Features that bring instructions for programs, by CPUID (Intel SDM vol. 2A, CPUID; AMD APM vol. 3 appendix E).
static const struct words {
    unsigned leaf, subleaf, number; // of EAX, EBX, ECX, EDX
    unsigned mask;
} instructions[] = {
    {1, 0, 2, 0x72d83203}, {1, 0, 3, 0x07888010},   {7, 0, 1, 0xfdef4938},          {7, 0, 2, 0x1a405f63},
    {7, 0, 3, 0x03c1410c}, {7, 1, 0, 0x00a00030},   {0xd, 1, 0, 0x00000007},        {0x80000001, 0, 2, 0x00210961},
    {0x80000001, 0, 3, 0xc8400000}, {0x80000008, 0, 1, 0x00000011},
};
enum { WORDS = sizeof instructions / sizeof *instructions };
static unsigned of_parent[WORDS];

static unsigned features(const struct words *words)
{
    unsigned r[4] = {0};
    __get_cpuid_count(words->leaf, words->subleaf, &r[0], &r[1], &r[2], &r[3]);
    return r[words->number] & words->mask;
}
static int has_all(void)
{
    for (int i = 0; i < WORDS; i++)
        if ((of_parent[i] & ~features(&instructions[i])) != 0)
            return 1 + i;
    return 0;
}

// PCOMMIT was shown, which only the emulator has: a child could have met an instruction that it was told of and that is not there.
static void processor(void)
{
    for (int i = 0; i < WORDS; i++)
        of_parent[i] = features(&instructions[i]);
    check(of_parent[0] != 0, "the processor has features");
    IN_CHILD("and a child's has them all", has_all);
}

// ---- Much memory -----------------------------------------------------------------

static const size_t MUCH_BYTES = 3ul << 29, STEP_BYTES = 64ul << 20, LITTLE_BYTES = 256ul << 20;
static char *much;
static int has_little(void)
{
    long pages = 0;
    for (size_t at = 0; at < MUCH_BYTES; at += STEP_BYTES)
        if (much[at] != (char)(at / STEP_BYTES + 1) || much[at + STEP_BYTES - 1] != 0)
            return 1;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%*d %ld", &pages) != 1)
        return 2;
    return pages > (long)(LITTLE_BYTES / PAGE_BYTES);
}

// What a child costs is in proportion to what was used of the memory, not to what there is.
static void gigabytes(void)
{
    much = mmap(NULL, MUCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(much != MAP_FAILED, "mmap");
    for (size_t at = 0; at < MUCH_BYTES; at += STEP_BYTES)
        much[at] = (char)(at / STEP_BYTES + 1);
    IN_CHILD("of gigabytes a child has what was used", has_little);
    pid_t pid = vfork();
    if (pid == 0)
        _exit(much[STEP_BYTES]);
    check(status_of(pid) == 2 << 8, "and so has one of vfork");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "began") == 0) {
        check(1, "another program takes its place");
        return check_done();
    }
    static const struct test_case cases[] = {CASE(limits), CASE(few_files), CASE(processor), CASE(gigabytes)};
    return RUN_CASES(cases);
}
