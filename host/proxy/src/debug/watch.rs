//! The debug registers: four addresses that the CPU watches (Intel SDM vol. 3 §17.2).

use gdbstub::target::ext::breakpoints::WatchKind;

/// What a debug register waits for: its two bits in DR7.
const EXECUTE: u64 = 0;
const WRITE: u64 = 1;
const READ_OR_WRITE: u64 = 3;

/// A watched range; `kind` is `None` for an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Its first byte.
    pub addr: u64,
    /// 1, 2, 4 or 8.
    pub len_bytes: u64,
    /// Which accesses count.
    pub kind: Option<WatchKind>,
}

/// The four debug registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watches([Option<Watch>; 4]);

impl Watches {
    /// Watches one more; `false`: all are in use, or it is nothing that the CPU can watch.
    pub fn add(&mut self, watch: Watch) -> bool {
        let fits = matches!(watch.len_bytes, 1 | 2 | 4 | 8)
            && watch.addr.is_multiple_of(watch.len_bytes)
            && watch.addr < abi::map::USER_TOP
            // The CPU has no watch for reads alone.
            && watch.kind != Some(WatchKind::Read);
        match self.0.iter_mut().find(|slot| slot.is_none()) {
            Some(free) if fits => {
                *free = Some(watch);
                true
            }
            _ => false,
        }
    }

    /// Watches it no more; `false`: it was not watched.
    pub fn remove(&mut self, watch: Watch) -> bool {
        match self.0.iter_mut().find(|slot| **slot == Some(watch)) {
            Some(slot) => {
                *slot = None;
                true
            }
            None => false,
        }
    }

    /// What DR6 says was hit.
    pub fn hit(&self, dr6: u64) -> Option<Watch> {
        let hit = (0..4).filter(|i| dr6 >> i & 1 == 1);
        hit.filter_map(|i| self.0[i]).next()
    }

    /// DR0 to DR3 and DR7.
    pub fn registers(&self) -> [u64; 5] {
        let mut registers = [0; 5];
        for (i, watch) in self.0.iter().enumerate() {
            let Some(watch) = watch else { continue };
            registers[i] = watch.addr;
            let access = match watch.kind {
                None => EXECUTE,
                Some(WatchKind::Write) => WRITE,
                Some(_) => READ_OR_WRITE,
            };
            let len = match watch.len_bytes {
                8 => 2,
                len => len - 1,
            };
            registers[4] |= 1 << (2 * i) | (access | len << 2) << (16 + 4 * i);
        }
        registers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ranges_are_watched() {
        let mut watches = Watches::default();
        let watch = |addr, len_bytes| Watch {
            addr,
            len_bytes,
            kind: Some(WatchKind::Write),
        };
        assert!(!watches.add(watch(0x1004, 8)) && !watches.add(watch(0x1000, 3)));
        assert!(!watches.add(watch(1 << 47, 8)));
        for i in 0..4 {
            assert!(watches.add(watch(0x1000 + 8 * i, 1 << i)));
        }
        assert!(!watches.add(watch(0x2000, 8)));
        assert_eq!(
            watches.registers(),
            [0x1000, 0x1008, 0x1010, 0x1018, 0x9d51_0055]
        );
        assert_eq!(watches.hit(0xffff_0ff4), Some(watch(0x1010, 4)));
        assert_eq!(watches.hit(0x4000), None);
        assert!(watches.remove(watch(0x1008, 2)) && !watches.remove(watch(0x1008, 2)));
        let instruction = Watch {
            addr: 0x40_1000,
            len_bytes: 1,
            kind: None,
        };
        assert!(watches.add(instruction));
        assert_eq!(watches.registers()[4], 0x9d01_0055);
    }
}
