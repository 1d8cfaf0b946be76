// Makes as many files as its argument says.
#include "../common/check.h"
#include <fcntl.h>

int main(int argc, char **argv)
{
    char name[32];

    for (int i = 0; i < atoi(argv[argc - 1]); i++) {
        snprintf(name, sizeof name, "%d", i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
        need(fd >= 0 && close(fd) == 0, name);
    }
    return check_done();
}
