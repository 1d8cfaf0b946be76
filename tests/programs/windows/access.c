// What a rank reaches of another, and what it does not: rank 0 looks at rank 1, and at ranks that are not there.
#include "windows.h"

int main(void);

static volatile uint64_t static_word = 1;
static const uint64_t constant = 2;
static volatile pid_t pid;
static char *_Atomic heap, *_Atomic stack, *_Atomic none, *_Atomic read_only, *_Atomic gone, *_Atomic large;

enum { LARGE_BYTES = 4 << 20 };

static void rank_1(void)
{
    volatile char on_stack[64] = "on the stack";
    heap = malloc(100);
    strcpy(heap, "on the heap");
    stack = (char *)on_stack;
    none = pages(1, PROT_NONE);
    read_only = pages(1, PROT_READ);
    large = pages(LARGE_BYTES / PAGE_BYTES, PROT_READ | PROT_WRITE);
    memset(large, 7, LARGE_BYTES);
    gone = pages(1, PROT_READ | PROT_WRITE);
    munmap(gone, PAGE_BYTES);
    meet(1);
    meet(2); // rank 0 has looked, and written
    static_word = static_word == 11 && on_stack[0] == 'O' && heap[0] == 'O' && large[LARGE_BYTES - 1] == 8 ? 100 : 101;
    meet(3);
    meet(11);
    mprotect(large, LARGE_BYTES, PROT_READ);
    meet(4);
    meet(5);
    mprotect(large, LARGE_BYTES, PROT_READ | PROT_WRITE);
    meet(6);
    meet(7);
    mprotect(large, LARGE_BYTES, PROT_NONE);
    meet(8);
    meet(9);
    munmap(large, LARGE_BYTES);
    char *again = mmap(large, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    need(again == large, "mmap at the same place");
    memset(again, 9, LARGE_BYTES);
    meet(10);
    meet(12);
}

static void all_kinds_of_memory(void)
{
    check(*OF(1, &static_word) == 1 && *OF(1, &constant) == 2, "static data of rank 1");
    check(strcmp(OF(1, *OF(1, &heap)), "on the heap") == 0, "its heap");
    check(strcmp(OF(1, *OF(1, &stack)), "on the stack") == 0, "its stack");
    char *there = OF(1, *OF(1, &large));
    check(there[0] == 7 && there[LARGE_BYTES - 1] == 7, "large pages");
    check(memcmp(OF(1, (char *)main), (char *)main, 64) == 0, "its code, which is ours");
    static_word = 5;
    check(*OF(0, &static_word) == 5, "our own memory by our own window");
    *OF(1, &static_word) = 11;
    OF(1, *OF(1, &stack))[0] = 'O';
    OF(1, *OF(1, &heap))[0] = 'O';
    there[LARGE_BYTES - 1] = 8;
}

static void what_is_not_there(void)
{
    check_faults(load_byte, OF(1, *OF(1, &gone)), SEGV_MAPERR, "memory that rank 1 has unmapped");
    check_faults(load_byte, OF(1, *OF(1, &none)), SEGV_MAPERR, "and addresses that it only reserved");
    check_works(load_byte, OF(1, *OF(1, &read_only)), "its read-only memory can be read");
    check_faults(store_byte, OF(1, *OF(1, &read_only)), SEGV_ACCERR, "but not written");
    check_faults(store_byte, OF(1, (char *)&constant), SEGV_ACCERR, "nor its constants");
    check_faults(store_byte, OF(1, (char *)main), SEGV_ACCERR, "nor its code");
    check_faults(call_there, OF(1, (char *)main), SEGV_ACCERR, "which cannot be executed there");
    check_faults(call_there, OF(0, (char *)main), SEGV_ACCERR, "nor ours through our own window");
    check_faults(store_byte, OF(1, (char *)0x7fffeff000), SEGV_ACCERR, "its information page is read-only");
    check_faults(store_byte, OF(1, (char *)0x7ffff00000), SEGV_ACCERR, "and so is the clock page");
    check_faults(load_byte, OF(2, (char *)&constant), SEGV_MAPERR, "a rank that the job does not have");
    check_faults(load_byte, OF(253, (char *)&constant), SEGV_MAPERR, "none of its ranks has slot 254");
    check_faults(load_byte, OF(254, (char *)&constant), SEGV_MAPERR, "nor slot 255");
    check_faults(load_byte, OF(255, (char *)&constant), SI_KERNEL, "slot 256 is no address");
    check_faults(load_byte, (void *)UINT64_C(0xffff800000000000), SEGV_MAPERR, "the kernel's half is not there");
    check_faults(store_byte, (void *)UINT64_C(0xffffffff80000000), SEGV_MAPERR, "nor its image");
}

static void what_the_owner_changes(void)
{
    char *there = OF(1, *OF(1, &large));
    meet(2);
    meet(3);
    check(*OF(1, &static_word) == 100, "rank 1 finds what was written");
    check_works(store_byte, there, "its memory can be written");
    meet(11);
    meet(4);
    check_faults(store_byte, there, SEGV_ACCERR, "until it takes that right away");
    check_works(load_byte, there + PAGE_BYTES, "then it can be read still");
    meet(5);
    meet(6);
    check_works(store_byte, there, "and written when it gives the right again");
    meet(7);
    meet(8);
    check_faults(load_byte, there, SEGV_ACCERR, "without any right it cannot be read");
    meet(9);
    meet(10);
    check(there[0] == 9 && there[LARGE_BYTES - 1] == 9, "what it maps anew at the same place is what is seen");
}

// What smartmap.h answers while rank 1 lives.
static void questions(pid_t other)
{
    check(smartmap_attach(1, other) == 0 && smartmap_attach(0, getpid()) == 0, "windows are open");
    check(smartmap_attach(1, other + 1) == -EXDEV, "another process is another rank");
    check(smartmap_attach(2, other) == -EINVAL && smartmap_attach(-1, other) == -EINVAL, "no rank of the job");
    check(smartmap_alive(1) && !smartmap_alive(2) && !smartmap_alive(-1), "who lives");
    check(smartmap_reachable(1, &constant, 8) && smartmap_shows(1, &constant, 8) && !smartmap_reachable(2, &constant, 8), "whom we reach");
    check(smartmap_exports(&constant, 8) && !smartmap_exports(OF(1, &constant), 8), "what others reach of us");
    check(!smartmap_exports(&constant, SIZE_MAX) && !smartmap_exports(OF(0, (char *)NULL) - 8, 16), "not beyond the end");
}

int main(void)
{
    begin_ranks();
    pid = getpid();
    if (own_rank == 1)
        rank_1();
    if (own_rank != 0)
        return 0;
    meet(1);
    pid_t other = *OF(1, &pid);
    questions(other);
    all_kinds_of_memory();
    what_is_not_there();
    what_the_owner_changes();
    char *there = OF(1, (char *)&constant);
    meet(12);
    AWAIT(!smartmap_alive(1));
    check(!smartmap_reachable(1, &constant, 1), "rank 1 has ended");
    check(smartmap_join(0) == -ENOENT && smartmap_attach(1, other) == -ENOENT, "which cannot be met any more");
    getppid(); // from the next call on nothing is left of its window
    check_faults(load_byte, there, SEGV_MAPERR, "and its memory is gone");
    return end_ranks();
}
