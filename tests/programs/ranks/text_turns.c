// Programs in turn, each with a text of its own, in a node whose pool has room
// for one of them: a rank that becomes another program lets go of the text of
// the last. Runs on a node only, with --shared-memory 8M.
//
//   text_turns [ROUND]
#include "../common/text.h"

enum { ROUNDS = 20 };

static const char *const names[] = {"first", "second"};

int main(int argc, char **argv)
{
    int round = argc > 1 ? atoi(argv[1]) : 0;
    char next[16];
    if (round == 0)
        for (int i = 0; i < 2; i++)
            make_text(names[i]);
    settle(names[1]);
    size_t own;
    map_text(names[round % 2], &own);
    if (own >= TEXT_BYTES / 2) {
        check(0, "round %d: the file takes %zu bytes of the rank's own", round, own);
        return check_done();
    }
    snprintf(next, sizeof next, "%d", round + 1);
    if (round < ROUNDS)
        execv("/proc/self/exe", (char *[]){argv[0], next, NULL});
    map_text(names[!(round % 2)], &own);
    check(own >= TEXT_BYTES, "with one mapped there is no room for the other, which is the rank's own");
    return check_done();
}
