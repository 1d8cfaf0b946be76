// futex(2) WAKE_OP: changes a second word, wakes at the first, and at the
// second if its old value compares as wanted. One case per run.
#include "../common/parallel.h"

enum { SET, ADD, OR, ANDN, XOR, SHIFT = 8 };
enum { EQ, NE, LT, LE, GT, GE };

static word_t first, second;

static uint32_t encoded(int op, int oparg, int cmp, int cmparg)
{
    return (uint32_t)op << 28 | (uint32_t)cmp << 24 | ((uint32_t)oparg & 0xfff) << 12 | ((uint32_t)cmparg & 0xfff);
}
static long wake_op(int wake, int wake2, uint32_t encoded)
{
    return futex(&first, PRIVATE(FUTEX_WAKE_OP), (uint32_t)wake, (void *)(uintptr_t)wake2, &second, encoded);
}

static void changes(int op, uint32_t old, int oparg, uint32_t new)
{
    second = old;
    check(wake_op(1, 1, encoded(op, oparg, EQ, 0)) == 0 && second == new, "%08x becomes %08x by %d with %d", old, new,
          op, oparg);
}

static void op_set(void)
{
    changes(SET, 5, 7, 7);
    changes(SET, 5, -1, UINT32_MAX);
    changes(SET, 5, -2048, (uint32_t)-2048);
    changes(SET, 5, 2047, 2047);
}
static void op_add(void)
{
    changes(ADD, 5, 7, 12);
    changes(ADD, 5, -6, UINT32_MAX);
    changes(ADD, UINT32_MAX, 1, 0);
}
static void op_or(void)
{
    changes(OR, 0x10, 0x103, 0x113);
    changes(OR, 1, -2, UINT32_MAX);
}
static void op_andn(void)
{
    changes(ANDN, 0xffff, 0x0f1, 0xff0e);
    changes(ANDN, 0x12345678, -1, 0);
}
static void op_xor(void)
{
    changes(XOR, 0xff, 0x0f1, 0x0e);
    changes(XOR, 0x12345678, -1, ~UINT32_C(0x12345678));
}
static void op_shift(void)
{
    changes(SHIFT | SET, 5, 31, UINT32_C(1) << 31);
    changes(SHIFT | ADD, 5, 4, 21);
    changes(SHIFT | OR, 5, 12, 0x1005);
    changes(SHIFT | ANDN, 0xff, 3, 0xf7);
    changes(SHIFT | XOR, 0xff, 0, 0xfe);
}

// Two wait at the first word, two at the second, whose old value is given.
static void compares(int cmp, int cmparg, uint32_t old, int holds)
{
    struct waiter waiters[4] = {{0}};
    second = old;
    waiters_start(waiters, 2, &first);
    for (int i = 2; i < 4; i++)
        waiters[i].value = old;
    waiters_start(waiters + 2, 2, &second);
    long woken = wake_op(1, 1, encoded(ADD, 1, cmp, cmparg));
    check(woken == 1 + holds, "%d compared by %d with %d: %d woken", (int)old, cmp, cmparg, 1 + holds);
    check(second == old + 1, "the change is made in any case");
    AWAIT(waiters_done(waiters, 4) == 1 + holds);
    check(waiters[0].done && waiters[2].done == holds, "who came first");
    check(futex_wake(&first, INT_MAX) == 1 && futex_wake(&second, INT_MAX) == 2 - holds, "the others wait on");
    waiters_join(waiters, 4);
}

static void cmp_eq(void)
{
    compares(EQ, 5, 5, 1);
    compares(EQ, 5, 6, 0);
    compares(EQ, -3, (uint32_t)-3, 1);
}
static void cmp_ne(void)
{
    compares(NE, 5, 5, 0);
    compares(NE, 5, 6, 1);
}
// Comparisons are signed.
static void cmp_lt(void)
{
    compares(LT, 5, 4, 1);
    compares(LT, 5, 5, 0);
    compares(LT, 0, UINT32_MAX, 1);
}
static void cmp_le(void)
{
    compares(LE, 5, 5, 1);
    compares(LE, 5, 6, 0);
    compares(LE, -1, 0x80000000, 1);
}
static void cmp_gt(void)
{
    compares(GT, 5, 6, 1);
    compares(GT, 5, 5, 0);
    compares(GT, -1, 0, 1);
}
static void cmp_ge(void)
{
    compares(GE, 5, 5, 1);
    compares(GE, 5, 4, 0);
    compares(GE, 0, 0xffff0000, 0);
}

static void counts(void)
{
    struct waiter waiters[6] = {{0}};
    second = 0;
    waiters_start(waiters, 3, &first);
    waiters_start(waiters + 3, 3, &second);
    check(wake_op(2, INT_MAX, encoded(SET, 9, EQ, 0)) == 5, "two of three there, all three here");
    check(futex_wake(&first, INT_MAX) == 1 && futex_wake(&second, 1) == 0, "one is left");
    waiters_join(waiters, 6);
}

static void *add(void *arg)
{
    for (int i = 0; i < 2000; i++)
        wake_op(1, 1, encoded(ADD, 1, LT, -2048));
    return arg;
}
// The change is one step, also against others that make it.
static void atomic(void)
{
    pthread_t threads[4];
    second = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = start(add, NULL);
    for (int i = 0; i < 2000; i++)
        atomic_fetch_add(&second, 1);
    for (int i = 0; i < 4; i++)
        joined(threads[i]);
    check(second == 10000, "10000 additions by five threads");
}

static void wrong(void)
{
    check_fails(wake_op(1, 1, encoded(5, 0, EQ, 0)), ENOSYS, "no such change");
    check_fails(wake_op(1, 1, encoded(ADD, 0, 6, 0)), ENOSYS, "no such comparison");
    check_fails(futex(&first, PRIVATE(FUTEX_WAKE_OP), 1, (void *)1, (char *)&second + 1, 0), EINVAL, "between words");
    check_fails(futex(&first, PRIVATE(FUTEX_WAKE_OP), 1, (void *)1, NULL, 0), EFAULT, "changing null");
    word_t *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    check_fails(futex(&first, PRIVATE(FUTEX_WAKE_OP), 1, (void *)1, page, encoded(SET, 1, EQ, 0)), EFAULT,
                "changing what can only be read");
    check(*page == 0, "it has not changed");
    munmap(page, PAGE_BYTES);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(op_set), CASE(op_add), CASE(op_or), CASE(op_andn), CASE(op_xor), CASE(op_shift), CASE(cmp_eq),
        CASE(cmp_ne), CASE(cmp_lt), CASE(cmp_le), CASE(cmp_gt), CASE(cmp_ge), CASE(counts), CASE(atomic), CASE(wrong),
    };
    return RUN_CASES(cases);
}
