//! What `--stats` says of a rank's children, which ran on Linux.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use wire::children::{self, Entry, state};

use crate::failure::signal_text;

/// The most bytes of a name, as Linux has it.
const NAME_BYTES: usize = 16;

/// A rank's children.
#[derive(Serialize, Debug)]
pub struct Children {
    /// All.
    count: u64,
    /// The first of them.
    listed: Vec<Child>,
}

#[derive(Serialize, Debug)]
struct Child {
    pid: u64,
    name: String,
    /// Processor time, with that of children that it waited for.
    user_us: u64,
    system_us: u64,
    end: End,
    /// As wait(2) has it, of one that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_status: Option<u64>,
}

/// What is known of a child's end.
#[derive(Serialize, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum End {
    /// There was none while the rank lived.
    Lives,
    /// It ended.
    Ended,
    /// It was not waited for.
    Unseen,
}

impl Children {
    /// Reads what the proxy wrote down.
    pub fn of(children: &children::Children) -> Children {
        Children {
            count: children.count.load(),
            listed: children.listed().iter().map(Child::of).collect(),
        }
    }

    /// A line for all, and one for each.
    pub fn rows(&self, out: &mut String) -> std::fmt::Result {
        if self.count == 0 {
            return Ok(());
        }
        let noun = if self.count == 1 { "child" } else { "children" };
        writeln!(out, "  {} {noun}, on Linux:", self.count)?;
        for child in &self.listed {
            let time = |us| format!("{:.3} s", Duration::from_micros(us).as_secs_f64());
            let (name, pid) = (child.name.escape_debug().to_string(), child.pid);
            let (user, system) = (time(child.user_us), time(child.system_us));
            let end = child.end();
            writeln!(
                out,
                "    {name:<16} {pid:>8} {user:>10} user {system:>10} system  {end}"
            )?;
        }
        match self.count.saturating_sub(self.listed.len() as u64) {
            0 => Ok(()),
            more => writeln!(out, "    and {more} more"),
        }
    }
}

impl Child {
    fn of(entry: &Entry) -> Child {
        let end = match entry.state.load() {
            state::ENDED => End::Ended,
            state::UNSEEN => End::Unseen,
            _ => End::Lives,
        };
        let mut name = [0; NAME_BYTES];
        Child {
            pid: entry.pid.load(),
            name: String::from_utf8_lossy(entry.name.get(&mut name)).into_owned(),
            user_us: entry.used_us[0].load(),
            system_us: entry.used_us[1].load(),
            wait_status: (end == End::Ended).then(|| entry.wait_status.load()),
            end,
        }
    }

    fn end(&self) -> String {
        match (&self.end, self.wait_status) {
            (End::Ended, Some(status)) if status & 0x7f == 0 => {
                format!("status {}", status >> 8 & 0xff)
            }
            (End::Ended, Some(status)) => signal_text(status as i32 & 0x7f),
            (End::Unseen, _) => "not waited for".into(),
            _ => "went on".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_listed_by_name_time_and_end() {
        let children = children::Children::default();
        let mut none = String::new();
        Children::of(&children).rows(&mut none).expect("text");
        assert_eq!(none, "");
        for (pid, ended, status, name) in [
            (7, state::ENDED, 3 << 8, "sh"),
            (8, state::ENDED, 9, "\x1b[1m"),
            (9, state::UNSEEN, 0, ""),
            (10, state::LIVES, 0, "sleep"),
        ] {
            children.add(pid);
            let entry = children.living(pid).expect("just added");
            entry.name.put(name.as_bytes());
            entry.wait_status.put(status);
            entry.used_us[0].put(1_234_567);
            entry.state.store(ended);
        }
        (0..100).for_each(|pid| children.add(1000 + pid));
        let all = Children::of(&children);
        let mut text = String::new();
        all.rows(&mut text).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  104 children, on Linux:");
        assert!(
            lines[1].starts_with("    sh ")
                && lines[1].ends_with("1.235 s user    0.000 s system  status 3"),
            "{text}"
        );
        assert!(
            lines[2].contains("\\u{1b}[1m") && lines[2].ends_with("signal 9 (SIGKILL)"),
            "{text}"
        );
        assert!(
            lines[3].ends_with("not waited for") && lines[4].ends_with("went on"),
            "{text}"
        );
        assert_eq!(lines.last(), Some(&"    and 40 more"));
        let json = serde_json::to_value(&all).expect("JSON");
        assert_eq!(json["listed"][0]["wait_status"], 3 << 8);
        assert_eq!(json["listed"][3]["end"], "lives");
    }
}
