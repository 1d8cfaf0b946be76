//! Restartable sequences (rseq(2), include/uapi/linux/rseq.h): the CPU number in the program's own memory, and the promise
//! that a critical section interrupted by a signal starts again.

use abi::Errno;
use abi::map::USER_TOP;
use hal::traps::UserFrame;

use crate::result::SysResult;
use crate::thread::Thread;
use crate::user::{get_u32, get_words, put_words};

/// Bytes of struct rseq as registered by glibc 2.35 and later.
const AREA_BYTES: u64 = 32;
const UNREGISTER: u64 = 1;
/// Offsets of rseq_cs and of flags in struct rseq.
const CRITICAL_SECTION: u64 = 8;
const FLAGS: u64 = 16;
/// RSEQ_CPU_ID_UNINITIALIZED, in both of the first fields.
const NO_CPU: u64 = 0xffff_ffff_0000_0000;

/// rseq(at, len_bytes, flags, signature): registers or unregisters the struct rseq of the thread.
///
/// # Errors
/// As Linux (kernel/rseq.c): EINVAL, EBUSY when registered already, EPERM for a wrong signature, EFAULT.
pub fn register(thread: &Thread, [at, len_bytes, flags, signature]: [u64; 4]) -> SysResult {
    let rseq = thread.program().rseq();
    let (registered, known) = (rseq.at(), rseq.signature());
    let signature = u64::from(signature as u32);
    if flags & !UNREGISTER != 0 || (flags == UNREGISTER && (registered != at || registered == 0)) {
        return Err(Errno::EINVAL);
    }
    if flags == UNREGISTER {
        if known != signature {
            return Err(Errno::EPERM);
        }
        put_words(at, &[NO_CPU])?;
        rseq.unregister();
        return Ok(0);
    }
    if registered != 0 {
        return Err(
            if registered != at || len_bytes as u32 != AREA_BYTES as u32 {
                Errno::EINVAL
            } else if known != signature {
                Errno::EPERM
            } else {
                Errno::EBUSY
            },
        );
    }
    if at == 0 || at % AREA_BYTES != 0 || len_bytes as u32 != AREA_BYTES as u32 {
        return Err(Errno::EINVAL);
    }
    put_core(at)?;
    rseq.register(at, signature);
    Ok(0)
}

/// The thread was preempted, or runs on another core: before it goes on its sequence is updated. For the code that switches.
pub fn interrupted(thread: &Thread) {
    if thread.program().rseq().at() != 0 {
        thread.program().rseq().note_due();
        thread.pending().note_own_work();
    }
}

/// Writes on which core a thread goes on, and starts again the critical section that its last core left.
///
/// # Errors
/// EINTR: it is done, and more has come meanwhile that is to be done first: it may have waited for what is mapped there, and let
/// interrupts in. As [`abort_if_inside`], and EFAULT when struct rseq cannot be written to: the thread gets SIGSEGV (Linux:
/// rseq_handle_notify_resume).
#[inline]
pub fn resume(thread: &Thread, frame: &mut UserFrame) -> Result<(), Errno> {
    if !thread.program().rseq().take_due() {
        return Ok(());
    }
    let at = thread.program().rseq().at();
    if at == 0 {
        return Ok(());
    }
    abort_if_inside(thread, frame)?;
    put_core(at)?;
    if thread.pending().has_new_work() {
        return Err(Errno::EINTR);
    }
    Ok(())
}

/// Writes the core's number where the program reads it: cpu_id_start and cpu_id.
fn put_core(at: u64) -> Result<(), Errno> {
    let cpu = hal::cpu::id() as u64;
    put_words(at, &[cpu | cpu << 32])
}

/// Sends a thread that is interrupted to the abort address of the critical section it is in.
///
/// # Errors
/// What Linux answers with SIGSEGV (kernel/rseq.c, rseq_ip_fixup): EFAULT, EINVAL for a section that cannot be one.
pub fn abort_if_inside(thread: &Thread, frame: &mut UserFrame) -> Result<(), Errno> {
    let at = thread.program().rseq().at();
    if at == 0 {
        return Ok(());
    }
    let [pointer] = get_words(at + CRITICAL_SECTION)?;
    if pointer == 0 {
        return Ok(());
    }
    let section = Section::read(pointer)?;
    section.check(thread.program().rseq().signature() as u32)?;
    let inside = frame.rip().wrapping_sub(section.start) < section.len_bytes;
    // No flag is defined any more, in the section or in struct rseq, but those that once kept a section from starting again.
    if inside && (section.flags != 0 || get_u32(at + FLAGS)? != 0) {
        return Err(Errno::EINVAL);
    }
    // Outside of it the pointer is stale.
    put_words(at + CRITICAL_SECTION, &[0])?;
    if inside {
        frame.set_rip(section.abort);
    }
    Ok(())
}

/// struct rseq_cs, as the program has it.
struct Section {
    version: u32,
    flags: u32,
    start: u64,
    len_bytes: u64,
    abort: u64,
}

impl Section {
    fn read(at: u64) -> Result<Section, Errno> {
        let [version_flags, start, len_bytes, abort] = get_words(at)?;
        Ok(Section {
            version: version_flags as u32,
            flags: (version_flags >> 32) as u32,
            start,
            len_bytes,
            abort,
        })
    }

    /// Whether the program can be sent to the abort address: it is code's, not in the section itself, and marked by the
    /// signature in front of it.
    fn check(&self, signature: u32) -> Result<(), Errno> {
        let end = self.start.checked_add(self.len_bytes);
        let is_section = self.version == 0
            && end.is_some_and(|end| end < USER_TOP)
            && self.abort < USER_TOP
            && self.abort.wrapping_sub(self.start) >= self.len_bytes;
        if !is_section || get_u32(self.abort.wrapping_sub(4))? != signature {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}
