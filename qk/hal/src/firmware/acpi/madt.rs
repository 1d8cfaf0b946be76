//! The CPUs: who they are (multiple APIC description table, §5.2.12) and where (system resource affinity table, §5.2.16).
//!
//! BOUND: at boot only, no more than the tables have bytes, for each CPU.

use super::tables::{HEADER_BYTES, Table};
use super::{Cpu, Memory, Remark, Remarks, ThisCpu, push};
use arrayvec::ArrayVec;
use wire::boot::MAX_CPUS;

/// The highest id that an APIC without x2APIC can have; 255 means all.
const LAST_XAPIC_ID: u32 = 254;
const ENABLED: u64 = 1;

/// Flag `PCAT_COMPAT`: the machine has two 8259s.
pub(super) fn has_pics<M: Memory>(madt: &Table<'_, M>) -> bool {
    madt.number::<4>(HEADER_BYTES + 4).unwrap_or(0) & 1 != 0
}

/// `this`, then the other CPUs of `madt` that it can reach, with the nodes that `srat` says.
pub(super) fn cpus<M: Memory>(
    madt: Option<Table<'_, M>>,
    srat: Option<Table<'_, M>>,
    this: ThisCpu,
    remarks: &mut Remarks,
) -> ArrayVec<Cpu, MAX_CPUS> {
    let apic_id = this.apic_id;
    let mut cpus = ArrayVec::new();
    cpus.push(Cpu { apic_id, node: 0 });
    if let Some(madt) = madt {
        let (mut too_many, mut out_of_reach) = (0, 0);
        madt.entries(HEADER_BYTES + 8, remarks, |kind, at| {
            let Some(apic_id) = usable(&madt, kind, at) else {
                return;
            };
            if cpus.iter().any(|cpu: &Cpu| cpu.apic_id == apic_id) {
                return;
            }
            if apic_id > LAST_XAPIC_ID && !this.x2apic {
                out_of_reach += 1;
            } else if cpus.try_push(Cpu { apic_id, node: 0 }).is_err() {
                too_many += 1;
            }
        });
        if too_many > 0 {
            push(remarks, Remark::TooManyCpus(too_many));
        }
        if out_of_reach > 0 {
            push(remarks, Remark::OutOfReach(out_of_reach));
        }
    }
    if let Some(srat) = srat {
        place(&srat, &mut cpus, remarks);
    }
    cpus
}

/// The APIC id in the entry at `at`, of a processor local APIC (type 0) or x2APIC (type 9) that is enabled.
fn usable<M: Memory>(madt: &Table<'_, M>, kind: u64, at: u64) -> Option<u32> {
    let (id, flags) = match kind {
        // 255 in an entry of 8 bits is no CPU, whatever its flags say.
        0 => (
            madt.number::<1>(at + 3)
                .filter(|&id| id <= LAST_XAPIC_ID.into())?,
            madt.number::<4>(at + 4)?,
        ),
        9 => (madt.number::<4>(at + 4)?, madt.number::<4>(at + 8)?),
        _ => return None,
    };
    let id = id as u32;
    (flags & ENABLED != 0 && id != u32::MAX).then_some(id)
}

/// Gives the CPUs their nodes: affinity of a local APIC (type 0) or an x2APIC (type 2).
fn place<M: Memory>(srat: &Table<'_, M>, cpus: &mut [Cpu], remarks: &mut Remarks) {
    srat.entries(HEADER_BYTES + 12, remarks, |kind, at| {
        let number = |offset| srat.number::<4>(at + offset);
        let entry = match kind {
            // Bits 0 to 7 of the domain at 2, the id at 3, the other bits at 9.
            0 => number(2)
                .zip(number(9))
                .zip(number(4))
                .map(|((low, high), flags)| {
                    let domain = low & 0xff | high << 8 & 0xffff_ff00;
                    (low >> 8 & 0xff, domain, flags)
                }),
            2 => number(8)
                .zip(number(4))
                .zip(number(12))
                .map(|((id, node), flags)| (id, node, flags)),
            _ => None,
        };
        if let Some((id, node, flags)) = entry
            && flags & ENABLED != 0
            && let Some(cpu) = cpus.iter_mut().find(|cpu| u64::from(cpu.apic_id) == id)
        {
            cpu.node = node as u32;
        }
    });
}
