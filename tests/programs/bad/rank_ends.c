// One of two ranks ends while the other goes on: the first to start (which
// it finds out by creating a file) ends as its argument says, the other waits.
// Arguments: "exit" CODE | "crash" | "kill" SIGNAL, then the seconds of waiting.
#include "../common/check.h"
#include <fcntl.h>
#include <time.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int first = open("first", O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
    if (!first) {
        if (open("second", O_CREAT | O_WRONLY, 0600) < 0)
            return 2;
        nanosleep(&(struct timespec){atoi(argv[3]), 0}, NULL);
        printf("waited to the end\n");
        return 0;
    }
    while (access("second", F_OK) != 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    printf("the first ends: %s %s\n", argv[1], argv[2]);
    fflush(stdout);
    if (strcmp(argv[1], "exit") == 0)
        return atoi(argv[2]);
    if (strcmp(argv[1], "kill") == 0)
        kill(getpid(), atoi(argv[2]));
    *(volatile int *volatile)8 = 1;
    return 1;
}
