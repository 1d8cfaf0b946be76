//! Which file's bytes lie where in the rank's memory, for /proc/self/maps, and numbers by which the node distinguishes files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use abi::control::MappedFile;
use abi::map::PAGE;
use rustix::fs::{
    FileType, SealFlags, Stat, StatVfsMountFlags, fcntl_get_seals, fcntl_getfl, fstat, fstatvfs,
};
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

/// Files that are remembered; with more, those that are not mapped any more are forgotten, and then so many as are mapped may come.
const MOST_FILES: usize = 4096;

/// What makes a file the same one, unchanged: device, inode, time of the last change.
type Identity = (u64, u64, i64, i64);

/// Whether a change from now on would show in the time of the last change: file systems count it in ticks, some in
/// seconds.
pub fn is_settled(stat: &Stat) -> bool {
    const LONGEST_TICK_S: i64 = 2;
    clock_gettime(ClockId::Realtime).tv_sec > stat.st_ctime + LONGEST_TICK_S
}

/// Whether Linux maps a file at all: one that the kernel makes up, as those of /proc and /sys, it does not.
fn can_be_mapped(fd: BorrowedFd<'_>) -> bool {
    let len = PAGE as usize;
    // SAFETY: 1. Linux chooses addresses that are free, so that nothing is replaced. 2. What is unmapped is just that:
    // it was never touched, and nothing refers to it.
    unsafe {
        let page = mmap(null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, fd, 0);
        page.and_then(|page| munmap(page, len)).is_ok()
    }
}

/// Whether nobody may map a file to write to it; only memfds can be sealed.
fn is_sealed(fd: BorrowedFd<'_>) -> bool {
    let against_writing = SealFlags::WRITE | SealFlags::FUTURE_WRITE;
    fcntl_get_seals(fd).is_ok_and(|seals| seals.intersects(against_writing))
}

/// A file that is or was mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Where it was when it was first mapped.
    pub path: OsString,
    /// Its device, as major and minor number.
    pub device: (u32, u32),
    /// Its inode.
    pub inode: u64,
}

/// A part of the rank's memory that holds bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    end: u64,
    object: u32,
    /// Offset in the file of its first byte.
    offset: u64,
}

/// Files, and where they are mapped.
#[derive(Default, Debug)]
pub struct Files {
    numbers: HashMap<Identity, u32>,
    files: BTreeMap<u32, File>,
    parts: BTreeMap<u64, Part>,
    last: u32,
    /// Those that were mapped when files were forgotten last.
    kept: usize,
}

impl Files {
    /// The number of the file behind a descriptor.
    ///
    /// # Errors
    /// What fstat(2) says.
    pub fn number(&mut self, fd: BorrowedFd<'_>) -> io::Result<u32> {
        fstat(fd).map(|stat| self.enter(fd, &stat))
    }

    /// What mmap needs of a descriptor and `len_bytes` of it from `offset` on.
    ///
    /// # Errors
    /// EBADF.
    pub fn describe(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<MappedFile> {
        let flags = fcntl_getfl(fd)?.bits() as i32;
        if flags & libc::O_PATH != 0 {
            return Err(io::Errno::BADF);
        }
        let stat = fstat(fd)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_zero = kind == FileType::CharacterDevice && stat.st_rdev == libc::makedev(1, 5);
        let len_bytes = len_bytes.min(abi::map::USER_TOP);
        let in_file = match kind {
            FileType::RegularFile => (stat.st_size as u64).saturating_sub(offset).min(len_bytes),
            _ => len_bytes,
        };
        let writable = matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR);
        let mount = fstatvfs(fd).map(|fs| fs.f_flag);
        Ok(MappedFile {
            object: self.enter(fd, &stat),
            pages: in_file.div_ceil(PAGE),
            // Of mode 3 Linux gives neither (open(2)).
            readable: matches!(flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR),
            writable,
            mappable: match kind {
                FileType::RegularFile | FileType::BlockDevice => can_be_mapped(fd),
                _ => is_zero,
            },
            sealed: writable && kind == FileType::RegularFile && is_sealed(fd),
            zeros: is_zero,
            executable: mount.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOEXEC)),
        })
    }

    fn enter(&mut self, fd: BorrowedFd<'_>, stat: &Stat) -> u32 {
        let identity = (
            stat.st_dev,
            stat.st_ino,
            stat.st_ctime,
            stat.st_ctime_nsec as i64,
        );
        if let Some(number) = self.numbers.get(&identity)
            && is_settled(stat)
        {
            return *number;
        }
        if self.files.len() >= MOST_FILES.max(2 * self.kept) {
            self.forget();
        }
        self.last = self.last % MappedFile::MAX_OBJECT + 1;
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let file = File {
            path: std::fs::read_link(link).unwrap_or_default().into(),
            device: (libc::major(stat.st_dev), libc::minor(stat.st_dev)),
            inode: stat.st_ino,
        };
        self.numbers.insert(identity, self.last);
        self.files.insert(self.last, file);
        self.last
    }

    /// Drops what is not mapped.
    fn forget(&mut self) {
        let Files {
            numbers,
            files,
            parts,
            kept,
            ..
        } = self;
        let mapped: HashSet<u32> = parts.values().map(|part| part.object).collect();
        files.retain(|object, _| mapped.contains(object));
        numbers.retain(|_, object| files.contains_key(object));
        *kept = files.len();
    }

    /// Says that the pages of `start .. end` hold bytes of a file; `offset` belongs to `start`.
    pub fn place(&mut self, start: u64, end: u64, object: u32, offset: u64) {
        let first = start - start % PAGE;
        let part = Part {
            end: end.next_multiple_of(PAGE),
            object,
            offset: offset.saturating_sub(start - first),
        };
        self.remove(first, part.end);
        if first < part.end {
            self.parts.insert(first, part);
        }
    }

    /// Says that nothing is mapped in `start .. end` any more.
    pub fn remove(&mut self, start: u64, end: u64) {
        while let Some((from, old)) = self.parts.range(..end).next_back().map(|(a, b)| (*a, *b)) {
            if old.end <= start {
                break;
            }
            self.parts.remove(&from);
            if old.end > end {
                let offset = old.offset + (end - from);
                self.parts.insert(end, Part { offset, ..old });
            }
            if from < start {
                self.parts.insert(from, Part { end: start, ..old });
                break;
            }
        }
    }

    /// What lies at `addr`: a file and the offset of that address, or none; and where that ends at the latest.
    #[must_use]
    pub fn at(&self, addr: u64) -> (Option<(&File, u64)>, u64) {
        let part = self.parts.range(..=addr).next_back();
        if let Some((start, part)) = part.filter(|(_, part)| addr < part.end) {
            let file = self.files.get(&part.object);
            return (file.map(|f| (f, part.offset + (addr - start))), part.end);
        }
        let next = self.parts.range(addr..).next();
        (None, next.map_or(u64::MAX, |(start, _)| *start))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn files() -> (Files, u32, u32) {
        let mut files = Files::default();
        let mut number = |path| {
            let file = std::fs::File::open(path).expect("readable");
            files.number(file.as_fd()).expect("a number")
        };
        let (passwd, group) = (number("/etc/passwd"), number("/etc/group"));
        assert_eq!(number("/etc/passwd"), passwd);
        assert_ne!(passwd, group);
        (files, passwd, group)
    }

    fn names(files: &Files, addrs: &[u64]) -> Vec<Option<(String, u64)>> {
        let name = |file: &File| file.path.to_string_lossy().into_owned();
        let at = |&addr: &u64| files.at(addr).0.map(|(file, at)| (name(file), at));
        addrs.iter().map(at).collect()
    }

    #[test]
    fn parts_are_cut_and_replaced() {
        let (mut files, passwd, group) = files();
        files.place(0x1_0000, 0x1_5100, passwd, 0x3000);
        files.place(0x1_2000, 0x1_3000, group, 0);
        files.remove(0x1_4000, 0x1_5000);
        let of = |file: &str, at: u64| Some((format!("/etc/{file}"), at));
        assert_eq!(
            names(
                &files,
                &[
                    0xffff, 0x1_0000, 0x1_2000, 0x1_3fff, 0x1_4000, 0x1_5800, 0x1_6000
                ]
            ),
            [
                None,
                of("passwd", 0x3000),
                of("group", 0),
                of("passwd", 0x6fff),
                None,
                of("passwd", 0x8800),
                None
            ]
        );
        assert_eq!(files.at(0).1, 0x1_0000);
        assert_eq!(files.at(0x1_0000).1, 0x1_2000);
        assert_eq!(files.at(0x1_6000).1, u64::MAX);
        // What a segment leaves of its first page belongs to it, too.
        files.place(0x2_0123, 0x2_0200, group, 0x1123);
        assert_eq!(names(&files, &[0x2_0000]), [of("group", 0x1000)]);
    }

    #[test]
    fn descriptors_are_described() {
        let mut files = Files::default();
        let mut describe = |path: &str, offset| {
            let file = std::fs::File::open(path).expect("readable");
            let described = files.describe(file.as_fd(), offset, 1 << 20);
            described.expect("open")
        };
        let me = std::env::current_exe().expect("a path");
        let me = me.to_str().expect("UTF-8");
        let bytes = std::fs::metadata(me).expect("there").len();
        let whole = describe(me, 0);
        assert!(whole.readable && !whole.writable && whole.mappable);
        assert_eq!(whole.pages, 256);
        let tail = describe(me, (bytes - 1) / PAGE * PAGE);
        assert_eq!(tail.pages, 1);
        assert_eq!(describe(me, bytes.next_multiple_of(PAGE)).pages, 0);
        assert_eq!(MappedFile::decode(whole.encode()), Some(whole));
        assert!(!describe("/usr", 0).mappable && !describe("/dev/null", 0).mappable);
        assert_eq!(describe("/dev/zero", 0).pages, 256);
        assert!(!describe("/proc/version", 0).mappable);
        assert!(!describe("/sys/devices/system/cpu/online", 0).mappable);
    }

    /// What was changed just now may change again with the same time stamp: it is another file each time.
    #[test]
    fn a_young_file_is_another_each_time() {
        let young = rustix::fs::memfd_create("young", rustix::fs::MemfdFlags::empty());
        let young = young.expect("a file");
        let mut files = Files::default();
        let first = files.number(young.as_fd()).expect("a number");
        assert_ne!(files.number(young.as_fd()), Ok(first));
    }

    #[test]
    fn files_that_are_not_mapped_are_forgotten() {
        let (mut files, passwd, _) = files();
        files.place(0x1_0000, 0x1_1000, passwd, 0);
        files.forget();
        assert_eq!((files.files.len(), files.numbers.len()), (1, 1));
    }
}
