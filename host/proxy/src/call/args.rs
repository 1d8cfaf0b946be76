//! Preparing a call's arguments by the kinds that the table gives them.
//!
//! Nothing is refused here that Linux refuses: what the rank must not name becomes something that does not exist (a closed
//! descriptor, an address with nothing there, an unknown request), and Linux itself finds the error, in its own order of
//! checking things.

#[cfg(test)]
mod tests;

use abi::Errno;
use abi::syscall::operand::Operand;
use abi::syscall::{Call, layout, request};
use zerocopy::IntoBytes;

use super::nested;
use super::option;
use super::own;
use super::target::Target;
use crate::fds;
use crate::memory::{GUARD_ADDR, RankMemory, clamp};

/// Longest string with its NUL.
const STRING_BYTES: usize = layout::STRING_BYTES as usize;
/// Most strings of any one call.
const STRINGS: usize = 3;
/// Most descriptors of a poll whose copy is kept between calls.
const POLL_KEPT: usize = 1024;
/// uapi/asm-generic/fcntl.h
const F_OWNER_TID: i32 = 0;
const F_OWNER_PID: i32 = 1;
/// No such family or level.
const NONE: u64 = -1i64 as u64;

/// Private memory for what Linux is given instead of the rank's own.
#[derive(Debug)]
pub struct Scratch {
    strings: [[u8; STRING_BYTES]; STRINGS],
    /// Lengths without the NUL; of a string that is too long 0.
    lengths: [usize; STRINGS],
    /// struct rlimit: soft and hard.
    rlimit: [u64; 2],
    /// The signals that the worker blocks: what it blocks during a call as well, whatever mask the call comes with.
    pub blocked: u64,
    /// pselect6's pointer to a mask, and the bytes of that.
    mask_pair: [u64; 2],
    /// A time limit: seconds, and micro- or nanoseconds.
    time_limit: [u64; 2],
    pub(super) nested: nested::Copies,
    pollfds: Vec<u64>,
    groups: Vec<u32>,
    capabilities: own::Capabilities,
    /// struct sigevent.
    event: [u64; 8],
    /// What a descriptor is to receive.
    received: u64,
    /// Who is to get signals of a descriptor: struct f_owner_ex, or one int in place of its number.
    owner: [i32; 2],
    owner_of: Option<Target>,
}

impl Scratch {
    /// Private memory of a worker that blocks these signals.
    pub fn new(blocked: u64) -> Box<Scratch> {
        Box::new(Scratch {
            strings: [[0; STRING_BYTES]; STRINGS],
            lengths: [0; STRINGS],
            rlimit: [0; 2],
            blocked,
            mask_pair: [0; 2],
            time_limit: [0; 2],
            nested: nested::Copies::default(),
            pollfds: Vec::new(),
            groups: Vec::new(),
            capabilities: own::Capabilities::default(),
            event: [0; 8],
            received: 0,
            owner: [F_OWNER_PID, 0],
            owner_of: None,
        })
    }

    /// Whom the call has signalled for a descriptor.
    pub fn owner(&self) -> Option<Target> {
        self.owner_of
    }

    /// Names the process of a rank in place of one of its threads: a signal that Linux has for that thread alone stays with its
    /// worker, which blocks all.
    pub fn widen_owner(&mut self, pid: u32, has_thread: impl Fn(u32) -> bool) {
        let [kind, number] = self.owner;
        if kind == F_OWNER_TID && has_thread(number as u32) {
            self.owner = [F_OWNER_PID, pid as i32];
        }
    }

    /// Copies a structure that names whom to signal, or its last int alone.
    fn copy_owner(&mut self, from: u64, alone: bool, memory: &impl RankMemory) -> u64 {
        let first = usize::from(alone);
        self.owner = [F_OWNER_PID, 0];
        if memory
            .read(from, self.owner[first..].as_mut_bytes())
            .is_err()
        {
            return GUARD_ADDR;
        }
        let [kind, number] = self.owner;
        self.owner_of = if alone {
            Some(Target::signalled(number))
        } else {
            Target::of_owner(kind, number)
        };
        self.owner[first..].as_ptr() as u64
    }

    /// The call's first path or string, without its NUL.
    pub fn string(&self) -> &[u8] {
        &self.strings[0][..self.lengths[0]]
    }

    /// Address of the first string's copy.
    pub fn string_address(&self) -> u64 {
        self.strings[0].as_ptr() as u64
    }
}

/// What has to be written back to the rank once Linux has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Nothing: results went straight into the rank's memory, or there are none.
    Nothing,
    /// Events of a poll: where, and how many.
    Pollfds(u64, usize),
    /// A structure with nested pointers.
    Nested(nested::After),
}

/// Replaces the arguments that Linux must not get as the rank gave them.
///
/// # Errors
/// EPERM for a limit on descriptors that would reach the proxy's, and what else would change it.
pub fn prepare(
    call: &Call,
    args: &mut [u64; 6],
    first_own_fd: u32,
    memory: &impl RankMemory,
    scratch: &mut Scratch,
) -> Result<After, Errno> {
    let mut after = After::Nothing;
    let mut strings = 0;
    scratch.owner_of = None;
    for i in 0..call.args.len() {
        let value = args[i];
        match call.operand(i, args) {
            Operand::Number => {}
            Operand::Fd => args[i] = fds::visible(value, first_own_fd),
            Operand::Unknown => (args[i - 1], args[i]) = (request::NO_SUCH_REQUEST, GUARD_ADDR),
            Operand::Owner => scratch.owner_of = Some(Target::signalled(value as i32)),
            // Null means something to some calls and is an error of Linux's own for the others.
            _ if value == 0 => {}
            Operand::String => {
                args[i] = copy_string(strings, value, memory, scratch);
                strings += 1;
            }
            // Questions about mappings the proxy answers itself.
            Operand::Flat(..) | Operand::MapQuery => args[i] = clamp(value),
            Operand::Vectors(_, count) => args[i] = scratch.nested.iovec(value, count, memory),
            Operand::Message(dir) => {
                let (copy, back) = scratch.nested.msghdr(value, dir, first_own_fd, memory);
                args[i] = copy;
                after = After::Nested(back);
            }
            Operand::Messages(dir, count, counter) => {
                let nested = &mut scratch.nested;
                let messages = nested.mmsghdr(value, count, dir, first_own_fd, memory);
                args[i] = messages.address;
                args[usize::from(counter)] = messages.count;
                after = After::Nested(messages.after);
            }
            Operand::Mask => args[i] = mask(value, memory, scratch),
            Operand::MaskPair => {
                args[i] = GUARD_ADDR;
                if memory.read(value, scratch.mask_pair.as_mut_bytes()).is_ok() {
                    scratch.mask_pair[0] = mask(scratch.mask_pair[0], memory, scratch);
                    args[i] = scratch.mask_pair.as_ptr() as u64;
                }
            }
            Operand::OwnerAt => args[i] = scratch.copy_owner(value, true, memory),
            Operand::OwnerEx => args[i] = scratch.copy_owner(value, false, memory),
            Operand::Interfaces => {
                let (copy, back) = scratch.nested.ifconf(value, memory);
                args[i] = copy;
                after = After::Nested(back);
            }
            Operand::Ethtool => args[i] = scratch.nested.ethtool(value, memory),
        }
    }
    by_number(call, args, first_own_fd, memory, scratch, after)
}

/// Gives Linux a copy of a string. One that is too long for any call is too long in the copy as well: Linux reads
/// [`STRING_BYTES`] at most and finds no NUL in them.
fn copy_string(index: usize, from: u64, memory: &impl RankMemory, scratch: &mut Scratch) -> u64 {
    let copy = &mut scratch.strings[index];
    scratch.lengths[index] = match memory.read_string(from, copy) {
        Ok(length) => length,
        Err(Errno::ENAMETOOLONG) => 0,
        Err(_) => return GUARD_ADDR,
    };
    copy.as_ptr() as u64
}

/// Gives Linux the worker's own mask for one of the rank's. Signal masks are the QK's affair: it gives up the call when a
/// signal is to be delivered. Set in the worker they would let signals end the proxy.
fn mask(from: u64, memory: &impl RankMemory, scratch: &Scratch) -> u64 {
    match from {
        0 => 0,
        _ if memory.read(from, &mut [0; size_of::<u64>()]).is_ok() => {
            &raw const scratch.blocked as u64
        }
        _ => GUARD_ADDR,
    }
}

/// What calls need besides their table row.
fn by_number(
    call: &Call,
    args: &mut [u64; 6],
    first_own_fd: u32,
    memory: &impl RankMemory,
    scratch: &mut Scratch,
    after: After,
) -> Result<After, Errno> {
    match i64::from(call.nr) {
        libc::SYS_poll | libc::SYS_ppoll => {
            if i64::from(call.nr) == libc::SYS_ppoll {
                own::time_limit(&mut args[2], memory, &mut scratch.time_limit);
            }
            return Ok(prepare_poll(args, first_own_fd, memory, scratch));
        }
        libc::SYS_setsockopt | libc::SYS_getsockopt => {
            args[2] = option::visible(args[1], args[2]);
        }
        // Its messages name memory for others to reach into.
        libc::SYS_socket if args[0] as i32 == libc::AF_RDS => args[0] = NONE,
        // Bits beyond the rank's descriptors are not read.
        libc::SYS_select | libc::SYS_pselect6 => {
            own::time_limit(&mut args[4], memory, &mut scratch.time_limit);
            if args[0] as i32 > 0 {
                args[0] = (args[0] as u32).min(first_own_fd).into();
            }
        }
        libc::SYS_setrlimit => own::limit(args, first_own_fd, &mut scratch.rlimit)?,
        libc::SYS_kcmp => own::compare(args, first_own_fd)?,
        libc::SYS_signalfd | libc::SYS_signalfd4 => {
            own::received(args, memory, &mut scratch.received);
        }
        libc::SYS_mq_notify => own::notification(args, first_own_fd, memory, &mut scratch.event),
        libc::SYS_capset => own::capabilities(args, memory, &mut scratch.capabilities)?,
        libc::SYS_setgroups => own::groups(args, memory, &mut scratch.groups)?,
        libc::SYS_prlimit64 => own::limits(args)?,
        libc::SYS_prctl => own::process_control(args)?,
        libc::SYS_personality => own::personality(args),
        libc::SYS_close_range => {
            const UNSHARE: u64 = 1 << 1; // CLOSE_RANGE_UNSHARE: the rank's threads share one table
            let (first, last) = (args[0] as u32, args[1] as u32);
            if first <= last {
                // A range of none but ours is empty for the rank, as is one behind the highest number.
                let ours = first >= first_own_fd;
                args[0] = if ours { u32::MAX } else { first }.into();
                args[1] = if ours {
                    u32::MAX
                } else {
                    last.min(first_own_fd - 1)
                }
                .into();
            }
            args[2] &= !UNSHARE;
        }
        _ => {}
    }
    Ok(after)
}

/// Gives Linux a copy of the pollfds in which the proxy's descriptors are closed ones, when there are any.
fn prepare_poll(
    args: &mut [u64; 6],
    first_own_fd: u32,
    memory: &impl RankMemory,
    scratch: &mut Scratch,
) -> After {
    let (from, count) = (args[0], args[1] as u32);
    if count > first_own_fd {
        return After::Nothing; // more than RLIMIT_NOFILE: Linux does not read them
    }
    let count = count as usize;
    scratch.pollfds.clear();
    scratch.pollfds.shrink_to(POLL_KEPT);
    scratch.pollfds.resize(count, 0);
    if memory.read(from, scratch.pollfds.as_mut_bytes()).is_err() {
        return After::Nothing; // Linux cannot read them either
    }
    let mut any_ours = false;
    for pollfd in &mut scratch.pollfds {
        let fd = u64::from(*pollfd as u32);
        let visible = fds::visible(fd, first_own_fd);
        any_ours |= visible != fd;
        *pollfd = *pollfd & !0xffff_ffff | visible;
    }
    // What the rank's other threads write meanwhile can make Linux poll one of the proxy's: that reveals and changes nothing.
    if !any_ours {
        return After::Nothing;
    }
    args[0] = scratch.pollfds.as_mut_ptr() as u64;
    After::Pollfds(from, count)
}

/// Writes back what Linux left in copies.
///
/// # Errors
/// EFAULT where Linux would have said so.
pub fn finish(
    after: &After,
    ret: i64,
    memory: &impl RankMemory,
    scratch: &Scratch,
) -> Result<(), Errno> {
    match *after {
        After::Nothing => Ok(()),
        _ if ret < 0 => Ok(()),
        After::Pollfds(to, count) => {
            // Only `revents`, the last two of eight bytes, is Linux's to write.
            for (i, pollfd) in scratch.pollfds[..count].iter().enumerate() {
                memory.write(to + 8 * i as u64 + 6, &pollfd.as_bytes()[6..])?;
            }
            Ok(())
        }
        After::Nested(back) => scratch.nested.finish(back, ret, memory),
    }
}
