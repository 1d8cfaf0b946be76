// The auxiliary vector: page size, random bytes, program headers, entry point,
// identities, capabilities as cpuid shows them, the name, the vDSO's ELF header;
// and /proc/self/auxv, which is this vector with its end.
#include "../common/check.h"
#include <cpuid.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>

extern char _start[];
extern char **environ;

// The vector itself: behind the environment. The C library's getauxval answers
// AT_HWCAP with a number of its own.
static const Elf64_auxv_t *vector(void)
{
    char **e = environ;
    while (*e)
        e++;
    return (const Elf64_auxv_t *)(e + 1);
}

static unsigned long raw(unsigned long type)
{
    for (const Elf64_auxv_t *v = vector(); v->a_type != AT_NULL; v++)
        if (v->a_type == type)
            return v->a_un.a_val;
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    check(getauxval(AT_PAGESZ) == 4096 && sysconf(_SC_PAGESIZE) == 4096, "AT_PAGESZ is 4096");
    check(getauxval(AT_CLKTCK) == 100, "AT_CLKTCK is 100");
    check(getauxval(AT_UID) == getuid() && getauxval(AT_EUID) == geteuid(), "AT_UID and AT_EUID");
    check(getauxval(AT_GID) == getgid() && getauxval(AT_EGID) == getegid(), "AT_GID and AT_EGID");
    check(getauxval(AT_SECURE) == 0, "AT_SECURE is 0");
    check(getauxval(AT_BASE) == 0, "AT_BASE is 0: no interpreter");
    check(getauxval(AT_FLAGS) == 0, "AT_FLAGS is 0");
    check(getauxval(AT_ENTRY) == (uintptr_t)_start, "AT_ENTRY is _start");
    check(getauxval(AT_MINSIGSTKSZ) >= 1024 && getauxval(AT_MINSIGSTKSZ) < 65536, "AT_MINSIGSTKSZ");

    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    check(random != NULL && !all_bytes(random, random[0], 16), "AT_RANDOM: 16 bytes that differ");
    const char *platform = (const char *)getauxval(AT_PLATFORM);
    check(platform != NULL && strcmp(platform, "x86_64") == 0, "AT_PLATFORM is x86_64");
    const char *name = (const char *)getauxval(AT_EXECFN), *slash = name ? strrchr(name, '/') : NULL;
    const char *own = strrchr(argv[0], '/');
    check(name && strcmp(slash ? slash + 1 : name, own ? own + 1 : argv[0]) == 0, "AT_EXECFN names the program");

    // Linux may clear single bits, but never those that x86-64 is made of.
    // Bits of cpuid(1).edx: TSC, CMOV, MMX, FXSR, SSE, SSE2.
    const unsigned long always = 1 << 4 | 1 << 15 | 1 << 23 | 1 << 24 | 1 << 25 | 1 << 26;
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    check((raw(AT_HWCAP) & always) == always, "AT_HWCAP tells TSC, CMOV, MMX, FXSR, SSE and SSE2");
    check((raw(AT_HWCAP) & ~(unsigned long)d) == 0, "and nothing that cpuid does not");

    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    check(getauxval(AT_PHENT) == sizeof *headers && getauxval(AT_PHNUM) > 2, "AT_PHENT and AT_PHNUM");
    int loads = 0, entry_inside = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) {
        // A static-pie's addresses count from where it was loaded; the header
        // table lies 64 bytes behind that, after the ELF header.
        uintptr_t base = headers[i].p_vaddr >= 0x400000 ? 0 : (uintptr_t)headers - 64;
        uintptr_t start = base + headers[i].p_vaddr, entry = getauxval(AT_ENTRY);
        loads += headers[i].p_type == PT_LOAD;
        entry_inside += headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_X) && entry >= start &&
                        entry < start + headers[i].p_memsz;
    }
    check(loads >= 2 && entry_inside == 1, "AT_PHDR: the entry lies in the one executable segment");

    const Elf64_Ehdr *vdso = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    check(vdso != NULL && memcmp(vdso->e_ident, ELFMAG, SELFMAG) == 0, "AT_SYSINFO_EHDR: an ELF image");
    check(vdso != NULL && vdso->e_type == ET_DYN && vdso->e_machine == EM_X86_64, "a shared object for x86-64");

    int entries = 0;
    while (vector()[entries].a_type != AT_NULL && entries < 100)
        entries++;
    check(entries >= 15 && entries < 100, "the vector follows the environment and ends");
    static Elf64_auxv_t file[101];
    int fd = open("/proc/self/auxv", O_RDONLY);
    need(fd >= 0, "/proc/self/auxv");
    size_t len = read_full(fd, file, sizeof file);
    check(len == (entries + 1) * sizeof *file, "/proc/self/auxv is as long, with its end");
    check(memcmp(file, vector(), (entries + 1) * sizeof *file) == 0, "and says the same");
    int same = 0;
    for (int i = 0; i < entries; i++)
        same += file[i].a_type == AT_HWCAP || getauxval(file[i].a_type) == file[i].a_un.a_val;
    check(same == entries, "as getauxval does");
    return check_done();
}
