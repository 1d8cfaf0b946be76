//! What the third argument of ioctl(2) and fcntl(2) is.
//!
//! A closed list: a request that is not here might follow pointers that were not checked, so it does not exist. Linux is
//! given [`NO_SUCH_REQUEST`] in its place and says what it says of one that neither a device nor it has.

pub mod xpmem;

use super::Call;
use super::Dir::{self, In, InOut, Out};

/// Number of fcntl(2); the other call with requests is ioctl(2).
const FCNTL: u16 = 72;

/// Meaning of the argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// A number, or nothing.
    Number,
    /// A descriptor.
    Fd,
    /// Flat memory of so many bytes.
    Memory(Dir, u32),
    /// struct ifconf.
    Ifconf,
    /// A process or group that is to get signals.
    Owner,
    /// The same behind a pointer: an int.
    OwnerAt,
    /// The same behind a pointer: struct f_owner_ex.
    OwnerEx,
    /// struct ifreq that points to an ethtool structure.
    Ethtool,
}

impl Argument {
    /// The flat memory that it points to, if it does.
    #[must_use]
    pub const fn memory(self) -> Option<(Dir, u32)> {
        match self {
            Argument::Memory(dir, bytes) => Some((dir, bytes)),
            Argument::OwnerAt => Some((In, 4)),
            Argument::OwnerEx => Some((In, 8)),
            _ => None,
        }
    }
}

/// What the argument of `request` is; `None` when the request does not exist.
#[must_use]
pub fn argument(call: &Call, request: u64) -> Option<Argument> {
    let request = request as u32; // both take an unsigned int
    if call.nr == FCNTL {
        fcntl(request)
    } else {
        ioctl(request)
    }
}

/// A request that no device and no file has (ENOTTY, EINVAL).
pub const NO_SUCH_REQUEST: u64 = u32::MAX as u64;

/// uapi/asm-generic/fcntl.h, uapi/linux/fcntl.h.
fn fcntl(command: u32) -> Option<Argument> {
    use Argument::{Memory, Number, Owner, OwnerEx};
    const FLOCK: u32 = 32; // struct flock
    Some(match command {
        // F_DUPFD to F_SETFL, F_GETOWN to F_GETSIG
        0..=4 | 9..=11 => Number,
        8 => Owner,                           // F_SETOWN
        15 => OwnerEx,                        // F_SETOWN_EX
        5 | 36 => Memory(InOut, FLOCK),       // F_GETLK, F_OFD_GETLK
        6..=7 | 37..=38 => Memory(In, FLOCK), // F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
        16..=17 => Memory(Out, 8),            // F_GETOWN_EX, F_GETOWNER_UIDS: two ints
        // F_SETLEASE, F_GETLEASE, F_NOTIFY, F_DUPFD_CLOEXEC to F_GET_SEALS
        1024..=1026 | 1030..=1034 => Number,
        1035 | 1037 => Memory(Out, 8), // F_GET_RW_HINT, F_GET_FILE_RW_HINT
        1036 | 1038 => Memory(In, 8),  // F_SET_RW_HINT, F_SET_FILE_RW_HINT
        _ => return None,
    })
}

fn ioctl(request: u32) -> Option<Argument> {
    terminal(request)
        .or_else(|| socket(request))
        .or_else(|| file(request))
}

/// uapi/asm-generic/ioctls.h, with the structures of uapi/asm-generic/termbits.h and termios.h.
fn terminal(request: u32) -> Option<Argument> {
    use Argument::{Memory, Number};
    const TERMIOS: u32 = 36;
    const TERMIOS2: u32 = 44;
    const TERMIO: u32 = 18;
    const WINSIZE: u32 = 8;
    const INT: u32 = 4;
    Some(match request {
        0x5401 => Memory(Out, TERMIOS),                    // TCGETS
        0x5402..=0x5404 => Memory(In, TERMIOS),            // TCSETS, TCSETSW, TCSETSF
        0x5405 => Memory(Out, TERMIO),                     // TCGETA
        0x5406..=0x5408 => Memory(In, TERMIO),             // TCSETA, TCSETAW, TCSETAF
        0x5409..=0x540b => Number,                         // TCSBRK, TCXONC, TCFLSH
        0x540c..=0x540e => Number,                         // TIOCEXCL, TIOCNXCL, TIOCSCTTY
        0x540f | 0x5411 => Memory(Out, INT),               // TIOCGPGRP, TIOCOUTQ
        0x5410 => Memory(In, INT),                         // TIOCSPGRP
        0x5412 => Memory(In, 1),                           // TIOCSTI
        0x5413 => Memory(Out, WINSIZE),                    // TIOCGWINSZ
        0x5414 => Memory(In, WINSIZE),                     // TIOCSWINSZ
        0x5415 | 0x5419 | 0x541b => Memory(Out, INT),      // TIOCMGET, TIOCGSOFTCAR, FIONREAD
        0x5416..=0x5418 | 0x541a => Memory(In, INT), // TIOCMBIS, TIOCMBIC, TIOCMSET, TIOCSSOFTCAR
        0x541d => Number,                            // TIOCCONS
        0x5420..=0x5421 => Memory(In, INT),          // TIOCPKT, FIONBIO
        0x5422 | 0x5425 => Number,                   // TIOCNOTTY, TCSBRKP
        0x5423 => Memory(In, INT),                   // TIOCSETD
        0x5424 | 0x5429 => Memory(Out, INT),         // TIOCGETD, TIOCGSID
        0x5427..=0x5428 => Number,                   // TIOCSBRK, TIOCCBRK
        0x802c_542a => Memory(Out, TERMIOS2),        // TCGETS2
        0x402c_542b..=0x402c_542d => Memory(In, TERMIOS2), // TCSETS2, TCSETSW2, TCSETSF2
        0x4004_5431 => Memory(In, INT),              // TIOCSPTLCK
        0x8004_5430 | 0x8004_5432 | 0x8004_5438..=0x8004_5440 => Memory(Out, INT), // TIOCGPTN, TIOCGDEV, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL
        0x5441 => Number,                                                          // TIOCGPTPEER
        0x5450..=0x5451 => Number, // FIONCLEX, FIOCLEX
        0x5452 => Memory(In, INT), // FIOASYNC
        0x5460 => Memory(Out, 8),  // FIOQSIZE: loff_t
        _ => return None,
    })
}

/// uapi/asm-generic/sockios.h, uapi/linux/sockios.h.
fn socket(request: u32) -> Option<Argument> {
    use Argument::{Ethtool, Ifconf, Memory, OwnerAt};
    const IFREQ: u32 = 40; // struct ifreq
    Some(match request {
        0x8901..=0x8902 => OwnerAt,         // FIOSETOWN, SIOCSPGRP
        0x8903..=0x8905 => Memory(Out, 4),  // FIOGETOWN to SIOCATMARK
        0x8906..=0x8907 => Memory(Out, 16), // SIOCGSTAMP, SIOCGSTAMPNS
        0x8912 => Ifconf,                   // SIOCGIFCONF
        0x8946 => Ethtool,                  // SIOCETHTOOL
        // SIOCGIFNAME, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC,
        // SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN, SIOCGIFMAP
        0x8910 | 0x8913 | 0x8915 | 0x8917 | 0x8919 | 0x891b | 0x891d | 0x8921 | 0x8927 | 0x8933
        | 0x8942 | 0x8970 => Memory(InOut, IFREQ),
        _ => return None,
    })
}

/// uapi/linux/fs.h, uapi/linux/random.h. Flags and versions of files are ints, whatever the request's number says.
fn file(request: u32) -> Option<Argument> {
    use Argument::{Fd, Memory};
    Some(match request {
        1 => Memory(InOut, 4),         // FIBMAP
        2 => Memory(Out, 4),           // FIGETBSZ
        0x1260 => Memory(Out, 8),      // BLKGETSIZE
        0x1268 => Memory(Out, 4),      // BLKSSZGET
        0x8008_1272 => Memory(Out, 8), // BLKGETSIZE64
        0x8008_6601 => Memory(Out, 4), // FS_IOC_GETFLAGS
        0x4008_6602 => Memory(In, 4),  // FS_IOC_SETFLAGS
        0x8008_7601 => Memory(Out, 4), // FS_IOC_GETVERSION
        0x4004_9409 => Fd,             // FICLONE
        0x8004_5200 => Memory(Out, 4), // RNDGETENTCNT
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::by_name;
    use super::*;

    #[test]
    fn requests_mean_what_linux_calls_them() {
        let (ioctl, fcntl) = (by_name("ioctl").unwrap(), by_name("fcntl").unwrap());
        for (call, request, meaning) in [
            (ioctl, 0x5401, Some(Argument::Memory(Out, 36))), // TCGETS
            (ioctl, 0x5413, Some(Argument::Memory(Out, 8))),  // TIOCGWINSZ
            (ioctl, 0x541b, Some(Argument::Memory(Out, 4))),  // FIONREAD
            (ioctl, 0x4004_9409, Some(Argument::Fd)),         // FICLONE
            (ioctl, 0x8912, Some(Argument::Ifconf)),
            (ioctl, 0x8901, Some(Argument::OwnerAt)),
            (ioctl, 0xdead_beef, None),
            (ioctl, NO_SUCH_REQUEST, None),
            (fcntl, 7, Some(Argument::Memory(In, 32))), // F_SETLKW
            (fcntl, 8, Some(Argument::Owner)),          // F_SETOWN
            (fcntl, 15, Some(Argument::OwnerEx)),       // F_SETOWN_EX
            (fcntl, 37, Some(Argument::Memory(In, 32))), // F_OFD_SETLK
            (fcntl, 1030, Some(Argument::Number)),      // F_DUPFD_CLOEXEC
            (fcntl, 999, None),
            (fcntl, NO_SUCH_REQUEST, None),
        ] {
            assert_eq!(
                argument(call, request),
                meaning,
                "{} {request:#x}",
                call.name
            );
        }
    }
}
