//! What the third argument of ioctl(2) and fcntl(2) is.
//!
//! A closed list: a request that is not here might follow pointers that were not checked, so it does not exist. Linux is
//! given [`NO_SUCH_REQUEST`] in its place and says what it says of one that a device or it itself does not know.

pub mod xpmem;

use super::Call;

/// Number of fcntl(2); the other call with requests is ioctl(2).
const FCNTL: u16 = 72;

/// Meaning of the argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// A number, or nothing.
    Number,
    /// A descriptor.
    Fd,
    /// Flat memory.
    Memory,
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

/// A request that no device and no file knows (ENOTTY, EINVAL).
pub const NO_SUCH_REQUEST: u64 = u32::MAX as u64;

/// uapi/asm-generic/fcntl.h, uapi/linux/fcntl.h.
fn fcntl(command: u32) -> Option<Argument> {
    use Argument::{Memory, Number, Owner, OwnerEx};
    Some(match command {
        // F_DUPFD to F_SETFL, F_GETOWN to F_GETSIG
        0..=4 | 9..=11 => Number,
        8 => Owner,    // F_SETOWN
        15 => OwnerEx, // F_SETOWN_EX
        // F_GETLK to F_SETLKW, F_OFD_GETLK to F_OFD_SETLKW: struct flock
        5..=7 | 36..=38 => Memory,
        // F_GETOWN_EX, F_GETOWNER_UIDS: two ints
        16..=17 => Memory,
        // F_SETLEASE, F_GETLEASE, F_NOTIFY, F_DUPFD_CLOEXEC to F_GET_SEALS
        1024..=1026 | 1030..=1034 => Number,
        // F_GET_RW_HINT to F_SET_FILE_RW_HINT
        1035..=1038 => Memory,
        _ => return None,
    })
}

fn ioctl(request: u32) -> Option<Argument> {
    terminal(request)
        .or_else(|| socket(request))
        .or_else(|| file(request))
}

/// uapi/asm-generic/ioctls.h.
fn terminal(request: u32) -> Option<Argument> {
    use Argument::{Memory, Number};
    Some(match request {
        0x5401..=0x5404 => Memory,           // TCGETS, TCSETS, TCSETSW, TCSETSF
        0x5405..=0x5408 => Memory,           // TCGETA, TCSETA, TCSETAW, TCSETAF
        0x5409..=0x540b => Number,           // TCSBRK, TCXONC, TCFLSH
        0x540c..=0x540e => Number,           // TIOCEXCL, TIOCNXCL, TIOCSCTTY
        0x540f..=0x5411 => Memory,           // TIOCGPGRP, TIOCSPGRP, TIOCOUTQ
        0x5412 => Memory,                    // TIOCSTI
        0x5413..=0x5414 => Memory,           // TIOCGWINSZ, TIOCSWINSZ
        0x5415..=0x541b => Memory,           // TIOCMGET to FIONREAD
        0x541d => Number,                    // TIOCCONS
        0x5420..=0x5421 => Memory,           // TIOCPKT, FIONBIO
        0x5422 | 0x5425 => Number,           // TIOCNOTTY, TCSBRKP
        0x5423..=0x5424 => Memory,           // TIOCSETD, TIOCGETD
        0x5427..=0x5428 => Number,           // TIOCSBRK, TIOCCBRK
        0x5429 => Memory,                    // TIOCGSID
        0x802c_542a => Memory,               // TCGETS2
        0x402c_542b..=0x402c_542d => Memory, // TCSETS2, TCSETSW2, TCSETSF2
        0x8004_5430 | 0x4004_5431 => Memory, // TIOCGPTN, TIOCSPTLCK
        0x8004_5432 | 0x8004_5438..=0x8004_5440 => Memory, // TIOCGDEV, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL
        0x5441 => Number,                                  // TIOCGPTPEER
        0x5450..=0x5451 => Number,                         // FIONCLEX, FIOCLEX
        0x5452 => Memory,                                  // FIOASYNC
        0x5460 => Memory,                                  // FIOQSIZE
        _ => return None,
    })
}

/// uapi/asm-generic/sockios.h, uapi/linux/sockios.h.
fn socket(request: u32) -> Option<Argument> {
    use Argument::{Ethtool, Ifconf, Memory, OwnerAt};
    Some(match request {
        0x8901..=0x8902 => OwnerAt, // FIOSETOWN, SIOCSPGRP
        0x8903..=0x8905 => Memory,  // FIOGETOWN to SIOCATMARK
        0x8906..=0x8907 => Memory,  // SIOCGSTAMP, SIOCGSTAMPNS
        0x8912 => Ifconf,           // SIOCGIFCONF
        0x8946 => Ethtool,          // SIOCETHTOOL
        // SIOCGIFNAME, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC,
        // SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN, SIOCGIFMAP
        0x8910 | 0x8913 | 0x8915 | 0x8917 | 0x8919 | 0x891b | 0x891d | 0x8921 | 0x8927 | 0x8933
        | 0x8942 | 0x8970 => Memory,
        _ => return None,
    })
}

/// uapi/linux/fs.h, uapi/linux/random.h.
fn file(request: u32) -> Option<Argument> {
    use Argument::{Fd, Memory};
    Some(match request {
        1..=2 => Memory,                     // FIBMAP, FIGETBSZ
        0x1260 => Memory,                    // BLKGETSIZE
        0x1268 => Memory,                    // BLKSSZGET
        0x8008_1272 => Memory,               // BLKGETSIZE64
        0x8008_6601 | 0x4008_6602 => Memory, // FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
        0x8008_7601 => Memory,               // FS_IOC_GETVERSION
        0x4004_9409 => Fd,                   // FICLONE
        0x8004_5200 => Memory,               // RNDGETENTCNT
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
            (ioctl, 0x5401, Some(Argument::Memory)),  // TCGETS
            (ioctl, 0x5413, Some(Argument::Memory)),  // TIOCGWINSZ
            (ioctl, 0x541b, Some(Argument::Memory)),  // FIONREAD
            (ioctl, 0x4004_9409, Some(Argument::Fd)), // FICLONE
            (ioctl, 0x8912, Some(Argument::Ifconf)),
            (ioctl, 0x8901, Some(Argument::OwnerAt)),
            (ioctl, 0xdead_beef, None),
            (ioctl, NO_SUCH_REQUEST, None),
            (fcntl, 7, Some(Argument::Memory)),    // F_SETLKW
            (fcntl, 8, Some(Argument::Owner)),     // F_SETOWN
            (fcntl, 15, Some(Argument::OwnerEx)),  // F_SETOWN_EX
            (fcntl, 37, Some(Argument::Memory)),   // F_OFD_SETLK
            (fcntl, 1030, Some(Argument::Number)), // F_DUPFD_CLOEXEC
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
