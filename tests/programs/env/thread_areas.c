// What the C library registers for its first thread: the robust list and the
// restartable sequence area, whose CPU number is that of getcpu. And its name,
// of which 15 bytes are read, or less.
#include "../common/check.h"
#include <linux/rseq.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

int main(void)
{
    static struct {
        void *next;
        long offset;
        void *pending;
    } head = {&head, 0, NULL};
    check(syscall(SYS_set_robust_list, &head, sizeof head) == 0, "set_robust_list");
    check_fails(syscall(SYS_set_robust_list, &head, 23), EINVAL, "of a wrong length");

    check(__rseq_size >= 20, "the C library registered its rseq area");
    volatile struct rseq *area = (volatile struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    int agree = 0, rounds = 0;
    for (; rounds < 1000; rounds++) {
        // A move to another CPU may come between the readings: try again.
        for (int attempt = 0; attempt < 100; attempt++) {
            unsigned cpu = ~0u;
            syscall(SYS_getcpu, &cpu, NULL, NULL);
            if (area->cpu_id == cpu && area->cpu_id_start == cpu) {
                agree++;
                break;
            }
        }
    }
    check(agree == rounds, "its CPU number is getcpu's");
    check_fails(syscall(SYS_rseq, area, 32, 0, RSEQ_SIG), EBUSY, "the area can be registered only once");

    char name[16], *edge = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(edge != MAP_FAILED && munmap(edge + PAGE_BYTES, PAGE_BYTES) == 0, "mmap");
    memset(edge, 'e', PAGE_BYTES);
    check(prctl(PR_SET_NAME, edge + PAGE_BYTES - 15) == 0 && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "eeeeeeeeeeeeeee") == 0, "a name without an end");
    return check_done();
}
