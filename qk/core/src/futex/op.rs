//! The operation that FUTEX_WAKE_OP carries.

use abi::Errno;

/// How FUTEX_WAKE_OP changes a word, as its third value encodes it, and whether the waiters for that word are woken, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeOp {
    operation: u32,
    operand: u32,
    comparison: u32,
    compared: i32,
}

impl WakeOp {
    /// Takes it apart: operation in bits 28..=31 (bit 31: the operand is a shift), comparison in 24..=27 (EQ, NE, LT, LE, GT,
    /// GE), then 12 bits of signed operand and 12 of what is compared.
    ///
    /// # Errors
    /// ENOSYS: an unknown operation or comparison.
    pub const fn decode(word: u32) -> Result<WakeOp, Errno> {
        const SHIFT: u32 = 8;
        let (operation, comparison) = (word >> 28, word >> 24 & 15);
        let operand = (word << 8) as i32 >> 20;
        if operation & !SHIFT > 4 || comparison > 5 {
            return Err(Errno::ENOSYS);
        }
        let operand = match operation & SHIFT {
            0 => operand as u32,
            // Linux takes a shift of more than 31 for its low bits.
            _ => 1 << (operand as u32 & 31),
        };
        Ok(WakeOp {
            operation: operation & !SHIFT,
            operand,
            comparison,
            compared: (word << 20) as i32 >> 20,
        })
    }

    /// What the word becomes: SET, ADD, OR, ANDN, XOR.
    pub const fn apply(&self, old: u32) -> u32 {
        match self.operation {
            0 => self.operand,
            1 => old.wrapping_add(self.operand),
            2 => old | self.operand,
            3 => old & !self.operand,
            _ => old ^ self.operand,
        }
    }

    /// Whether what the word was before compares, as a signed number: EQ, NE, LT, LE, GT, GE.
    pub const fn compares(&self, old: u32) -> bool {
        let old = old as i32;
        match self.comparison {
            0 => old == self.compared,
            1 => old != self.compared,
            2 => old < self.compared,
            3 => old <= self.compared,
            4 => old > self.compared,
            _ => old >= self.compared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(operation: u32, operand: i32) -> WakeOp {
        WakeOp::decode(operation << 28 | (operand as u32 & 0xfff) << 12).unwrap()
    }

    #[test]
    fn wake_op_follows_futex_2() {
        let results: std::vec::Vec<u32> = (0..5).map(|op| encoded(op, 12).apply(10)).collect();
        assert_eq!(results, [12, 22, 14, 2, 6]);
        assert_eq!(encoded(1, -1).apply(10), 9);
        assert_eq!(encoded(8 | 2, 4).apply(1), 17);
        assert_eq!(WakeOp::decode(5 << 28), Err(Errno::ENOSYS));
        assert_eq!(WakeOp::decode(6 << 24), Err(Errno::ENOSYS));
    }

    #[test]
    fn the_comparison_is_signed() {
        let compares = |comparison: u32, with: i32, old: i32| {
            WakeOp::decode(comparison << 24 | with as u32 & 0xfff)
                .unwrap()
                .compares(old as u32)
        };
        for (old, results) in [
            (-3, [false, true, true, true, false, false]),
            (-2, [true, false, false, true, false, true]),
            (5, [false, true, false, false, true, true]),
        ] {
            assert_eq!([0, 1, 2, 3, 4, 5].map(|c| compares(c, -2, old)), results);
        }
    }
}
