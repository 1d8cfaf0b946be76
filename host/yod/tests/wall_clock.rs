//! The node's wall clock steps back only with the host's. Skipped where no kernel is built.

mod common;

use std::os::fd::OwnedFd;

use common::{compile, dir, has_node, run, skipped, yod};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Prints how often CLOCK_REALTIME stepped back in the time of three refreshes of the clock by the keeper.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <time.h>
static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
int main(void) {
    long long end = now(CLOCK_MONOTONIC) + 2500000000LL, last = now(CLOCK_REALTIME), back = 0;
    while (now(CLOCK_MONOTONIC) < end) {
        long long t = now(CLOCK_REALTIME);
        back += t < last;
        last = t;
    }
    printf("%lld\n", back);
    return 0;
}
"#;

/// Prints when the host's time is set.
struct Settings(OwnedFd);

impl Settings {
    fn watch() -> Settings {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags).expect("a timer");
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
        let never = Itimerspec {
            it_interval: time(0),
            it_value: time(i64::from(u32::MAX)),
        };
        timerfd_settime(&timer, flags, &never).expect("set");
        Settings(timer)
    }

    fn any(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]) == Err(Errno::CANCELED)
    }
}

/// The conformance program allows one step back, for natively the clock may be set while it runs: a node that steps once each time
/// passed.
#[test]
fn the_wall_clock_steps_back_with_the_hosts_alone() {
    if !has_node() {
        return;
    }
    let program = compile(&dir("wall_clock"), "program", PROGRAM);
    for _ in 0..5 {
        let settings = Settings::watch();
        let ended = run(yod().arg(&program));
        if !settings.any() {
            assert_eq!((ended.status, ended.out.as_str()), (0, "0\n"), "{ended:?}");
            return;
        }
    }
    skipped("the host's time is set again and again");
}
