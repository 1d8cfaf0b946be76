//! What is to be logged of what was read. The log is opened later: where it is, is read here.

use crate::addr::Phys;
use crate::ranges::Lost;
use arrayvec::ArrayVec;
use core::fmt;
use wire::boot::MAX_CPUS;

/// Remarks of one boot; more than there are kinds.
pub type Remarks = ArrayVec<Remark, 24>;

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// Entries of the memory map that were not read.
    MapEntries(u64),
    /// RAM in ranges beyond those that a node works with.
    SmallRanges(Lost),
    /// Bytes of RAM above what this CPU and the direct map reach.
    TooHigh(u64, Phys),
    /// Bytes of RAM above the first MiB in pages that are not RAM as a whole.
    PartialPages(u64),
    /// A table of ACPI is not as it should be.
    Table([u8; 4], TableFault),
    /// CPUs that ACPI names, beyond those that a node may have.
    TooManyCpus(u64),
    /// CPUs with an APIC id above 254 on a machine without x2APIC.
    OutOfReach(u64),
    /// The configuration space or the timer that ACPI names lies in RAM.
    DeviceInRam([u8; 4]),
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFault {
    /// Not there, not what it should be, or longer or shorter than a table can be: not used.
    Unreadable,
    /// Wrong checksum: used nevertheless, as other kernels do.
    Checksum,
    /// An entry is longer than the table or shorter than entries are: used up to there.
    Entry,
}

/// Adds a remark, once.
pub(super) fn push(remarks: &mut Remarks, remark: Remark) {
    if !remarks.contains(&remark) {
        let _ = remarks.try_push(remark);
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MapEntries(count) => {
                write!(f, "memory map: the last {count} entries are not read")
            }
            Self::SmallRanges(lost) => write!(f, "{lost}"),
            Self::TooHigh(bytes, reach) => {
                let gib = reach.0 >> 30;
                write!(f, "{bytes} bytes of RAM are not used: above {gib} GiB")
            }
            Self::PartialPages(bytes) => {
                write!(f, "{bytes} bytes of RAM are not used: parts of pages")
            }
            Self::Table(signature, fault) => {
                let (name, what) = (
                    signature.escape_ascii(),
                    match fault {
                        TableFault::Unreadable => "is unreadable and not used",
                        TableFault::Checksum => "has a wrong checksum and is used nevertheless",
                        TableFault::Entry => "has an impossible entry and is used up to there",
                    },
                );
                write!(f, "ACPI table {name} {what}")
            }
            Self::TooManyCpus(count) => {
                write!(
                    f,
                    "{count} CPUs are left out: a node has {MAX_CPUS} at most"
                )
            }
            Self::OutOfReach(count) => write!(
                f,
                "{count} CPUs are left out: APIC ids above 254 need x2APIC, which this machine lacks"
            ),
            Self::DeviceInRam(signature) => {
                let name = signature.escape_ascii();
                write!(
                    f,
                    "ACPI table {name} places a device in RAM and is not used"
                )
            }
        }
    }
}
