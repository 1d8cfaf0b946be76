//! Just enough PCI to find one device on bus 0 and switch it on (PCI Local Bus Specification 3.0 chapter 6).
//!
//! What a device's configuration space means is pure, over [`Config`]; how it is reached is `device`'s. Firmware may have left base
//! addresses unassigned (qboot does): then they come from a [`Window`] that nothing else lies in.
//!
//! BOUND: at boot only.

#[cfg(target_os = "none")]
mod device;
#[cfg(target_os = "none")]
pub use device::{Device, find};

use crate::addr::{Phys, PhysRange};
use abi::map::PAGE_2M;

/// Configuration registers.
pub(crate) const COMMAND: u16 = 0x04;
const CAPABILITIES: u16 = 0x34;
const BAR_0: u16 = 0x10;
const BARS: u16 = 6;

/// Command register: decode memory, may be bus master (message interrupts are memory writes), no INTx.
pub(crate) const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;
/// Status register (upper half of the dword at 4): there is a capability list.
const STATUS_CAPABILITIES: u32 = 1 << 20;

/// Base address register: I/O space, else memory with its type in bits 1..=2, of which 2 takes the next register, too.
const BAR_IO: u32 = 1;
const BAR_TYPE: u32 = 3 << 1;
const BAR_64: u32 = 2 << 1;
const BAR_MASK: u64 = !0xf;

/// A device's configuration space.
pub(crate) trait Config {
    /// The dword at `register`, a multiple of 4.
    fn read(&self, register: u16) -> u32;
    /// Writes the dword at `register`, a multiple of 4.
    fn write(&self, register: u16, value: u32);

    /// The memory base address `index`, of 32 or 64 bits, assigned from `window` if firmware did not. Decoding must be off. `None` for other
    /// kinds of BAR and when the window has no room.
    fn memory_bar(&self, index: u16, window: &mut Window) -> Option<Phys> {
        let register = BAR_0 + 4 * index;
        let old = self.read(register);
        let wide = old & BAR_TYPE == BAR_64;
        if index >= BARS || old & BAR_IO != 0 || wide && index + 1 == BARS {
            return None;
        }
        let read = || {
            let high = if wide { self.read(register + 4) } else { 0 };
            (u64::from(high) << 32 | u64::from(self.read(register))) & BAR_MASK
        };
        let write = |at: u64| {
            self.write(register, at as u32);
            if wide {
                self.write(register + 4, (at >> 32) as u32);
            }
        };
        let at = read();
        if at != 0 {
            return Some(Phys(at));
        }
        write(u64::MAX);
        let top = if wide { 0 } else { !u64::from(u32::MAX) };
        let size = (!(read() | top)).wrapping_add(1);
        let at = window.take(size);
        write(at.map_or(0, |at| at.0));
        at
    }

    /// Lets the device decode memory and send message interrupts.
    fn enable(&self) {
        let command = self.read(COMMAND) & 0xffff;
        self.write(
            COMMAND,
            command | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX,
        );
    }

    /// Where capability `id` begins.
    fn capability(&self, id: u8) -> Option<u16> {
        if self.read(COMMAND) & STATUS_CAPABILITIES == 0 {
            return None;
        }
        let mut at = self.read(CAPABILITIES) as u16 & 0xfc;
        // 48 capabilities fill the space: a bound against a looping list.
        for _ in 0..48 {
            if at == 0 {
                return None;
            }
            let header = self.read(at);
            if header as u8 == id {
                return Some(at);
            }
            at = (header >> 8) as u16 & 0xfc;
        }
        None
    }
}

/// Addresses for devices that firmware gave none.
#[derive(Debug)]
pub(crate) struct Window {
    next: u64,
}

/// Device memory of q35 and pc, below the APICs.
const DEVICES: PhysRange = PhysRange {
    start: Phys(0xc000_0000),
    end: Phys(0xfec0_0000),
};

impl Window {
    /// What of the place for devices lies above all RAM of the low 4 GiB and `ecam`. The last page of 2 MiB that has RAM is RAM as a whole:
    /// what firmware keeps for itself is there, and it is mapped so.
    pub(crate) fn new(ram: &[PhysRange], ecam: Option<PhysRange>) -> Self {
        let taken = ram.iter().copied().chain(ecam);
        let next = taken
            .filter(|range| range.overlaps(DEVICES))
            .map(|range| range.end.align_up(PAGE_2M))
            .fold(DEVICES.start, Phys::max);
        Self { next: next.0 }
    }

    /// `size` bytes, a power of two, aligned to it.
    fn take(&mut self, size: u64) -> Option<Phys> {
        let at = (size != 0).then(|| self.next.checked_next_multiple_of(size))??;
        let end = at.checked_add(size)?;
        if end > DEVICES.end.0 {
            return None;
        }
        self.next = end;
        Some(Phys(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    /// Registers, and the bits of each that can be written.
    struct Fake(RefCell<[u32; 64]>, [u32; 64]);

    impl Config for Fake {
        fn read(&self, register: u16) -> u32 {
            self.0.borrow()[usize::from(register / 4)]
        }

        fn write(&self, register: u16, value: u32) {
            let (at, mut registers) = (usize::from(register / 4), self.0.borrow_mut());
            registers[at] = registers[at] & !self.1[at] | value & self.1[at];
        }
    }

    /// A device with BAR 0 of 32 bits and 4 KiB, BAR 1 of ports, BARs 2 and 3 of 64 bits and `size` bytes, and a broken BAR 5 of 64.
    fn device(size: u64) -> Fake {
        let (mut registers, mut writable) = ([0; 64], [0; 64]);
        registers[5] = BAR_IO;
        registers[6] = BAR_64 | 8;
        registers[9] = BAR_64;
        writable[4] = 0xffff_f000;
        let mask = !(size - 1);
        (writable[6], writable[7]) = (mask as u32 & !0xf, (mask >> 32) as u32);
        Fake(RefCell::new(registers), writable)
    }

    #[test]
    fn a_bar_that_firmware_has_set_is_read_with_all_its_bits() {
        let fake = device(1 << 33);
        fake.write(BAR_0, 0xfebf_0000);
        fake.write(BAR_0 + 8, 0);
        fake.write(BAR_0 + 12, 0x38);
        let mut window = Window::new(&[], None);
        assert_eq!(fake.memory_bar(0, &mut window), Some(Phys(0xfebf_0000)));
        assert_eq!(fake.memory_bar(2, &mut window), Some(Phys(0x38 << 32)));
        assert_eq!(fake.memory_bar(1, &mut window), None, "ports");
        assert_eq!(fake.memory_bar(5, &mut window), None, "half of 64 bits");
        assert_eq!(fake.memory_bar(6, &mut window), None, "no such BAR");
    }

    #[test]
    fn a_bar_that_firmware_has_not_set_gets_a_free_place() {
        let ram = [PhysRange::new(Phys(0), 0xdffe_0000)];
        let ecam = PhysRange::new(Phys(0xc000_0000), 1 << 28);
        let mut window = Window::new(&ram, Some(ecam));
        let fake = device(1 << 20);
        assert_eq!(fake.memory_bar(0, &mut window), Some(Phys(0xe000_0000)));
        assert_eq!(fake.memory_bar(2, &mut window), Some(Phys(0xe010_0000)));
        assert_eq!(fake.read(BAR_0 + 8), 0xe010_0000 | BAR_64 | 8);
        assert_eq!(fake.memory_bar(2, &mut window), Some(Phys(0xe010_0000)));
        let large = device(1 << 33);
        assert_eq!(large.memory_bar(2, &mut window), None);
        assert_eq!(large.read(BAR_0 + 12), 0, "it is as it was");
    }

    #[test]
    fn a_list_of_capabilities_ends() {
        let fake = device(16);
        fake.0.borrow_mut()[1] = STATUS_CAPABILITIES;
        fake.0.borrow_mut()[13] = 0x40;
        fake.0.borrow_mut()[16] = 0x40 << 8 | 5;
        assert_eq!(fake.capability(5), Some(0x40));
        assert_eq!(fake.capability(0x11), None);
    }
}
