// std::chrono and this_thread: steady and system clocks, sleep_for and
// sleep_until, arithmetic of durations, calendar-free conversions.
#include "../common/check.h"
#include <chrono>
#include <thread>

using namespace std::chrono;

int main()
{
    check(steady_clock::is_steady, "steady_clock says that it is");
    auto last = steady_clock::now();
    int back = 0;
    for (int i = 0; i < 100000; i++) {
        auto now = steady_clock::now();
        back += now < last;
        last = now;
    }
    check(back == 0, "100,000 readings never run backwards");

    auto start = steady_clock::now();
    std::this_thread::sleep_for(milliseconds(30));
    auto slept = steady_clock::now() - start;
    check(slept >= milliseconds(30) && slept < seconds(10), "sleep_for 30 ms");
    auto until = steady_clock::now() + milliseconds(20);
    std::this_thread::sleep_until(until);
    check(steady_clock::now() >= until, "sleep_until");
    auto wall = system_clock::now() + milliseconds(20);
    std::this_thread::sleep_until(wall);
    check(system_clock::now() >= wall, "sleep_until of the system clock");

    auto seconds_now = system_clock::to_time_t(system_clock::now());
    auto difference = seconds_now - time(nullptr);
    check(difference >= -1 && difference <= 1, "to_time_t agrees with time");
    constexpr auto length = hours(25) + minutes(61) + milliseconds(1500);
    printf("     %lld ms, %lld h\n", static_cast<long long>(length.count()),
                static_cast<long long>(duration_cast<hours>(length).count()));
    check(duration<double>(length).count() == 93661.5, "durations convert");
    check(floor<days>(system_clock::from_time_t(951782400)).time_since_epoch().count() == 11016, "whole days");
    return check_done();
}
