// OpenMP in C: regions, loops of every schedule, reductions, sections, single,
// critical, atomic, ordered, locks, tasks, nesting, thread-private variables.
// With the argument `places` also where threads are.
#include "../common/check.h"

#include <omp.h>
#include <sched.h>

enum { N = 2000 };
static int seen[N];
static int own = -1;
#pragma omp threadprivate(own)

static void team(void)
{
    int threads = 0, sum = 0;
#pragma omp parallel num_threads(4) reduction(+ : sum)
    {
#pragma omp single
        threads = omp_get_num_threads();
        sum += omp_get_thread_num();
    }
    check(threads == 4 && sum == 6, "four threads, each with its number");
    check(!omp_in_parallel() && omp_get_num_threads() == 1, "one outside");
}

// Every iteration once.
static int once(void)
{
    int right = 1;
    for (int i = 0; i < N; i++)
        right &= seen[i] == 1;
    memset(seen, 0, sizeof seen);
    return right;
}
static void schedules(void)
{
#pragma omp parallel for schedule(static) num_threads(4)
    for (int i = 0; i < N; i++)
        seen[i]++;
    check(once(), "static");
#pragma omp parallel for schedule(static, 7) num_threads(4)
    for (int i = 0; i < N; i++)
        seen[i]++;
    check(once(), "static in pieces");
#pragma omp parallel for schedule(dynamic, 3) num_threads(4)
    for (int i = 0; i < N; i++)
        seen[i]++;
    check(once(), "dynamic");
#pragma omp parallel for schedule(guided) num_threads(4)
    for (int i = 0; i < N; i++)
        seen[i]++;
    check(once(), "guided");
    omp_set_schedule(omp_sched_dynamic, 11);
#pragma omp parallel for schedule(runtime) num_threads(4)
    for (int i = 0; i < N; i++)
        seen[i]++;
    check(once(), "as set at run time");
#pragma omp parallel for collapse(2) num_threads(4)
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < 50; k++)
            seen[i * 50 + k]++;
    check(once(), "two loops as one");
}

static void reductions(void)
{
    long sum = 0, product = 1;
    int most = 0, all = 1, bits = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum) reduction(* : product) reduction(max : most) reduction(&& : all) reduction(| : bits)
    for (int i = 1; i <= 20; i++) {
        sum += i;
        product *= i % 5 + 1;
        most = i > most ? i : most;
        all = all && i > 0;
        bits |= i;
    }
    check(sum == 210 && product == 207360000, "sum and product");
    check(most == 20 && all && bits == 31, "greatest, all, bits");
    int counts[8] = {0};
#pragma omp parallel for num_threads(4) reduction(+ : counts[ : 8])
    for (int i = 0; i < N; i++)
        counts[i % 8]++;
    int right = 1;
    for (int i = 0; i < 8; i++)
        right &= counts[i] == N / 8;
    check(right, "of an array");
}

static void exclusion(void)
{
    long critical = 0, atomic = 0, locked = 0;
    int singles = 0, masters = 0, order[64], at = 0, sections[3] = {0};
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(4)
    {
        for (int i = 0; i < 200; i++) {
#pragma omp critical
            critical++;
#pragma omp atomic
            atomic++;
            omp_set_lock(&lock);
            locked++;
            omp_unset_lock(&lock);
        }
#pragma omp barrier
#pragma omp single
        singles++;
#pragma omp master
        masters++;
#pragma omp for ordered
        for (int i = 0; i < 64; i++) {
#pragma omp ordered
            order[at++] = i;
        }
#pragma omp sections
        {
#pragma omp section
            sections[0]++;
#pragma omp section
            sections[1]++;
#pragma omp section
            sections[2]++;
        }
    }
    omp_destroy_lock(&lock);
    check(critical == 800 && atomic == 800 && locked == 800, "critical, atomic, lock");
    check(singles == 1 && masters == 1, "single and master");
    int right = at == 64;
    for (int i = 0; i < 64; i++)
        right &= order[i] == i;
    check(right, "ordered");
    check(sections[0] == 1 && sections[1] == 1 && sections[2] == 1, "sections");
}

static int fibonacci(int n)
{
    int a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a) if (n > 5)
    a = fibonacci(n - 1);
#pragma omp task shared(b) if (n > 5)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}
static void tasks(void)
{
    int result = 0, chain = 0, loop = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
        result = fibonacci(15);
        for (int i = 0; i < 20; i++)
#pragma omp task depend(inout : chain)
            chain = chain * 3 % 1000 + i;
#pragma omp taskgroup
        for (int i = 0; i < 50; i++)
#pragma omp task
#pragma omp atomic
            loop++;
        loop = loop == 50 ? 1000 : -1000;
#pragma omp taskloop num_tasks(10)
        for (int i = 0; i < 100; i++)
#pragma omp atomic
            loop++;
    }
    int wanted = 0;
    for (int i = 0; i < 20; i++)
        wanted = wanted * 3 % 1000 + i;
    check(result == 610, "tasks of tasks");
    check(chain == wanted, "tasks that depend on each other run in order");
    check(loop == 1100, "a group and a loop of tasks");
}

static void nested(void)
{
    int inner = 0, levels = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2) reduction(+ : inner)
    {
        int mine = 0;
#pragma omp parallel num_threads(3) reduction(+ : mine)
        {
            mine += 1;
#pragma omp critical
            levels = omp_get_level();
        }
        inner += mine;
    }
    check(inner == 6 && levels == 2, "two threads with three each");
}

static void thread_private(void)
{
    int wrong = 0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(4)
    own = omp_get_thread_num() * 10;
#pragma omp parallel num_threads(4) reduction(+ : wrong)
    wrong += own != omp_get_thread_num() * 10;
    check(wrong == 0, "each thread keeps its own between regions");
    own = 99;
#pragma omp parallel num_threads(4) copyin(own) reduction(+ : wrong)
    wrong += own != 99;
    check(wrong == 0, "or takes the first one's");
    int value = 0, last = 0, first = 5;
#pragma omp parallel for num_threads(4) firstprivate(first) lastprivate(last)
    for (int i = 0; i < 100; i++)
        last = i + first;
#pragma omp parallel num_threads(4) private(value)
    {
#pragma omp single copyprivate(value)
        value = 33;
#pragma omp critical
        wrong += value != 33;
    }
    check(last == 104 && wrong == 0, "first, last and copied private variables");
}

static void places(void)
{
    cpu_set_t all;
    int elsewhere = 0;
    need(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    // Where threads are bound, the main thread has its own place by now.
    if (omp_get_proc_bind() == omp_proc_bind_false) {
        check(omp_get_num_procs() == CPU_COUNT(&all), "as many processors as this process may use");
#pragma omp parallel reduction(+ : elsewhere)
        elsewhere += !CPU_ISSET(sched_getcpu(), &all);
        check(elsewhere == 0, "threads are on these only");
    }
#pragma omp parallel num_threads(2) proc_bind(spread) reduction(+ : elsewhere)
    {
        cpu_set_t own_place;
        elsewhere += sched_getaffinity(0, sizeof own_place, &own_place) != 0 || CPU_COUNT(&own_place) == 0;
        elsewhere += !CPU_ISSET(sched_getcpu(), &own_place);
    }
    check(elsewhere == 0, "bound threads are in their places");
}

int main(int argc, char **argv)
{
    team();
    schedules();
    reductions();
    exclusion();
    tasks();
    nested();
    thread_private();
    if (argc > 1 && strcmp(argv[1], "places") == 0)
        places();
    return check_done();
}
