//! The lines of a call and of a signal, in strace's forms.

use std::time::Instant;

use wire::trace::Record;

use super::memory::Memory;
use super::{call, names};

/// The call that ends a thread.
pub const EXIT: u64 = libc::SYS_exit as u64;

/// A line without its label.
pub struct Line {
    /// The thread that it is about; `None`: the rank.
    pub tid: Option<u64>,
    pub time_ns: u64,
    pub took_ns: Option<u64>,
    pub text: String,
}

impl Line {
    pub fn at(time_ns: u64, text: String) -> Line {
        Line {
            tid: None,
            time_ns,
            took_ns: None,
            text,
        }
    }

    pub fn of(self, tid: u64) -> Line {
        Line {
            tid: Some(tid),
            ..self
        }
    }

    pub fn now(text: String) -> Line {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Line::at(now.map_or(0, |since| since.as_nanos() as u64), text)
    }

    /// How long the call took, behind its line.
    pub fn took(&self) -> String {
        self.took_ns.map_or(String::new(), |ns| {
            format!(" <{}.{:06}>", ns / 1_000_000_000, ns / 1000 % 1_000_000)
        })
    }
}

/// A call that has begun.
pub struct Pending {
    pub record: Record,
    pub since: Instant,
    /// How many arguments an unfinished line has shown.
    pub shown: Option<usize>,
}

fn begun(pending: &Pending) -> call::Shown {
    let record = &pending.record;
    call::arguments(record.nr, &record.args, Memory::new(&record.pieces), None)
}

fn joined<'a>(args: impl Iterator<Item = &'a (bool, String)>) -> String {
    let texts: Vec<&str> = args.map(|(_, text)| text.as_str()).collect();
    texts.join(", ")
}

/// The beginning of a call that has not returned, if it was not shown yet.
pub fn unfinished(pending: Option<&mut Pending>) -> Vec<Line> {
    let Some(pending) = pending.filter(|pending| pending.shown.is_none()) else {
        return Vec::new();
    };
    let shown = begun(pending);
    let known = shown.args.iter().take_while(|(late, _)| !late);
    let count = known.clone().count();
    pending.shown = Some(count);
    let space = match (count, shown.args.len()) {
        (0, _) => "",
        (count, all) if count < all => ", ",
        _ => " ",
    };
    let text = format!("{}({}{space}<unfinished ...>", shown.name, joined(known));
    vec![Line::at(pending.record.time_ns, text).of(pending.record.tid)]
}

pub fn exit_line(pending: &Pending, exit: &Record) -> Line {
    let (enter, written) = (&pending.record, Memory::new(&exit.pieces));
    let after = Some((written, exit.ret));
    let shown = call::arguments(enter.nr, &enter.args, Memory::new(&enter.pieces), after);
    let result = call::result(enter.nr, &enter.args, exit.ret);
    let (time_ns, begin, first) = match pending.shown {
        None => (enter.time_ns, format!("{}(", shown.name), 0),
        Some(count) => (exit.time_ns, format!("<... {} resumed>", shown.name), count),
    };
    let rest = joined(shown.args.iter().skip(first));
    Line {
        tid: Some(enter.tid),
        time_ns,
        took_ns: Some(exit.time_ns.saturating_sub(enter.time_ns)),
        text: format!("{begin}{rest}) = {result}"),
    }
}

pub fn is_exit(record: &Record) -> bool {
    [EXIT, libc::SYS_exit_group as u64].contains(&record.nr)
}

pub fn no_return_line(pending: &Pending) -> Line {
    let shown = begun(pending);
    let text = format!("{}({}) = ?", shown.name, joined(shown.args.iter()));
    Line::at(pending.record.time_ns, text).of(pending.record.tid)
}

/// The union of siginfo_t is an address for faults, else who sent it (uapi/asm-generic/siginfo.h).
pub fn signal_line(record: &Record) -> String {
    let (name, code) = (names::signal(record.nr), record.ret as i32);
    let code_name = names::si_code(record.nr, code);
    let [first, value, ..] = record.args;
    let faults = [
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGTRAP,
    ];
    const KERNEL: i32 = 128;
    let more = match code {
        KERNEL => String::new(),
        1.. if faults.contains(&(record.nr as i32)) => format!(", si_addr={first:#x}"),
        _ => {
            let (pid, uid) = (first as u32 as i32, (first >> 32) as u32);
            let value = match code {
                -1 => format!(
                    ", si_value={{sival_int={}, sival_ptr={value:#x}}}",
                    value as i32
                ),
                _ => String::new(),
            };
            format!(", si_pid={pid}, si_uid={uid}{value}")
        }
    };
    format!("--- {name} {{si_signo={name}, si_code={code_name}{more}}} ---")
}
