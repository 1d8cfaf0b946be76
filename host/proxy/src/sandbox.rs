//! What Linux itself keeps the proxy from, so that a mistake in its own checks has less to spoil.
//!
//! - The proxy is not dumpable: no other process of the user traces it or reads its memory, and there is no core file.
//! - Landlock: it traces no process outside of its own domain, by whatever way (ptrace(2), "access mode checking"), not even
//!   as root. Landlock has no right for that alone; it comes with any. The one taken, to move files between directories,
//!   is granted everywhere.
//! - seccomp: Linux makes only the calls that the table ships, and those of this program itself. The threads that fork
//!   children ([`crate::child`]) are outside of that filter, for a child would keep it.
//!
//! A host that lacks Landlock or seccomp is not refused: these are a second line.

use std::collections::BTreeMap;

use std::os::fd::OwnedFd;

use abi::syscall::{ALL, Serve};
use landlock::{
    AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Makes the process undumpable, and keeps this thread and those it starts from tracing others.
pub fn enter_domain() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = no_tracing();
}

/// Takes from this thread, and those it starts, the calls that a proxy does not make.
pub fn enter_filter() {
    if let Some(filter) = filter() {
        let _ = seccompiler::apply_filter(&filter);
    }
}

/// Enters a Landlock domain. The first version lets no domain move files between directories: it is not used.
fn no_tracing() -> Option<()> {
    ruleset()?.restrict_self().ok()?;
    Some(())
}

/// The rules of such a domain as a descriptor, for a child to enter one of its own.
pub fn rules() -> Option<OwnedFd> {
    ruleset().and_then(Option::from)
}

fn ruleset() -> Option<RulesetCreated> {
    let everywhere = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .ok()?
        .create()
        .ok()?
        .add_rule(PathBeneath::new(everywhere, AccessFs::Refer))
        .ok()
}

/// The calls that are made: all but the refused, and a few of the proxy's own. A thread may be started, a process may not. What
/// clone3 starts is said in memory, where a filter sees nothing: a C library that is refused it takes clone.
fn filter() -> Option<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALL
        .iter()
        .filter(|call| !matches!(call.serve, Serve::Refused(..)))
        .filter(|call| !["fork", "vfork", "clone3"].contains(&call.name))
        .map(|call| (call.nr.into(), Vec::new()))
        .collect();
    let thread = libc::CLONE_THREAD as u64;
    let is_thread = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(thread),
        thread,
    );
    let rule = SeccompRule::new(vec![is_thread.ok()?]).ok()?;
    rules.insert(libc::SYS_clone, vec![rule]);
    // A thread may leave the table of descriptors, which takes it further from what the rank has (`objects::holder`).
    let files = libc::CLONE_FILES as u64;
    let of_files = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, files);
    let rule = SeccompRule::new(vec![of_files.ok()?]).ok()?;
    rules.insert(libc::SYS_unshare, vec![rule]);
    // How Linux goes on with a call that a stop has interrupted.
    rules.insert(libc::SYS_restart_syscall, Vec::new());
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, TargetArch::x86_64)
        .ok()?
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use abi::Errno;
    use abi::syscall::{MAX_CALLS, by_nr};

    use super::*;
    use crate::stub;

    /// Sixth argument of a call that is only tried.
    const TRIED: u64 = 0x7472_6965;
    /// What Linux says of one that the filter has nothing against.
    const LET_THROUGH: i64 = Errno::EXDEV.ret();
    const REFUSED: i64 = Errno::ENOSYS.ret();
    /// uretprobe and uprobe: filters do not see them, and Linux ends who makes them without one (kernel/seccomp.c).
    const OF_PROBES: [i64; 2] = [335, 336];

    /// From now on Linux makes no call of this thread that is tried. Of two filters that refuse a call the later one's error is the
    /// answer (seccomp(2)).
    fn make_no_tried_call() {
        let dword = SeccompCmpArgLen::Dword;
        let tried = SeccompCondition::new(5, dword, SeccompCmpOp::Eq, TRIED).unwrap();
        let rule = SeccompRule::new(vec![tried]).unwrap();
        let rules = (0..MAX_CALLS as i64).map(|nr| (nr, vec![rule.clone()]));
        let not_made = SeccompAction::Errno(-LET_THROUGH as u32);
        let (rules, others) = (rules.collect(), SeccompAction::Allow);
        let filter = SeccompFilter::new(rules, others, not_made, TargetArch::x86_64).unwrap();
        let filter = BpfProgram::try_from(filter).unwrap();
        seccompiler::apply_filter(&filter).unwrap();
    }

    fn tried(nr: i64, first: i32) -> i64 {
        // SAFETY: 1. Linux does not make the call: `make_no_tried_call` comes first.
        unsafe { stub::syscall(nr as u64, &[first as u64, 0, 0, 0, 0, TRIED]) }
    }

    /// A test only saw that there is a filter: one that lets everything through was as good. And clone3 was let through, by which
    /// processes are started.
    #[test]
    fn calls_that_the_table_serves_pass_the_filter_and_no_others() {
        let calls = || {
            make_no_tried_call();
            assert_eq!(tried(libc::SYS_ptrace, 0), LET_THROUGH);
            enter_filter();
            for nr in [
                libc::SYS_ptrace,
                libc::SYS_perf_event_open,
                libc::SYS_bpf,
                libc::SYS_mount,
                libc::SYS_setns,
                libc::SYS_pidfd_getfd,
                libc::SYS_process_madvise,
                libc::SYS_io_uring_setup,
                libc::SYS_init_module,
                libc::SYS_fork,
                libc::SYS_vfork,
                libc::SYS_clone3,
            ] {
                assert_eq!(tried(nr, 0), REFUSED, "call {nr}");
            }
            let of_the_proxy = [libc::SYS_restart_syscall];
            // As the proxy makes them itself, if at all: see below.
            let others = ["clone", "fork", "vfork", "clone3", "unshare"];
            let seen = |nr: &i64| !OF_PROBES.contains(nr);
            for nr in (0..MAX_CALLS as i64).filter(seen) {
                let served = by_nr(nr as u64).is_some_and(|call| {
                    !matches!(call.serve, Serve::Refused(..)) && !others.contains(&call.name)
                });
                let passes = served || of_the_proxy.contains(&nr);
                let want = if passes { LET_THROUGH } else { REFUSED };
                assert_eq!(tried(nr, 0), want, "call {nr}");
            }
            for (nr, flags, want) in [
                (libc::SYS_clone, libc::CLONE_THREAD, LET_THROUGH),
                (libc::SYS_clone, libc::SIGCHLD, REFUSED),
                (libc::SYS_clone, libc::CLONE_VM | libc::CLONE_VFORK, REFUSED),
                (libc::SYS_unshare, libc::CLONE_FILES, LET_THROUGH),
                (libc::SYS_unshare, libc::CLONE_NEWUSER, REFUSED),
                (
                    libc::SYS_unshare,
                    libc::CLONE_FILES | libc::CLONE_NEWNS,
                    REFUSED,
                ),
            ] {
                assert_eq!(tried(nr, flags), want, "call {nr}, {flags:#x}");
            }
        };
        // A filter is the thread's that enters it, and goes with it.
        std::thread::spawn(calls).join().unwrap();
    }
}
