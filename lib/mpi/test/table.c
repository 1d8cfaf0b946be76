/*
 * table: which row a communicator takes, by its number of ranks, of the built-in
 * table and of a file's.  For one of fewer than two, which is never served
 * (MPI_COMM_SELF under MPICH), the search went on before the table: compiled so
 * that this ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "team.h"

static int wrong;

void smartmap_say(const char *format, ...)
{
    wrong++;
    puts(format);
}

static void expect(int ranks, int inline_bytes)
{
    int got = smartmap_tunables(ranks).inline_bytes;
    if (got != inline_bytes) {
        printf("%d ranks: %d instead of %d\n", ranks, got, inline_bytes);
        wrong++;
    }
}

/** From so many bytes on so many ranks divide reductions, by the table that is built in. */
static void expect_built_in(int ranks, int parallel_bytes)
{
    int got = smartmap_tunables(ranks).parallel_bytes;
    if (got != parallel_bytes) {
        printf("%d ranks divide from %d bytes on instead of %d\n", ranks, got, parallel_bytes);
        wrong++;
    }
    expect(ranks, 512);
}

static void read_rows(const char *rows)
{
    char name[] = "/tmp/table.XXXXXX";
    int fd = mkstemp(name);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || fputs(rows, file) < 0 || fclose(file) != 0) {
        perror(name);
        exit(1);
    }
    smartmap_read_table(name);
    unlink(name);
}

int main(void)
{
    for (int ranks = 0; ranks <= SMARTMAP_MAX_RANKS; ranks++)
        expect_built_in(ranks, ranks < 3 ? 8192 : ranks < 8 ? 16384 : ranks < 16 ? 8192 : 4096);
    read_rows("2 10 10 10 10\n5 50 50 50 50\n");
    for (int ranks = 0; ranks <= SMARTMAP_MAX_RANKS; ranks++)
        expect(ranks, ranks < 5 ? 10 : 50);
    read_rows("2 7 7 7 7\n");
    expect(0, 7);
    expect(1, 7);
    expect(254, 7);
    printf("table: %d wrong\n", wrong);
    return wrong != 0;
}
