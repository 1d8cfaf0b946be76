//! What a system call comes to.

use abi::Errno;

/// What a handler answers.
pub type SysResult = Result<u64, Errno>;

/// A handler was to run while the call waited: start the call again afterwards if the handler was installed with
/// SA_RESTART, else EINTR (Linux's ERESTARTSYS; programs never see it). Made by [`crate::thread::Thread::interrupted`].
pub const RESTART: Errno = Errno(512);
/// As [`RESTART`], but only if no handler ran after all (Linux's ERESTARTNOHAND).
pub const RESTART_NO_HANDLER: Errno = Errno(514);
/// Start the call again, whatever ran (Linux's ERESTARTNOINTR).
pub const RESTART_ALWAYS: Errno = Errno(513);
