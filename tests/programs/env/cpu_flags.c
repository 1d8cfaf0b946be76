// The flags of /proc/cpuinfo are those of the processor that this runs on, as
// cpuid and xgetbv tell them (Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E):
// who picks its code by them meets an instruction that there is not otherwise.
#include "../common/check.h"
#include <cpuid.h>

enum reg { A, B, C, D };
// Parts of the state that the system must save (XCR0): SSE and AVX; with AVX-512's.
enum { NONE = 0, AVX = 0x6, AVX512 = 0xe6 };

static const struct flag {
    const char *name;
    unsigned leaf, subleaf;
    enum reg reg;
    unsigned bit, state;
} flags[] = {
    {"fpu", 1, 0, D, 0, NONE},          {"tsc", 1, 0, D, 4, NONE},          {"cx8", 1, 0, D, 8, NONE},
    {"cmov", 1, 0, D, 15, NONE},        {"clflush", 1, 0, D, 19, NONE},     {"mmx", 1, 0, D, 23, NONE},
    {"fxsr", 1, 0, D, 24, NONE},        {"sse", 1, 0, D, 25, NONE},         {"sse2", 1, 0, D, 26, NONE},
    {"pni", 1, 0, C, 0, NONE},          {"pclmulqdq", 1, 0, C, 1, NONE},    {"ssse3", 1, 0, C, 9, NONE},
    {"fma", 1, 0, C, 12, AVX},          {"cx16", 1, 0, C, 13, NONE},        {"sse4_1", 1, 0, C, 19, NONE},
    {"sse4_2", 1, 0, C, 20, NONE},      {"movbe", 1, 0, C, 22, NONE},       {"popcnt", 1, 0, C, 23, NONE},
    {"aes", 1, 0, C, 25, NONE},         {"xsave", 1, 0, C, 26, NONE},       {"avx", 1, 0, C, 28, AVX},
    {"f16c", 1, 0, C, 29, AVX},         {"rdrand", 1, 0, C, 30, NONE},      {"fsgsbase", 7, 0, B, 0, NONE},
    {"bmi1", 7, 0, B, 3, NONE},         {"avx2", 7, 0, B, 5, AVX},          {"bmi2", 7, 0, B, 8, NONE},
    {"erms", 7, 0, B, 9, NONE},         {"avx512f", 7, 0, B, 16, AVX512},   {"avx512dq", 7, 0, B, 17, AVX512},
    {"rdseed", 7, 0, B, 18, NONE},      {"adx", 7, 0, B, 19, NONE},         {"avx512ifma", 7, 0, B, 21, AVX512},
    {"clflushopt", 7, 0, B, 23, NONE},  {"clwb", 7, 0, B, 24, NONE},        {"avx512cd", 7, 0, B, 28, AVX512},
    {"sha_ni", 7, 0, B, 29, NONE},      {"avx512bw", 7, 0, B, 30, AVX512},  {"avx512vl", 7, 0, B, 31, AVX512},
    {"avx512vbmi", 7, 0, C, 1, AVX512}, {"pku", 7, 0, C, 3, NONE},          {"waitpkg", 7, 0, C, 5, NONE},
    {"gfni", 7, 0, C, 8, NONE},         {"vaes", 7, 0, C, 9, AVX},          {"vpclmulqdq", 7, 0, C, 10, AVX},
    {"rdpid", 7, 0, C, 22, NONE},       {"movdiri", 7, 0, C, 27, NONE},     {"movdir64b", 7, 0, C, 28, NONE},
    {"fsrm", 7, 0, D, 4, NONE},         {"serialize", 7, 0, D, 14, NONE},   {"avx_vnni", 7, 1, A, 4, AVX},
    {"syscall", 0x80000001, 0, D, 11, NONE}, {"nx", 0x80000001, 0, D, 20, NONE},
    {"rdtscp", 0x80000001, 0, D, 27, NONE},  {"lm", 0x80000001, 0, D, 29, NONE},
    {"lahf_lm", 0x80000001, 0, C, 0, NONE},  {"abm", 0x80000001, 0, C, 5, NONE},
    {"sse4a", 0x80000001, 0, C, 6, NONE},    {"3dnowprefetch", 0x80000001, 0, C, 8, NONE},
    {"fma4", 0x80000001, 0, C, 16, AVX},     {"clzero", 0x80000008, 0, B, 0, NONE},
    {"xsaveopt", 0xd, 1, A, 0, NONE},        {"xsavec", 0xd, 1, A, 1, NONE},
    {"xgetbv1", 0xd, 1, A, 2, NONE},
};
enum { FLAGS = sizeof flags / sizeof flags[0] };

static unsigned long saved_states(void)
{
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    if (!(c & bit_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a | (unsigned long)d << 32;
}

static int is_there(const struct flag *flag)
{
    unsigned regs[4] = {0};
    if (!__get_cpuid_count(flag->leaf, flag->subleaf, &regs[A], &regs[B], &regs[C], &regs[D]))
        return 0;
    return (regs[flag->reg] >> flag->bit & 1) && (saved_states() & flag->state) == flag->state;
}

static const struct flag *find(const char *name)
{
    for (const struct flag *flag = flags; flag < flags + FLAGS; flag++)
        if (strcmp(flag->name, name) == 0)
            return flag;
    return NULL;
}

// All x86-64 has them, and so does each list that is one.
static int is_basic(const char *name)
{
    static const char *const basic[] = {"fpu", "tsc", "cx8", "cmov", "mmx", "fxsr", "sse", "sse2", "syscall", "lm"};
    for (size_t i = 0; i < sizeof basic / sizeof basic[0]; i++)
        if (strcmp(basic[i], name) == 0)
            return 1;
    return 0;
}

int main(void)
{
    static char line[16384];
    int processors = 0, lines = 0, listed = 0, basic = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    need(file != NULL, "fopen");
    while (fgets(line, sizeof line, file)) {
        processors += strncmp(line, "processor\t", 10) == 0;
        if (strncmp(line, "flags\t", 6) != 0)
            continue;
        lines++;
        strtok(line, ":");
        for (char *name; (name = strtok(NULL, " \n"));) {
            const struct flag *flag = find(name);
            basic += is_basic(name);
            if (!flag)
                continue; // of the system's making, or not for programs
            listed++;
            if (!is_there(flag)) {
                printf("%s: ", name);
                check(0, "a flag of which cpuid or xgetbv says no");
            }
        }
    }
    check(lines > 0 && lines == processors, "each processor has flags");
    check(basic == 10 * lines, "all that x86-64 is made of is listed");
    check(listed > 10 * lines, "and more");
    return check_done();
}
