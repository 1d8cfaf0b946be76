//! Structures with pointers inside: copied once, the pointers clamped, and the copy is what Linux follows.
//!
//! A structure that cannot be read lies [nowhere](GUARD_ADDR): Linux says what is wrong with the call. The buffers that they point to are the rank's own, so data still moves without a copy. Only control messages that are
//! sent are copied as well, for descriptors travel in them.

use abi::Errno;
use abi::syscall::Dir;
use abi::syscall::layout::{
    CONTROL, CONTROL_LEN, COUNT, FLAGS, Header, MAX_VECTORS, MESSAGE_LEN, NAME, NAME_LEN, VECTORS,
};
use zerocopy::IntoBytes;

use crate::fds;
use crate::memory::{GUARD_ADDR, RankMemory, clamp};

/// Most buffers of all messages of one call; the messages beyond are left for the next.
const MAX_ALL_VECTORS: usize = 16 * MAX_VECTORS as usize;
/// Longest control messages that can be sent; Linux's own limit (net.core.optmem_max) is below.
const MAX_CONTROL_BYTES: u64 = 1 << 20;

/// struct iovec: base, length.
type Iovec = [u64; 2];
/// struct mmsghdr in words: a header and msg_len.
type Mmsghdr = [u64; 8];

/// Copies of a call's structures; they stay where they are until the next call.
#[derive(Debug, Default)]
pub struct Copies {
    iovecs: Vec<Iovec>,
    control: Vec<u8>,
    message: Header,
    messages: Vec<Mmsghdr>,
    /// struct ifconf: length, pointer.
    ifconf: [u64; 2],
    /// struct ifreq: name, then here a pointer and padding.
    ifreq: [u64; 5],
}

/// What to write back, and where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// Nothing.
    Nothing,
    /// What a received message says of itself.
    Received(u64),
    /// The same of several.
    ReceivedAll(u64),
    /// How much of each of several messages was sent.
    SentAll(u64),
    /// The length of an interface list.
    Ifconf(u64),
}

/// Copies of several messages.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    /// Where they are.
    pub address: u64,
    /// How many; the rank may have requested more.
    pub count: u64,
    /// What to write back.
    pub after: After,
}

impl Copies {
    /// Copies an array of struct iovec; returns the copy's address.
    pub fn iovec(&mut self, from: u64, count: u64, memory: &impl RankMemory) -> u64 {
        self.iovecs.clear();
        self.add_iovecs(from, count, memory)
    }

    /// Copies a struct msghdr; returns the copy's address.
    pub fn msghdr(
        &mut self,
        from: u64,
        dir: Dir,
        first_own_fd: u32,
        memory: &impl RankMemory,
    ) -> (u64, After) {
        self.begin_messages();
        let mut message: Header = [0; 7];
        if memory.read(from, message.as_mut_bytes()).is_err() {
            return (GUARD_ADDR, After::Nothing);
        }
        self.add_message(&mut message, dir, first_own_fd, memory);
        self.message = message;
        let after = if dir == Dir::In {
            After::Nothing
        } else {
            After::Received(from)
        };
        (&raw mut self.message as u64, after)
    }

    /// Copies an array of struct mmsghdr, up to where it cannot be read: as in Linux, an error in any but the first message
    /// only ends the array there.
    pub fn mmsghdr(
        &mut self,
        from: u64,
        count: u64,
        dir: Dir,
        first_own_fd: u32,
        memory: &impl RankMemory,
    ) -> Messages {
        self.begin_messages();
        self.messages.clear();
        for i in 0..count {
            let mut message: Mmsghdr = [0; 8];
            let at = from.saturating_add(i * size_of::<Mmsghdr>() as u64);
            if memory.read(at, message.as_mut_bytes()).is_err() {
                break;
            }
            let Some(header) = message.first_chunk_mut() else {
                break;
            };
            if !self.has_room(header) {
                break;
            }
            self.add_message(header, dir, first_own_fd, memory);
            self.messages.push(message);
        }
        if self.messages.is_empty() {
            let (address, after) = (GUARD_ADDR, After::Nothing);
            return Messages {
                address,
                count,
                after,
            };
        }
        Messages {
            address: self.messages.as_mut_ptr() as u64,
            count: self.messages.len() as u64,
            after: if dir == Dir::In {
                After::SentAll(from)
            } else {
                After::ReceivedAll(from)
            },
        }
    }

    /// Copies a struct ifconf; returns the copy's address.
    pub fn ifconf(&mut self, from: u64, memory: &impl RankMemory) -> (u64, After) {
        if memory.read(from, self.ifconf.as_mut_bytes()).is_err() {
            return (GUARD_ADDR, After::Nothing);
        }
        self.ifconf[1] = clamp(self.ifconf[1]);
        (&raw mut self.ifconf as u64, After::Ifconf(from))
    }

    /// Copies a struct ifreq whose data is an ethtool structure of the rank; returns the copy's address.
    pub fn ethtool(&mut self, from: u64, memory: &impl RankMemory) -> u64 {
        if memory.read(from, self.ifreq.as_mut_bytes()).is_err() {
            return GUARD_ADDR;
        }
        self.ifreq[2] = clamp(self.ifreq[2]);
        &raw mut self.ifreq as u64
    }

    /// Writes back what Linux left in the copies.
    ///
    /// # Errors
    /// EFAULT.
    pub fn finish(&self, after: After, ret: i64, memory: &impl RankMemory) -> Result<(), Errno> {
        match after {
            After::Nothing => Ok(()),
            After::Received(to) => write_received(to, &self.message, memory),
            After::Ifconf(to) => memory.write(to, &self.ifconf.as_bytes()[..4]),
            After::ReceivedAll(to) | After::SentAll(to) => {
                let done = usize::try_from(ret).unwrap_or(0);
                for (i, message) in self.messages.iter().take(done).enumerate() {
                    let to = to + (i * size_of::<Mmsghdr>()) as u64;
                    if matches!(after, After::ReceivedAll(_)) {
                        write_received(to, message, memory)?;
                    }
                    memory.write(
                        to + 8 * MESSAGE_LEN as u64,
                        &message[MESSAGE_LEN].as_bytes()[..4],
                    )?;
                }
                Ok(())
            }
        }
    }

    /// Makes room that does not move while addresses into it are handed out.
    fn begin_messages(&mut self) {
        self.iovecs.clear();
        self.control.clear();
        self.iovecs.reserve(MAX_ALL_VECTORS);
        self.control.reserve(MAX_CONTROL_BYTES as usize);
    }

    /// Whether the buffers of one more message fit.
    fn has_room(&self, message: &Header) -> bool {
        let count = message[COUNT].min(MAX_VECTORS) as usize;
        self.iovecs.len() + count <= MAX_ALL_VECTORS
    }

    fn add_iovecs(&mut self, from: u64, count: u64, memory: &impl RankMemory) -> u64 {
        if count > MAX_VECTORS {
            return GUARD_ADDR; // Linux refuses so many before it reads there
        }
        let first = self.iovecs.len();
        self.iovecs.resize(first + count as usize, [0; 2]);
        let added = &mut self.iovecs[first..];
        if memory.read(from, added.as_mut_bytes()).is_err() {
            return GUARD_ADDR;
        }
        for [base, _] in added.iter_mut() {
            *base = clamp(*base);
        }
        added.as_mut_ptr() as u64
    }

    fn add_message(
        &mut self,
        message: &mut Header,
        dir: Dir,
        first_own_fd: u32,
        memory: &impl RankMemory,
    ) {
        message[NAME] = clamp(message[NAME]);
        message[VECTORS] = self.add_iovecs(message[VECTORS], message[COUNT], memory);
        message[CONTROL] = match (dir, message[CONTROL]) {
            (_, 0) => 0,
            (Dir::In, from) => self.add_control(from, message[CONTROL_LEN], first_own_fd, memory),
            (_, to) => clamp(to),
        };
    }

    fn add_control(
        &mut self,
        from: u64,
        len_bytes: u64,
        first_own_fd: u32,
        memory: &impl RankMemory,
    ) -> u64 {
        let first = self.control.len().next_multiple_of(8);
        if len_bytes > MAX_CONTROL_BYTES.saturating_sub(first as u64) {
            return GUARD_ADDR; // Linux refuses so much before it reads there
        }
        self.control.resize(first + len_bytes as usize, 0);
        let control = &mut self.control[first..];
        if memory.read(from, control).is_err() {
            return GUARD_ADDR;
        }
        close_ours(control, first_own_fd);
        control.as_mut_ptr() as u64
    }
}

/// Writes the three fields that recvmsg(2) changes.
fn write_received(to: u64, message: &[u64], memory: &impl RankMemory) -> Result<(), Errno> {
    memory.write(to + 8 * NAME_LEN as u64, &message[NAME_LEN].as_bytes()[..4])?;
    memory.write(to + 8 * CONTROL_LEN as u64, message[CONTROL_LEN].as_bytes())?;
    memory.write(to + 8 * FLAGS as u64, &message[FLAGS].as_bytes()[..4])
}

/// Makes closed ones of the proxy's descriptors in control messages (struct cmsghdr: length, level, type, then data).
fn close_ours(control: &mut [u8], first_own_fd: u32) {
    const HEADER: usize = 16;
    const RIGHTS: [i32; 2] = [libc::SOL_SOCKET, libc::SCM_RIGHTS];
    let mut rest = control;
    while let Some(len) = rest.first_chunk() {
        let len = u64::from_ne_bytes(*len);
        // Linux ends at a message that is shorter than its header or reaches beyond the end.
        if len < HEADER as u64 || len > rest.len() as u64 {
            return;
        }
        let (header, data) = rest[..len as usize].split_at_mut(HEADER);
        if header[8..] == *RIGHTS.as_bytes() {
            for fd in data.as_chunks_mut().0 {
                let visible = fds::visible(u32::from_ne_bytes(*fd).into(), first_own_fd);
                *fd = (visible as u32).to_ne_bytes();
            }
        }
        let next = (len as usize).next_multiple_of(8);
        rest = rest.get_mut(next..).unwrap_or_default();
    }
}

/// What a test may see of the copies.
#[cfg(test)]
impl Copies {
    pub fn all(&self) -> [&[u8]; 6] {
        [
            self.iovecs.as_bytes(),
            self.control.as_bytes(),
            self.message.as_bytes(),
            self.messages.as_bytes(),
            self.ifconf.as_bytes(),
            self.ifreq.as_bytes(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: [i32; 2], data: &[u32]) -> Vec<u8> {
        let len = 16 + 4 * data.len() as u64;
        let mut bytes = [len.as_bytes(), kind.as_bytes(), data.as_bytes()].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn our_descriptors_are_closed_in_every_message() {
        let (rights, other) = ([1, 1], [1, 2]);
        let closed = fds::CLOSED as u32;
        let text = |third| {
            [
                message(other, &[2000]),
                message(rights, &[3, third, u32::MAX]),
                message(rights, &[third]),
            ]
            .concat()
        };
        let mut control = text(1024);
        close_ours(&mut control, 1024);
        assert_eq!(control, text(closed));
    }

    proptest! {
        #[test]
        fn garbage_is_survived(mut control: Vec<u8>, len in 0..64u64) {
            if let Some(first) = control.first_chunk_mut() {
                *first = len.to_ne_bytes();
            }
            close_ours(&mut control, 1024);
        }
    }
}
