//! Devices on bus 0: configuration space through the memory window that ACPI's MCFG names, or, on a PC, through ports CF8/CFC where
//! there is none.
//!
//! BOUND: at boot only.

use super::{COMMAND, COMMAND_MEMORY, Config, Window};
use crate::addr::{Phys, PhysRange};
use crate::boot::{kept, paging};
use crate::firmware::acpi::ECAM_BUS_BYTES;
use crate::sync::{Mutex, Once, class};
use x86_64::instructions::port::Port;

const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
/// What reading gives where there is no device.
const NOTHING: u32 = !0;
/// The port pair is one resource.
static PORTS: Mutex<(), class::Ports> = Mutex::new(());

/// How configuration space is reached.
#[derive(Clone, Copy)]
enum Access {
    /// Through memory: where bus 0 begins.
    Memory(Phys),
    Ports,
    /// There is no PCI.
    None,
}

static ACCESS: Once<Access> = Once::new();

fn access() -> Access {
    if let Some(access) = ACCESS.get() {
        return *access;
    }
    let acpi = kept::acpi();
    let bus = |base| PhysRange::new(base, ECAM_BUS_BYTES);
    let access = match acpi.ecam {
        Some((base, _)) if paging::map_device(bus(base)) => Access::Memory(base),
        _ if acpi.legacy.pc => Access::Ports,
        _ => Access::None,
    };
    // Only the boot CPU is there.
    let _ = ACCESS.set(access);
    access
}

/// A function 0 on bus 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(u8);

/// The first device on bus 0 with this vendor and device id. At boot.
#[must_use]
pub fn find(vendor: u16, device: u16) -> Option<Device> {
    let wanted = u32::from(device) << 16 | u32::from(vendor);
    (0..32)
        .map(Device)
        .find(|candidate| candidate.read(0) == wanted)
}

impl Device {
    /// Where base address `index` shows the device's memory, mapped from `offset` for `len_bytes`, whatever address it has. Assigns one, of the
    /// device memory that no RAM lies in, if firmware did not.
    #[must_use]
    pub fn memory(self, index: u16, offset: u64, len_bytes: u64) -> Option<Phys> {
        static WINDOW: Mutex<Option<Window>, class::Window> = Mutex::new(None);
        let ecam = kept::acpi()
            .ecam
            .map(|(base, buses)| PhysRange::new(base, u64::from(buses) * ECAM_BUS_BYTES));
        let mut window = WINDOW.lock();
        let window = window.get_or_insert_with(|| Window::new(kept::ram(), ecam));
        let command = self.read(COMMAND) & 0xffff;
        // Base addresses are moved only while nothing is decoded.
        self.write(COMMAND, command & !COMMAND_MEMORY);
        let bar = self.memory_bar(index, window);
        self.write(COMMAND, command);
        let at = Phys(bar?.0.checked_add(offset)?);
        let end = Phys(at.0.checked_add(len_bytes)?);
        let shown = paging::map_device(PhysRange { start: at, end });
        if !shown {
            log::error!(
                "PCI device {}: its memory at {at:?} cannot be mapped",
                self.0
            );
        }
        shown.then_some(at)
    }

    fn at(self, base: Phys, register: u16) -> *mut u32 {
        let at = base + (u64::from(self.0) << 15) + u64::from(register & 0xffc);
        at.direct() as *mut u32
    }

    fn select(self, register: u16) {
        let address = 1 << 31 | u32::from(self.0) << 11 | u32::from(register & 0xfc);
        // SAFETY: 1. The configuration address port of a PC. 2. The caller holds `PORTS`.
        unsafe { Port::<u32>::new(CONFIG_ADDRESS).write(address) };
    }
}

impl Config for Device {
    fn read(&self, register: u16) -> u32 {
        match access() {
            // SAFETY: 1. The firmware names this memory, which is not RAM: no Rust object lies there. 2. `map_device` shows it.
            Access::Memory(base) => unsafe { self.at(base, register).read_volatile() },
            Access::Ports => {
                let _ports = PORTS.lock();
                self.select(register);
                // SAFETY: 1. The configuration data port, with the address just selected.
                unsafe { Port::<u32>::new(CONFIG_DATA).read() }
            }
            Access::None => NOTHING,
        }
    }

    fn write(&self, register: u16, value: u32) {
        match access() {
            // SAFETY: 1. As in `read`. What configuration does to the device is up to the caller, which owns it.
            Access::Memory(base) => unsafe { self.at(base, register).write_volatile(value) },
            Access::Ports => {
                let _ports = PORTS.lock();
                self.select(register);
                // SAFETY: 1. As in `read`.
                unsafe { Port::<u32>::new(CONFIG_DATA).write(value) }
            }
            Access::None => {}
        }
    }
}
