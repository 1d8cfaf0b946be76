// malloc, calloc, realloc, aligned_alloc and free: 50,000 steps over blocks of
// 1 byte to 4 MB, contents checked whenever a block changes hands.
#include "../common/check.h"

enum { BLOCKS = 400, STEPS = 50000, CHECKED_BYTES = 64 };

struct block {
    unsigned char *p;
    size_t len;
    unsigned char value;
};

static uint64_t state = 42;

static uint64_t next(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

static size_t length(void)
{
    uint64_t kind = next(1000);
    return kind < 800 ? next(512) + 1 : kind < 980 ? next(32 << 10) + 1 : kind < 999 ? next(256 << 10) + 1 : next(4 << 20) + 1;
}

// The first and the last bytes of a block hold its value.
static void mark(struct block *b)
{
    size_t n = b->len < CHECKED_BYTES ? b->len : CHECKED_BYTES;
    memset(b->p, b->value, n);
    memset(b->p + b->len - n, b->value, n);
}

static int intact(const struct block *b, size_t len)
{
    size_t n = len < CHECKED_BYTES ? len : CHECKED_BYTES;
    return all_bytes(b->p, b->value, n) && (len != b->len || all_bytes(b->p + len - n, b->value, n));
}

int main(void)
{
    static struct block blocks[BLOCKS];
    int damaged = 0, dirty = 0, misaligned = 0, failed = 0;
    for (int step = 0; step < STEPS; step++) {
        struct block *b = &blocks[next(BLOCKS)];
        size_t len = length();
        int kind = (int)next(4);
        if (b->p)
            damaged += !intact(b, b->len);
        if (b->p && kind == 0) {
            unsigned char *p = realloc(b->p, len);
            failed += p == NULL;
            b->p = p ? p : b->p;
            damaged += !all_bytes(b->p, b->value, len < b->len ? (len < CHECKED_BYTES ? len : CHECKED_BYTES)
                                                               : (b->len < CHECKED_BYTES ? b->len : CHECKED_BYTES));
        } else {
            size_t align = (size_t)16 << next(9);
            free(b->p);
            b->p = kind == 1 ? calloc(1, len) : kind == 2 ? aligned_alloc(align, len) : malloc(len);
            if (b->p == NULL) {
                failed++;
                continue;
            }
            dirty += kind == 1 && !all_bytes(b->p, 0, len);
            misaligned += (uintptr_t)b->p % (kind == 2 ? align : 16) != 0;
        }
        b->len = len;
        b->value = (unsigned char)step;
        mark(b);
    }
    check(failed == 0, "50,000 steps, none refused");
    check(damaged == 0, "no block was damaged");
    check(dirty == 0, "calloc always gave zeros");
    check(misaligned == 0, "alignment was as asked");
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i].p);
    check(malloc((size_t)1 << 60) == NULL && errno == ENOMEM, "2^60 bytes: NULL and ENOMEM");
    void *p = malloc(32 << 20);
    check(p != NULL && memset(p, 1, 32 << 20) == p, "32 MB are there after all this");
    free(p);
    return check_done();
}
