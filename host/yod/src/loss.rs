//! A job ends before its ranks do: why, and with which status.

use std::path::Path;
use std::time::Duration;

use machine::{Cause, Ended, UsedUp};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::console;
use crate::failure::{Failure, signal_text, status};
use crate::machines::Machine;
use crate::panic_report::PanicReport;
use crate::verdict::ranks_text;

/// What explanations need.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub machine: &'a Machine,
    pub kernel: &'a Path,
}

/// What was lost.
#[derive(Debug)]
pub enum Loss {
    /// The machine, or the kernel in it.
    Node(Ended),
    /// The PCT; the end of the kernel log.
    Pct(String),
    /// The keeper: this yod's child, or another's.
    Keeper(Option<Pid>),
    /// Another yod of the job, while this rank of it was running.
    Yod(usize),
    /// The kernel does not come up.
    Hangs(Duration),
}

impl Loss {
    /// The same where one yod of several says it: the others end with its status and no line.
    pub fn explain_or_status(self, context: &Context<'_>, up: bool, reports: bool) -> Failure {
        match &self {
            _ if reports => self.explain(context, up),
            // Its panic report would be printed.
            Loss::Node(ended) if PanicReport::find(&ended.log).is_some() => {
                Failure::said(status::SOFTWARE)
            }
            _ => Failure::said(self.explain(context, up).status),
        }
    }

    /// Says what happened; prints a panic report if there is one. `up`: the kernel had come up.
    pub fn explain(self, context: &Context<'_>, up: bool) -> Failure {
        match self {
            Loss::Node(ended) => node(&ended, context, up),
            Loss::Pct(log) => Failure::new(
                status::SOFTWARE,
                format_args!(
                    "the node's process control thread (PCT) is gone: {}",
                    last_line(&log)
                ),
            ),
            Loss::Keeper(pid) => keeper(pid),
            Loss::Yod(rank) => yod(rank),
            Loss::Hangs(limit) => hangs(limit, context.machine),
        }
    }
}

fn node(ended: &Ended, context: &Context<'_>, up: bool) -> Failure {
    if let Some(report) = PanicReport::find(&ended.log) {
        console::err(report.render(context.kernel));
        return Failure::new(
            status::SOFTWARE,
            format_args!(
                "the node's kernel panicked on {}: a fault of Margay, not of the program, please report it with these lines",
                report.reason
            ),
        );
    }
    let complaint = match ended.complaint.as_str() {
        "" => String::new(),
        text => format!(": {}", last_line(text)),
    };
    let when = if up { "" } else { " before it was up" };
    let (name, machine) = (context.machine.name(), context.machine.executes_by());
    match &ended.cause {
        Cause::NotStarted(reason) => {
            Failure::new(status::OS, format_args!("cannot start the node: {reason}"))
        }
        Cause::Killed(signo) => signalled(
            *signo,
            up,
            name,
            format_args!(
                "killed by {}{when}{complaint}{}",
                signal_text(*signo),
                killed_hint(*signo, ended)
            ),
        ),
        Cause::Ended(signo) => signalled(
            *signo,
            up,
            name,
            format_args!("ended by {}{when}", signal_text(*signo)),
        ),
        Cause::Reset => Failure::new(
            status::SOFTWARE,
            format_args!(
                "the node's kernel reset the machine{when}: a fault of Margay, please report it"
            ),
        ),
        Cause::Stopped => {
            console::err(format_args!("{}\n", ended.complaint));
            let status = if up {
                status::SOFTWARE
            } else {
                status::UNAVAILABLE
            };
            let why = first_line(&ended.complaint);
            Failure::new(
                status,
                format_args!(
                    "the node ({machine}) stopped{when}: {why}; --accel tcg does without KVM, and please report it with these lines"
                ),
            )
        }
        Cause::Exited(code) if !up => {
            let line = context.machine.unfit().unwrap_or_else(|| {
                let why = or_log(&complaint, &ended.log);
                format!("the node ({machine}) ended with status {code}{when}{why}")
            });
            Failure::new(status::UNAVAILABLE, line)
        }
        Cause::Exited(code) => {
            let why = or_log(&complaint, &ended.log);
            Failure::new(
                status::SOFTWARE,
                format_args!(
                    "the node ({name}) ended with status {code} while ranks were running{why}"
                ),
            )
        }
    }
}

/// A signal to the machine. 128 + n stands for what the program met, or for what was done to its node.
fn signalled(signo: i32, up: bool, name: &str, what: std::fmt::Arguments<'_>) -> Failure {
    let status = if up {
        status::SIGNAL + (signo as u8 & 0x7f)
    } else {
        status::UNAVAILABLE
    };
    Failure::new(status, format_args!("the node ({name}) was {what}"))
}

/// SIGKILL that no process sent is the kernel's: at the limit on processor time, or when memory is short.
fn killed_hint(signo: i32, ended: &Ended) -> String {
    match (signo, ended.used_up) {
        (libc::SIGKILL | libc::SIGXCPU, Some(UsedUp { used_ms, limit_s })) => format!(
            " (it has used {}.{} s of processor time, `ulimit -t` allows {limit_s} s)",
            used_ms / 1000,
            used_ms / 100 % 10
        ),
        (libc::SIGKILL, None) => " (out of memory? ask for less with -m)".into(),
        _ => String::new(),
    }
}

fn or_log(complaint: &str, log: &str) -> String {
    match (complaint, last_line(log)) {
        ("", "") => ": yod --doctor says what may be missing".into(),
        ("", line) => format!(": its last words: {line}"),
        (complaint, _) => complaint.into(),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn last_line(text: &str) -> &str {
    text.lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
}

/// A rank without its proxy cannot be served, nor ended on its own.
fn yod(rank: usize) -> Failure {
    let line =
        format_args!("the yod or the proxy of rank {rank} is gone; ended the job's other ranks");
    Failure::new(status::SIGNAL + libc::SIGKILL as u8, line)
}

/// Of another yod's child Linux does not show how it ended.
fn keeper(pid: Option<Pid>) -> Failure {
    let signo = pid
        .and_then(|pid| waitpid(Some(pid), WaitOptions::empty()).ok().flatten())
        .and_then(|(_, status)| status.terminating_signal());
    match signo {
        Some(signo) => Failure::new(
            status::SIGNAL + (signo as u8 & 0x7f),
            format_args!(
                "the node keeper was killed by {}, and the node with it",
                signal_text(signo)
            ),
        ),
        None => Failure::new(
            status::SOFTWARE,
            "the node keeper ended, and the node with it",
        ),
    }
}

fn hangs(limit: Duration, machine: &Machine) -> Failure {
    let (by, hint) = (machine.how(), machine.way_out());
    Failure::new(
        status::UNAVAILABLE,
        format_args!(
            "the node did not come up within {} s {by}: is this host overloaded? MARGAY_BOOT_TIMEOUT_S allows more{hint}",
            limit.as_secs_f64()
        ),
    )
}

/// A signal ended the job before there were ranks to take it, or after.
pub fn by_signal(signo: i32) -> Failure {
    Failure::new(
        status::SIGNAL + (signo as u8 & 0x7f),
        format_args!("ended by {}", signal_text(signo)),
    )
}

/// --timeout, with the ranks that had not ended.
pub fn timed_out(limit: Duration, alive: &[usize]) -> Failure {
    let seconds = limit.as_secs_f64();
    let what = match alive {
        [] => "the ranks have ended, but nothing reads the rest of their output".into(),
        alive => format!("ended {}", ranks_text(alive)),
    };
    Failure::new(
        status::TIMEOUT,
        format_args!("timed out after {seconds} s (--timeout); {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::qemu::accel::Accel;
    use machine::qemu::{Q35, Qemu};

    fn explain(cause: Cause, complaint: &str, log: &str, up: bool) -> Failure {
        let ended = Ended {
            cause,
            complaint: complaint.into(),
            log: log.into(),
            used_up: None,
        };
        explain_ended(ended, up)
    }

    fn explain_ended(ended: Ended, up: bool) -> Failure {
        let machine = Machine::Qemu(Q35 {
            qemu: Qemu {
                path: "/nonexistent/qemu".into(),
                qboot: None,
            },
            accel: Accel::Tcg,
            agent: "/nonexistent/agent.so".into(),
            icount: false,
            plugin: None,
        });
        let context = Context {
            machine: &machine,
            kernel: Path::new("/nonexistent"),
        };
        Loss::Node(ended).explain(&context, up)
    }

    #[test]
    fn a_node_that_is_killed_is_named() {
        let failure = explain(Cause::Killed(9), "", "", true);
        assert_eq!(failure.status, 137);
        assert_eq!(
            failure.line,
            "the node (QEMU) was killed by signal 9 (SIGKILL) (out of memory? ask for less with -m)"
        );
        let failure = explain(Cause::Killed(11), "", "", false);
        assert_eq!(failure.status, 69);
        assert_eq!(
            failure.line,
            "the node (QEMU) was killed by signal 11 (SIGSEGV) before it was up"
        );
    }

    /// SIGKILL at the limit on processor time was put down to memory.
    #[test]
    fn a_limit_on_processor_time_is_named() {
        let killed = |signo, up| {
            let used_up = UsedUp {
                used_ms: 2049,
                limit_s: 2,
            };
            let ended = Ended {
                cause: Cause::Killed(signo),
                complaint: String::new(),
                log: String::new(),
                used_up: Some(used_up),
            };
            explain_ended(ended, up)
        };
        let why = "(it has used 2.0 s of processor time, `ulimit -t` allows 2 s)";
        for (signo, name) in [(9, "SIGKILL"), (24, "SIGXCPU")] {
            let failure = killed(signo, true);
            assert_eq!(failure.status, 128 + signo as u8);
            let line = format!("the node (QEMU) was killed by signal {signo} ({name}) {why}");
            assert_eq!(failure.line, line);
        }
        let failure = killed(9, false);
        assert_eq!(failure.status, 69);
        let line =
            format!("the node (QEMU) was killed by signal 9 (SIGKILL) before it was up {why}");
        assert_eq!(failure.line, line);
        // A process that crashes did not run out of anything.
        let line = "the node (QEMU) was killed by signal 11 (SIGSEGV)";
        assert_eq!(killed(11, true).line, line);
    }

    #[test]
    fn a_node_that_a_signal_ended_is_no_fault_of_margay() {
        let failure = explain(Cause::Ended(1), "", "", false);
        assert_eq!(failure.status, 69);
        assert_eq!(
            failure.line,
            "the node (QEMU) was ended by signal 1 (SIGHUP) before it was up"
        );
        assert_eq!(explain(Cause::Ended(1), "", "", true).status, 129);
        assert_eq!(explain(Cause::Reset, "", "", true).status, 70);
    }

    #[test]
    fn the_complaint_of_a_machine_is_passed_on() {
        let failure = explain(
            Cause::Exited(1),
            "qemu: warning\nqemu: -M q35: no such machine\n",
            "",
            false,
        );
        assert_eq!(failure.status, 69);
        assert_eq!(
            failure.line,
            "the node (QEMU, TCG) ended with status 1 before it was up: qemu: -M q35: no such machine"
        );
        assert!(
            explain(Cause::Exited(1), "", "boot ok\nno comm area\n\n", false)
                .line
                .ends_with("no comm area")
        );
        let failure = explain(Cause::Exited(3), "", "", true);
        assert_eq!(failure.status, 70);
        assert!(failure.line.contains("yod --doctor"), "{}", failure.line);
    }

    #[test]
    fn the_first_words_of_a_machine_that_stopped_are_passed_on() {
        let words = "KVM internal error. Suberror: 1\nRAX=0";
        let line = "stopped before it was up: KVM internal error. Suberror: 1; ";
        let failure = explain(Cause::Stopped, words, "", false);
        assert!(failure.status == 69 && failure.line.contains(line));
        let failure = explain(Cause::Stopped, words, "", true);
        assert!(failure.status == 70 && !failure.line.contains("before"));
    }

    /// QEMU was all that a node could be.
    #[test]
    fn a_co_kernel_is_no_qemu() {
        let context = Context {
            machine: &Machine::Cokernel,
            kernel: Path::new("/nonexistent"),
        };
        let line = Loss::Hangs(Duration::from_secs(2)).explain(&context, false);
        assert!(line.line.contains("within 2 s as a co-kernel: "));
    }

    #[test]
    fn a_panic_is_the_kernels_fault() {
        let failure = explain(
            Cause::Exited(127),
            "",
            "PANIC cpu 1: oh\nBACKTRACE 0x1\n",
            true,
        );
        assert_eq!(failure.status, 70);
        assert!(
            failure
                .line
                .starts_with("the node's kernel panicked on cpu 1: oh")
        );
    }
}
