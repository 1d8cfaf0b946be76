// The flags of /proc/cpuinfo beside CPUID: none is listed that the processor lacks, none of a program's instructions is left
// out. Vector registers count only where the kernel keeps them (XCR0), protection keys only where it has turned them on.
#include "../common/check.h"
#include <cpuid.h>
#include <stdbool.h>

enum reg { A, B, C, D };
// What of a flag follows from CPUID: Linux may have it off (LISTED: if it is there, CPUID has it), or never without a word of
// the user (EXACT).
enum says { LISTED, EXACT };
// State components of XCR0 (Intel SDM vol. 1, 13.1): SSE and AVX; those and the three of AVX-512; those of AMX.
enum { YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };
// CPUID 1 ECX.
enum { OSXSAVE = 27 };

struct leaf {
    unsigned number, sub;
};
#define ONE {1, 0}
#define SEVEN {7, 0}
#define SEVEN_ONE {7, 1}
#define STATES {0xd, 1}
#define EXTENDED {0x80000001, 0}
#define SIZES {0x80000008, 0}

// Names as arch/x86/include/asm/cpufeatures.h has them, places as the manuals (AMD APM vol. 3, appendix E; Intel SDM vol. 2,
// CPUID).
static const struct {
    const char *name;
    struct leaf leaf;
    enum reg reg;
    int bit;
    enum says says;
    uint64_t states;
} flags[] = {
    {"fpu", ONE, D, 0, EXACT, 0},
    {"vme", ONE, D, 1, LISTED, 0},
    {"de", ONE, D, 2, LISTED, 0},
    {"pse", ONE, D, 3, LISTED, 0},
    {"tsc", ONE, D, 4, EXACT, 0},
    {"msr", ONE, D, 5, LISTED, 0},
    {"pae", ONE, D, 6, LISTED, 0},
    {"mce", ONE, D, 7, LISTED, 0},
    {"cx8", ONE, D, 8, EXACT, 0},
    {"apic", ONE, D, 9, LISTED, 0},
    {"sep", ONE, D, 11, LISTED, 0},
    {"mtrr", ONE, D, 12, LISTED, 0},
    {"pge", ONE, D, 13, LISTED, 0},
    {"mca", ONE, D, 14, LISTED, 0},
    {"cmov", ONE, D, 15, EXACT, 0},
    {"pat", ONE, D, 16, LISTED, 0},
    {"pse36", ONE, D, 17, LISTED, 0},
    {"clflush", ONE, D, 19, EXACT, 0},
    {"mmx", ONE, D, 23, EXACT, 0},
    {"fxsr", ONE, D, 24, EXACT, 0},
    {"sse", ONE, D, 25, EXACT, 0},
    {"sse2", ONE, D, 26, EXACT, 0},
    {"ht", ONE, D, 28, LISTED, 0},
    {"pni", ONE, C, 0, EXACT, 0},
    {"pclmulqdq", ONE, C, 1, EXACT, 0},
    {"monitor", ONE, C, 3, LISTED, 0},
    {"ssse3", ONE, C, 9, EXACT, 0},
    {"fma", ONE, C, 12, EXACT, YMM},
    {"cx16", ONE, C, 13, EXACT, 0},
    {"pcid", ONE, C, 17, LISTED, 0},
    {"sse4_1", ONE, C, 19, EXACT, 0},
    {"sse4_2", ONE, C, 20, EXACT, 0},
    {"x2apic", ONE, C, 21, LISTED, 0},
    {"movbe", ONE, C, 22, EXACT, 0},
    {"popcnt", ONE, C, 23, EXACT, 0},
    {"tsc_deadline_timer", ONE, C, 24, LISTED, 0},
    {"aes", ONE, C, 25, EXACT, 0},
    {"xsave", ONE, C, 26, EXACT, 1},
    {"avx", ONE, C, 28, EXACT, YMM},
    {"f16c", ONE, C, 29, EXACT, YMM},
    {"rdrand", ONE, C, 30, EXACT, 0},
    {"hypervisor", ONE, C, 31, LISTED, 0},
    {"fsgsbase", SEVEN, B, 0, LISTED, 0},
    {"tsc_adjust", SEVEN, B, 1, LISTED, 0},
    {"bmi1", SEVEN, B, 3, EXACT, 0},
    {"avx2", SEVEN, B, 5, EXACT, YMM},
    {"smep", SEVEN, B, 7, LISTED, 0},
    {"bmi2", SEVEN, B, 8, EXACT, 0},
    {"erms", SEVEN, B, 9, LISTED, 0},
    {"invpcid", SEVEN, B, 10, LISTED, 0},
    {"avx512f", SEVEN, B, 16, EXACT, ZMM},
    {"avx512dq", SEVEN, B, 17, EXACT, ZMM},
    {"rdseed", SEVEN, B, 18, LISTED, 0}, // Linux has it off on Zen 5 (AMD-SB-7055)
    {"adx", SEVEN, B, 19, EXACT, 0},
    {"smap", SEVEN, B, 20, LISTED, 0},
    {"avx512ifma", SEVEN, B, 21, EXACT, ZMM},
    {"clflushopt", SEVEN, B, 23, EXACT, 0},
    {"clwb", SEVEN, B, 24, EXACT, 0},
    {"avx512cd", SEVEN, B, 28, EXACT, ZMM},
    {"sha_ni", SEVEN, B, 29, EXACT, 0},
    {"avx512bw", SEVEN, B, 30, EXACT, ZMM},
    {"avx512vl", SEVEN, B, 31, EXACT, ZMM},
    {"avx512vbmi", SEVEN, C, 1, EXACT, ZMM},
    {"umip", SEVEN, C, 2, LISTED, 0},
    {"pku", SEVEN, C, 4, LISTED, 0}, // OSPKE: what the kernel has turned on
    {"ospke", SEVEN, C, 4, EXACT, 0},
    {"waitpkg", SEVEN, C, 5, LISTED, 0},
    {"avx512_vbmi2", SEVEN, C, 6, EXACT, ZMM},
    {"gfni", SEVEN, C, 8, EXACT, 0},
    {"vaes", SEVEN, C, 9, EXACT, YMM},
    {"vpclmulqdq", SEVEN, C, 10, EXACT, YMM},
    {"avx512_vnni", SEVEN, C, 11, EXACT, ZMM},
    {"avx512_bitalg", SEVEN, C, 12, EXACT, ZMM},
    {"avx512_vpopcntdq", SEVEN, C, 14, EXACT, ZMM},
    {"la57", SEVEN, C, 16, LISTED, 0},
    {"rdpid", SEVEN, C, 22, EXACT, 0},
    {"movdiri", SEVEN, C, 27, LISTED, 0},
    {"movdir64b", SEVEN, C, 28, LISTED, 0},
    {"fsrm", SEVEN, D, 4, LISTED, 0},
    {"avx512_vp2intersect", SEVEN, D, 8, LISTED, ZMM},
    {"serialize", SEVEN, D, 14, LISTED, 0},
    {"amx_bf16", SEVEN, D, 22, LISTED, TILES},
    {"avx512_fp16", SEVEN, D, 23, LISTED, ZMM},
    {"amx_tile", SEVEN, D, 24, LISTED, TILES},
    {"amx_int8", SEVEN, D, 25, LISTED, TILES},
    {"avx_vnni", SEVEN_ONE, A, 4, LISTED, YMM},
    {"avx512_bf16", SEVEN_ONE, A, 5, LISTED, ZMM},
    {"syscall", EXTENDED, D, 11, EXACT, 0},
    {"nx", EXTENDED, D, 20, LISTED, 0},
    {"mmxext", EXTENDED, D, 22, EXACT, 0},
    {"fxsr_opt", EXTENDED, D, 25, LISTED, 0},
    {"pdpe1gb", EXTENDED, D, 26, LISTED, 0},
    {"rdtscp", EXTENDED, D, 27, EXACT, 0},
    {"lm", EXTENDED, D, 29, EXACT, 0},
    {"3dnowext", EXTENDED, D, 30, EXACT, 0},
    {"3dnow", EXTENDED, D, 31, EXACT, 0},
    {"lahf_lm", EXTENDED, C, 0, EXACT, 0},
    {"cmp_legacy", EXTENDED, C, 1, LISTED, 0},
    {"svm", EXTENDED, C, 2, LISTED, 0},
    {"cr8_legacy", EXTENDED, C, 4, LISTED, 0},
    {"abm", EXTENDED, C, 5, EXACT, 0},
    {"sse4a", EXTENDED, C, 6, EXACT, 0},
    {"misalignsse", EXTENDED, C, 7, LISTED, 0},
    {"3dnowprefetch", EXTENDED, C, 8, LISTED, 0},
    {"osvw", EXTENDED, C, 9, LISTED, 0},
    {"xop", EXTENDED, C, 11, EXACT, YMM},
    {"fma4", EXTENDED, C, 16, EXACT, YMM},
    {"tbm", EXTENDED, C, 21, EXACT, 0},
    {"topoext", EXTENDED, C, 22, LISTED, 0},
    {"xsaveopt", STATES, A, 0, EXACT, 1},
    {"xsavec", STATES, A, 1, LISTED, 1},
    {"xgetbv1", STATES, A, 2, EXACT, 1},
    {"xsaves", STATES, A, 3, LISTED, 1},
    {"clzero", SIZES, B, 0, EXACT, 0},
    {"xsaveerptr", SIZES, B, 2, EXACT, 1},
    {"wbnoinvd", SIZES, B, 9, LISTED, 0},
};

static bool cpuid_has(struct leaf leaf, enum reg reg, int bit)
{
    unsigned regs[4] = {0, 0, 0, 0};
    if (leaf.number == 7 && leaf.sub > 0) {
        __get_cpuid_count(7, 0, &regs[A], &regs[B], &regs[C], &regs[D]);
        if (regs[A] < leaf.sub)
            return false;
    }
    if (!__get_cpuid_count(leaf.number, leaf.sub, &regs[A], &regs[B], &regs[C], &regs[D]))
        return false;
    return regs[reg] >> bit & 1;
}

static uint64_t enabled_states(void)
{
    unsigned low, high;
    if (!cpuid_has((struct leaf)ONE, C, OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool lists(const char *line, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = line; (at = strstr(at, name)) != NULL; at += len)
        if (at[-1] == ' ' && (at[len] == ' ' || at[len] == '\n'))
            return true;
    return false;
}

int main(void)
{
    char *line = NULL, *other = NULL;
    size_t room = 0, other_room = 0;
    int unequal = 0, seen = 0;
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    need(cpuinfo != NULL, "open /proc/cpuinfo");
    while (getline(&other, &other_room, cpuinfo) > 0) {
        if (strncmp(other, "flags\t", 6) != 0)
            continue;
        if (seen++ == 0) {
            char *swapped = line;
            size_t swapped_room = room;
            line = other, room = other_room, other = swapped, other_room = swapped_room;
        } else {
            unequal += strcmp(line, other) != 0;
        }
    }
    need(seen > 0, "no flags in /proc/cpuinfo");
    check(seen == sysconf(_SC_NPROCESSORS_ONLN), "each processor has its flags");
    check(unequal == 0, "all the same");

    uint64_t states = enabled_states();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        bool has = cpuid_has(flags[i].leaf, flags[i].reg, flags[i].bit) && (states & flags[i].states) == flags[i].states;
        bool listed = lists(line, flags[i].name);
        check(!listed || has, "%s is listed only if the processor has it", flags[i].name);
        if (flags[i].says == EXACT)
            check(listed || !has, "%s is listed if it has it", flags[i].name);
    }
    return check_done();
}
