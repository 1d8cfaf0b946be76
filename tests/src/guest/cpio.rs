//! Writes an initial RAM disk: the "newc" format of cpio (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).

/// What kind of entry, with its permissions, as st_mode has it (inode(7)).
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// A directory.
    Directory,
    /// An executable file.
    File(&'a [u8]),
    /// A symbolic link to this path.
    Link(&'a str),
    /// A character device: major and minor number.
    Device(u32, u32),
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;
const DEVICE: u32 = 0o020_600;

/// An archive that grows.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds an entry that was last changed `modified` seconds after 1970; a directory comes before what is in it.
    pub fn add(&mut self, name: &str, kind: Kind<'_>, modified: u32) {
        self.entries += 1;
        self.entry(self.entries, name, kind, modified);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(0, "TRAILER!!!", Kind::File(&[]), 0);
        self.bytes
    }

    fn entry(&mut self, inode: u32, name: &str, kind: Kind<'_>, modified: u32) {
        let (mode, data, device) = match kind {
            Kind::Directory => (DIRECTORY, &[][..], (0, 0)),
            Kind::File(data) => (FILE, data, (0, 0)),
            Kind::Link(to) => (LINK, to.as_bytes(), (0, 0)),
            Kind::Device(major, minor) => (DEVICE, &[][..], (major, minor)),
        };
        // Inode, mode, owner, group, links, time, size, device of the file (2), the device it is (2), length of the name with
        // its end, checksum.
        let fields = [
            inode,
            mode,
            0,
            0,
            1,
            modified,
            data.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    /// Names and data end at a multiple of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_laid_out_as_linux_reads_it() {
        let mut archive = Archive::default();
        archive.add("dev", Kind::Directory, 0);
        archive.add("dev/c", Kind::Device(5, 1), 0);
        archive.add("f", Kind::File(b"hello"), 0x1234);
        archive.add("l", Kind::Link("dev/c"), 0);
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..22], b"07070100000001000041ED");
        assert_eq!(&bytes[110..114], b"dev\0");
        // The header of the second starts at the next multiple of four.
        assert_eq!(&bytes[116..122], b"070701");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("0000000500000001") && text.contains("f\0hello\0\0\x00070701"));
        // Mode, owner, group, links, time and size of a file; of a link, whose data is where it leads.
        assert!(text.contains("000081ED0000000000000000000000010000123400000005"));
        assert!(text.contains("0000A1FF0000000000000000000000010000000000000005"));
        assert!(text.contains("l\0dev/c\0\0\x00070701") && text.contains("TRAILER!!!"));
    }
}
