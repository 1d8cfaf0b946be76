// 10,000 maps: of one kind, which become one; and of two kinds in turn, which
// cannot. A kernel that has no room for so many says ENOMEM, and all of them,
// many or few, hold what was written and can be given back.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, MAPS = 10000, FEWEST = 8000 };

static char *at[MAPS];

// Maps of one page until there is no more room: how many.
static int make(int in_turn)
{
    int count = 0;
    while (count < MAPS) {
        at[count] = mmap(NULL, PAGE_BYTES, RW, ANON, -1, 0);
        if (at[count] == MAP_FAILED)
            break;
        memset(at[count], count, PAGE_BYTES);
        if (in_turn && count % 2 && mprotect(at[count], PAGE_BYTES, PROT_READ) != 0)
            break;
        count++;
    }
    return count;
}

static int right(int count)
{
    int right = 0;
    for (int i = 0; i < count; i++)
        right += all_bytes(at[i], i, PAGE_BYTES);
    return right == count;
}

int main(void)
{
    int count = make(0);
    check(count == MAPS && right(count), "10,000 maps of one page");
    for (int i = 0; i < count; i++)
        need(munmap(at[i], PAGE_BYTES) == 0, "munmap");
    errno = 0;
    count = make(1);
    check(count == MAPS || (count >= FEWEST && errno == ENOMEM), "that cannot merge: so many, or ENOMEM after 8,000");
    check(right(count), "all hold what was written");
    int gone = 0;
    // From both ends, so that holes are made and closed.
    for (int i = 0; i < count; i++) {
        char *page = at[i % 2 ? count - 1 - i / 2 : i / 2];
        gone += munmap(page, PAGE_BYTES) == 0;
    }
    check(gone == count, "all can be given back");
    check(make(0) == MAPS, "and 10,000 maps be had again");
    return check_done();
}
