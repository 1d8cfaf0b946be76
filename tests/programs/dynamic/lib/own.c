// A library with thread-local variables, opened when threads run already.
#include <string.h>

static __thread int counter = 100;
static __thread char block[3000];

// Counts for the calling thread: 101 the first time. 0 when its memory was not zero at first.
int count_own(int mark)
{
    for (unsigned i = 0; i < sizeof block; i++)
        if (block[i] != (counter == 100 ? 0 : (char)mark))
            return 0;
    memset(block, mark, sizeof block);
    return ++counter;
}
