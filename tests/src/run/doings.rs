//! What the processes of a run do that hangs: which computes, and which waits for what.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Of a process and all its descendants, a line per thread: numbers of the process and the thread, its name, state, ticks of
/// processor time (of a hundredth of a second) in its program and in Linux, where in Linux it waits, and the call with its arguments (proc(5)).
#[must_use]
pub fn of(root: u32) -> String {
    let mut lines = String::new();
    let mut processes = vec![root];
    while let Some(process) = processes.pop() {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let read = |name| read(&thread.path(), name);
            let stat = read("stat");
            let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
            let fields: Vec<_> = rest.split(' ').collect();
            let field = |number: usize| fields.get(number - 3).copied().unwrap_or("?");
            let _ = writeln!(
                lines,
                "{process} {name}) {} {} {} {} {}",
                field(3),
                field(14),
                field(15),
                read("wchan"),
                read("syscall"),
            );
            let children = read("children");
            processes.extend(
                children
                    .split(' ')
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    lines
}

fn read(thread: &Path, name: &str) -> String {
    let text = fs::read_to_string(thread.join(name)).unwrap_or_default();
    text.trim_end().into()
}

#[cfg(test)]
mod tests {
    use crate::process::wait_until;
    use crate::run::HANG;
    use std::process::Command;

    #[test]
    fn a_child_of_a_child_is_seen_to_sleep() {
        let mut command = Command::new("sh");
        let mut shell = command.args(["-c", "sleep 30; :"]).spawn().expect("runs");
        let mut seen = String::new();
        let sleeps = |line: &str| line.contains(" (sleep) S ");
        let is_seen = wait_until(HANG, || {
            seen = super::of(shell.id());
            seen.lines().any(sleeps)
        });
        let sleeper = seen.lines().find(|line| sleeps(line)).unwrap_or_default();
        let number = sleeper.split(' ').next().and_then(|pid| pid.parse().ok());
        assert!(number.is_some_and(crate::process::kill), "{seen}");
        assert!(shell.wait().is_ok() && is_seen, "{seen}");
    }
}
