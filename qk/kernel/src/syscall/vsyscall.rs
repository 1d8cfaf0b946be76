//! The vsyscall page: three calls at fixed addresses in the upper half, from before there was a vDSO (Linux:
//! arch/x86/entry/vsyscall/vsyscall_64.c). Nothing is mapped there; fetching one of the three first instructions faults, and
//! the call is carried out then, as Linux does with vsyscall=xonly.

use abi::Errno;
use hal::traps::UserFrame;

use super::{Call, SysResult, schedule, time};
use crate::thread::Thread;
use crate::user::get_u64;

/// VSYSCALL_ADDR (arch/x86/include/uapi/asm/vsyscall.h); an entry each KiB.
const PAGE: u64 = 0xffff_ffff_ff60_0000;
const GETTIMEOFDAY: u64 = PAGE;
const TIME: u64 = PAGE + 0x400;
const GETCPU: u64 = PAGE + 0x800;

/// Carries out the call whose first instruction the program was about to execute, and returns to its caller.
///
/// # Errors
/// EFAULT for a bad pointer or stack, which is fatal; `None` when there is no such call.
pub fn emulate(thread: &'static Thread, frame: &mut UserFrame) -> Option<Result<(), Errno>> {
    let handler: fn(&mut Call<'_>) -> SysResult = match frame.rip() {
        GETTIMEOFDAY => time::gettimeofday,
        TIME => time::time,
        GETCPU => schedule::getcpu,
        _ => return None,
    };
    let mut carry_out = || {
        let caller = get_u64(frame.rsp)?;
        frame.rax = handler(&mut Call {
            frame,
            thread,
            rank: thread.rank(),
        })?;
        frame.set_rip(caller);
        frame.rsp += 8;
        Ok(())
    };
    Some(carry_out())
}
