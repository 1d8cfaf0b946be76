//! The resident server: what a node without a host has in place of proxy, keeper and yod.
//!
//! It runs one program, the loader's second module, as rank 0. The program's output goes to the console; how it ended is the last line
//! there, and QEMU's exit status where that device is. The communication area is memory of the kernel's own, and the server is called
//! where a worker would be rung: it takes the request out of the slot, and has answered when the call returns, so no caller ever waits.
//! Its arguments are the words behind `--` on the kernel's command line.

mod calls;

use abi::Errno;
use abi::control::RankInfo;
use abi::rlimit;
use hal::addr::{Phys, PhysRange};
use hal::boot::Boot;
use hal::sync::Once;
use wire::boot::{Config, Header, MAX_CPUS, flag, node};
use wire::layout::Layout;
use wire::rank::{proxy, state};
use wire::ship::{Server, Slot};

use super::area;
use crate::last_line::end;
use crate::ram::Free;

/// What the program is called when the command line gives it no arguments.
const NAME: &str = "a.out";
/// The only rank.
const RANK: usize = 0;
/// The program's process id: it is the only process.
const PID: u64 = 1;
/// RLIMIT_STACK as Linux starts programs with it.
const STACK_BYTES: u64 = 8 << 20;
/// Exit status where there is nothing to run, or no PCT to load it (EX_OSERR of sysexits.h, as yod has it).
const CANNOT_RUN: u8 = 71;

/// The rank's memory, which need not be the running one's.
pub(super) trait Memory {
    /// Has `copy` fill `len_bytes` from `to` on, piece by piece: where, how far it is, how many bytes. Returns `len_bytes`.
    ///
    /// # Errors
    /// EFAULT; ESRCH without an address space.
    fn fill(&self, to: u64, len_bytes: u64, copy: &dyn Fn(Phys, u64, u64)) -> Result<u64, Errno>;
}

/// What is served.
struct Resident {
    /// The program's file.
    program: Option<PhysRange>,
    cmdline: &'static str,
}

static RESIDENT: Once<Resident> = Once::new();

/// Lays out a communication area for one rank on all CPUs, in the pool.
pub(super) fn make_area(boot: &Boot, free: &mut Free) -> PhysRange {
    let config = Config {
        ranks: 1,
        cpus: hal::smp::expected().min(MAX_CPUS),
        flags: flag::OWN_CLOCK,
        tsc_hz: 0,
        partition_bytes: 0,
        pool_bytes: 0,
    };
    let area = free.take(Layout::new(&config).total_bytes as u64);
    hal::mem::add_to_pool(&[area]);
    hal::mem::zero(area.start, area.len_bytes());
    config.write(hal::mem::shared::<Header>(area.start));
    let resident = Resident {
        program: boot.modules.get(1).copied(),
        cmdline: boot.cmdline,
    };
    assert!(RESIDENT.set(resident).is_ok(), "one server is resident");
    area
}

/// Whether the server is what the node has: there is no host.
pub(super) fn is_here() -> bool {
    RESIDENT.get().is_some()
}

/// Attaches to the rank as a proxy does, on a node without a host; ends the node if there is nothing to run.
pub fn attach() {
    let Some(resident) = RESIDENT.get() else {
        return;
    };
    let Some(program) = resident.program else {
        end(
            CANNOT_RUN,
            format_args!(
                "nothing to run: the program is the loader's second module, after the PCT"
            ),
        );
    };
    let host = &area::get().rank(RANK).host;
    host.pid.put(PID);
    // BOUND: the limits.
    for limit in host.rlimits.iter().flatten() {
        limit.put(u64::MAX);
    }
    host.rlimits[rlimit::STACK][0].put(STACK_BYTES);
    host.nodename.put(b"margay");
    let random = || hal::cpu::rdrand().unwrap_or_else(hal::time::tsc);
    let info = RankInfo {
        // BOUND: the command line, at boot; so below.
        argc: resident.arguments().count() as u64,
        // BOUND: as above.
        strings_bytes: resident.strings().map(|text| text.len() as u64 + 1).sum(),
        file_bytes: program.len_bytes(),
        stack_limit: STACK_BYTES,
        random: [random(), random()],
        ..RankInfo::default()
    };
    // BOUND: the words of a record.
    for (to, from) in host.info.iter().zip(info.to_words()) {
        to.put(from);
    }
    calls::grow_workers(1);
    host.state.store(proxy::ATTACHED);
}

impl Resident {
    fn arguments(&self) -> impl Iterator<Item = &'static str> {
        // BOUND: the command line.
        let mut words = self.cmdline.split_ascii_whitespace();
        // BOUND: as above.
        let named = words.by_ref().any(|word| word == "--");
        // BOUND: as above.
        let mut words = words.peekable();
        let default = (!named || words.peek().is_none()).then_some(NAME);
        default.into_iter().chain(words)
    }

    /// What [`abi::control::HostOp::WriteStrings`] writes: arguments, no environment, the path.
    fn strings(&self) -> impl Iterator<Item = &'static str> {
        let path = self.arguments().next();
        self.arguments().chain(path)
    }
}

/// Carries out the request of a thread, if there is one, and answers it. On a node with a host it does nothing.
#[cold]
pub(super) fn serve(slot: &Slot, memory: &dyn Memory) {
    let Some(resident) = RESIDENT.get() else {
        return;
    };
    let mut server = Server::after_answers(slot);
    let Some(request) = server.poll(slot) else {
        return;
    };
    // No other process shows the rank's memory: a change is carried out as soon as it is known.
    let log = area::get().region_log(RANK);
    let _ = log.catch_up(request.log_position, |_| {});
    slot.put_more([0; 2]);
    let ret = calls::carry_out(resident, memory, &request);
    let _ = server.answer(slot, ret);
}

/// A rank has a new state, or the node has if there is no such rank: the end of either is the end of the node.
#[cold]
pub(super) fn rung(number: usize) {
    if !is_here() {
        return;
    }
    match number {
        RANK => ended(),
        _ if area::get().header().node_state.load() >= node::PCT_LOST => end(
            CANNOT_RUN,
            format_args!("the PCT is gone: nothing can be run"),
        ),
        _ => {}
    }
}

/// Ends the node as its rank has ended, if it has.
fn ended() {
    let node = &area::get().rank(RANK).node;
    let status = node.wait_status.peek();
    match node.state.load() {
        state::REFUSED => {
            let mut line = [0; 256];
            let line = core::str::from_utf8(node.message.get(&mut line)).unwrap_or_default();
            end((status >> 8) as u8, format_args!("{line}"))
        }
        state::EXITED if status & 0x7f == 0 => {
            let code = (status >> 8) as u8;
            end(code, format_args!("exited with status {code}"))
        }
        state::EXITED => {
            let signo = status as u8 & 0x7f;
            let [at, rip] = [node.crash.addr.peek(), node.crash.regs[0].peek()];
            if node.crash.valid.peek() == 1 {
                end(
                    128 + signo,
                    format_args!("ended by signal {signo}: address {at:#x}, rip {rip:#x}"),
                );
            }
            end(128 + signo, format_args!("ended by signal {signo}"))
        }
        _ => {}
    }
}
