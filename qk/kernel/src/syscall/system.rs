//! What the machine is.

use abi::Errno;
use abi::ident;
use qk_core::aspace::Usage;

use super::{Call, SysResult};
use crate::user::{put_bytes, put_words};
use crate::{clock, preempt, rank};

/// Bytes of a field of struct new_utsname (include/uapi/linux/utsname.h).
const UTS_FIELD_BYTES: usize = 65;
/// GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE (include/uapi/linux/random.h).
const GRND_ALL: u64 = 7;
const GRND_RANDOM_INSECURE: u64 = 6;
/// Work of a random word, in instructions.
const WORD_WORK: u32 = 60;

/// Linux's names, with Margay's mark in release and version; the host's node and domain names.
pub fn uname(call: &mut Call<'_>) -> SysResult {
    let (mut node, mut domain) = ([0; 64], [0; 64]);
    let [node, domain] = call.rank.host().names(&mut node, &mut domain);
    let is_old = call.rank.attributes().personality() & ident::UNAME26 != 0;
    let release = if is_old {
        ident::RELEASE_26
    } else {
        ident::RELEASE
    };
    let fields: [&[u8]; 6] = [
        ident::SYSNAME.as_bytes(),
        node,
        release.as_bytes(),
        ident::VERSION.as_bytes(),
        ident::MACHINE.as_bytes(),
        domain,
    ];
    let mut uts = [0; 6 * UTS_FIELD_BYTES];
    // BOUND: the fields of a struct utsname.
    for (to, from) in uts.chunks_mut(UTS_FIELD_BYTES).zip(fields) {
        to[..from.len()].copy_from_slice(from);
    }
    put_bytes(call.frame.rdi, &uts).map(|()| 0)
}

/// struct sysinfo (include/uapi/linux/sysinfo.h): the node as this rank has it, so "total" is its partition.
pub fn sysinfo(call: &mut Call<'_>) -> SysResult {
    let Usage {
        partition: total,
        used,
        ..
    } = call.rank.with_aspace(|aspace| Ok(aspace.usage()))?;
    let uptime_s = clock::monotonic_ns() / 1_000_000_000;
    let procs = rank::all().len() as u64;
    // uptime, loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap, procs (u16), totalhigh, freehigh, mem_unit (u32).
    let words = [
        uptime_s,
        0,
        0,
        0,
        total,
        total - used,
        0,
        0,
        0,
        0,
        procs,
        0,
        0,
        1,
    ];
    put_words(call.frame.rdi, &words).map(|()| 0)
}

pub fn getrandom(call: &mut Call<'_>) -> SysResult {
    let [to, len_bytes, flags, ..] = call.args();
    if flags & !GRND_ALL != 0 || flags & GRND_RANDOM_INSECURE == GRND_RANDOM_INSECURE {
        return Err(Errno::EINVAL);
    }
    // Linux gives at most INT_MAX bytes.
    let len_bytes = len_bytes.min(i32::MAX as u64);
    let mut done = 0;
    while done < len_bytes {
        preempt::point(WORD_WORK);
        let bytes = random_word().to_le_bytes();
        let step = (len_bytes - done).min(8);
        match put_bytes(to.wrapping_add(done), &bytes[..step as usize]) {
            Ok(()) => done += step,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// From the CPU's generator. It can be dry for a moment (Intel SDM vol. 1 §7.3.17.1), never for long.
fn random_word() -> u64 {
    // BOUND: a few, see above.
    loop {
        if let Some(word) = hal::cpu::rdrand() {
            return word;
        }
        hal::cpu::pause();
    }
}
