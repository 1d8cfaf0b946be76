//! Numbers of resource limits: RLIMIT_* (include/uapi/asm-generic/resource.h).

/// Processor time, in seconds.
pub const CPU: usize = 0;
/// The heap.
pub const DATA: usize = 2;
/// The main thread's stack.
pub const STACK: usize = 3;
/// Core files.
pub const CORE: usize = 4;
/// Locked memory.
pub const MEMLOCK: usize = 8;
/// Addresses.
pub const AS: usize = 9;
/// Signals that wait.
pub const SIGPENDING: usize = 11;
