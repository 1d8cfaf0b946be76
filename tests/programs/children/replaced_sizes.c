// A program that becomes another: VmPeak and VmHWM begin anew, what getrusage says of the process stays.
#include "../common/proc.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { BYTES = 32 << 20 };

static long most_resident_bytes(void)
{
    struct rusage usage;
    need(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return usage.ru_maxrss << 10;
}

static void looks(const char *who)
{
    check(status_bytes("VmPeak:") < BYTES && status_bytes("VmHWM:") < BYTES, "%s: no peaks of another", who);
}

int main(int argc, char **argv)
{
    int round = argc > 1 ? atoi(argv[1]) : 0;
    if (round > 0) {
        looks(round == 1 ? "the second" : "the third");
        check(most_resident_bytes() >= BYTES, "what the process had");
    }
    if (round == 2)
        return check_done();
    if (round == 0) {
        looks("the first");
        char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        need(at != MAP_FAILED, "mmap");
        memset(at, 1, BYTES);
        check(status_bytes("VmPeak:") >= BYTES && status_bytes("VmHWM:") >= BYTES, "its own");
        check(most_resident_bytes() >= BYTES, "and getrusage's");
    }
    execv("/proc/self/exe", (char *[]){argv[0], round == 0 ? "1" : "2", NULL});
    need(0, "execv");
}
