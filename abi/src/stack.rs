//! How large a main thread's stack is, and where its first contents lie: what the PCT writes there, and what a proxy has to
//! know before a program is replaced.

use crate::Errno;
use crate::map;

/// Pairs of the auxiliary vector, AT_NULL included.
pub const AUX_PAIRS: usize = 22;
/// Zero bytes above the strings, as Linux leaves them.
const TOP_BYTES: u64 = 8;
/// AT_PLATFORM's string.
pub const PLATFORM: &[u8] = b"x86_64\0";
/// Bytes that AT_RANDOM points to.
pub const RANDOM_BYTES: u64 = 16;
/// The stack pointer's alignment at the entry point.
const ALIGNMENT: u64 = 16;
/// Strings and vectors may take this part of the stack (Linux: a quarter).
const STACK_PART: u64 = 4;

/// What the size of the stack's contents depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Argument strings.
    pub argc: u64,
    /// Environment strings.
    pub envc: u64,
    /// Bytes of these strings and the program's path together, with their NULs.
    pub strings_bytes: u64,
    /// Pairs of the auxiliary vector, AT_NULL included.
    pub aux_pairs: u64,
}

/// Where everything goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What is laid out.
    pub contents: Contents,
    /// The strings; the proxy writes them.
    pub strings: u64,
    /// AT_PLATFORM's string.
    pub platform: u64,
    /// AT_RANDOM's bytes.
    pub random: u64,
    /// The stack pointer, at argc.
    pub stack_pointer: u64,
}

impl Plan {
    /// Lays out the contents below `top`, a multiple of 16.
    ///
    /// # Errors
    /// E2BIG when they take more than a quarter of the stack's `stack_bytes`.
    pub fn new(top: u64, stack_bytes: u64, contents: Contents) -> Result<Plan, Errno> {
        let limit = stack_bytes / STACK_PART;
        let Contents {
            argc,
            envc,
            strings_bytes,
            aux_pairs,
        } = contents;
        // Each is below the limit on its own, hence no sum below can wrap.
        if [argc, envc, strings_bytes, aux_pairs]
            .iter()
            .any(|&n| n > limit)
        {
            return Err(Errno::E2BIG);
        }
        let words = 1 + argc + 1 + envc + 1 + 2 * aux_pairs;
        let fixed = TOP_BYTES + PLATFORM.len() as u64 + RANDOM_BYTES + 3 * ALIGNMENT;
        if strings_bytes + 8 * words + fixed > limit {
            return Err(Errno::E2BIG);
        }
        let strings = top - TOP_BYTES - strings_bytes;
        let platform = (strings - PLATFORM.len() as u64) & !(ALIGNMENT - 1);
        let random = platform - RANDOM_BYTES;
        Ok(Plan {
            contents,
            strings,
            platform,
            random,
            stack_pointer: (random - 8 * words) & !(ALIGNMENT - 1),
        })
    }
}

/// Bytes of a main thread's stack: its limit, at most an eighth of the rank's partition, at least what Linux programs
/// take for granted.
#[must_use]
pub fn size_bytes(limit_bytes: u64, partition_bytes: u64) -> u64 {
    /// PTHREAD_STACK_MIN is 16 KiB, ARG_MAX 128 KiB (uapi/linux/limits.h): no stack is smaller.
    const SMALLEST_BYTES: u64 = 128 << 10;
    let wanted = limit_bytes.min(partition_bytes / 8).max(SMALLEST_BYTES);
    wanted & !(map::PAGE - 1)
}
