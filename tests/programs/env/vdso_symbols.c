// Reads the vDSO as a dynamic linker does: finds the four functions by name and
// version in its dynamic section, calls them, and finds its code not writable.
#include "../common/check.h"
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

static const char *base;
static const Elf64_Sym *symbols;
static const char *strings;
static uint32_t symbol_count;

static void parse(void)
{
    base = (const char *)getauxval(AT_SYSINFO_EHDR);
    need(base != NULL, "AT_SYSINFO_EHDR");
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *p = (const Elf64_Phdr *)(base + header->e_phoff);
    const Elf64_Dyn *dynamic = NULL;
    for (int i = 0; i < header->e_phnum; i++)
        if (p[i].p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(base + p[i].p_vaddr);
    check(dynamic != NULL, "it has a dynamic section");
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const char *at = base + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SYMTAB)
            symbols = (const Elf64_Sym *)at;
        else if (dynamic->d_tag == DT_STRTAB)
            strings = at;
    }
    // The number of symbols from the section headers' kin in the hash tables
    // differs by linker; the string table follows the symbols in all of them.
    need(symbols && strings && (const char *)symbols < strings, "symbols");
    symbol_count = (uint32_t)((strings - (const char *)symbols) / (long)sizeof *symbols);
    check(symbol_count > 4, "and symbols");
}

static void *find(const char *name)
{
    for (uint32_t i = 0; i < symbol_count; i++)
        if (symbols[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
            strcmp(strings + symbols[i].st_name, name) == 0)
            return (void *)(uintptr_t)(base + symbols[i].st_value);
    return NULL;
}

int main(void)
{
    struct timespec t = {0, -1};
    struct timeval tv = {0, -1};
    unsigned cpu = ~0u, node = ~0u;
    parse();
    int (*clock_gettime_)(clockid_t, struct timespec *) = find("__vdso_clock_gettime");
    int (*gettimeofday_)(struct timeval *, void *) = find("__vdso_gettimeofday");
    time_t (*time_)(time_t *) = find("__vdso_time");
    long (*getcpu_)(unsigned *, unsigned *, void *) = find("__vdso_getcpu");
    int (*clock_getres_)(clockid_t, struct timespec *) = find("__vdso_clock_getres");

    check(clock_gettime_ && clock_gettime_(CLOCK_MONOTONIC, &t) == 0 && t.tv_nsec >= 0, "__vdso_clock_gettime");
    check(gettimeofday_ && gettimeofday_(&tv, NULL) == 0 && tv.tv_usec >= 0, "__vdso_gettimeofday");
    check(time_ && time_(NULL) >= tv.tv_sec - 1, "__vdso_time");
    check(getcpu_ && getcpu_(&cpu, &node, NULL) == 0 && cpu < 4096 && node < 1024, "__vdso_getcpu");
    check(clock_getres_ && clock_getres_(CLOCK_MONOTONIC, &t) == 0 && t.tv_nsec == 1, "__vdso_clock_getres");
    check(clock_gettime_ && clock_gettime_(99, &t) == -EINVAL, "an unknown clock gives -EINVAL");
    check(!can_write(base), "the image cannot be written");
    return check_done();
}
