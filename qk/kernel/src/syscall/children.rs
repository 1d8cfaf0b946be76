//! fork(2), vfork(2), and clone(2) for a process: a child, which runs on Linux. The proxy makes it from what is said of the caller
//! here (`wire::child`); wait4(2) and waitid(2) are shipped.

use abi::Errno;
use abi::control::{FORK_OVER, HostOp};
use abi::map::PAGE;
use hal::addr::Va;
use qk_core::signals::{Action, Signal};
use wire::child::{Child, STACK_BYTES, how};

use super::{Call, SysResult, shipped};
use crate::children::stop_for_copy;
use crate::host::ship;
use crate::rank::Rank;
use crate::user::{put_u32, put_u32_opt};
use crate::{futex, shared, signal};

/// What a child is to be like.
#[derive(Default)]
pub struct ForkRequest {
    /// Bits of [`how`].
    pub how: u64,
    /// What it writes on the caller's stack the caller gets.
    pub shares_stack: bool,
    /// The signal at its end; 0: none.
    pub exit_signal: u64,
    /// Its stack pointer; 0: the caller's.
    pub stack: u64,
    /// Its FS base, if not the caller's.
    pub tls: Option<u64>,
    /// Where the caller gets its process id; 0: nowhere.
    pub parent_tid_at: u64,
    /// Where the caller gets a descriptor for it, if it is to have one.
    pub pidfd_at: Option<u64>,
    /// See [`Child`].
    pub set_tid_at: u64,
    /// See [`Child`].
    pub clear_tid_at: u64,
}

pub fn fork(call: &mut Call<'_>) -> SysResult {
    let exit_signal = Signal::CHLD.number().into();
    start(
        call,
        &ForkRequest {
            exit_signal,
            ..ForkRequest::default()
        },
    )
}

pub fn vfork(call: &mut Call<'_>) -> SysResult {
    let exit_signal = Signal::CHLD.number().into();
    start(
        call,
        &ForkRequest {
            how: how::VFORK,
            shares_stack: true,
            exit_signal,
            ..ForkRequest::default()
        },
    )
}

/// Starts a child; returns its process id.
///
/// # Errors
/// As fork(2).
pub fn start(call: &mut Call<'_>, wanted: &ForkRequest) -> SysResult {
    let rank = call.rank;
    if let Some(at) = wanted.pidfd_at {
        put_u32(at, 0)?; // that it cannot be written has to be known before there is a child
    }
    let (answer, pidfd) = {
        let _turn = rank.turns().lock_fork();
        record(call, wanted, rank.host().child())?;
        if wanted.shares_stack {
            note_stack(call, rank);
        }
        rank.attributes().note_child();
        // What is shared is of no moment.
        let _stopped = match wanted.shares_stack {
            true => None,
            false => Some(stop_for_copy(rank)?),
        };
        let fork = || ship::host_op_until_end(call.thread, HostOp::Fork, []);
        let answer = shared::children::share(call.thread, fork, futex::wake_shared)?;
        (answer, rank.host().child().pidfd.peek())
    };
    let pid = answer & !FORK_OVER;
    if let Some(at) = wanted.pidfd_at {
        let _ = put_u32(at, pidfd as u32); // another thread may have unmapped it
    }
    let _ = put_u32_opt(wanted.parent_tid_at, pid as u32); // Linux does not mind a bad pointer
    if wanted.how & how::VFORK != 0 && answer & FORK_OVER == 0 {
        // A rank that ends does not wait.
        let _ = ship::host_op_until_fatal(call.thread, HostOp::AwaitExec, [pid]);
    }
    Ok(pid)
}

/// The child's writes to the stack come back behind the back of the page tables.
fn note_stack(call: &Call<'_>, rank: &Rank) {
    let start = Va(call.frame.rsp).align_down(PAGE);
    let end = Va(start.0.saturating_add(STACK_BYTES));
    // A rank that ends meanwhile has nothing to be noted.
    let _ = rank.with_aspace(|aspace| {
        aspace.mark_dirty(start.until(end));
        Ok(())
    });
}

/// Says what the child begins with.
fn record(call: &Call<'_>, wanted: &ForkRequest, child: &Child) -> Result<(), Errno> {
    let pidfd = wanted.pidfd_at.map_or(0, |_| how::PIDFD);
    child.how.put(wanted.how | pidfd);
    child.exit_signal.put(wanted.exit_signal);
    child.set_tid_at.put(wanted.set_tid_at);
    child.clear_tid_at.put(wanted.clear_tid_at);
    let stack_at = if wanted.shares_stack {
        call.frame.rsp
    } else {
        0
    };
    child.stack_at.put(stack_at);
    record_registers(call, wanted, child)?;
    record_signals(call, child);
    let rseq = call.thread.program().rseq();
    // BOUND: the words of a record.
    for (to, word) in child.rseq.iter().zip([rseq.at(), rseq.signature()]) {
        to.put(word);
    }
    child
        .dumpable
        .put(call.rank.attributes().is_dumpable().into());
    child.personality.put(call.rank.attributes().personality());
    let heap = call.rank.with_aspace(|aspace| Ok(aspace.heap(u64::MAX)))?;
    child.heap_end.put(heap.current.0);
    Ok(())
}

fn record_registers(call: &Call<'_>, wanted: &ForkRequest, child: &Child) -> Result<(), Errno> {
    let f = &*call.frame;
    let rsp = if wanted.stack == 0 {
        f.rsp
    } else {
        wanted.stack
    };
    // The child finds 0 in rax, and what SYSCALL leaves in rcx and r11.
    let registers = [
        f.r8,
        f.r9,
        f.r10,
        f.rflags(),
        f.r12,
        f.r13,
        f.r14,
        f.r15,
        f.rdi,
        f.rsi,
        f.rbp,
        f.rbx,
        f.rdx,
        0,
        f.rip(),
        rsp,
        f.rip(),
        f.rflags(),
    ];
    // BOUND: the words of a record.
    for (to, from) in child.registers.iter().zip(registers) {
        to.put(from);
    }
    let fs_base = wanted.tls.unwrap_or_else(hal::task::fs_base);
    child.bases[0].put(fs_base);
    child.bases[1].put(hal::task::gs_base());
    hal::task::with_fpu_image(|image| {
        let words = image.as_chunks::<8>().0;
        // BOUND: the words of a record.
        for (to, from) in child.fpu.iter().zip(words) {
            to.put(u64::from_le_bytes(*from));
        }
        child.fpu_words.put(words.len().min(child.fpu.len()) as u64);
    })
    .ok_or(Errno::ENOMEM)
}

fn record_signals(call: &Call<'_>, child: &Child) {
    let signals = call.rank.signals();
    let own = call.thread.signals();
    child.mask.put(own.thread.blocked().0);
    let stack = own.thread.altstack;
    // BOUND: the words of a record.
    for (to, from) in
        child
            .altstack
            .iter()
            .zip([stack.base.0, stack.flags.into(), stack.size_bytes])
    {
        to.put(from);
    }
    // BOUND: the signals.
    for (number, words) in (1..).zip(&child.actions) {
        let action = Signal::new(number).map_or(Action::DEFAULT, |s| signals.process.action(s));
        let action = [action.handler, action.flags, action.restorer, action.mask.0];
        // BOUND: the words of a record.
        words.iter().zip(action).for_each(|(to, from)| to.put(from));
    }
}

/// wait4 and waitid: SIGCHLD comes before they return, as on Linux.
pub fn wait(call: &mut Call<'_>) -> SysResult {
    let result = shipped::ship(call);
    signal::collect(call.rank);
    result
}
