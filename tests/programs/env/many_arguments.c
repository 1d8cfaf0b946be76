// Checks a long command line of numbered words "0 1 2 ... n-1": their count,
// order and place in memory. Argument 1 says how many follow.
#include "../common/check.h"

int main(int argc, char **argv)
{
    int expected = argc > 1 ? atoi(argv[1]) : 0, right = 0, adjacent = 0;
    check(argc == expected + 2, "%d arguments follow", expected);
    for (int i = 2; i < argc; i++) {
        right += atoi(argv[i]) == i - 2;
        adjacent += argv[i] == argv[i - 1] + strlen(argv[i - 1]) + 1;
    }
    check(right == expected, "each is its number");
    check(adjacent == expected, "they lie one behind the other");
    check((uintptr_t)argv % 8 == 0 && ((uintptr_t)argv - 8) % 16 == 0, "the stack was aligned to 16 at entry");
    return check_done();
}
