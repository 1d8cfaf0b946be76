// Thread-local variables of a library that is opened while threads run: each
// gets its own, those that ran before and those that come later; closing the
// library and opening it again begins anew.
#include "../common/parallel.h"

#include <dlfcn.h>

enum { THREADS = 4 };
static int (*count_own)(int);
static atomic_int go, wrong;

static void *use(void *arg)
{
    int mark = (int)(intptr_t)arg;
    AWAIT(go);
    for (int i = 1; i <= 50; i++)
        wrong += count_own(mark) != 100 + i;
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int round = 0; round < 5; round++) {
        go = 0;
        for (intptr_t i = 0; i < THREADS; i++)
            threads[i] = start(use, (void *)(i + 1));
        void *library = dlopen("libown.so", RTLD_NOW);
        need(library != NULL, "dlopen");
        count_own = (int (*)(int))dlsym(library, "count_own");
        need(count_own != NULL, "dlsym");
        go = 1;
        pthread_t later = start(use, (void *)9);
        for (int i = 0; i < THREADS; i++)
            joined(threads[i]);
        joined(later);
        check(wrong == 0, "threads from before and after have their own variables");
        check(dlclose(library) == 0, "closed");
    }
    return check_done();
}
