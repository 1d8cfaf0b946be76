//! CPUs, interrupts between them, timers.

use crate::run::check;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use qk_hal::traps::UserFrame;
use qk_hal::vectors::{VEC_TIMER, VEC_WAKE};
use qk_hal::{apic, cpu, smp, task, time};

/// Interrupts by vector, all CPUs.
static SEEN: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
/// When the last timer interrupt came.
static LAST_TIMER: AtomicU64 = AtomicU64::new(0);
/// Of those, the ones from ring 3.
pub static FROM_USER: AtomicU64 = AtomicU64::new(0);
static UP: AtomicUsize = AtomicUsize::new(0);
/// The AP that shall panic.
static DOOMED: AtomicBool = AtomicBool::new(false);

/// No wait takes longer, not even emulated on a loaded host.
const PATIENCE_S: u64 = 10;

pub fn interrupt(vector: u8, from_user: bool, frame: Option<&mut UserFrame>) {
    assert_eq!(from_user, frame.is_some());
    if vector == VEC_TIMER {
        LAST_TIMER.store(time::tsc(), Ordering::Relaxed);
    }
    FROM_USER.fetch_add(u64::from(from_user), Ordering::Relaxed);
    SEEN[usize::from(vector)].fetch_add(1, Ordering::Relaxed);
}

fn seen(vector: u8) -> u64 {
    SEEN[usize::from(vector)].load(Ordering::Relaxed)
}

fn ap_main() -> ! {
    let idle = task::adopt();
    // An own context, the right number, a timer of its own.
    assert!(cpu::id() > 0 && cpu::id() < cpu::count() && idle.root().is_none());
    core::mem::forget(idle);
    if DOOMED.load(Ordering::Relaxed) {
        assert!(cpu::id() != 1, "as told");
        loop {
            cpu::pause();
        }
    }
    apic::timer_set(time::tsc() + time::tsc_hz() / 1000);
    UP.fetch_add(1, Ordering::Release);
    loop {
        cpu::halt();
    }
}

/// Waits until `done`, taking interrupts.
fn wait_for(done: impl Fn() -> bool) -> bool {
    let end = time::tsc() + PATIENCE_S * time::tsc_hz();
    while !done() {
        if time::tsc() > end {
            return false;
        }
        cpu::take_interrupts();
        cpu::pause();
    }
    true
}

/// Starts all CPUs, interrupts each, and sees each one's timer.
pub fn start() {
    smp::start_aps(ap_main);
    let others = cpu::count() as u64 - 1;
    check(
        "every CPU runs",
        cpu::count() == smp::expected() && wait_for(|| UP.load(Ordering::Acquire) as u64 == others),
    );
    check("every CPU's timer", wait_for(|| seen(VEC_TIMER) == others));
    (0..cpu::count()).for_each(|cpu| cpu::send_ipi(cpu, VEC_WAKE));
    check(
        "every CPU takes an interrupt",
        wait_for(|| seen(VEC_WAKE) == others + 1),
    );
}

/// The boot CPU's timer: never much too early, and off when it is off.
pub fn timer() {
    for us in [1, 100, 2000] {
        let (before, deadline) = (
            seen(VEC_TIMER),
            time::tsc() + time::tsc_hz() / 1_000_000 * us,
        );
        apic::timer_set(deadline);
        while seen(VEC_TIMER) == before {
            cpu::halt();
        }
        // 5 %: what calibration on a loaded host may be wrong by.
        let early = deadline.saturating_sub(LAST_TIMER.load(Ordering::Relaxed));
        check("timer", early <= time::tsc_hz() / 1_000_000 * us / 20);
    }
    check("timer off", is_off_when_off());
}

/// Sets the timer, turns it off before it is due, and waits until it would have come. On a loaded host it may be due before it
/// is off; that is no answer, and it is tried again.
fn is_off_when_off() -> bool {
    let give_up = time::tsc() + PATIENCE_S * time::tsc_hz();
    while time::tsc() < give_up {
        let deadline = time::tsc() + time::tsc_hz() / 2000;
        apic::timer_set(deadline);
        apic::timer_off();
        let in_time = time::tsc() < deadline;
        // What was due before it was off comes now.
        cpu::take_interrupts();
        let before = seen(VEC_TIMER);
        while time::tsc() < deadline + time::tsc_hz() / 1000 {
            cpu::take_interrupts();
        }
        if in_time {
            return seen(VEC_TIMER) == before;
        }
    }
    false
}

/// CPU 1 panics while the others spin.
pub fn die_on_ap() {
    DOOMED.store(true, Ordering::Relaxed);
    smp::start_aps(ap_main);
    loop {
        cpu::pause();
    }
}
