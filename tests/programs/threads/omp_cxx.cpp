// OpenMP in C++, where threads meet the language: reductions of classes, loops over iterators, thread-private objects with
// constructors, tasks that hold objects and throw, nested regions, places.
#include "../common/check.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <omp.h>
#include <sched.h>

static constexpr int THREADS = 4, N = 1000;

struct Extent {
    long least = N, most = -1, count = 0;
    void add(long value) { least = std::min(least, value), most = std::max(most, value), count++; }
    void add(const Extent &other)
    {
        least = std::min(least, other.least), most = std::max(most, other.most), count += other.count;
    }
};
#pragma omp declare reduction(merge : Extent : omp_out.add(omp_in))
#pragma omp declare reduction(append : std::vector<int> : omp_out.insert(omp_out.end(), omp_in.begin(), omp_in.end()))

static void reductions()
{
    Extent extent;
    std::vector<int> all;
    std::vector<double> values(N);
    std::iota(values.begin(), values.end(), 0.0);
    double sum = 0;
#pragma omp parallel for num_threads(THREADS) schedule(dynamic, 7) reduction(merge : extent) reduction(append : all)
    for (int i = 0; i < N; i++) {
        extent.add(i);
        all.push_back(i);
    }
    check(extent.least == 0 && extent.most == N - 1 && extent.count == N, "of a class");
    std::sort(all.begin(), all.end());
    bool complete = all.size() == N;
    for (int i = 0; complete && i < N; i++)
        complete = all[i] == i;
    check(complete, "of a container, every element once");
#pragma omp parallel for num_threads(THREADS) reduction(+ : sum)
    for (auto at = values.begin(); at < values.end(); ++at)
        sum += *at;
    check(sum == N * (N - 1) / 2.0, "over iterators");
#pragma omp parallel for num_threads(THREADS) reduction(- : sum)
    for (double value : values)
        sum -= value;
    check(sum == 0, "over a range");
}

// Each thread's own is made when the thread first uses it.
struct Own {
    static inline std::atomic<int> made{0};
    std::vector<int> held;
    Own() { made++; }
    Own(const Own &other) : held(other.held) { made++; }
    Own &operator=(const Own &) = default;
};
extern Own own;
#pragma omp threadprivate(own)
Own own;

static void thread_private()
{
    int wrong = 0;
    omp_set_dynamic(0);
    own.held.clear();
#pragma omp parallel num_threads(THREADS)
    for (int i = 0; i <= omp_get_thread_num(); i++)
        own.held.push_back(i);
#pragma omp parallel num_threads(THREADS) reduction(+ : wrong)
    wrong += own.held.size() != size_t(omp_get_thread_num()) + 1;
    check(wrong == 0 && Own::made == THREADS, "an object of each thread, kept between regions");
    own.held.assign(9, 9);
#pragma omp parallel num_threads(THREADS) copyin(own) reduction(+ : wrong)
    wrong += own.held != std::vector<int>(9, 9);
    check(wrong == 0, "or a copy of the first one's");
    std::string text = "given", last;
#pragma omp parallel for num_threads(THREADS) firstprivate(text) lastprivate(last)
    for (int i = 0; i < 100; i++) {
        text += '.';
        last = text.substr(0, 5) + std::to_string(i);
    }
    check(text == "given" && last == "given99", "strings, first and last private");
}

static int sum_of(const std::vector<int> &values)
{
    if (values.size() < 8)
        return std::accumulate(values.begin(), values.end(), 0);
    const auto middle = values.begin() + long(values.size() / 2);
    std::vector<int> low(values.begin(), middle), high(middle, values.end());
    int a = 0, b = 0;
#pragma omp task shared(a) firstprivate(low)
    a = sum_of(low);
#pragma omp task shared(b) firstprivate(high)
    b = sum_of(high);
#pragma omp taskwait
    return a + b;
}

static void tasks()
{
    std::vector<int> values(500);
    std::iota(values.begin(), values.end(), 1);
    std::list<std::string> words{"a", "bb", "ccc", "dddd", "eeeee"};
    std::map<std::string, size_t> lengths;
    std::string order;
    int sum = 0, caught = 0;
#pragma omp parallel num_threads(THREADS)
#pragma omp single
    {
        sum = sum_of(values);
        for (const auto &word : words)
#pragma omp task firstprivate(word)
#pragma omp critical
            lengths[word] = word.size();
        for (char letter = 'a'; letter < 'f'; letter++)
#pragma omp task depend(inout : order) firstprivate(letter)
            order += letter;
        for (int i = 0; i < 50; i++)
#pragma omp task firstprivate(i)
            try {
                if (i % 2)
                    throw std::runtime_error(std::to_string(i));
            } catch (const std::runtime_error &error) {
#pragma omp atomic
                caught += std::stoi(error.what()) == i;
            }
    }
    check(sum == 125250, "tasks of tasks, each with a copy of a container");
    check(lengths.size() == 5 && lengths["dddd"] == 4, "a task for each node of a list");
    check(order == "abcde", "tasks that depend on each other run in order");
    check(caught == 25, "exceptions within tasks");
}

static void exceptions()
{
    std::vector<int> caught(THREADS);
#pragma omp parallel num_threads(THREADS)
    for (int i = 0; i < 200; i++)
        try {
            if (caught.at(size_t(omp_get_thread_num() + THREADS * (i % 2))) < 0)
                caught[0] = N;
        } catch (const std::out_of_range &) {
            caught[size_t(omp_get_thread_num())]++;
        }
    check(caught == std::vector<int>(THREADS, 100), "threads that throw at the same time");
}

static void nested()
{
    std::vector<std::vector<int>> seen(2, std::vector<int>(3));
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        auto &mine = seen[size_t(omp_get_thread_num())];
#pragma omp parallel num_threads(3)
        mine[size_t(omp_get_thread_num())] = omp_get_level() * 10 + omp_get_ancestor_thread_num(1);
    }
    check(seen[0] == std::vector<int>(3, 20) && seen[1] == std::vector<int>(3, 21), "two threads with three each");
}

static void places()
{
    int wrong = 0;
#pragma omp parallel num_threads(2) proc_bind(close) reduction(+ : wrong)
    {
        cpu_set_t set;
        wrong += sched_getaffinity(0, sizeof set, &set) != 0 || !CPU_ISSET(sched_getcpu(), &set);
        if (omp_get_num_places() > 0)
            wrong += omp_get_place_num() < 0 || omp_get_place_num() >= omp_get_num_places();
    }
    check(wrong == 0, "threads are in their places");
}

int main()
{
    reductions();
    thread_private();
    tasks();
    exceptions();
    nested();
    places();
    return check_done();
}
