//! si_code of exceptions (include/uapi/asm-generic/siginfo.h).
#![allow(missing_docs)]

pub const ILL_ILLOPN: i32 = 2;
pub const FPE_INTDIV: i32 = 1;
pub const SEGV_MAPERR: i32 = 1;
pub const SEGV_ACCERR: i32 = 2;
pub const BUS_ADRALN: i32 = 1;
pub const BUS_ADRERR: i32 = 2;
pub const TRAP_TRACE: i32 = 2;
