// Memory for the programs of windows/, also for those that run natively.
#ifndef MARGAY_WINDOWS_PAGES_H
#define MARGAY_WINDOWS_PAGES_H

#include "../common/parallel.h"

CHECK_HELPER char *pages(size_t count, int prot)
{
    char *at = mmap(NULL, count * PAGE_BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(at != MAP_FAILED, "mmap");
    return at;
}

#endif
