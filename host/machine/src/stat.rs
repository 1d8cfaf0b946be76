//! What /proc/PID/stat says of a process, and of its threads (proc(5)).

use std::io;
use std::path::Path;
use std::str::FromStr;

/// Number of the field with the parent's pid.
pub const PARENT: usize = 4;
/// Number of the fields with the time in user mode and in the kernel, in clock ticks.
pub const USER_TIME: usize = 14;
/// See [`USER_TIME`].
pub const SYSTEM_TIME: usize = 15;
/// Number of the field with the time at which it began, in clock ticks since the host did.
pub const START: usize = 22;

/// Number of the field with Linux's flags.
const FLAGS: usize = 9;

/// `PF_EXITING` of include/linux/sched.h: it runs nothing of the program any more.
const EXITING: u32 = 4;

/// The file's text; `None`: the process is gone. Its name may be any bytes.
#[must_use]
pub fn read(pid: u32) -> Option<String> {
    read_from(Path::new(&format!("/proc/{pid}")))
}

fn read_from(folder: &Path) -> Option<String> {
    let bytes = std::fs::read(folder.join("stat")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// How many threads of this process run. One that has been joined may be listed a moment longer, until Linux has
/// removed it: joining waits for its memory only (`set_tid_address(2)`).
///
/// # Errors
/// `/proc` cannot be read.
pub fn threads_running() -> io::Result<usize> {
    let mut running = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // One that is gone by now does not run.
        let flags = read_from(&thread?.path()).and_then(|stat| field(&stat, FLAGS));
        running += usize::from(flags.is_some_and(runs));
    }
    Ok(running)
}

fn runs(flags: u32) -> bool {
    flags & EXITING == 0
}

/// A field from the third on, counted from 1: the name, the second, is in parentheses and may hold anything.
#[must_use]
pub fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_after_the_name() {
        assert_eq!(field("7 (a) b) S 5 1", PARENT), Some(5));
        assert_eq!(field::<i32>("7 (a) S", PARENT), None);
        let own = read(std::process::id()).expect("it is there");
        assert_eq!(
            field(&own, PARENT),
            Some(std::os::unix::process::parent_id())
        );
        assert_eq!(read(u32::MAX), None);
    }

    /// Threads of other tests come and go meanwhile, so those that were joined are checked themselves.
    #[test]
    fn threads_that_were_joined_do_not_run() {
        for _ in 0..20_000 {
            let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero());
            let id = thread.join().expect("it ends");
            let stat = read_from(Path::new(&format!("/proc/self/task/{id}")));
            let flags: Option<u32> = stat.and_then(|stat| field(&stat, FLAGS));
            assert!(!flags.is_some_and(runs), "{flags:x?}");
        }
        assert!(threads_running().expect("/proc") >= 1);
    }
}
