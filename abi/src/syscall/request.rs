//! What the third argument of ioctl(2) and fcntl(2) is, and others that depend on the argument before.
//!
//! A closed list: a request that is not here might follow pointers that were not checked, so it does not exist. Linux is
//! given [`NO_SUCH_REQUEST`] in its place and says what it says of one that neither a device nor it has.

pub mod xpmem;

use super::Dir::{self, In, InOut, Out};
use super::operand::{Operand, Size};

/// A request that no device and no file has (ENOTTY, EINVAL).
pub const NO_SUCH_REQUEST: u64 = u32::MAX as u64;
/// A question about a mapping, by /proc/PID/maps (uapi/linux/fs.h).
pub const PROCMAP_QUERY: u32 = 0xc068_6611;

const fn flat(dir: Dir, bytes: u64) -> Operand {
    Operand::Flat(dir, Size::Bytes(bytes))
}

/// The third argument of ioctl(2), whose second is `request`, an unsigned int.
#[inline(never)] // Out of the way of calls without requests.
#[must_use]
pub const fn ioctl(request: u64) -> Operand {
    terminal(request as u32)
}

/// The third argument of fcntl(2), whose second is `command`, an unsigned int (uapi/asm-generic/fcntl.h, uapi/linux/fcntl.h).
#[inline(never)]
#[must_use]
pub const fn fcntl(command: u64) -> Operand {
    use Operand::{Number, Owner, OwnerEx};
    const FLOCK: u64 = 32; // struct flock
    match command as u32 {
        // F_DUPFD to F_SETFL, F_GETOWN to F_GETSIG
        0..=4 | 9..=11 => Number,
        8 => Owner,                         // F_SETOWN
        15 => OwnerEx,                      // F_SETOWN_EX
        5 | 36 => flat(InOut, FLOCK),       // F_GETLK, F_OFD_GETLK
        6..=7 | 37..=38 => flat(In, FLOCK), // F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
        16..=17 => flat(Out, 8),            // F_GETOWN_EX, F_GETOWNER_UIDS: two ints
        // F_SETLEASE, F_GETLEASE, F_NOTIFY, F_CREATED_QUERY, F_DUPFD_CLOEXEC to F_GET_SEALS
        1024..=1026 | 1028 | 1030..=1034 => Number,
        1027 => Operand::Fd,         // F_DUPFD_QUERY
        1035 | 1037 => flat(Out, 8), // F_GET_RW_HINT, F_GET_FILE_RW_HINT
        1036 | 1038 => flat(In, 8),  // F_SET_RW_HINT, F_SET_FILE_RW_HINT
        _ => Operand::Unknown,
    }
}

/// The fourth argument of semctl(2), whose third is `command`, an int (uapi/linux/ipc.h, sem.h). How many semaphores a set has only
/// Linux knows: GETALL and SETALL count as the longest (SEMMSL).
#[inline(never)]
#[must_use]
pub const fn semctl(command: u64) -> Operand {
    const SEMID_DS: u64 = 104; // struct semid64_ds (arch/x86/include/uapi/asm/sembuf.h)
    const SEMINFO: u64 = 40;
    const ALL: u64 = 32000 * 2;
    match command as u32 {
        1 => flat(In, SEMID_DS),                  // IPC_SET
        2 | 18 | 20 => flat(Out, SEMID_DS),       // IPC_STAT, SEM_STAT, SEM_STAT_ANY
        3 | 19 => flat(Out, SEMINFO),             // IPC_INFO, SEM_INFO
        13 => flat(Out, ALL),                     // GETALL
        17 => flat(In, ALL),                      // SETALL
        0 | 11 | 12 | 14..=16 => Operand::Number, // IPC_RMID, GETPID to GETZCNT, SETVAL
        _ => Operand::Unknown,
    }
}

/// The second argument of sysfs(2), whose first is `option`, an int.
#[inline(never)]
#[must_use]
pub const fn sysfs(option: u64) -> Operand {
    match option as u32 {
        1 => Operand::String,
        _ => Operand::Number,
    }
}

/// The second argument of prctl(2), whose first is `option`, an int (uapi/linux/prctl.h): of those that are served.
#[inline(never)]
#[must_use]
pub const fn prctl(option: u64) -> Operand {
    const NAME: u64 = 16; // TASK_COMM_LEN, of which Linux reads all but one, or less
    match option as u32 {
        2 | 37 => flat(Out, 4),   // PR_GET_PDEATHSIG, PR_GET_CHILD_SUBREAPER
        15 => flat(In, NAME - 1), // PR_SET_NAME
        16 => flat(Out, NAME),    // PR_GET_NAME
        _ => Operand::Number,
    }
}

/// Argument `i` of keyctl(2), whose first is the command, an int (uapi/linux/keyctl.h). Commands with structures (KEYCTL_INSTANTIATE_IOV,
/// DH_COMPUTE, those of public keys, WATCH_KEY) do not exist, nor does KEYCTL_SESSION_TO_PARENT, whose parent is yod.
#[inline(never)]
#[must_use]
pub fn keyctl(i: usize, args: &[u64; 6]) -> Operand {
    let counted = |by: u8| Operand::Flat(In, Size::Counted(args[usize::from(by)], by));
    const LONGEST: u64 = 1 << 20; // big_key_preparse (security/keys/big_key.c)
    // What these return is how long it all is, also where it does not fit and nothing is written.
    let whole = |by: usize| flat(Out, args[by].min(LONGEST));
    match (args[0] as u32, i) {
        (1, 1) | (10 | 29, 2..=3) => Operand::String, // JOIN_SESSION_KEYRING; SEARCH, RESTRICT_KEYRING
        (2 | 12, 2) => counted(3),                    // UPDATE, INSTANTIATE
        (6 | 11 | 17, 2) => whole(3),                 // DESCRIBE, READ, GET_SECURITY
        (31, 1) => whole(2),                          // CAPABILITIES
        // GET_KEYRING_ID to ASSUME_AUTHORITY, REJECT, INVALIDATE, GET_PERSISTENT, MOVE
        (0..=17 | 19 | 21..=22 | 29..=31, _) => Operand::Number,
        _ => Operand::Unknown,
    }
}

/// Whether a call arranges that a descriptor signals a process later, of itself: F_SETFL with O_ASYNC, F_SETOWN, F_SETSIG, F_SETOWN_EX,
/// F_SETLEASE and F_NOTIFY of fcntl(2), FIOASYNC and its kin of ioctl(2), mq_notify(3).
#[must_use]
pub fn signals_later(name: &str, args: &[u64; 6]) -> bool {
    const O_ASYNC: u64 = 0o20000;
    match (name, args[1] as u32) {
        ("fcntl", 4) => args[2] & O_ASYNC != 0,
        ("fcntl", 8 | 10 | 15 | 1024 | 1026) | ("mq_notify", _) => true,
        ("ioctl", 0x5452 | 0x8901 | 0x8902) => true, // FIOASYNC, FIOSETOWN, SIOCSPGRP
        _ => false,
    }
}

/// uapi/asm-generic/ioctls.h, with the structures of uapi/asm-generic/termbits.h and termios.h.
const fn terminal(request: u32) -> Operand {
    use Operand::Number;
    const TERMIOS: u64 = 36;
    const TERMIOS2: u64 = 44;
    const TERMIO: u64 = 18;
    const WINSIZE: u64 = 8;
    const INT: u64 = 4;
    match request {
        0x5401 => flat(Out, TERMIOS),                    // TCGETS
        0x5402..=0x5404 => flat(In, TERMIOS),            // TCSETS, TCSETSW, TCSETSF
        0x5405 => flat(Out, TERMIO),                     // TCGETA
        0x5406..=0x5408 => flat(In, TERMIO),             // TCSETA, TCSETAW, TCSETAF
        0x5409..=0x540b => Number,                       // TCSBRK, TCXONC, TCFLSH
        0x540c..=0x540e => Number,                       // TIOCEXCL, TIOCNXCL, TIOCSCTTY
        0x540f | 0x5411 => flat(Out, INT),               // TIOCGPGRP, TIOCOUTQ
        0x5410 => flat(In, INT),                         // TIOCSPGRP
        0x5412 => flat(In, 1),                           // TIOCSTI
        0x5413 => flat(Out, WINSIZE),                    // TIOCGWINSZ
        0x5414 => flat(In, WINSIZE),                     // TIOCSWINSZ
        0x5415 | 0x5419 | 0x541b => flat(Out, INT),      // TIOCMGET, TIOCGSOFTCAR, FIONREAD
        0x5416..=0x5418 | 0x541a => flat(In, INT), // TIOCMBIS, TIOCMBIC, TIOCMSET, TIOCSSOFTCAR
        0x541d => Number,                          // TIOCCONS
        0x5420..=0x5421 => flat(In, INT),          // TIOCPKT, FIONBIO
        0x5422 | 0x5425 => Number,                 // TIOCNOTTY, TCSBRKP
        0x5423 => flat(In, INT),                   // TIOCSETD
        0x5424 | 0x5429 => flat(Out, INT),         // TIOCGETD, TIOCGSID
        0x5427..=0x5428 => Number,                 // TIOCSBRK, TIOCCBRK
        0x802c_542a => flat(Out, TERMIOS2),        // TCGETS2
        0x402c_542b..=0x402c_542d => flat(In, TERMIOS2), // TCSETS2, TCSETSW2, TCSETSF2
        0x4004_5431 => flat(In, INT),              // TIOCSPTLCK
        0x8004_5430 | 0x8004_5432 | 0x8004_5438..=0x8004_5440 => flat(Out, INT), // TIOCGPTN, TIOCGDEV, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL
        0x5441 => Number,                                                        // TIOCGPTPEER
        0x5450..=0x5451 => Number, // FIONCLEX, FIOCLEX
        0x5452 => flat(In, INT),   // FIOASYNC
        0x5460 => flat(Out, 8),    // FIOQSIZE: loff_t
        _ => socket(request),
    }
}

/// uapi/asm-generic/sockios.h, uapi/linux/sockios.h.
const fn socket(request: u32) -> Operand {
    use Operand::{Ethtool, Interfaces, OwnerAt};
    const IFREQ: u64 = 40; // struct ifreq
    match request {
        0x8901..=0x8902 => OwnerAt,       // FIOSETOWN, SIOCSPGRP
        0x8903..=0x8905 => flat(Out, 4),  // FIOGETOWN to SIOCATMARK
        0x8906..=0x8907 => flat(Out, 16), // SIOCGSTAMP, SIOCGSTAMPNS
        0x8912 => Interfaces,             // SIOCGIFCONF
        0x8946 => Ethtool,                // SIOCETHTOOL
        // SIOCGIFNAME; SIOCGIFFLAGS to SIOCSIFMETRIC; SIOCGIFMTU to SIOCSIFHWADDR; SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN,
        // SIOCSIFTXQLEN, SIOCGIFMAP, SIOCSIFMAP: what changes an interface is for Linux to allow
        0x8910
        | 0x8913..=0x891e
        | 0x8921..=0x8922
        | 0x8924
        | 0x8927
        | 0x8933
        | 0x8942..=0x8943
        | 0x8970..=0x8971 => flat(InOut, IFREQ),
        _ => file(request),
    }
}

/// uapi/linux/fs.h, random.h, pidfd.h. Flags and versions of files are ints, whatever the request's number says.
const fn file(request: u32) -> Operand {
    use Operand::{Fd, Number};
    const SIZE_MASK: u32 = 0x3fff_0000; // _IOC_SIZEMASK (uapi/asm-generic/ioctl.h)
    match request {
        1 => flat(InOut, 4),         // FIBMAP
        2 => flat(Out, 4),           // FIGETBSZ
        0x1260 => flat(Out, 8),      // BLKGETSIZE
        0x1268 => flat(Out, 4),      // BLKSSZGET
        0x8008_1272 => flat(Out, 8), // BLKGETSIZE64
        0x8008_6601 => flat(Out, 4), // FS_IOC_GETFLAGS
        0x4008_6602 => flat(In, 4),  // FS_IOC_SETFLAGS
        0x8008_7601 => flat(Out, 4), // FS_IOC_GETVERSION
        0x4004_9409 => Fd,           // FICLONE
        0x8004_5200 => flat(Out, 4), // RNDGETENTCNT
        0xb701..=0xb703 => Number, // NS_GET_USERNS, NS_GET_PARENT, NS_GET_NSTYPE (uapi/linux/nsfs.h)
        0xb704 => flat(Out, 4),    // NS_GET_OWNER_UID
        0x8008_b705 => flat(Out, 8), // NS_GET_MNTNS_ID
        PROCMAP_QUERY => Operand::MapQuery,
        // PIDFD_GET_INFO, whose structure grows: its number says how long the caller knows it.
        _ if request & !SIZE_MASK == 0xc000_ff0b => {
            flat(InOut, ((request & SIZE_MASK) >> 16) as u64)
        }
        _ => Operand::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_mean_what_linux_calls_them() {
        for (request, meaning) in [
            (0x5401, flat(Out, 36)),        // TCGETS
            (0x5413, flat(Out, 8)),         // TIOCGWINSZ
            (0x1_0000_541b, flat(Out, 4)),  // FIONREAD
            (0x4004_9409, Operand::Fd),     // FICLONE
            (0xc050_ff0b, flat(InOut, 80)), // PIDFD_GET_INFO as of Linux 6.17
            (0x8912, Operand::Interfaces),
            (0x8901, Operand::OwnerAt),
            (0xc068_6611, Operand::MapQuery),
            (0xdead_beef, Operand::Unknown),
            (NO_SUCH_REQUEST, Operand::Unknown),
        ] {
            assert_eq!(ioctl(request), meaning, "ioctl {request:#x}");
        }
        for (command, meaning) in [
            (7, flat(In, 32)),             // F_SETLKW
            (8, Operand::Owner),           // F_SETOWN
            (15, Operand::OwnerEx),        // F_SETOWN_EX
            (0x1_0000_0025, flat(In, 32)), // F_OFD_SETLK
            (1030, Operand::Number),       // F_DUPFD_CLOEXEC
            (999, Operand::Unknown),
            (NO_SUCH_REQUEST, Operand::Unknown),
        ] {
            assert_eq!(fcntl(command), meaning, "fcntl {command}");
        }
    }

    #[test]
    fn keys_are_read_where_the_command_leads() {
        let of = |command, i| keyctl(i, &[command, 1, 2, 30, 4, 5]);
        assert_eq!(of(1, 1), Operand::String); // KEYCTL_JOIN_SESSION_KEYRING
        // KEYCTL_UPDATE, INSTANTIATE; DESCRIBE, READ, GET_SECURITY.
        let (read, written) = (Operand::Flat(In, Size::Counted(30, 3)), flat(Out, 30));
        for (command, memory) in [
            (2, read),
            (12, read),
            (6, written),
            (11, written),
            (17, written),
        ] {
            let operands = [1, 2, 3].map(|i| of(command, i));
            let wanted = [Operand::Number, memory, Operand::Number];
            assert_eq!(operands, wanted, "keyctl {command}");
        }
        // KEYCTL_SEARCH, RESTRICT_KEYRING.
        for command in [10, 29] {
            let operands = [1, 2, 3, 4].map(|i| of(command, i));
            let [number, name] = [Operand::Number, Operand::String];
            assert_eq!(operands, [number, name, name, number], "keyctl {command}");
        }
        assert_eq!(of(31, 1), flat(Out, 2)); // KEYCTL_CAPABILITIES
        for structures in [18, 20, 23, 24, 28, 32, NO_SUCH_REQUEST] {
            assert_eq!(of(structures, 1), Operand::Unknown);
        }
    }
}
