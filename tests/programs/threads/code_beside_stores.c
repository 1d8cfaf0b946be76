// A page that may be written and executed, where one thread stores while another makes calls that Linux writes to it by, and
// changes its access. The kernel wrote such a page over itself, word by word, and undid what was stored in between.
#include "../common/check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CALLS = 3000, COUNTERS = 256, RWX = PROT_READ | PROT_WRITE | PROT_EXEC };

static _Atomic uint64_t *page;
static atomic_int over;
static uint64_t wrong;

static void *store(void *unused)
{
    (void)unused;
    static uint64_t own[COUNTERS];
    while (!over)
        for (int i = 0; i < COUNTERS; i++) {
            wrong += atomic_load_explicit(&page[i], memory_order_relaxed) != own[i];
            atomic_store_explicit(&page[i], ++own[i], memory_order_relaxed);
        }
    return NULL;
}

int main(void)
{
    page = mmap(NULL, PAGE_BYTES, RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED, "mmap");
    int zeros = open("/dev/zero", O_RDONLY);
    need(zeros >= 0, "/dev/zero");
    pthread_t thread;
    need(pthread_create(&thread, NULL, store, NULL) == 0, "a thread");
    int done = 0;
    for (int i = 0; i < CALLS; i++) {
        done += mprotect(page, PAGE_BYTES, RWX) == 0;
        done += read(zeros, (char *)page + PAGE_BYTES - 8, 8) == 8;
    }
    over = 1;
    need(pthread_join(thread, NULL) == 0, "joined");
    check(done == 2 * CALLS, "calls");
    check(wrong == 0, "no store is lost");
    return check_done();
}
