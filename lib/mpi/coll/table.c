/*
 * The table of tunables: up to which size data travels in the slots, and from
 * which on reductions are divided, by the number of ranks.  `make tune` measures
 * one for a machine.  This one was measured with 2 ranks on two cores of an AMD
 * EPYC, and with 4, 8 and 16 on as many of an Intel Xeon's (bench/MEASURED.md,
 * "Sixteen cores"); other numbers of ranks were not measured.
 *
 * A file has a row per line, `#` begins a comment:
 *
 *     RANKS INLINE_BYTES ONE_WAY_BYTES PARALLEL_BYTES PUT_BYTES
 *
 * A communicator takes the last row for no more ranks than it has.
 */
#include "team.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>


enum { MAX_ROWS = 32 };

struct row {
    int ranks; /* from so many on; ascending, the first is 2 */
    struct tunables use;
};

static struct row rows[MAX_ROWS] = {
    { 2, { 512, 2048, 8192, 65536 } },
    { 3, { 512, 2048, 16384, INT32_MAX } }, /* 4 ranks' */
    { 8, { 512, 2048, 8192, INT32_MAX } },
    { 16, { 512, 2048, 4096, INT32_MAX } },
};
static size_t row_count = 4;

struct tunables smartmap_given = { -1, -1, -1, -1 };

/** One line of a file; false: it is no row. */
static bool parse(const char *line, struct row *row)
{
    struct tunables *t = &row->use;
    int used = 0;
    return sscanf(line, "%d %d %d %d %d %n", &row->ranks, &t->inline_bytes,
                  &t->one_way_bytes, &t->parallel_bytes, &t->put_bytes, &used) == 5 &&
           strchr("#", line[used]) && t->inline_bytes >= 0 &&
           t->inline_bytes <= MAX_SLOT_BYTES && t->one_way_bytes >= 0 &&
           t->one_way_bytes <= MAX_SLOT_BYTES && t->parallel_bytes >= 0 &&
           t->put_bytes >= 0;
}

/** All rows of a file; `line`: where it went wrong. */
static size_t read_rows(FILE *file, struct row *to, int *line)
{
    char text[256];
    size_t count = 0;
    for (*line = 1; fgets(text, sizeof text, file); ++*line) {
        if (text[strspn(text, " \t\n")] == '\0' || text[0] == '#')
            continue;
        if (count == MAX_ROWS || !parse(text, &to[count]) ||
            (count == 0 ? to[0].ranks != 2 : to[count].ranks <= to[count - 1].ranks))
            return 0;
        count++;
    }
    return count;
}

/** Take the rows of a file; if they are bad, one line reports it and ours stay. */
void smartmap_read_table(const char *path)
{
    struct row found[MAX_ROWS];
    int line = 0;
    FILE *file = fopen(path, "r");
    size_t count = file ? read_rows(file, found, &line) : 0;
    if (count > 0) {
        memcpy(rows, found, count * sizeof *rows);
        row_count = count;
    } else if (smartmap_rank() == 0 && !file) {
        smartmap_say("table %s: %s; using the built-in one", path,
                    strerror(errno));
    } else if (smartmap_rank() == 0) {
        smartmap_say("table %s, line %d: expected RANKS (2 first, ascending) "
                       "INLINE_BYTES ONE_WAY_BYTES (to 1 MiB) PARALLEL_BYTES PUT_BYTES; using the built-in one",
                    path, line);
    }
    if (file)
        fclose(file);
}

/** What `ranks` ranks take: the table's, unless a variable was set.  Fewer than 2 take the first row. */
struct tunables smartmap_tunables(int ranks)
{
    const struct tunables *given = &smartmap_given;
    size_t i = row_count - 1;
    while (i > 0 && rows[i].ranks > ranks)
        i--;
    struct tunables use = rows[i].use;
    if (given->inline_bytes >= 0 && given->inline_bytes <= MAX_SLOT_BYTES)
        use.inline_bytes = given->inline_bytes;
    if (given->one_way_bytes >= 0 && given->one_way_bytes <= MAX_SLOT_BYTES)
        use.one_way_bytes = given->one_way_bytes;
    if (given->parallel_bytes >= 0)
        use.parallel_bytes = given->parallel_bytes;
    if (given->put_bytes >= 0)
        use.put_bytes = given->put_bytes;
    return use;
}
