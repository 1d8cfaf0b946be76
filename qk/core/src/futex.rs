//! What futex(2) does to its words: the operation that FUTEX_WAKE_OP carries, and who owns a priority-inheritance lock.

use abi::Errno;

/// The owner's thread id in a lock's word; the rest are flags (include/uapi/linux/futex.h).
const TID_MASK: u32 = 0x3fff_ffff;
/// The lock's owner ended without releasing it.
const OWNER_DIED: u32 = 1 << 30;

/// How FUTEX_WAKE_OP changes a word, as its third value encodes it. The comparison with what was there before decides whom
/// to wake, and no other thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeOp {
    operation: u32,
    operand: u32,
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
}

/// What becomes of a lock's word when thread `tid` wants it and the word is `old`; `None`: another thread has it.
///
/// # Errors
/// EDEADLK: the thread has it already.
pub const fn lock(old: u32, tid: u32) -> Result<Option<u32>, Errno> {
    match old & TID_MASK {
        0 => Ok(Some(tid | old & OWNER_DIED)),
        owner if owner == tid => Err(Errno::EDEADLK),
        _ => Ok(None),
    }
}

/// Whether thread `tid` may release a lock with this word.
pub const fn owns(word: u32, tid: u32) -> bool {
    word & TID_MASK == tid
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
    fn a_lock_has_one_owner() {
        assert_eq!(lock(0, 7), Ok(Some(7)));
        assert_eq!(lock(OWNER_DIED, 7), Ok(Some(7 | OWNER_DIED)));
        assert_eq!(lock(7 | 1 << 31, 7), Err(Errno::EDEADLK));
        assert_eq!(lock(8, 7), Ok(None));
        assert!(owns(7 | 1 << 31, 7) && !owns(0, 7) && !owns(8, 7));
    }
}
