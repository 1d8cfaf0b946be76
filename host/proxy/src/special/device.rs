//! Which devices a rank may open.
//!
//! The proxy gives a device's write() and ioctl() what the program wrote. Some devices take it for a structure with
//! pointers inside and follow them: /dev/infiniband, SCSI generic, uhid. Their drivers would write to the proxy's memory,
//! unchecked. So only devices exist for a rank whose data is data; any other is as on a machine without it: ENXIO.

/// Major numbers (Documentation/admin-guide/devices.txt).
const MEM: u32 = 1;
const TERMINALS: &[u32] = &[
    4,   // consoles and serial ports
    5,   // /dev/tty, /dev/console, /dev/ptmx
    9,   // tapes
    166, // USB modems
    188, // USB serial ports
    204, // serial ports of small systems
];
/// /dev/pts.
const PTS: std::ops::RangeInclusive<u32> = 136..=143;

/// Whether a character device takes and gives plain data.
#[must_use]
pub fn is_flat(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    match major {
        // null, zero, full, random, urandom, kmsg; not mem, kmem, port
        MEM => matches!(minor, 3 | 5 | 7 | 8 | 9 | 11),
        _ => TERMINALS.contains(&major) || PTS.contains(&major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_devices_are_open_to_ranks() {
        let flat = |major, minor| is_flat(rustix::fs::makedev(major, minor));
        assert!(flat(1, 3) && flat(1, 9) && flat(5, 0) && flat(136, 0));
        assert!(!flat(1, 1), "/dev/mem");
        assert!(!flat(231, 192), "/dev/infiniband/uverbs0");
        assert!(!flat(21, 0), "/dev/sg0");
        assert!(!flat(10, 239), "/dev/uhid");
    }
}
