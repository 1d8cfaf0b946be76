//! Just enough PCI to find one device on bus 0 and switch it on (PCI Local Bus Specification 3.0 chapter 6).
//!
//! Configuration space through the memory window that ACPI's MCFG names, or through ports CF8/CFC where there is none. Firmware may have
//! left base addresses unassigned (qboot does): then this module assigns them, from the window that QEMU's machines keep for devices.
//!
//! BOUND: at boot only.

use crate::addr::Phys;
use crate::boot;
use crate::sync::Mutex;
use x86_64::instructions::port::Port;

/// Configuration registers.
pub(crate) const COMMAND: u16 = 0x04;
const CAPABILITIES: u16 = 0x34;
const BAR_0: u16 = 0x10;

/// Command register: decode memory, may be bus master (message interrupts are memory writes), no INTx.
pub(crate) const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;
/// Status register (upper half of the dword at 4): there is a capability list.
const STATUS_CAPABILITIES: u32 = 1 << 20;

/// Base address register: I/O space, else memory with its type in bits 1..=2.
const BAR_IO: u32 = 1;
const BAR_MASK: u32 = !0xf;

/// Device memory of q35 and pc under qboot and SeaBIOS, below the APICs.
const WINDOW: core::ops::Range<u32> = 0xc000_0000..0xfec0_0000;
/// Next free address in the window.
static NEXT: Mutex<u32> = Mutex::new(WINDOW.start);

const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
/// The port pair is one resource.
static PORTS: Mutex<()> = Mutex::new(());

/// A function 0 on bus 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device(u8);

/// The first device on bus 0 with this vendor and device id.
pub(crate) fn find(vendor: u16, device: u16) -> Option<Device> {
    let wanted = u32::from(device) << 16 | u32::from(vendor);
    (0..32)
        .map(Device)
        .find(|candidate| candidate.read(0) == wanted)
}

impl Device {
    /// Where the memory window shows register `register`, if there is a window.
    fn window(self, register: u16) -> Option<*mut u32> {
        let (base, _) = boot::acpi().ecam.filter(|(base, _)| base.0 < 1 << 32)?;
        let at = Phys(base.0 + (u64::from(self.0) << 15) + u64::from(register & 0xffc));
        Some(at.direct() as *mut u32)
    }

    fn select(self, register: u16) {
        let address = 1 << 31 | u32::from(self.0) << 11 | u32::from(register & 0xfc);
        // SAFETY: The configuration address port; the caller holds `PORTS`.
        unsafe { Port::<u32>::new(CONFIG_ADDRESS).write(address) };
    }

    /// The dword at `register`, a multiple of 4.
    pub(crate) fn read(self, register: u16) -> u32 {
        if let Some(at) = self.window(register) {
            // SAFETY: The firmware names this window; below 4 GiB and not RAM, the direct map shows it uncached.
            return unsafe { at.read_volatile() };
        }
        let _ports = PORTS.lock();
        self.select(register);
        // SAFETY: The configuration data port, with the address just selected.
        unsafe { Port::<u32>::new(CONFIG_DATA).read() }
    }

    /// Writes the dword at `register`, a multiple of 4.
    pub(crate) fn write(self, register: u16, value: u32) {
        if let Some(at) = self.window(register) {
            // SAFETY: As in `read`. What configuration does to the device is up to the caller, which owns it.
            return unsafe { at.write_volatile(value) };
        }
        let _ports = PORTS.lock();
        self.select(register);
        // SAFETY: As in `read`.
        unsafe { Port::<u32>::new(CONFIG_DATA).write(value) }
    }

    /// The 32-bit memory base address `index`, assigned if firmware did not. Decoding must be off. `None` for other kinds of BAR and when
    /// the window is full.
    pub(crate) fn memory_bar(self, index: u16) -> Option<Phys> {
        let register = BAR_0 + 4 * index;
        let old = self.read(register);
        if old & BAR_IO != 0 {
            return None;
        }
        if old & BAR_MASK != 0 {
            return Some(Phys((old & BAR_MASK).into()));
        }
        self.write(register, !0);
        let size = (!(self.read(register) & BAR_MASK)).wrapping_add(1);
        let mut next = NEXT.lock();
        let at = next.checked_next_multiple_of(size.max(1))?;
        let end = at
            .checked_add(size)
            .filter(|&end| size != 0 && end <= WINDOW.end)?;
        *next = end;
        self.write(register, at);
        Some(Phys(at.into()))
    }

    /// Lets the device decode memory and send message interrupts.
    pub(crate) fn enable(self) {
        let command = self.read(COMMAND) & 0xffff;
        self.write(
            COMMAND,
            command | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX,
        );
    }

    /// Where capability `id` begins.
    pub(crate) fn capability(self, id: u8) -> Option<u16> {
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
