// Touches as many MiB as its argument says, prints a line, and waits for ever.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 1;
    volatile char *all = malloc(bytes);
    if (all == NULL)
        return 1;
    for (size_t at = 0; at < bytes; at += 4096)
        all[at] = 1;
    puts("touched");
    fflush(stdout);
    for (;;)
        pause();
}
