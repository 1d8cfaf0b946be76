// mprotect is real: read-only memory refuses writes, PROT_NONE refuses all and
// keeps its contents, data is not executable; SEGV_ACCERR and si_addr are right.
#include "../common/check.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS, LEN = 16 * PAGE_BYTES };

static void call(void *p) { ((void (*)(void))p)(); }

static void expect(void (*touch)(void *), char *at, int code, const char *text)
{
    struct fault f = fault_of(touch, at);
    check(f.signo == SIGSEGV && f.code == code && f.addr == at, "%s", text);
}

int main(void)
{
    char *p = mmap(NULL, LEN, RW, ANON, -1, 0);
    need(p != MAP_FAILED, "mmap");
    memset(p, 0x5a, LEN);

    check(mprotect(p, LEN, PROT_READ) == 0 && can_read(p), "read-only: readable");
    expect(touch_write, p + 5, SEGV_ACCERR, "a write faults with SEGV_ACCERR");
    check(all_bytes(p, 0x5a, LEN), "and wrote nothing");

    check(mprotect(p, LEN, PROT_NONE) == 0, "PROT_NONE");
    expect(touch_read, p + LEN - 1, SEGV_ACCERR, "a read faults");
    expect(touch_write, p, SEGV_ACCERR, "a write faults");
    check(mprotect(p, LEN, RW) == 0 && all_bytes(p, 0x5a, LEN), "back to RW: contents kept");

    for (int i = 0; i < 100; i++) {
        p[i] = (char)i;
        need(mprotect(p, LEN, PROT_NONE) == 0 && mprotect(p, LEN, PROT_READ) == 0 && p[i] == (char)i &&
                 mprotect(p, LEN, RW) == 0, "round");
    }
    check(p[99] == 99 && all_bytes(p + 100, 0x5a, LEN - 100), "100 rounds NONE, READ, RW");

    p[0] = (char)0xc3; // ret
    expect(call, p, SEGV_ACCERR, "data is not executable");
    check(mprotect(p, PAGE_BYTES, PROT_READ | PROT_EXEC) == 0, "PROT_EXEC");
    check(fault_of(call, p).signo == 0, "now it is");
    expect(touch_write, p, SEGV_ACCERR, "but not writable");
    check(mprotect(p, PAGE_BYTES, PROT_READ) == 0, "and back");
    expect(call, p, SEGV_ACCERR, "it is not executable again");
    check(mprotect(p, PAGE_BYTES, PROT_WRITE) == 0 && can_read(p), "PROT_WRITE alone can be read on x86");

    check(mprotect(p + PAGE_BYTES, 1, PROT_NONE) == 0, "a length of 1 byte");
    check(!can_read(p + 2 * PAGE_BYTES - 1) && can_read(p + 2 * PAGE_BYTES), "covers its whole page");
    check(mprotect(p, 0, PROT_NONE) == 0 && can_read(p), "a length of 0 does nothing");
    check_fails(syscall(SYS_mprotect, p + 1, PAGE_BYTES, RW), EINVAL, "an unaligned address");
    check_fails(mprotect(p, PAGE_BYTES, 0x4000), EINVAL, "unknown protection bits");
    check_fails(mprotect((void *)0xffff800000000000, PAGE_BYTES, RW), ENOMEM, "a kernel address");
    munmap(p, LEN);
    check_fails(mprotect(p, LEN, RW), ENOMEM, "what is not mapped");
    expect(touch_read, p, SEGV_MAPERR, "and now it is SEGV_MAPERR");
    return check_done();
}
