// Files whose text a rank maps out of the node's pool, which with --shared-memory 8M has room for one of them.
#ifndef MARGAY_TEXT_H
#define MARGAY_TEXT_H

#include "settle.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

// Of the pool half is for text: of the program 0.7 MiB, and one of the files.
enum { TEXT_BYTES = 5 << 19 };

// A file of the first letter of its name.
static inline void make_text(const char *name)
{
    static char bytes[TEXT_BYTES];
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    memset(bytes, name[0], sizeof bytes);
    need(fd >= 0 && write_all(fd, bytes, sizeof bytes), name);
    close(fd);
}

static inline size_t free_bytes(void)
{
    struct sysinfo info;
    need(sysinfo(&info) == 0, "sysinfo");
    return info.freeram * info.mem_unit;
}

// Maps it; `own`: how much memory of the rank's own that takes.
static inline char *map_text(const char *name, size_t *own)
{
    size_t before = free_bytes();
    int fd = open(name, O_RDONLY);
    char *p = mmap(NULL, TEXT_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    need(p != MAP_FAILED && all_bytes(p, name[0], TEXT_BYTES), name);
    close(fd);
    *own = before - free_bytes();
    return p;
}

#endif
