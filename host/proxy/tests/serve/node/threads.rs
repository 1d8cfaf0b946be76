//! What Linux shows of the proxy's threads.

use super::Node;

impl Node {
    fn status(&self, line: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mut lines = status.lines();
        let found = lines.find_map(|text| text.strip_prefix(line)?.strip_prefix(":\t"));
        found.unwrap().to_owned()
    }

    /// Whether the thread with this name blocks a signal. It has its name only once the C library has set its first mask.
    pub fn is_blocked_by(&self, thread: &str, signo: u32) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        tasks.flatten().any(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            let of = |line| {
                status
                    .lines()
                    .find_map(|text| text.strip_prefix(line)?.strip_prefix(":\t"))
            };
            let blocked = u64::from_str_radix(of("SigBlk").unwrap(), 16).unwrap();
            of("Name") == Some(thread) && blocked & 1 << (signo - 1) != 0
        })
    }

    /// How often the proxy's thread went to sleep.
    pub(super) fn sleeps(&self) -> u64 {
        self.status("voluntary_ctxt_switches").parse().unwrap()
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.status("State").starts_with('S')
    }
}
