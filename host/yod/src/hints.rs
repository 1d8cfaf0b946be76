//! What may have made a rank fail: that Margay refused something, and what can be done.
//!
//! Programs try calls that they can do without, so what was refused to a rank that ended well says nothing. The exception
//! is a child process: a program that requests one needs it.

use std::ops::Range;

use abi::syscall::{Call, Serve, by_nr};
use machine::comm::Comm;
use machine::plan::{Bytes, Plan};
use wire::rank::{Refusals, state};

use crate::verdict::ranks_text;

/// Calls that start a process.
const CHILDREN: [i64; 2] = [libc::SYS_clone, libc::SYS_clone3];
/// Most other calls that a line names.
const CALLS_NAMED: usize = 3;

/// What was refused, without the ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Refused {
    /// It matters even when the rank ended well.
    always: bool,
    text: String,
}

/// The lines for ranks that have ended, or were ended by yod.
pub fn collect(plan: &Plan, comm: &Comm, ranks: Range<usize>) -> Vec<String> {
    let mut lines: Vec<(Refused, Vec<usize>)> = Vec::new();
    for rank in ranks {
        let node = &comm.rank(rank).node;
        let ended_itself = node.state.load() == state::EXITED;
        let failed = ended_itself && node.wait_status.load() != 0;
        for refused in refused(&node.refusals, plan.partition_bytes, plan.pool_bytes) {
            let said = failed || ended_itself && refused.always;
            if !said {
                continue;
            }
            match lines.iter_mut().find(|(known, _)| *known == refused) {
                Some((_, ranks)) => ranks.push(rank),
                None => lines.push((refused, vec![rank])),
            }
        }
    }
    let with_ranks = |(refused, ranks): (Refused, Vec<usize>)| {
        format!("{} asked for {}", ranks_text(&ranks), refused.text)
    };
    lines.into_iter().map(with_ranks).collect()
}

fn refused(refusals: &Refusals, partition_bytes: u64, pool_bytes: u64) -> Vec<Refused> {
    let mut all = Vec::new();
    let mut add = |always, text: String| all.push(Refused { always, text });
    let calls = refusals.call_numbers().filter_map(by_nr);
    let (children, others): (Vec<&Call>, Vec<&Call>) =
        calls.partition(|call| CHILDREN.contains(&call.nr.into()));
    // A C library that is refused clone3 tries again with clone, which has the lower number.
    if let Some(Call { name, .. }) = children.first() {
        add(
            true,
            format!(
                "a child process ({name}), refused: {}",
                "it would share more with the rank than a process on Linux can"
            ),
        );
    }
    if refusals.memory.load() > 0 {
        add(
            false,
            format!(
                "more memory than its partition of {} has left, refused: more with -m",
                Bytes(partition_bytes)
            ),
        );
    }
    if refusals.shared_maps.load() > 0 {
        add(
            false,
            format!(
                "a shared mapping of a file (mmap with MAP_SHARED) for which the node's {} of shared memory have no room left, refused: more with --shared-memory",
                Bytes(pool_bytes)
            ),
        );
    }
    if let Some(first) = others.first() {
        let more = match others.len().saturating_sub(CALLS_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = others.iter().take(CALLS_NAMED).map(|call| call.name);
        let names = names.collect::<Vec<_>>().join(", ");
        add(false, format!("{names}{more}, refused: {}", reason(first)));
    }
    all
}

fn reason(call: &Call) -> &'static str {
    let row = match call.nr.into() {
        // It is served, but for namespaces.
        libc::SYS_unshare => by_nr(libc::SYS_setns as u64).unwrap_or(call),
        _ => call,
    };
    match row.serve {
        Serve::Refused(_, why) => why,
        _ => "see docs/syscalls.md",
    }
}

#[cfg(test)]
mod tests {
    use abi::syscall::by_name;

    use super::*;

    fn texts(act: impl Fn(&Refusals)) -> Vec<String> {
        let refusals = Refusals::default();
        act(&refusals);
        let all = refused(&refusals, 64 << 20, 16 << 20);
        all.into_iter().map(|refused| refused.text).collect()
    }

    fn note(refusals: &Refusals, names: &[&str]) {
        for name in names {
            refusals.note_call(by_name(name).expect("a call").nr.into());
        }
    }

    #[test]
    fn a_child_is_requested_once() {
        let lines = texts(|refusals| note(refusals, &["clone", "clone3"]));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("a child process (clone), refused: it would share"));
    }

    #[test]
    fn memory_and_other_calls_are_named() {
        let lines = texts(|refusals| {
            refusals.memory.put(1);
            refusals.shared_maps.put(1);
            note(
                refusals,
                &[
                    "bpf",
                    "fanotify_init",
                    "fanotify_mark",
                    "perf_event_open",
                    "userfaultfd",
                ],
            );
        });
        assert_eq!(
            lines[0],
            "more memory than its partition of 64M has left, refused: more with -m"
        );
        assert!(lines[1].contains("MAP_SHARED") && lines[1].contains("16M"));
        assert!(
            lines[2].starts_with(
                "perf_event_open, fanotify_init, fanotify_mark and 2 more, refused: performance"
            ),
            "{lines:?}"
        );
        assert_eq!(
            texts(|refusals| note(refusals, &["unshare"])),
            ["unshare, refused: a rank stays in the namespaces it was started in"]
        );
        assert!(texts(|_| ()).is_empty());
    }
}
