//! Identifiers by which a program, a test or a user recognises Margay.

/// What uname(2) says in `sysname`: programs compare it, so it stays Linux.
pub const SYSNAME: &str = "Linux";
/// What uname(2) says in `release`: the Linux whose ABI is followed, with Margay's mark.
pub const RELEASE: &str = "6.18.0-margay";
/// The same with [`UNAME26`]: 60 more than its minor number, behind Linux 2.6 (kernel/sys.c).
pub const RELEASE_26: &str = "2.6.78-margay";
/// What uname(2) says in `version`.
pub const VERSION: &str = concat!("#1 Margay ", env!("CARGO_PKG_VERSION"), " LWK");
/// What uname(2) says in `machine`.
pub const MACHINE: &str = "x86_64";
/// Number of Linux signals, and the highest signal number.
pub const NSIG: u32 = 64;
/// personality(2): nothing is placed at random (include/uapi/linux/personality.h), as on a node in any case.
pub const ADDR_NO_RANDOMIZE: u64 = 0x0004_0000;
/// personality(2): uname says that this is Linux 2.6.
pub const UNAME26: u64 = 0x0002_0000;
/// personality(2): select and its kin leave the time that they are given as it is.
pub const STICKY_TIMEOUTS: u64 = 0x0400_0000;
/// Kinds of resource limits (include/uapi/asm-generic/resource.h, RLIM_NLIMITS).
pub const RLIM_NLIMITS: usize = 16;
