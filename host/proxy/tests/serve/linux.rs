//! The same calls made by this process itself and through a proxy, with memory at the same addresses: whatever is wrong with
//! the arguments, the answers are the same, so the proxy checks nothing that Linux would not check first.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::Case;
use crate::node::{DATA, Directory, Node};

pub const CASES: &[Case] = &[("answers_are_linuxs", answers_are_linuxs)];

/// A page of arguments, written anew before each call.
const PAGE: u64 = DATA.0 + 0x4000;
/// An array of struct pollfd with negative descriptors, written once.
const POLLFDS: u64 = DATA.0 + 0x10_0000;
/// Where in the page what begins; zeros elsewhere.
const NAME: usize = 0x100;
const VECTOR: usize = 0x200;
const MESSAGE: usize = 0x280;
const MASK_PAIR: usize = 0x300;
const LENGTH: usize = 0x400;
/// Most calls of one row, pages not counted.
const MOST: usize = 1000;
const MOST_NESTED: usize = 150;
/// Calls that return a new descriptor.
const OPENS: [i64; 5] = [
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_memfd_create,
    libc::SYS_accept4,
    libc::SYS_dup,
];

/// Calls and what their arguments are varied over:
/// - `p` zeros, `s` a name, `v` an array of two struct iovec, `m` a struct msghdr, `k` a socklen_t, `q` a pair of mask and
///   length, `y` an array of struct pollfd, `t` a time, each also at addresses where they cannot be; `P`: only at these, for
///   what would do something;
/// - `l` lengths and counts;
/// - `f` a file, `d` its directory, `n` /dev/null, `z` /dev/zero, `r` the end of a pipe, `u`, `x` two sockets, each also closed;
/// - digits themselves.
const CALLS: &[(i64, &str)] = &[
    (libc::SYS_poll, "yl0"),
    (libc::SYS_ppoll, "yltp8"),
    (libc::SYS_ppoll, "yltpl"),
    (libc::SYS_select, "lpppt"),
    (libc::SYS_pselect6, "lpp0tq"),
    (libc::SYS_read, "fpl"),
    (libc::SYS_read, "zpl"),
    (libc::SYS_read, "rpl"),
    (libc::SYS_read, "dpl"),
    (libc::SYS_write, "npl"),
    (libc::SYS_write, "rpl"),
    (libc::SYS_write, "fpl"),
    (libc::SYS_pread64, "fpl1"),
    (libc::SYS_pwrite64, "npl1"),
    (libc::SYS_readv, "fvl"),
    (libc::SYS_writev, "nvl"),
    (libc::SYS_preadv, "fvl0"),
    (libc::SYS_pwritev2, "nvl000"),
    (libc::SYS_openat, "ds0"),
    (libc::SYS_openat2, "dspl"),
    (libc::SYS_stat, "Pp"),
    (libc::SYS_newfstatat, "dspl"),
    (libc::SYS_statx, "dsl1p"),
    (libc::SYS_fstat, "fp"),
    (libc::SYS_fstatfs, "fp"),
    (libc::SYS_faccessat2, "dsll"),
    (libc::SYS_readlinkat, "dspl"),
    (libc::SYS_readlink, "Ppl"),
    (libc::SYS_getcwd, "pl"),
    (libc::SYS_getdents64, "dpl"),
    (libc::SYS_getdents64, "fpl"),
    (libc::SYS_mkdirat, "ds0"),
    (libc::SYS_unlinkat, "dPl"),
    (libc::SYS_renameat2, "dPdsl"),
    (libc::SYS_linkat, "dsdPl"),
    (libc::SYS_symlinkat, "sds"),
    (libc::SYS_fchmodat, "dP0"),
    (libc::SYS_fchownat, "dP00l"),
    (libc::SYS_utimensat, "dspl"),
    (libc::SYS_truncate, "Pl"),
    (libc::SYS_getxattr, "Pspl"),
    (libc::SYS_fgetxattr, "fspl"),
    (libc::SYS_fsetxattr, "fspll"),
    (libc::SYS_flistxattr, "fpl"),
    (libc::SYS_pipe2, "Pl"),
    (libc::SYS_memfd_create, "Pl"),
    (libc::SYS_epoll_wait, "fpl0"),
    (libc::SYS_epoll_pwait, "fpl0pl"),
    (libc::SYS_epoll_ctl, "f1fp"),
    (libc::SYS_timerfd_settime, "f0pp"),
    (libc::SYS_sendfile, "nfpl"),
    (libc::SYS_splice, "fprpl0"),
    (libc::SYS_copy_file_range, "fpfpl1"),
    (libc::SYS_sendto, "upl0pl"),
    (libc::SYS_recvfrom, "xpl0pk"),
    (libc::SYS_sendmsg, "um0"),
    (libc::SYS_recvmsg, "xm0"),
    (libc::SYS_recvmmsg, "uPl0p"),
    (libc::SYS_sendmmsg, "uPl0"),
    (libc::SYS_bind, "uPl"),
    (libc::SYS_connect, "uPl"),
    (libc::SYS_accept4, "upkl"),
    (libc::SYS_getsockname, "upk"),
    (libc::SYS_getsockopt, "u13pk"),
    (libc::SYS_getsockopt, "ullpk"),
    (libc::SYS_setsockopt, "u12pl"),
    (libc::SYS_setsockopt, "ullpl"),
    (libc::SYS_socketpair, "100P"),
    (libc::SYS_getgroups, "lp"),
    (libc::SYS_ioctl, "fll"),
    (libc::SYS_ioctl, "ull"),
    (libc::SYS_fcntl, "f5p"),
    (libc::SYS_dup, "f"),
    (libc::SYS_lseek, "fll"),
    (libc::SYS_inotify_add_watch, "fsl"),
    (libc::SYS_ftruncate, "fl"),
];

/// Where nothing can be read or written, and where what is there ends too early.
const NOWHERE: [u64; 12] = [
    0,
    8,
    DATA.0 + DATA.1 - 2,
    DATA.0 + DATA.1,
    1 << 38,
    1 << 39,
    (1 << 39) + 0x40_0000,
    200 << 39,
    1 << 47,
    0xffff_8000_0000_0000,
    1 << 63,
    u64::MAX - 7,
];
const LENGTHS: [u64; 16] = [
    0,
    1,
    2,
    7,
    64,
    1025,
    4096,
    0x7fff_f000,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 40,
    1 << 44, // from any address in NOWHERE it is seen alike whether a range passes 2^47
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Descriptors of one side, by the letters of [`CALLS`].
type Files = [(char, u64); 7];

/// What an argument is varied over; the first is as it should be.
fn values(letter: char, files: &Files) -> Vec<u64> {
    let there = |at: usize| [&[PAGE + at as u64], &NOWHERE[..]].concat();
    match letter {
        'p' => there(0),
        's' => there(NAME),
        'v' => there(VECTOR),
        'm' => there(MESSAGE),
        'k' => there(LENGTH),
        'q' => there(MASK_PAIR),
        'y' => [&[POLLFDS], &NOWHERE[..]].concat(),
        't' => [&[PAGE], &NOWHERE[1..]].concat(), // no time at all would mean to wait
        'P' => NOWHERE.to_vec(),
        'l' => LENGTHS.to_vec(),
        digit if digit.is_ascii_digit() => vec![u64::from(digit) - u64::from('0')],
        file => {
            let (_, fd) = files.iter().find(|(letter, _)| *letter == file).unwrap();
            vec![*fd, 999]
        }
    }
}

/// The page of arguments, once for each kind of vector.
fn pages() -> Vec<Vec<u8>> {
    let good = [PAGE + 0x800, 4];
    let seconds = LENGTHS.map(|len| [PAGE + 0x900, len]);
    let wild = NOWHERE.map(|base| [base, 1]);
    let pieces = seconds.into_iter().chain(wild);
    let page = |second: [u64; 2]| {
        let mut page = vec![0; 4096];
        let mut put = |at: usize, words: &[u64]| {
            for (i, word) in words.iter().enumerate() {
                page[at + 8 * i..][..8].copy_from_slice(&word.to_le_bytes());
            }
        };
        put(NAME, &[u64::from_le_bytes(*b"file\0\0\0\0")]);
        put(VECTOR, &good);
        put(VECTOR + 16, &second);
        put(MESSAGE, &[0, 0, PAGE + VECTOR as u64, 2, 0, 0, 0]);
        put(MASK_PAIR, &second);
        put(LENGTH, &[second[1]]);
        page
    };
    pieces.map(page).collect()
}

/// Every combination, the last argument varied fastest.
fn combinations(letters: &str, files: &Files, most: usize) -> Vec<[u64; 6]> {
    let mut all = vec![[0; 6]];
    for (i, letter) in letters.chars().enumerate() {
        let values = values(letter, files);
        all = all
            .iter()
            .flat_map(|args| {
                values.iter().map(move |&value| {
                    let mut args = *args;
                    args[i] = value;
                    args
                })
            })
            .collect();
    }
    // Spread over all of them when they are too many.
    let step = all.len().div_ceil(most) | 1;
    all.into_iter().step_by(step).collect()
}

/// Who makes the calls: this process itself, or a proxy for a rank.
enum Side {
    Native,
    Shipped(Box<Node>),
}

impl Side {
    fn call(&mut self, nr: i64, args: &[u64]) -> i64 {
        let node = match self {
            Side::Shipped(node) => return node.call(nr, args),
            Side::Native => args.iter().chain(&[0; 6]),
        };
        let all: Vec<u64> = node.copied().collect();
        // SAFETY: 1. What can be written through pointers of `values` was mapped for this test alone.
        match unsafe { libc::syscall(nr, all[0], all[1], all[2], all[3], all[4], all[5]) } {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()),
            ret => ret,
        }
    }

    fn put(&self, addr: u64, bytes: &[u8]) {
        match self {
            Side::Shipped(node) => _ = node.put(addr, bytes),
            // SAFETY: 1. As for `call`; all addresses lie in DATA.
            Side::Native => unsafe { (addr as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) },
        }
    }

    fn pair(&mut self) -> [u64; 2] {
        let mut pair = [0; 8];
        match self {
            Side::Shipped(node) => pair.copy_from_slice(&node.get(PAGE, 8)),
            // SAFETY: 1. As for `put`.
            Side::Native => unsafe { (PAGE as *const u8).copy_to(pair.as_mut_ptr(), 8) },
        }
        let pair = u64::from_le_bytes(pair);
        [pair & 0xffff_ffff, pair >> 32]
    }

    fn open(&mut self, path: &[u8]) -> u64 {
        self.put(PAGE, path);
        let flags = if path.ends_with(b"/\0") {
            libc::O_RDONLY
        } else {
            libc::O_RDWR
        };
        u64::try_from(self.call(libc::SYS_open, &[PAGE, flags as u64])).unwrap()
    }

    fn files(&mut self, directory: &Directory) -> Files {
        self.put(POLLFDS, &[0xff; 0x1_0000]);
        let file = self.open(&directory.path("file"));
        let directory = self.open(&directory.path(""));
        let (null, zero) = (self.open(b"/dev/null\0"), self.open(b"/dev/zero\0"));
        assert_eq!(
            self.call(libc::SYS_pipe2, &[PAGE, libc::O_NONBLOCK as u64]),
            0
        );
        let [pipe, _] = self.pair();
        let kind = (libc::SOCK_DGRAM | libc::SOCK_NONBLOCK) as u64;
        let args = [libc::AF_UNIX as u64, kind, 0, PAGE];
        assert_eq!(self.call(libc::SYS_socketpair, &args), 0);
        let [socket, other] = self.pair();
        [
            ('f', file),
            ('d', directory),
            ('n', null),
            ('z', zero),
            ('r', pipe),
            ('u', socket),
            ('x', other),
        ]
    }

    /// Makes a call with files at their beginnings, and closes what it opened.
    fn answer(&mut self, nr: i64, args: &[u64; 6], page: &[u8], files: &Files) -> i64 {
        for (_, fd) in &files[..2] {
            self.call(libc::SYS_lseek, &[*fd, 0, 0]);
        }
        self.put(PAGE, page);
        let ret = self.call(nr, args);
        if OPENS.contains(&nr) && ret >= 0 {
            assert_eq!(self.call(libc::SYS_close, &[ret as u64]), 0);
            return 0;
        }
        ret
    }
}

fn answers_are_linuxs() {
    let directory = Directory::new("linux");
    std::fs::write(directory.0.join("file"), b"0123456789").unwrap();
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: 1. Nothing that exists is replaced. 2. Nothing else uses the addresses, for they are given out to no code.
    let mapped = unsafe { mmap_anonymous(DATA.0 as *mut _, DATA.1 as usize, prot, flags) };
    mapped.expect("addresses that this program does not use");

    let (mut native, mut shipped) = (Side::Native, Side::Shipped(Box::new(Node::new())));
    let native_files = native.files(&directory);
    let shipped_files = shipped.files(&directory);
    let all_pages = pages();
    let mut wrong = Vec::new();
    for (nr, letters) in CALLS {
        let (pages, most) = if letters.contains(['v', 'm', 'k', 'q']) {
            (&all_pages[..], MOST_NESTED)
        } else {
            (&all_pages[..1], MOST)
        };
        let ours = combinations(letters, &native_files, most);
        let theirs = combinations(letters, &shipped_files, most);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for page in pages {
                let here = native.answer(*nr, ours, page, &native_files);
                let there = shipped.answer(*nr, theirs, page, &shipped_files);
                if here != there {
                    let name = abi::syscall::by_nr(*nr as u64).unwrap().name;
                    let second = u64::from_le_bytes(page[VECTOR + 24..][..8].try_into().unwrap());
                    wrong.push(format!(
                        "{name}{theirs:x?} ({second:#x}): {there}, natively {here}"
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
