// A program that is linked with two libraries: order of constructors and
// destructors, data, thread-local data, indirect functions, who is found first.
#include "../common/check.h"
#include "library.h"

LIFE("program")

static void at_exit(void) { say("at exit ", "program"); }

int main(void)
{
    atexit(at_exit);
    check(outer_sum() == 40 + 7 + 42 + 1234, "functions across two libraries");
    inner_count = 50;
    check(inner_answer() == 57 && inner_table[1] == inner_answer, "a variable and a table that both see");
    check(*outer_thread() == 7 && outer_thread() == &inner_thread, "a thread-local variable that both see");
    inner_thread = 8;
    check(inner_answer() == 58, "written here, read there");
    check(all_bytes(inner_zeros, 0, sizeof inner_zeros), "zero thread-local bytes");
    check(!can_write((void *)(uintptr_t)inner_table), "a table of pointers is read-only after relocation");
    check(fault_of(touch_write, (void *)(uintptr_t)inner_answer).signo == SIGSEGV, "so is code");
    printf("found: %s\n", inner_who());
    fflush(stdout);
    return check_done();
}
