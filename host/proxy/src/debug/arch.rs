//! The registers of x86-64 as gdb's protocol has them (gdb's features/i386/*.xml): in the order in which the description
//! below names them.

use gdbstub::arch::{Arch, Registers};

use crate::halt::Shown;

/// Where `struct user_regs_struct` has gdb's first sixteen and rip: rax rbx rcx rdx rsi rdi rbp rsp r8-r15 rip.
const WIDE: [usize; 17] = [10, 5, 11, 12, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, RIP];
/// eflags cs ss ds es fs gs, of 32 bits.
const NARROW: [usize; 7] = [18, 17, 20, 23, 24, 25, 26];
/// orig_rax fs_base gs_base.
const MORE: [usize; 3] = [15, 21, 22];
/// The instruction pointer.
pub const RIP: usize = 16;
/// Where XSAVE's image has its parts (Intel SDM vol. 1 §13.4; AVX in the standard format on all CPUs that have it).
const ST: usize = 32;
const XMM: usize = 160;
const MXCSR: usize = 24;
const STATES_PRESENT: usize = 512;
const YMM_HIGH: usize = 576;
const LEAST_BYTES: usize = YMM_HIGH + 256;
/// x87, SSE and AVX.
const PRESENT: u8 = 7;
/// Bytes of all registers.
pub const ALL_BYTES: usize = 17 * 8 + 7 * 4 + 8 * 10 + 8 * 4 + 16 * 16 + 4 + 3 * 8 + 16 * 16;

/// This machine.
pub enum X86 {}

impl Arch for X86 {
    type Usize = u64;
    type Registers = Shown;
    type BreakpointKind = usize;
    type RegId = ();

    fn target_description_xml() -> Option<&'static str> {
        Some(include_str!("registers.xml"))
    }
}

impl Default for Shown {
    fn default() -> Self {
        Shown {
            general: [0; 27],
            fpu: vec![0; LEAST_BYTES],
        }
    }
}

impl Shown {
    /// The part of the FPU state from `at` on; zeros where the node has none.
    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let part = self.fpu.get(at..at + N);
        part.map_or([0; N], |part| part.try_into().expect("of this length"))
    }

    fn set_part(&mut self, at: usize, bytes: &[u8]) {
        if let Some(part) = self.fpu.get_mut(at..at + bytes.len()) {
            part.copy_from_slice(bytes);
        }
    }

    /// fctrl fstat ftag fiseg fioff foseg fooff fop.
    fn x87_control(&self) -> [u32; 8] {
        let half = |at| u32::from(u16::from_le_bytes(self.part(at)));
        let word = |at| u32::from_le_bytes(self.part(at));
        // FXSAVE has a bit for what is not empty, FSAVE two bits: 3 is empty.
        let [full] = self.part(4);
        let tags = (0..8).filter(|i| full >> i & 1 == 0);
        let tag = tags.fold(0, |tags, i| tags | 3 << (2 * i));
        [
            half(0),
            half(2),
            tag,
            half(12),
            word(8),
            half(20),
            word(16),
            half(6),
        ]
    }

    fn set_x87_control(&mut self, words: [u32; 8]) {
        let [control, status, tag, _, ip, _, dp, op] = words;
        let full = (0..8).filter(|i| tag >> (2 * i) & 3 != 3);
        self.set_part(0, &control.to_le_bytes()[..2]);
        self.set_part(2, &status.to_le_bytes()[..2]);
        self.set_part(4, &[full.fold(0, |bits: u8, i| bits | 1 << i)]);
        self.set_part(6, &op.to_le_bytes()[..2]);
        self.set_part(8, &ip.to_le_bytes());
        self.set_part(16, &dp.to_le_bytes());
    }
}

impl Registers for Shown {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.general[RIP]
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let mut write = |bytes: &[u8]| bytes.iter().for_each(|byte| write_byte(Some(*byte)));
        WIDE.iter()
            .for_each(|&at| write(&self.general[at].to_le_bytes()));
        NARROW
            .iter()
            .for_each(|&at| write(&(self.general[at] as u32).to_le_bytes()));
        (0..8).for_each(|i| write(&self.part::<10>(ST + 16 * i)));
        self.x87_control()
            .iter()
            .for_each(|word| write(&word.to_le_bytes()));
        (0..16).for_each(|i| write(&self.part::<16>(XMM + 16 * i)));
        write(&self.part::<4>(MXCSR));
        MORE.iter()
            .for_each(|&at| write(&self.general[at].to_le_bytes()));
        (0..16).for_each(|i| write(&self.part::<16>(YMM_HIGH + 16 * i)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        if bytes.len() < ALL_BYTES {
            return Err(());
        }
        let mut rest = bytes;
        let mut take = |len: usize| {
            let (part, behind) = rest.split_at(len);
            rest = behind;
            part
        };
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four"));
        let wide = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight"));
        WIDE.iter().for_each(|&at| self.general[at] = wide(take(8)));
        NARROW
            .iter()
            .for_each(|&at| self.general[at] = word(take(4)).into());
        (0..8).for_each(|i| self.set_part(ST + 16 * i, take(10)));
        let control = std::array::from_fn(|_| word(take(4)));
        self.set_x87_control(control);
        (0..16).for_each(|i| self.set_part(XMM + 16 * i, take(16)));
        self.set_part(MXCSR, take(4));
        MORE.iter().for_each(|&at| self.general[at] = wide(take(8)));
        (0..16).for_each(|i| self.set_part(YMM_HIGH + 16 * i, take(16)));
        let [present] = self.part(STATES_PRESENT);
        self.set_part(STATES_PRESENT, &[present | PRESENT]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_come_back_as_they_went() {
        let mut shown = Shown::default();
        for (i, word) in shown.general.iter_mut().enumerate() {
            *word = i as u64 * 0x0101_0101;
        }
        for (i, byte) in shown.fpu.iter_mut().enumerate() {
            *byte = i as u8;
        }
        let mut bytes = Vec::new();
        shown.gdb_serialize(|byte| bytes.push(byte.unwrap_or(0)));
        assert_eq!(bytes.len(), ALL_BYTES);
        assert_eq!(bytes[16 * 8..17 * 8], shown.general[RIP].to_le_bytes());
        let mut back = shown.clone();
        back.general = [0; 27];
        back.gdb_deserialize(&bytes).expect("all are there");
        assert_eq!(back.general, shown.general);
        assert_eq!(back.fpu[160..416], shown.fpu[160..416]);
        assert_eq!(back.fpu[576..], shown.fpu[576..]);
        assert_eq!(back.fpu[4], shown.fpu[4]);
        assert!(back.gdb_deserialize(&bytes[1..]).is_err());
    }

    /// Every register that the description names has its bytes.
    #[test]
    fn the_description_has_as_many_bits() {
        let xml = X86::target_description_xml().expect("one");
        let sizes = xml.split("bitsize=\"").skip(1);
        let bits: usize = sizes
            .map(|rest| rest.split('"').next().expect("a number"))
            .map(|bits| bits.parse::<usize>().expect("a number"))
            .sum();
        assert_eq!(bits / 8, ALL_BYTES);
    }
}
