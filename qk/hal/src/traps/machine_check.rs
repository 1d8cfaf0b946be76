//! Machine checks (Intel SDM vol. 3 §15.3, §15.10): hardware that has found an error interrupts all CPUs of the machine, most of
//! which have nothing to do with it.

use x86_64::registers::model_specific::Msr;

const MCG_CAP: u32 = 0x179;
const MCG_STATUS: u32 = 0x17a;
/// IA32_MCi_STATUS of bank 0; the banks' registers come in fours.
const BANK_STATUS: u32 = 0x401;

/// IA32_MCG_CAP: how many banks there are.
const BANKS: u64 = 0xff;
/// IA32_MCG_STATUS: the interrupted instruction can go on; the error is of that instruction.
const RESTART: u64 = 1 << 0;
const HERE: u64 = 1 << 1;
/// IA32_MCi_STATUS: it holds an error; this CPU's state is corrupt; software must act before it goes on.
const VALID: u64 = 1 << 63;
const CORRUPT: u64 = 1 << 57;
const ACT: u64 = 1 << 55;

/// An error after which this CPU cannot go on: what IA32_MCG_STATUS says, a bank, and its status.
pub(super) struct Fatal {
    pub global: u64,
    pub bank: u32,
    pub status: u64,
}

fn read(msr: u32) -> u64 {
    // SAFETY: 1. A machine check has come, so the CPU has these registers. 2. Reading them has no effect.
    unsafe { Msr::new(msr).read() }
}

/// Whether this CPU can go on after a machine check, which is acknowledged then. Errors stay in their banks.
pub(super) fn acknowledge() -> Result<(), Fatal> {
    let global = read(MCG_STATUS);
    let banks = (read(MCG_CAP) & BANKS) as u32;
    let mask = if global & HERE != 0 {
        CORRUPT | ACT
    } else {
        CORRUPT
    };
    let mut last = (0, 0);
    // BOUND: 255 banks, after an error of the hardware.
    for bank in 0..banks {
        let status = read(BANK_STATUS + 4 * bank);
        if status & VALID != 0 {
            last = (bank, status);
        }
        if status & VALID != 0 && status & mask != 0 {
            break;
        }
    }
    let (bank, status) = last;
    if global & RESTART == 0 || status & mask != 0 {
        return Err(Fatal {
            global,
            bank,
            status,
        });
    }
    // SAFETY: 1. Without the bit for a check in progress the CPU takes the next one; else that would reset the machine.
    unsafe { Msr::new(MCG_STATUS).write(0) };
    Ok(())
}
