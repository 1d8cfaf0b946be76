// Rust's Instant, SystemTime, Duration and thread::sleep on the main thread.
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn check(ok: bool, text: &str) -> u8 {
    println!("{} {text}", if ok { "ok  " } else { "FAIL" });
    u8::from(!ok)
}

fn main() -> std::process::ExitCode {
    let mut failures = 0;
    let mut last = Instant::now();
    let mut back = 0;
    for _ in 0..100_000 {
        let now = Instant::now();
        back += u32::from(now < last);
        last = now;
    }
    failures += check(back == 0, "100,000 instants never run backwards");
    for ms in [1u64, 10, 60] {
        let start = Instant::now();
        sleep(Duration::from_millis(ms));
        let slept = start.elapsed();
        failures += check(slept >= Duration::from_millis(ms) && slept < Duration::from_secs(10), &format!("sleep of {ms} ms"));
    }
    let start = SystemTime::now();
    std::fs::write("f", "x").expect("write");
    let written = std::fs::metadata("f").and_then(|m| m.modified()).expect("modified");
    let tick = Duration::from_millis(20);
    failures += check(written + tick >= start && written <= SystemTime::now(), "a file's time is the present");
    let since = start.duration_since(UNIX_EPOCH).expect("after 1970");
    failures += check(since.as_secs() > 1_700_000_000, "the system time is after 2023");
    failures += check(UNIX_EPOCH.duration_since(start).is_err(), "and not before 1970");
    println!("     {:?} {:?}", Duration::from_nanos(1_234_567_890), Duration::from_secs_f64(0.5));
    failures.into()
}
