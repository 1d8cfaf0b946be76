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

/// The calls that are made: all but the refused, and a few of the proxy's own. A thread may be started, a process may not.
fn filter() -> Option<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALL
        .iter()
        .filter(|call| !matches!(call.serve, Serve::Refused(..)))
        .filter(|call| !["fork", "vfork"].contains(&call.name))
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
    // What the watcher receives changes with the program.
    rules.insert(libc::SYS_signalfd4, Vec::new());
    // How Linux goes on with a call that a stop has interrupted.
    rules.insert(libc::SYS_restart_syscall, Vec::new());
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, TargetArch::x86_64)
        .ok()?
        .try_into()
        .ok()
}
