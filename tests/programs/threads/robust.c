// The robust list of a thread: what happens to the words in it when the thread
// ends without releasing them. One case per run.
#include "../common/parallel.h"

#include <stddef.h>

struct entry {
    struct entry *next;
    word_t lock;
};
struct head {
    struct entry *list;
    long offset;
    struct entry *pending;
};

enum { ENTRIES = 4 };
static struct entry entries[ENTRIES];
static struct head head;
static _Atomic pid_t dead;

// What a thread does before it ends with its list.
static void (*prepare)(uint32_t tid);

static void *die(void *arg)
{
    dead = own_tid();
    memset(entries, 0, sizeof entries);
    head = (struct head){(struct entry *)&head, offsetof(struct entry, lock), NULL};
    prepare((uint32_t)dead);
    syscall(SYS_set_robust_list, &head, sizeof head);
    return arg;
}
static void died(void (*with)(uint32_t))
{
    prepare = with;
    joined(start(die, NULL));
}

static void own_all(uint32_t tid)
{
    for (int i = 0; i < ENTRIES; i++)
        entries[i] = (struct entry){i + 1 < ENTRIES ? &entries[i + 1] : (struct entry *)&head, tid};
    head.list = entries;
}
static void marked(void)
{
    died(own_all);
    for (int i = 0; i < ENTRIES; i++)
        check(entries[i].lock == FUTEX_OWNER_DIED, "the word tells that its owner died, and no owner");
}

static void own_with_waiters(uint32_t tid)
{
    own_all(tid);
    entries[1].lock |= FUTEX_WAITERS;
}
static void keeps_waiters_bit(void)
{
    died(own_with_waiters);
    check(entries[1].lock == (FUTEX_OWNER_DIED | FUTEX_WAITERS), "the bit for waiters stays");
}

static void own_one(uint32_t tid)
{
    own_all(tid);
    entries[1].lock = tid + 1;
    entries[2].lock = 0;
}
static void others_untouched(void)
{
    died(own_one);
    check(entries[0].lock == FUTEX_OWNER_DIED && entries[3].lock == FUTEX_OWNER_DIED, "its own are marked");
    check(entries[1].lock == (uint32_t)dead + 1 && entries[2].lock == 0, "another's and a free one are as they were");
}

static void pend(uint32_t tid)
{
    entries[2].lock = tid;
    head.pending = &entries[2];
}
static void pending(void)
{
    died(pend);
    check(entries[2].lock == FUTEX_OWNER_DIED, "the word whose taking was under way is marked");
}

// The thread is about to end when a waiter waits for one of its locks.
static struct waiter waiter;
static void be_waited_for(uint32_t tid)
{
    own_all(tid | FUTEX_WAITERS);
    waiter = (struct waiter){.value = tid | FUTEX_WAITERS, .shared = 1};
    waiter_start(&waiter, &entries[2].lock);
    AWAIT(waiting(&entries[2].lock, 1) == 1);
}
static void wakes_waiter(void)
{
    died(be_waited_for);
    joined(waiter.thread);
    check(waiter.result == 0, "a waiter is woken");
    check(entries[2].lock == (FUTEX_OWNER_DIED | FUTEX_WAITERS), "by the mark");
}

static void no_end(uint32_t tid)
{
    own_all(tid);
    entries[3].next = &entries[0];
}
static void endless(void)
{
    died(no_end);
    check(entries[3].lock == FUTEX_OWNER_DIED, "a list without an end is followed, and left");
}

static void broken(uint32_t tid)
{
    own_all(tid);
    entries[1].next = (struct entry *)(uintptr_t)0x10;
}
static void leads_nowhere(void)
{
    died(broken);
    check(entries[0].lock == FUTEX_OWNER_DIED && entries[3].lock == (uint32_t)dead,
          "a list is followed until it leads nowhere");
}

static void misplace(uint32_t tid)
{
    (void)tid;
    head.list = (struct entry *)UINT64_C(0xffff800000000000);
}
static void in_the_kernel(void)
{
    died(misplace);
    check(1, "a list in the kernel's half harms nobody");
}

static void wrong_length(void)
{
    check_fails(syscall(SYS_set_robust_list, &head, sizeof head - 1), EINVAL, "a head of another length");
    check_fails(syscall(SYS_set_robust_list, &head, 0), EINVAL, "of none");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(marked), CASE(keeps_waiters_bit), CASE(others_untouched), CASE(pending), CASE(wakes_waiter),
        CASE(endless), CASE(leads_nowhere), CASE(in_the_kernel), CASE(wrong_length),
    };
    return RUN_CASES(cases);
}
