//! A system call as strace prints it: `openat(AT_FDCWD, "data.txt", 0x0, 0x0) = 3`.
//!
//! Used by the QK for `--strace` and by crash reports, so it allocates nothing and trusts nothing. One string or
//! buffer per call is shown as text, the one that [`Call::text_arg`] names; the caller fetches its bytes, as many as it
//! cares to. Symbolic flags are left to strace proper: the point here is to see what the program asked for.

use core::fmt::{Result, Write};

use super::{Arg, Call, Dir, Len};
use crate::Errno;

/// Bytes of a buffer that are shown, as strace does by default (`-s 32`). Paths are shown as far as they are given.
pub const SHOWN_BYTES: usize = 32;

/// AT_FDCWD (uapi/linux/fcntl.h).
const AT_FDCWD: i32 = -100;

/// Calls that return an address.
const RETURN_ADDRESSES: [&str; 3] = ["mmap", "brk", "mremap"];
/// Calls that do not return.
const NEVER_RETURN: [&str; 3] = ["exit", "exit_group", "rt_sigreturn"];

impl Call {
    /// Index of the argument whose bytes [`show`] prints as text: the first path, string or buffer with a length of
    /// its own, if there is one.
    #[must_use]
    pub fn text_arg(&self) -> Option<usize> {
        self.args.iter().position(|arg| {
            matches!(
                arg,
                Arg::Path | Arg::Str | Arg::Mem(Dir::In | Dir::Out, Len::Arg(_))
            )
        })
    }
}

/// Writes one line, without a line feed.
///
/// `call` is the row of `nr`, `None` for a number without one. `text` holds the bytes behind the argument that
/// [`Call::text_arg`] names, or as many of them as the caller has; a path may be given with or without its NUL. `ret`
/// is the value the program gets.
///
/// # Errors
/// Only what `w` itself returns.
pub fn show(
    w: &mut impl Write,
    call: Option<&Call>,
    nr: u64,
    args: &[u64; 6],
    text: Option<&[u8]>,
    ret: i64,
) -> Result {
    let Some(call) = call else {
        write!(w, "syscall_{nr}(")?;
        for (i, value) in args.iter().enumerate() {
            write!(w, "{}{value:#x}", separator(i))?;
        }
        return show_return(w, None, ret);
    };
    write!(w, "{}(", call.name)?;
    let text_arg = call.text_arg();
    for (i, (&arg, &value)) in call.args.iter().zip(args).enumerate() {
        w.write_str(separator(i))?;
        match text {
            Some(bytes) if text_arg == Some(i) && value != 0 && has_text(arg, ret) => {
                show_text(w, arg, bytes, args, ret)?;
            }
            _ => show_value(w, arg, value)?,
        }
    }
    show_return(w, Some(call), ret)
}

const fn separator(index: usize) -> &'static str {
    if index == 0 { "" } else { ", " }
}

fn show_value(w: &mut impl Write, arg: Arg, value: u64) -> Result {
    match arg {
        Arg::Int => write!(w, "{}", signed(value)),
        Arg::DirFd if value as i32 == AT_FDCWD => w.write_str("AT_FDCWD"),
        Arg::Fd | Arg::DirFd => write!(w, "{}", value as i32),
        Arg::Hex | Arg::Request => write!(w, "{value:#x}"),
        Arg::Path
        | Arg::Str
        | Arg::Mem(..)
        | Arg::Iovec(..)
        | Arg::Msghdr(_)
        | Arg::Mmsghdr(..)
        | Arg::SigsetPair => match value {
            0 => w.write_str("NULL"),
            _ => write!(w, "{value:#x}"),
        },
    }
}

/// A C `int` arrives with its upper half zero, so that -1 looks like 4294967295: small negative values are recognised.
fn signed(value: u64) -> i64 {
    let as_int = value as u32 as i32;
    if value <= u64::from(u32::MAX) && (-4096..0).contains(&as_int) {
        i64::from(as_int)
    } else {
        value as i64
    }
}

/// What a failed call left in its buffer says nothing.
const fn has_text(arg: Arg, ret: i64) -> bool {
    !matches!(arg, Arg::Mem(Dir::Out, _) if ret < 0)
}

fn show_text(w: &mut impl Write, arg: Arg, bytes: &[u8], args: &[u64; 6], ret: i64) -> Result {
    let (shown, whole) = match arg {
        Arg::Mem(dir, Len::Arg(len)) => {
            let asked = usize::try_from(args[usize::from(len)]).unwrap_or(usize::MAX);
            let valid = match dir {
                Dir::Out => usize::try_from(ret).unwrap_or(0).min(asked),
                _ => asked,
            };
            let shown = valid.min(bytes.len()).min(SHOWN_BYTES);
            (shown, shown == valid)
        }
        _ => match bytes.iter().position(|&byte| byte == 0) {
            Some(end) => (end, true),
            None => (bytes.len(), false),
        },
    };
    w.write_char('"')?;
    for &byte in &bytes[..shown] {
        match byte {
            b'\n' => w.write_str("\\n")?,
            b'\r' => w.write_str("\\r")?,
            b'\t' => w.write_str("\\t")?,
            b'"' => w.write_str("\\\"")?,
            b'\\' => w.write_str("\\\\")?,
            b' '..=b'~' => w.write_char(char::from(byte))?,
            // Three digits, so that a digit that follows is not taken for a part of it.
            _ => write!(w, "\\{byte:03o}")?,
        }
    }
    w.write_str(if whole { "\"" } else { "\"..." })
}

fn show_return(w: &mut impl Write, call: Option<&Call>, ret: i64) -> Result {
    let is_one_of = |names: &[&str]| call.is_some_and(|call| names.contains(&call.name));
    if is_one_of(&NEVER_RETURN) {
        return w.write_str(") = ?");
    }
    if let Some(errno) = Errno::from_ret(ret) {
        return write!(w, ") = -1 {errno}");
    }
    if is_one_of(&RETURN_ADDRESSES) {
        write!(w, ") = {ret:#x}")
    } else {
        write!(w, ") = {ret}")
    }
}
