// C++ threads: thread, jthread and stop tokens, mutexes, condition variables,
// async, futures, atomic wait, latch, barrier, semaphore, exceptions across threads.
#include "../common/check.h"

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <numeric>
#include <queue>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static constexpr int THREADS = 4, ROUNDS = 500;

template <typename Body> static void in_threads(Body body)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(body, i);
    for (auto &thread : threads)
        thread.join();
}

struct Counted {
    static inline std::atomic<int> alive{0}, made{0};
    int value = 3;
    Counted() { alive++, made++; }
    ~Counted() { alive--; }
};

static void locks()
{
    std::mutex mutex;
    std::recursive_timed_mutex recursive;
    std::shared_mutex shared;
    long sum = 0, twice = 0, pair[2] = {0, 0};
    std::atomic<int> torn{0};
    in_threads([&](int index) {
        for (int i = 0; i < ROUNDS; i++) {
            {
                std::lock_guard guard(mutex);
                sum++;
            }
            {
                std::scoped_lock guard(recursive, mutex);
                std::lock_guard again(recursive);
                twice++;
            }
            if (index == 0) {
                std::unique_lock guard(shared);
                pair[0]++, pair[1]++;
            } else {
                std::shared_lock guard(shared);
                torn += pair[0] != pair[1];
            }
        }
    });
    check(sum == THREADS * ROUNDS && twice == THREADS * ROUNDS && torn == 0, "mutexes exclude");
    std::timed_mutex timed;
    timed.lock();
    bool got = true;
    std::thread([&] { got = timed.try_lock_for(std::chrono::milliseconds(10)); }).join();
    check(!got, "a try for 10 ms fails while it is held");
}

static void queue()
{
    std::queue<int> values;
    std::mutex mutex;
    std::condition_variable_any changed;
    std::atomic<long> sum{0};
    bool done = false;
    in_threads([&](int index) {
        if (index == 0) {
            for (int i = 1; i <= ROUNDS; i++) {
                std::lock_guard guard(mutex);
                values.push(i);
                changed.notify_one();
            }
            std::lock_guard guard(mutex);
            done = true;
            changed.notify_all();
            return;
        }
        for (;;) {
            std::unique_lock guard(mutex);
            changed.wait(guard, [&] { return done || !values.empty(); });
            if (values.empty())
                return;
            sum += values.front();
            values.pop();
        }
    });
    check(sum == ROUNDS * (ROUNDS + 1) / 2, "a queue of one producer and three consumers");
}

static void futures()
{
    auto sum = [](int from, int to) {
        std::vector<int> values(to - from);
        std::iota(values.begin(), values.end(), from);
        return std::accumulate(values.begin(), values.end(), 0L);
    };
    auto low = std::async(std::launch::async, sum, 0, 1000), high = std::async(std::launch::async, sum, 1000, 2000);
    check(low.get() + high.get() == 1999000, "two futures are added");
    auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("thrown in a thread"); });
    std::string text;
    try {
        failing.get();
    } catch (const std::runtime_error &error) {
        text = error.what();
    }
    check(text == "thrown in a thread", "an exception crosses threads");
    std::promise<std::string> promise;
    auto promised = promise.get_future();
    std::thread([&] { promise.set_value("kept"); }).join();
    check(promised.get() == "kept", "a promise is kept");
    std::packaged_task<int(int)> task([](int x) { return x * 2; });
    auto doubled = task.get_future();
    std::thread(std::move(task), 21).join();
    check(doubled.get() == 42, "a task");
}

static void waits()
{
    std::atomic<int> turn{0};
    std::atomic<bool> wrong{false};
    in_threads([&](int index) {
        for (int round = 0; round < 50; round++) {
            for (int now = turn; now % THREADS != index; now = turn)
                turn.wait(now);
            turn++;
            turn.notify_all();
        }
    });
    check(turn == 50 * THREADS, "turns by atomic wait and notify");
    std::latch all(THREADS);
    std::barrier rounds(THREADS, [&]() noexcept { turn = 0; });
    std::counting_semaphore<2> two(2);
    std::atomic<int> inside{0}, most{0};
    in_threads([&](int) {
        all.arrive_and_wait();
        for (int round = 0; round < 50; round++) {
            turn++;
            rounds.arrive_and_wait();
            wrong = wrong || turn != 0;
            rounds.arrive_and_wait();
            two.acquire();
            int now = ++inside;
            for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);)
                ;
            inside--;
            two.release();
            rounds.arrive_and_wait();
        }
    });
    check(!wrong && most <= 2, "latch, barrier with completion, semaphore of two");
}

static thread_local Counted own;
static void storage()
{
    std::atomic<int> wrong{0};
    std::once_flag once;
    int initialised = 0;
    in_threads([&](int index) {
        wrong += own.value != 3;
        own.value = index;
        std::this_thread::yield();
        wrong += own.value != index;
        std::call_once(once, [&] { initialised++; });
    });
    check(wrong == 0 && Counted::made == THREADS && Counted::alive == 0, "objects of each thread, made and destroyed");
    check(initialised == 1, "called once");
}

static void stops()
{
    std::atomic<int> stopped{0};
    {
        std::condition_variable_any never;
        std::mutex mutex;
        std::vector<std::jthread> threads;
        for (int i = 0; i < THREADS; i++)
            threads.emplace_back([&](std::stop_token token) {
                std::unique_lock guard(mutex);
                never.wait(guard, token, [] { return false; });
                stopped += token.stop_requested();
            });
    }
    check(stopped == THREADS, "joining threads are stopped, and joined");
}

int main()
{
    locks();
    queue();
    futures();
    waits();
    storage();
    stops();
    check(std::thread::hardware_concurrency() > 0, "the number of processors is known");
    return check_done();
}
