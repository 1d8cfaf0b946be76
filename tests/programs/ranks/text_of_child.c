// A child maps the text that its parent had: for as long as it does, the frames hold nothing else, whatever the
// parent maps meanwhile. Runs on a node only, with --shared-memory 8M.
#include "../common/text.h"
#include <sys/wait.h>

enum { ROUNDS = 6 };

static const char *const names[] = {"child's", "first", "second"};

int main(void)
{
    int go_on[2], status;
    char byte = 0;

    for (int i = 0; i < 3; i++)
        make_text(names[i]);
    settle(names[2]);
    size_t own;
    char *text = map_text(names[0], &own);
    need(pipe(go_on) == 0, "pipe");
    pid_t child = forked();
    if (child == 0) {
        need(read(go_on[0], &byte, 1) == 1, "read");
        _exit(!all_bytes(text, names[0][0], TEXT_BYTES));
    }
    munmap(text, TEXT_BYTES);
    int in_pool = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *p = map_text(names[1 + round % 2], &own);
        in_pool += own < TEXT_BYTES / 2;
        munmap(p, TEXT_BYTES);
    }
    check(in_pool >= ROUNDS / 2, "of %d files %d were in the pool", ROUNDS, in_pool);
    need(write(go_on[1], &byte, 1) == 1, "write");
    need(waitpid(child, &status, 0) == child, "waitpid");
    check(status == 0, "the child finds something else in its text: %#x", status);
    return check_done();
}
