// Attributes of threads: stacks and guards as set, names, processors, and
// what pthread_getattr_np returns of a running thread. One case per run.
#include "../common/parallel.h"

#include <semaphore.h>
#include <sys/prctl.h>

// Where a running thread's stack is, as the C library reports it.
struct stack {
    char *low;
    size_t size, guard;
    int inside, detached;
};
static void *describe(void *arg)
{
    struct stack *stack = arg;
    pthread_attr_t attr;
    char here;
    void *low;
    need(pthread_getattr_np(pthread_self(), &attr) == 0, "pthread_getattr_np");
    pthread_attr_getstack(&attr, &low, &stack->size);
    pthread_attr_getguardsize(&attr, &stack->guard);
    pthread_attr_getdetachstate(&attr, &stack->detached);
    stack->low = low;
    stack->inside = &here >= stack->low && &here < stack->low + stack->size;
    pthread_attr_destroy(&attr);
    return NULL;
}

static void stack_size(void)
{
    static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 3 << 20};
    for (int i = 0; i < 4; i++) {
        struct stack stack;
        pthread_t thread;
        need(try_start(&thread, sizes[i], describe, &stack) == 0, "pthread_create");
        joined(thread);
        check(stack.inside && stack.size >= sizes[i] - PAGE_BYTES, "a stack of %zu bytes, and its thread on it", sizes[i]);
    }
}

static void *fill_stack(void *arg)
{
    size_t size = *(size_t *)arg;
    volatile char block[size];
    for (size_t i = 0; i < size; i += 512)
        block[i] = (char)i;
    for (size_t i = 0; i < size; i += 512)
        if (block[i] != (char)i)
            return NULL;
    return arg;
}
static void stack_use(void)
{
    size_t use = 900 << 10;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        need(try_start(&threads[i], 1 << 20, fill_stack, &use) == 0, "pthread_create");
    for (int i = 0; i < 4; i++)
        check(joined(threads[i]) == &use, "900 KiB of a stack of 1 MiB hold what is written");
}

static void own_stack(void)
{
    enum { BYTES = 256 << 10 };
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    struct stack stack;
    need(memory != MAP_FAILED && pthread_attr_init(&attr) == 0, "a stack");
    check(pthread_attr_setstack(&attr, memory, BYTES) == 0, "a stack that the program brings");
    check(pthread_create(&thread, &attr, describe, &stack) == 0, "is taken");
    joined(thread);
    check(stack.inside && stack.low >= memory && stack.low + stack.size <= memory + BYTES, "its thread runs there");
    check(munmap(memory, BYTES) == 0, "and it is the program's again afterwards");
}

static void main_stack(void)
{
    struct stack stack;
    describe(&stack);
    check(stack.inside && stack.size >= (64 << 10), "the main thread is on its stack");
    check(stack.detached == PTHREAD_CREATE_JOINABLE, "and is joinable");
}

static void *touch_below(void *arg)
{
    struct stack stack;
    describe(&stack);
    // The lowest byte, and the guard below it.
    *(intptr_t *)arg = can_write(stack.low) << 1 | can_write(stack.low - 1);
    return NULL;
}
static intptr_t around_the_end(size_t guard)
{
    pthread_attr_t attr;
    pthread_t thread;
    intptr_t seen = -1;
    need(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 256 << 10) == 0, "attributes");
    need(pthread_attr_setguardsize(&attr, guard) == 0, "guard");
    need(pthread_create(&thread, &attr, touch_below, &seen) == 0, "pthread_create");
    joined(thread);
    return seen;
}
static void guard(void)
{
    check(around_the_end(PAGE_BYTES) == 2, "below the last byte of a stack is its guard");
    check(around_the_end(64 << 10) == 2, "of 64 KiB too");
}

static void refused(void)
{
    pthread_attr_t attr;
    need(pthread_attr_init(&attr) == 0, "attributes");
    check(pthread_attr_setstacksize(&attr, 16) == EINVAL, "a stack of 16 bytes");
    check(pthread_attr_setdetachstate(&attr, 99) == EINVAL, "an unknown state");
}

// ---- Names ---------------------------------------------------------------

static void *rename_self(void *arg)
{
    char now[16] = "";
    prctl(PR_SET_NAME, arg);
    sched_yield();
    prctl(PR_GET_NAME, now);
    return (void *)(intptr_t)(strcmp(now, arg) == 0);
}
static void names(void)
{
    char own[16], after[16];
    check(prctl(PR_SET_NAME, "main") == 0, "the main thread gets a name");
    pthread_t first = start(rename_self, "first"), second = start(rename_self, "second");
    check(joined(first) && joined(second), "two threads have their own");
    prctl(PR_GET_NAME, own);
    check(strcmp(own, "main") == 0, "the main thread's stays");
    check(pthread_setname_np(pthread_self(), "longer than fifteen") == ERANGE, "one that is too long");
    check(pthread_setname_np(pthread_self(), "fifteen letters") == 0, "the longest");
    prctl(PR_GET_NAME, after);
    check(strcmp(after, "fifteen letters") == 0, "is kept whole");
}

static void *own_name(void *arg)
{
    return (void *)(intptr_t)(prctl(PR_GET_NAME, arg) == 0);
}
static void name_inherited(void)
{
    char name[16] = "";
    prctl(PR_SET_NAME, "maker");
    check(joined(start(own_name, name)) && strcmp(name, "maker") == 0, "a new thread has its maker's name");
}

// ---- Processors ----------------------------------------------------------

static cpu_set_t allowed;

static cpu_set_t only_cpu(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return one;
}

// The first processor that this thread may be on, and all of them in `allowed`.
static cpu_set_t first_allowed(void)
{
    int cpu = 0;
    need(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    return only_cpu(cpu);
}

static void *where(void *arg)
{
    // On the one processor that it may be on, however often it looks.
    int only = (int)(intptr_t)arg;
    for (int i = 0; i < 50; i++) {
        unsigned now;
        if (syscall(SYS_getcpu, &now, NULL, NULL) != 0 || (int)now != only || sched_getcpu() != only)
            return NULL;
        sched_yield();
    }
    return arg ? arg : (void *)-1;
}
static void *move_around(void *arg)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) {
            cpu_set_t one = only_cpu(cpu), now;
            if (sched_setaffinity(0, sizeof one, &one) != 0 || sched_getaffinity(0, sizeof now, &now) < 0 ||
                !CPU_EQUAL(&one, &now) || where((void *)(intptr_t)cpu) == NULL)
                return NULL;
        }
    return arg;
}
static void affinity_moves(void)
{
    need(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start(move_around, threads);
    for (int i = 0; i < 4; i++)
        check(joined(threads[i]) == threads, "a thread is where it wants to be, on each processor in turn");
    cpu_set_t now;
    check(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &allowed), "the main thread may be anywhere still");
}

static void *get_affinity(void *arg)
{
    return (void *)(intptr_t)(sched_getaffinity(0, sizeof(cpu_set_t), arg) == 0);
}
static void affinity_inherited(void)
{
    cpu_set_t one = first_allowed(), seen;
    check(sched_setaffinity(0, sizeof one, &one) == 0, "the main thread may be on one processor");
    memset(&seen, 0, sizeof seen);
    check(joined(start(get_affinity, &seen)) && CPU_EQUAL(&seen, &one), "so may a new thread");
    check(sched_setaffinity(0, sizeof allowed, &allowed) == 0, "the main thread may be anywhere again");
}

static _Atomic pid_t stay_tid;
static atomic_int stay_end;
static void *stay(void *arg)
{
    stay_tid = own_tid();
    STAY_UNTIL(stay_end);
    return arg;
}
static void affinity_of_another(void)
{
    cpu_set_t one = first_allowed(), seen;
    stay_tid = stay_end = 0;
    pthread_t thread = start(stay, NULL);
    AWAIT(stay_tid);
    check(sched_setaffinity(stay_tid, sizeof one, &one) == 0, "another thread is sent to a processor");
    memset(&seen, 0, sizeof seen);
    check(sched_getaffinity(stay_tid, sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, &one), "it may be there only");
    check(sched_getaffinity(0, sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, &allowed), "its maker is as before");
    CPU_ZERO(&one);
    check_fails(sched_setaffinity(stay_tid, sizeof one, &one), EINVAL, "to no processor");
    stay_end = 1;
    joined(thread);
    AWAIT(signal_thread(stay_tid, 0) == -1);
    check_fails(sched_setaffinity(stay_tid, sizeof allowed, &allowed), ESRCH, "a thread that has ended");
}

// One that computes, and makes no call, goes there all the same.
static atomic_int look_cpu, look_end;
static void *look(void *arg)
{
    while (!look_end)
        look_cpu = sched_getcpu();
    return arg;
}
static void affinity_of_busy(void)
{
    need(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    look_cpu = -1;
    look_end = 0;
    pthread_t thread = start(look, NULL);
    AWAIT(look_cpu != -1);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) {
            cpu_set_t one = only_cpu(cpu);
            need(pthread_setaffinity_np(thread, sizeof one, &one) == 0, "pthread_setaffinity_np");
            AWAIT(look_cpu == cpu);
        }
    look_end = 1;
    joined(thread);
    check(1, "a thread that makes no calls is moved to each processor in turn");
}

// One that waits goes on there, too: once it went on wherever it had waited, until something interrupted it.
static sem_t wake_up, awake;
static void *wait_to_look(void *arg)
{
    unsigned cpu;
    while (sem_wait(&wake_up) == 0 && !look_end) {
        look_cpu = syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 ? (int)cpu : -1;
        sem_post(&awake);
    }
    return arg;
}
static void affinity_of_waiting(void)
{
    need(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    need(sem_init(&wake_up, 0, 0) == 0 && sem_init(&awake, 0, 0) == 0, "sem_init");
    int astray = look_end = 0;
    pthread_t thread = start(wait_to_look, NULL);
    for (int i = 0; i < 50 * CPU_SETSIZE; i++)
        if (CPU_ISSET(i % CPU_SETSIZE, &allowed)) {
            cpu_set_t one = only_cpu(i % CPU_SETSIZE);
            need(pthread_setaffinity_np(thread, sizeof one, &one) == 0, "pthread_setaffinity_np");
            sem_post(&wake_up);
            sem_wait(&awake);
            astray += look_cpu != i % CPU_SETSIZE;
        }
    check(astray == 0, "a thread that waits goes on on the processor that it was sent to");
    look_end = 1;
    sem_post(&wake_up);
    joined(thread);
}

// Two threads on one processor take turns by yielding alone.
static atomic_int turn;
static void *take_turns(void *arg)
{
    int own = (int)(intptr_t)arg;
    for (int i = 0; i < 200; i++) {
        while (turn % 2 != own)
            sched_yield();
        turn++;
    }
    return NULL;
}
static void yield_on_one(void)
{
    cpu_set_t one = first_allowed();
    turn = 0;
    sched_setaffinity(0, sizeof one, &one);
    pthread_t first = start(take_turns, (void *)0), second = start(take_turns, (void *)1);
    joined(first);
    joined(second);
    check(turn == 400, "400 turns on one processor");
    sched_setaffinity(0, sizeof allowed, &allowed);
}

// A thread that never gives its processor away does not keep another from it.
static atomic_int stop, started;
static void *compute(void *arg)
{
    started = 1;
    while (!stop)
        ;
    return arg;
}
static void *stop_it(void *arg)
{
    AWAIT(started);
    stop = 1;
    return arg;
}
static void shared_by_slices(void)
{
    cpu_set_t one = first_allowed();
    stop = started = 0;
    sched_setaffinity(0, sizeof one, &one);
    pthread_t computing = start(compute, NULL), stopping = start(stop_it, NULL);
    joined(stopping);
    joined(computing);
    check(stop == 1, "a thread that computes shares its processor with one that ends it");
    sched_setaffinity(0, sizeof allowed, &allowed);
}

// Another thread's processor time, and a timer on it: once only the caller's own had clocks.
static atomic_int runs, run_ends;
static void *run_until(void *arg)
{
    runs = 1;
    while (!run_ends)
        ;
    return arg;
}
static void clock_of_another(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec wanted = {.it_value = timespec_of(MS)}, left;
    struct timespec now;
    clockid_t clock;
    timer_t timer;
    runs = run_ends = 0;
    pthread_t thread = start(run_until, NULL);
    AWAIT(runs);
    check(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &now) == 0, "another thread has a clock");
    int64_t from = clock_ns(clock);
    AWAIT(clock_ns(clock) - from >= 5 * MS);
    int64_t of_thread = clock_ns(clock);
    check(clock_ns(CLOCK_PROCESS_CPUTIME_ID) >= of_thread, "its time is part of the process's");
    need(timer_create(clock, &event, &timer) == 0 && timer_settime(timer, 0, &wanted, NULL) == 0, "a timer");
    AWAIT(timer_gettime(timer, &left) == 0 && left.it_value.tv_sec + left.it_value.tv_nsec == 0);
    check(timer_delete(timer) == 0, "a timer on its time expires");
    run_ends = 1;
    joined(thread);
    AWAIT(clock_gettime(clock, &now) == -1 && errno == EINVAL);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(stack_size), CASE(stack_use), CASE(own_stack), CASE(main_stack), CASE(guard), CASE(refused),
        CASE(names), CASE(name_inherited), CASE(affinity_moves), CASE(affinity_inherited),
        CASE(affinity_of_another), CASE(affinity_of_busy), CASE(affinity_of_waiting), CASE(yield_on_one),
        CASE(shared_by_slices), CASE(clock_of_another),
    };
    return RUN_CASES(cases);
}
