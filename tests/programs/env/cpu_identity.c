// What /proc/cpuinfo calls the processors beside what CPUID does: one that asks either, or both as hwloc does, meets the same
// (AMD APM vol. 3, appendix E; Intel SDM vol. 2, CPUID).
#include "../common/check.h"
#include <cpuid.h>

static void check_line(const char *cpuinfo, const char *key, const char *value)
{
    char line[128];
    snprintf(line, sizeof line, "\n%s: %s\n", key, value);
    check(strstr(cpuinfo, line) != NULL, "%s as CPUID has it", key);
}

static void check_number(const char *cpuinfo, const char *key, unsigned value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    check_line(cpuinfo, key, text);
}

int main(void)
{
    static char cpuinfo[1 << 16];
    FILE *file = fopen("/proc/cpuinfo", "r");
    need(file != NULL, "open /proc/cpuinfo");
    need(fread(cpuinfo, 1, sizeof cpuinfo - 1, file) > 0, "read it");

    unsigned a, b, c, d;
    char vendor[13] = "", name[49] = "";
    __cpuid(0, a, b, c, d);
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    for (unsigned i = 0; i < 3; i++) {
        __cpuid(0x80000002 + i, a, b, c, d);
        memcpy(name + 16 * i, (unsigned[]){a, b, c, d}, 16);
    }
    // Linux takes the blanks around the name away (arch/x86/kernel/cpu/common.c, get_model_name).
    char *first = name + strspn(name, " "), *last = first + strlen(first);
    while (last > first && last[-1] == ' ')
        *--last = 0;
    __cpuid(1, a, b, c, d);
    unsigned family = a >> 8 & 0xf, model = a >> 4 & 0xf;
    if (family == 0xf)
        family += a >> 20 & 0xff;
    if (family >= 6)
        model |= (a >> 16 & 0xf) << 4;

    check_line(cpuinfo, "vendor_id\t", vendor);
    check_number(cpuinfo, "cpu family\t", family);
    check_number(cpuinfo, "model\t\t", model);
    check_line(cpuinfo, "model name\t", first);
    check_number(cpuinfo, "stepping\t", a & 0xf);
    return check_done();
}
