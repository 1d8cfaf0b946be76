//! Writes an initial RAM disk: the "newc" format of cpio (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).

/// What kind of entry, with its permissions, as st_mode has it (inode(7)).
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// A directory.
    Directory,
    /// An executable file.
    File(&'a [u8]),
    /// A character device: major and minor number.
    Device(u32, u32),
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// An archive of entries, in their order; a directory comes before what is in it.
pub fn archive(entries: &[(&str, Kind<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, (name, kind)) in entries.iter().enumerate() {
        entry(&mut bytes, number as u32 + 1, name, *kind);
    }
    entry(&mut bytes, 0, "TRAILER!!!", Kind::File(&[]));
    bytes
}

fn entry(bytes: &mut Vec<u8>, inode: u32, name: &str, kind: Kind<'_>) {
    let (mode, data, device) = match kind {
        Kind::Directory => (DIRECTORY, &[][..], (0, 0)),
        Kind::File(data) => (FILE, data, (0, 0)),
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
        0,
        data.len() as u32,
        0,
        0,
        device.0,
        device.1,
        name.len() as u32 + 1,
        0,
    ];
    bytes.extend(b"070701");
    for field in fields {
        bytes.extend(format!("{field:08X}").bytes());
    }
    bytes.extend(name.bytes());
    bytes.push(0);
    pad(bytes);
    bytes.extend(data);
    pad(bytes);
}

/// Names and data end at a multiple of four.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_laid_out_as_linux_reads_it() {
        let bytes = archive(&[
            ("dev", Kind::Directory),
            ("dev/c", Kind::Device(5, 1)),
            ("f", Kind::File(b"hello")),
        ]);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..22], b"07070100000001000041ED");
        assert_eq!(&bytes[110..114], b"dev\0");
        // The header of the second starts at the next multiple of four.
        assert_eq!(&bytes[116..122], b"070701");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("0000000500000001") && text.contains("f\0hello\0\0\x00070701"));
        assert!(text.contains("TRAILER!!!"));
    }
}
