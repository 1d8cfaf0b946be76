/*
 * route: pml/route.h against a table, for every combination of what decides and sizes at each bound; what lines may
 * not name.  One process, no MPI.
 */
#include <stdio.h>
#include <string.h>

#include "route.h"

enum { NO = 1, YES = 2, FACTS = 14, MEDIUM = 16384, ANY_BYTES = 1 << 30 };

static int wrong;

static void expect(bool right, const char *what, unsigned way, size_t bytes, unsigned facts)
{
    if (!right)
        fprintf(stderr, "routes: %s: route %u, %zu bytes, facts %#x\n", what, way, bytes, facts);
    wrong += !right;
}

/** The first row that fits holds.  Of each fact NO, YES, or 0: either. */
static const struct row {
    bool is_long;
    size_t least, most;
    union {
        struct {
            int contiguous, answered, adjoins, blocking, to_self, crowded, in_stream, head_fits, far, timed, measured, in_window,
                unchanged, may_keep;
        };
        int fact[FACTS];
    };
    enum route way;
} rows[] = {
    { .most = 240, .answered = NO, .adjoins = YES, .way = ROUTE_LINES },
    { .most = 4095, .way = ROUTE_RING },
    { .most = ANY_BYTES, .contiguous = NO, .way = ROUTE_RING },
    { .most = ANY_BYTES, .crowded = YES, .way = ROUTE_RING },
    { .most = ANY_BYTES, .to_self = NO, .in_stream = NO, .in_window = YES, .unchanged = YES, .measured = NO,
      .way = ROUTE_OFFERED },
    { .most = 8192, .way = ROUTE_RING },
    { .most = ANY_BYTES, .timed = YES, .way = ROUTE_RING },
    { .most = ANY_BYTES, .way = ROUTE_FOLLOWS },
    { true, .most = ANY_BYTES, .contiguous = NO, .way = ROUTE_PIECES },
    { true, .most = ANY_BYTES, .to_self = YES, .way = ROUTE_SELF },
    { true, .most = ANY_BYTES, .in_window = NO, .blocking = YES, .crowded = NO, .way = ROUTE_PIECES },
    { true, .most = ANY_BYTES, .in_window = NO, .way = ROUTE_LINUX },
    { true, .most = ANY_BYTES, .crowded = YES, .way = ROUTE_WINDOW },
    { true, .most = ANY_BYTES, .unchanged = YES, .way = ROUTE_WINDOW },
    { true, .most = ANY_BYTES, .blocking = YES, .head_fits = YES, .may_keep = NO, .way = ROUTE_BOTH },
    { true, .most = ANY_BYTES, .blocking = YES, .head_fits = YES, .far = YES, .way = ROUTE_BOTH_KEEP },
    { true, .most = ANY_BYTES, .blocking = YES, .head_fits = YES, .measured = YES, .way = ROUTE_BOTH_KEEP },
    { true, .most = ANY_BYTES, .may_keep = YES, .way = ROUTE_WINDOW_KEEP },
    { true, .most = ANY_BYTES, .way = ROUTE_WINDOW },
};
enum { ROWS = sizeof rows / sizeof *rows };
static int used[ROWS];

/** Bit i of `facts` is fact i, in the order of struct row. */
static struct message message_of(size_t bytes, unsigned facts, size_t medium_bytes)
{
    bool is[FACTS];
    for (int i = 0; i < FACTS; i++)
        is[i] = facts >> i & 1;
    return (struct message){ .bytes = bytes, .is_long = bytes > medium_bytes, .contiguous = is[0], .answered = is[1], .adjoins = is[2], .blocking = is[3],
                             .to_self = is[4], .crowded = is[5], .in_stream = is[6], .head_fits = is[7], .far = is[8],
                             .timed = is[9], .measured = is[10], .in_window = is[11], .unchanged = is[12],
                             .may_keep = is[13] };
}

static bool row_fits(const struct row *row, size_t bytes, unsigned facts, size_t medium_bytes)
{
    bool fits = row->is_long == (bytes > medium_bytes) && bytes >= row->least && bytes <= row->most;
    for (int i = 0; i < FACTS; i++)
        fits = fits && row->fact[i] != (facts >> i & 1 ? NO : YES);
    return fits;
}

static enum route expected(size_t bytes, unsigned facts, size_t medium_bytes)
{
    for (int i = 0; i < ROWS; i++) {
        if (row_fits(&rows[i], bytes, facts, medium_bytes)) {
            used[i]++;
            return rows[i].way;
        }
    }
    return ROUTES;
}

/** Where data lies is found out only where that decides; what is sent is possible. */
static void check(size_t bytes, unsigned facts, size_t medium_bytes)
{
    struct message m = message_of(bytes, facts, medium_bytes), elsewhere = m, measured = m;
    enum route way = route(&m);
    expect(way == expected(bytes, facts, medium_bytes), "not as in the table", way, bytes, facts);
    expect(route_in_lines(bytes, m.answered, m.adjoins) == (way == ROUTE_LINES), "in lines, or not", way, bytes, facts);
    expect(route_may_have_head(&m) || !route_has_head(way), "a head", way, bytes, facts);
    elsewhere.in_window = elsewhere.unchanged = elsewhere.may_keep = false;
    expect(route_depends_on_place(&m) || route(&elsewhere) == way, "by where its data lies", way,
           bytes, facts);
    measured.measured = true;
    enum route in_ring = route(&measured);
    expect(in_ring == way || ((way == ROUTE_OFFERED || way == ROUTE_WINDOW_KEEP) && !m.measured), "measured", way, bytes, facts);
    size_t head = !route_has_head(way) || !m.head_fits ? 0 : bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    uint64_t address = route_has_address(way) ? 1 : 0;
    expect(route_is_possible(way, m.to_self, bytes, head, address, medium_bytes), "refused", way, bytes, facts);
}

static const size_t sizes[] = { 0, 1, 48, 49, 240, 241, 4095, 4096, 8191, 8192, 8193, MEDIUM, MEDIUM + 1, 65536, 65537, 1 << 20 };

static void check_all(size_t medium_bytes)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned facts = 0; facts < 1u << FACTS; facts++)
            check(sizes[i], facts, medium_bytes);
}

/** What no sender writes. */
static void refuse_all(void)
{
    static const struct refused {
        unsigned way;
        bool from_self;
        size_t bytes, head;
        uint64_t address;
    } lines[] = {
        { ROUTE_NONE, false, 8, 0, 0 },
        { ROUTES, false, MEDIUM + 1, 0, 1 },
        { UINT8_MAX, false, MEDIUM + 1, 0, 1 },
        { ROUTE_LINES, false, SHORT_BYTES + 1, 0, 0 },
        { ROUTE_RING, false, MEDIUM + 1, 0, 0 },
        { ROUTE_RING, false, 4096, 0, 1 },
        { ROUTE_RING, false, 4096, 8, 0 },
        { ROUTE_FOLLOWS, false, FOLLOW_BYTES, 0, 0 },
        { ROUTE_FOLLOWS, false, MEDIUM + 1, 0, 0 },
        { ROUTE_FOLLOWS, false, MEDIUM, 0, 1 },
        { ROUTE_OFFERED, false, 4096, 0, 0 },
        { ROUTE_OFFERED, false, 4095, 0, 1 },
        { ROUTE_OFFERED, true, 4096, 0, 1 },
        { ROUTE_OFFERED, false, MEDIUM + 1, 0, 1 },
        { ROUTE_SELF, false, MEDIUM + 1, 0, 1 },
        { ROUTE_SELF, true, MEDIUM + 1, 0, 0 },
        { ROUTE_WINDOW, true, MEDIUM + 1, 0, 1 },
        { ROUTE_WINDOW, false, MEDIUM + 1, 0, 0 },
        { ROUTE_WINDOW, false, MEDIUM, 0, 1 },
        { ROUTE_WINDOW, false, MEDIUM + 1, 8, 1 },
        { ROUTE_WINDOW_KEEP, false, MEDIUM + 1, 0, 0 },
        { ROUTE_BOTH, false, MEDIUM + 1, 0, 1 },
        { ROUTE_BOTH, false, MEDIUM + 1, HEAD_BYTES + 1, 1 },
        { ROUTE_BOTH, false, MEDIUM + 1, HEAD_BYTES, 0 },
        { ROUTE_BOTH_KEEP, true, MEDIUM + 1, HEAD_BYTES, 1 },
        { ROUTE_LINUX, false, MEDIUM + 1, 0, 0 },
        { ROUTE_LINUX, true, MEDIUM + 1, 0, 1 },
        { ROUTE_PIECES, false, MEDIUM + 1, 0, 1 },
        { ROUTE_PIECES, false, MEDIUM + 1, HEAD_BYTES + 1, 0 },
        { ROUTE_PIECES, false, MEDIUM, 0, 0 },
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const struct refused *l = &lines[i];
        expect(!route_is_possible(l->way, l->from_self, l->bytes, l->head, l->address, MEDIUM), "taken", l->way, l->bytes,
               (unsigned)i);
    }
    /* A head is shorter than the message, which may be short where little is medium. */
    expect(!route_is_possible(ROUTE_BOTH, false, 300, 301, 1, SHORT_BYTES), "taken", ROUTE_BOTH, 300, 0);
}

/** What a receiver makes of each route. */
static void receive_all(void)
{
    static const struct received {
        bool is_long, in_pieces, in_pieces_if_waiting, keeps;
        size_t first; /* of MEDIUM bytes */
    } routes[ROUTES] = {
        [ROUTE_LINES] = { .first = MEDIUM },
        [ROUTE_RING] = { .first = MEDIUM },
        [ROUTE_FOLLOWS] = { .first = 4096 },
        [ROUTE_OFFERED] = { .first = 0 },
        [ROUTE_SELF] = { true, .first = MEDIUM },
        [ROUTE_WINDOW] = { true, .first = MEDIUM },
        [ROUTE_WINDOW_KEEP] = { true, .keeps = true, .first = MEDIUM },
        [ROUTE_BOTH] = { true, .in_pieces_if_waiting = true, .first = MEDIUM },
        [ROUTE_BOTH_KEEP] = { true, .in_pieces_if_waiting = true, .keeps = true, .first = MEDIUM },
        [ROUTE_LINUX] = { true, .first = MEDIUM },
        [ROUTE_PIECES] = { true, .in_pieces = true, .in_pieces_if_waiting = true, .first = MEDIUM },
    };
    for (enum route way = ROUTE_LINES; way < ROUTES; way++) {
        const struct received *r = &routes[way];
        expect(route_is_long(way) == r->is_long && route_keeps(way) == r->keeps, "long, kept", way, MEDIUM, 0);
        expect(route_in_pieces(way, false) == r->in_pieces && route_in_pieces(way, true) == r->in_pieces_if_waiting,
               "in pieces", way, MEDIUM, 0);
        expect(route_first(way, MEDIUM) == r->first, "with the line", way, MEDIUM, 0);
    }
}

int main(void)
{
    check_all(MEDIUM);
    check_all(65536);
    for (int i = 0; i < ROWS; i++)
        expect(used[i] > 0, "a row that is never used", rows[i].way, 0, (unsigned)i);
    check_all(SHORT_BYTES);
    refuse_all();
    receive_all();
    printf("routes: %d wrong\n", wrong);
    return wrong > 0;
}
