// Big arrays on the stack: the argument's size in one frame, touched from the
// far end and in each page, and a recursion of as much in small frames.
#include "../common/check.h"
#include <sys/resource.h>

__attribute__((noinline)) static int big_frame(size_t len_bytes)
{
    volatile char array[len_bytes];
    int right = 0;
    // From the lowest address up: the stack is there without being grown into.
    for (size_t at = 0; at < len_bytes; at += PAGE_BYTES)
        array[at] = (char)(at / PAGE_BYTES % 251);
    for (size_t at = 0; at < len_bytes; at += PAGE_BYTES)
        right += array[at] == (char)(at / PAGE_BYTES % 251);
    return right;
}

__attribute__((noinline)) static uint64_t recurse(size_t depth)
{
    volatile uint64_t frame[126];
    frame[0] = frame[125] = depth;
    if (depth == 0)
        return 0;
    uint64_t below = recurse(depth - 1);
    return frame[0] == depth && frame[125] == depth ? below + depth : 0;
}

int main(int argc, char **argv)
{
    size_t size = size_arg(argc, argv, 1, 4 << 20);
    struct rlimit r;
    need(getrlimit(RLIMIT_STACK, &r) == 0, "getrlimit");
    check(r.rlim_cur > size, "the stack's limit allows it");
    check(big_frame(size) == (int)(size / PAGE_BYTES), "%zu MB in one frame", size >> 20);
    uint64_t depth = size / 1152;
    check(recurse(depth) == depth * (depth + 1) / 2, "%llu frames of a kilobyte", (unsigned long long)depth);
    check(big_frame(size) == (int)(size / PAGE_BYTES), "and in one frame again");
    return check_done();
}
