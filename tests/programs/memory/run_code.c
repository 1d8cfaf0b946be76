// Code made at run time: written then made executable, changed and run again,
// RWX memory, code moved by mremap, code replaced through MAP_FIXED.
#include "../common/check.h"
#include <sys/mman.h>

enum { RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

// mov $n, %eax; ret
static void emit(char *at, int n)
{
    at[0] = (char)0xb8;
    memcpy(at + 1, &n, 4);
    at[5] = (char)0xc3;
}

static int call(const char *at) { return ((int (*)(void))(uintptr_t)at)(); }

int main(void)
{
    char *p = mmap(NULL, 4 * PAGE_BYTES, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    int right = 0;
    for (int i = 0; i < 200; i++) {
        need(mprotect(p, PAGE_BYTES, RW) == 0, "mprotect");
        emit(p + i % 7 * 16, i);
        need(mprotect(p, PAGE_BYTES, RX) == 0, "mprotect");
        right += call(p + i % 7 * 16) == i;
    }
    check(right == 200, "200 times written, made executable and called");

    need(mprotect(p, PAGE_BYTES, RW | PROT_EXEC) == 0, "mprotect");
    right = 0;
    for (int i = 0; i < 5000; i++) {
        emit(p, i * 3);
        right += call(p) == i * 3;
    }
    check(right == 5000, "5000 changes in RWX memory, each seen at once");

    // A function over a page border, one half changed.
    char *border = p + PAGE_BYTES - 3;
    need(mprotect(p, 2 * PAGE_BYTES, RW | PROT_EXEC) == 0, "mprotect");
    emit(border, 0x11223344);
    check(call(border) == 0x11223344, "an instruction over a page border");
    p[PAGE_BYTES] = 0x55;
    check(call(border) == 0x11553344, "its second half changed");

    emit(p, 1000);
    char *q = mremap(p, 2 * PAGE_BYTES, 8 * PAGE_BYTES, MREMAP_MAYMOVE);
    need(q != MAP_FAILED, "mremap");
    check(call(q) == 1000 && call(q + PAGE_BYTES - 3) == 0x11553344, "code moved by mremap");
    emit(q, 1001);
    check(call(q) == 1001, "and changed there");
    need(mmap(q, PAGE_BYTES, RW | PROT_EXEC, ANON | MAP_FIXED, -1, 0) == q, "mmap");
    emit(q, 1002);
    check(call(q) == 1002, "new code at the old address after MAP_FIXED");
    need(munmap(q, PAGE_BYTES) == 0, "munmap");
    struct fault f = fault_of((void (*)(void *))(uintptr_t)call, q);
    check(f.signo == SIGSEGV && f.addr == q, "after munmap a call faults at its address");
    return check_done();
}
