//! What the node gets to know of the rank and its program before it loads it.

use std::os::fd::OwnedFd;

use abi::control::RankInfo;
use rustix::process;
use wire::rank::FromHost;

use crate::Program;

/// Names the process, whose first thread has this id, for ps.
pub fn name_process(pid: u32, program: &Program) {
    /// TASK_COMM_LEN without the NUL (include/linux/sched.h).
    const NAME_BYTES: usize = 15;
    let name = program.file_name();
    let name = &name[..name.len().min(NAME_BYTES)];
    let _ = std::fs::write(format!("/proc/self/task/{pid}/comm"), name);
}

/// Describes the rank to the node, and the program that it is to load.
pub fn describe(host: &FromHost, program: &Program) {
    let stack_limit = host.rlimits[libc::RLIMIT_STACK as usize][0].peek();
    let info = rank_info(program, stack_limit);
    for (word, value) in host.info.iter().zip(info.to_words()) {
        word.put(value);
    }
}

fn rank_info(program: &Program, stack_limit: u64) -> RankInfo {
    let mut random = [0u8; 16];
    // Sixteen bytes are never cut short once Linux has started (getrandom(2)).
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let random = u128::from_ne_bytes(random);
    let bytes_of = |file: &OwnedFd| rustix::fs::fstat(file).map_or(0, |stat| stat.st_size as u64);
    RankInfo {
        argc: program.argv.len() as u64,
        envc: program.env.len() as u64,
        strings_bytes: program.strings_bytes(),
        file_bytes: bytes_of(&program.file),
        stack_limit,
        uid: process::getuid().as_raw().into(),
        euid: process::geteuid().as_raw().into(),
        gid: process::getgid().as_raw().into(),
        egid: process::getegid().as_raw().into(),
        secure: 0, // yod is not set-user-ID
        random: [random as u64, (random >> 64) as u64],
        interpreter_bytes: program.interpreter.as_ref().map_or(0, bytes_of),
    }
}
