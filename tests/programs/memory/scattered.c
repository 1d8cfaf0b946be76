// Two reservations that are made accessible in turns, a page at a time, as the arenas of two threads of glibc's malloc grow.
// The frames of each took every other one, the proxy needed a mapping for each page, and Linux allows 65,530: the job died.
#include "../common/check.h"
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 35000 };

int main(void)
{
    char *at[2];
    for (int i = 0; i < 2; i++) {
        at[i] = mmap(NULL, (size_t)PAGES * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        need(at[i] != MAP_FAILED, "mmap");
    }
    int given = 0;
    for (size_t page = 0; page < PAGES; page++)
        for (int i = 0; i < 2; i++)
            given += mprotect(at[i] + page * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0;
    check(given == 2 * PAGES, "every page can be made accessible");

    // A call that Linux carries out sees both.
    int ends[2];
    need(pipe(ends) == 0, "pipe");
    char *last = at[1] + (size_t)(PAGES - 1) * PAGE_BYTES;
    strcpy(at[0], "sent");
    check(write(ends[1], at[0], 5) == 5 && read(ends[0], last, 5) == 5 && !strcmp(last, "sent"), "and has data in a call");
    return check_done();
}
