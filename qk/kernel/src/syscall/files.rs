//! Calls that Linux carries out on files that ranks may have mapped and share.

use super::{Call, SysResult, shipped};
use crate::shared;
use crate::user::{get_u64, put_words};

/// Commands of shmctl(2) that say how a segment fares (include/uapi/linux/ipc.h, shm.h), and the bit that the C library adds.
const IPC_STAT: u64 = 2;
const SHM_STAT: u64 = 13;
const SHM_STAT_ANY: u64 = 15;
const IPC_64: u64 = 0x100;
/// Of shm_nattch in struct shmid64_ds (include/uapi/asm-generic/shmbuf.h).
const ATTACHED: u64 = 88;
/// O_TRUNC of include/uapi/asm-generic/fcntl.h.
const TRUNCATE: u64 = 0o1000;

/// One that may cut a file.
pub fn cutting(call: &mut Call<'_>) -> SysResult {
    let result = shipped::ship(call);
    if result.is_ok() {
        shared::cut(call.thread);
    }
    result
}

/// open(2), which may cut a file.
pub fn open(call: &mut Call<'_>) -> SysResult {
    let [_, flags, ..] = call.args();
    open_with(call, flags)
}

/// openat(2).
pub fn openat(call: &mut Call<'_>) -> SysResult {
    let [_, _, flags, ..] = call.args();
    open_with(call, flags)
}

fn open_with(call: &mut Call<'_>, flags: u64) -> SysResult {
    match flags & TRUNCATE {
        0 => shipped::ship(call),
        _ => cutting(call),
    }
}

/// shmctl(2): what the node itself has attached is not the program's to count.
pub fn shmctl(call: &mut Call<'_>) -> SysResult {
    let [id, command, to, ..] = call.args();
    let result = shipped::ship(call)?;
    let id = match command & !IPC_64 {
        IPC_STAT => id,
        SHM_STAT | SHM_STAT_ANY => result,
        _ => return Ok(result),
    };
    let ours = shared::attachments(id);
    if ours != 0 {
        let at = to.wrapping_add(ATTACHED);
        let theirs = get_u64(at)?.saturating_sub(ours);
        put_words(at, &[theirs])?;
    }
    Ok(result)
}
