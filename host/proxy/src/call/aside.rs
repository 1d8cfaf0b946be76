//! What the QK needs of a call besides its result, and Linux does not say in it: whether it sent SIGPIPE or SIGXFSZ, and whether a
//! call that was interrupted may be started again.

use std::os::fd::BorrowedFd;

use abi::Errno;
use abi::syscall::Call;
use rustix::net::sockopt::{Timeout, socket_timeout};

use crate::signals;

/// Whether there is something to report of a call that returned `ret`; else the QK does not read it.
pub fn is_found(call: &Call, ret: i64) -> bool {
    call.may_raise(ret) || ret == Errno::EINTR.ret()
}

/// The two answers, as [`wire::ship::Slot::put_more`] says, of a call with the arguments that the rank gave.
pub fn found(call: &Call, args: &[u64; 6], ret: i64) -> [u64; 2] {
    let is_final = ret == Errno::EINTR.ret() && has_timeout(call, args);
    [raised(call, args, ret), is_final.into()]
}

/// The signal that Linux has sent to this thread for the call, or 0. It blocks both.
fn raised(call: &Call, args: &[u64; 6], ret: i64) -> u64 {
    let signo = if ret == Errno::EFBIG.ret() {
        libc::SIGXFSZ // RLIMIT_FSIZE
    } else if call.sigpipe && may_raise_sigpipe(call, args, ret) {
        libc::SIGPIPE
    } else {
        return 0;
    };
    u64::from(signals::take_own(signo)) * signo as u64
}

/// Whether Linux may have sent SIGPIPE: it also does when a reader leaves after a part was written. What is done whole, as most
/// is, should not cost another call.
fn may_raise_sigpipe(call: &Call, args: &[u64; 6], ret: i64) -> bool {
    let whole =
        matches!(i64::from(call.nr), libc::SYS_write | libc::SYS_sendto) && ret as u64 == args[2];
    ret == Errno::EPIPE.ret() || ret > 0 && !whole
}

/// Whether a call waits at a socket with a timeout. That would begin anew with each start, so Linux starts none again (signal(7);
/// sock_intr_errno, include/net/sock.h).
fn has_timeout(call: &Call, args: &[u64; 6]) -> bool {
    let has = |fd: u64, kind| {
        // SAFETY: 1. It is only used for one getsockopt, which says EBADF when it is not open. 2. It is no negative number, and
        // none of the proxy's own: a call on it has just waited.
        let socket = unsafe { BorrowedFd::borrow_raw(fd as i32) };
        socket_timeout(socket, kind).is_ok_and(|limit| limit.is_some())
    };
    match i64::from(call.nr) {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => has(args[0], Timeout::Recv),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_connect
        | libc::SYS_sendfile => has(args[0], Timeout::Send),
        libc::SYS_splice => has(args[0], Timeout::Recv) || has(args[2], Timeout::Send),
        _ => false,
    }
}
