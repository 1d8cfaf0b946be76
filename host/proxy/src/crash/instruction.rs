//! The instruction that a fault hit.

use std::fmt;

use abi::map::PAGE;
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, Formatter, GasFormatter, OpKind, Register,
};

use crate::memory::RankMemory;

/// Longest instruction of x86 (Intel SDM vol. 2 §2.3.11).
const LONGEST: usize = 15;

/// An instruction, as far as it can be read.
pub struct Instruction {
    bytes: Vec<u8>,
    decoded: iced_x86::Instruction,
}

impl Instruction {
    /// The instruction at an address; `None` when nothing can be read there.
    pub fn at(rip: u64, memory: &dyn RankMemory) -> Option<Instruction> {
        let mut bytes = [0; LONGEST];
        // The page may be the last one that can be read.
        let on_page = (PAGE - rip % PAGE).min(LONGEST as u64) as usize;
        let wanted = [LONGEST, on_page];
        let len = wanted
            .into_iter()
            .find(|len| memory.read(rip, &mut bytes[..*len]).is_ok())?;
        let mut decoder = Decoder::with_ip(64, &bytes[..len], rip, DecoderOptions::NONE);
        let decoded = decoder.decode();
        let len = if decoded.is_invalid() {
            len
        } else {
            decoded.len()
        };
        Some(Instruction {
            bytes: bytes[..len].to_vec(),
            decoded,
        })
    }

    /// Whether ring 3 may not execute it.
    pub fn is_privileged(&self) -> bool {
        self.decoded.is_privileged()
    }

    /// What the node's CPU lacks, given that it takes the instruction for none.
    pub fn lacking(&self) -> Option<String> {
        let traps = [
            Code::Ud2,
            Code::Ud1_r16_rm16,
            Code::Ud1_r32_rm32,
            Code::Ud1_r64_rm64,
        ];
        if self.decoded.is_invalid() || traps.contains(&self.decoded.code()) {
            return None;
        }
        let features = self.decoded.cpuid_features();
        let is_avx512 = |feature: &CpuidFeature| format!("{feature:?}").starts_with("AVX512");
        let names: Vec<String> = features
            .iter()
            .map(|feature| format!("{feature:?}"))
            .collect();
        let advice = match features.iter().any(is_avx512) {
            true => ": compile with -march=x86-64-v3 at most",
            false => "",
        };
        Some(format!("the node has no {}{advice}", names.join(" or no ")))
    }

    /// The address of its operand in memory, if it is none that x86-64 has.
    pub fn non_canonical(&self, value: impl Fn(&str) -> u64) -> Option<u64> {
        let operand = (0..self.decoded.op_count())
            .find(|operand| self.decoded.op_kind(*operand) == OpKind::Memory)?;
        let addr = self.decoded.virtual_address(operand, 0, |register, _, _| {
            let named = format!("{:?}", register.full_register()).to_lowercase();
            let known = register == Register::RIP || register.is_gpr();
            // Segments begin at 0 but for FS and GS, whose base is not in the report.
            let zero =
                register.is_segment_register() && ![Register::FS, Register::GS].contains(&register);
            (known || zero).then(|| if zero { 0 } else { value(&named) })
        })?;
        // Bits 63 to 47 are alike (AMD APM vol. 1 §2.1).
        let is_canonical = (addr as i64) << 16 >> 16 == addr as i64;
        (!is_canonical).then_some(addr)
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.bytes {
            write!(f, "{byte:02x} ")?;
        }
        let mut text = String::new();
        GasFormatter::new().format(&self.decoded, &mut text);
        write!(f, " {text}")
    }
}
