// What ld.so and the program are told: auxiliary vector, link map, vDSO, and
// /proc/self with the names of what is mapped.
#include "../common/check.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

extern char _start[];

// The name that /proc/self/maps has for an address.
static const char *mapped_name(const void *addr)
{
    static char line[4500];
    FILE *maps = fopen("/proc/self/maps", "r");
    need(maps != NULL, "maps");
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        need(sscanf(line, "%lx-%lx", &start, &end) == 2, "a line of maps");
        if ((uintptr_t)addr < start || (uintptr_t)addr >= end)
            continue;
        fclose(maps);
        line[strcspn(line, "\n")] = 0;
        const char *slash = strchr(line, '/');
        return slash ? slash : "";
    }
    fclose(maps);
    return "not mapped";
}

// The program comes first.
static int headers_of_program(struct dl_phdr_info *info, size_t size, void *same)
{
    (void)size;
    *(int *)same = info->dlpi_phdr == (void *)getauxval(AT_PHDR) && info->dlpi_phnum == getauxval(AT_PHNUM);
    return 1;
}

int main(void)
{
    const char *base = (const char *)getauxval(AT_BASE);
    check(base && memcmp(base, ELFMAG, SELFMAG) == 0, "AT_BASE: an ELF image");
    check(strstr(mapped_name(base), "/ld-") || strstr(mapped_name(base), "/libc.so"), "the loader's, by its name");
    check(getauxval(AT_ENTRY) == (uintptr_t)_start, "AT_ENTRY is the program's");
    int same = 0;
    dl_iterate_phdr(headers_of_program, &same);
    check(same, "AT_PHDR and AT_PHNUM are those of the link map");
    check(strstr(mapped_name((void *)(uintptr_t)main), "/vectors") != NULL, "main is in the program's file");
    const char *library = mapped_name(dlsym(RTLD_NEXT, "puts")); // its own address may be the program's
    check(strstr(library, "/libc.so") || strstr(library, "/ld-"), "puts in the C library's");
    int local = 0;
    check(mapped_name(&local)[0] == 0, "the stack in none");
    char exe[4096];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = 0;
    check(strcmp(exe, mapped_name((void *)(uintptr_t)main)) == 0, "/proc/self/exe is the same file");
    check(getauxval(AT_SYSINFO_EHDR) != 0, "there is a vDSO");
    struct timespec now;
    check(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && (now.tv_sec || now.tv_nsec), "the clock goes");
    return check_done();
}
