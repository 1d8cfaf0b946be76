//! The signal calls.

use abi::Errno;
use abi::syscall::request::signals_later;
use hal::addr::Va;
use qk_core::signals::{self, Action, AltStack, MINSIGSTKSZ, SigInfo, SigSet, Signal, code};

use super::others::{is_self, ship_on, thread_of};
use super::{Call, RESTART_NO_HANDLER, SysResult};
use crate::thread::Thread;
use crate::user::{
    SIGSET_BYTES, get_bytes, get_u64, get_words, put_bytes, put_u64_opt, put_words_opt,
    sigset_size, timespec_ns,
};
use crate::{clock, delivery, sched, sigframe, signal, timer};

const SIGINFO_BYTES: usize = 128;

/// Reads a signal set.
///
/// # Errors
/// EFAULT.
fn get_set(at: u64) -> Result<SigSet, Errno> {
    get_u64(at).map(SigSet)
}

fn with_own<R>(call: &Call<'_>, f: impl FnOnce(&mut signals::Thread) -> R) -> R {
    f(&mut call.thread.signals().thread)
}

pub fn sigaction(call: &mut Call<'_>) -> SysResult {
    let [signo, new, old, size, ..] = call.args();
    sigset_size(size)?;
    let action = match new {
        0 => None,
        _ => {
            let [handler, flags, restorer, mask] = get_words(new)?;
            Some(Action {
                handler,
                flags,
                restorer,
                mask: SigSet(mask),
            })
        }
    };
    let signal = Signal::new(signo).ok_or(Errno::EINVAL)?;
    let is_received = action.is_some() && signal::left::received(call.rank).contains(signal);
    if is_received {
        signal::left::take_back(call.thread, SigSet::of(signal)); // it may be forgotten
    }
    let (before, discard) = {
        let process = &mut call.rank.signals().process;
        match action {
            None => (process.action(signal), SigSet::EMPTY),
            Some(action) => process.set_action(signal, action)?,
        }
    };
    if let Some(action) = action.filter(|_| signal == Signal::CHLD) {
        crate::children::publish_action(call.thread, &action);
    }
    signal::forgotten(call.rank, discard);
    signal::publish_taken(call.rank); // an ignored one is forgotten
    if is_received {
        signal::left::leave_blocked(call.thread);
    }
    put_words_opt(
        old,
        &[before.handler, before.flags, before.restorer, before.mask.0],
    )
    .map(|()| 0)
}

pub fn sigprocmask(call: &mut Call<'_>) -> SysResult {
    let [how, new, old, size, ..] = call.args();
    sigset_size(size)?;
    let before = if new == 0 {
        with_own(call, |thread| thread.blocked())
    } else {
        let set = get_set(new)?;
        let (before, changed) = signal::change_mask(call.thread, |own| own.change_mask(how, set));
        changed?;
        before
    };
    put_u64_opt(old, before.0).map(|()| 0)
}

pub fn sigreturn(call: &mut Call<'_>) -> SysResult {
    if sigframe::pop(call.thread, call.frame).is_err() {
        signal::force(call.thread, sigframe::bad_frame());
    }
    call.frame.return_fully();
    // What is returned goes into rax: the program's own, which says nothing about an interrupted call.
    call.frame.orig_rax_or_vector = delivery::NO_CALL;
    Ok(call.frame.rax)
}

pub fn sigpending(call: &mut Call<'_>) -> SysResult {
    let [to, size, ..] = call.args();
    if size > SIGSET_BYTES {
        return Err(Errno::EINVAL);
    }
    let left = signal::left::pending(call.thread);
    let set = {
        let signals = call.rank.signals();
        let own = call.thread.signals();
        signals.process.blocked_pending(&own.thread).union(left)
    };
    put_bytes(to, &set.0.to_le_bytes()[..size as usize]).map(|()| 0)
}

/// Waits until there is something to act on.
fn wait_for_signal(thread: &Thread) {
    thread.waiting(|| {
        while !signal::is_wanted(thread) {
            sched::park();
        }
    });
}

pub fn pause(call: &mut Call<'_>) -> SysResult {
    wait_for_signal(call.thread);
    Err(call.thread.interrupted(RESTART_NO_HANDLER))
}

pub fn sigsuspend(call: &mut Call<'_>) -> SysResult {
    let [from, size, ..] = call.args();
    sigset_size(size)?;
    let set = get_set(from)?;
    signal::change_mask(call.thread, |own| own.set_saved_mask(set));
    wait_for_signal(call.thread);
    Err(call.thread.interrupted(RESTART_NO_HANDLER))
}

pub fn sigtimedwait(call: &mut Call<'_>) -> SysResult {
    let [from, info_to, timeout, size, ..] = call.args();
    sigset_size(size)?;
    let wanted = get_set(from)?.without(SigSet::UNSTOPPABLE);
    let deadline = match timeout {
        0 => None,
        _ => Some(clock::deadline_after(timespec_ns(get_words(timeout)?)?)),
    };
    let may_be_left = !wanted.and(signal::left::received(call.rank)).is_empty();
    let result = call.thread.awaiting(wanted, || {
        if may_be_left {
            signal::left::take_back(call.thread, wanted);
        }
        timer::set_sleep(call.thread, deadline);
        let result = call
            .thread
            .waiting(|| wait_for_one(call.thread, wanted, deadline));
        timer::set_sleep(call.thread, None);
        result
    });
    // Others of these that came meanwhile and are blocked again may be another's.
    signal::hand_over(call.thread, wanted);
    if may_be_left {
        signal::left::leave_blocked(call.thread);
    }
    let mut info = result?;
    timer::taken(call.rank, &mut info);
    signal::publish_taken(call.rank);
    if info_to != 0 {
        put_bytes(info_to, &info.to_bytes())?;
    }
    Ok(u64::from(info.signal.number()))
}

fn wait_for_one(thread: &Thread, wanted: SigSet, deadline: Option<u64>) -> Result<SigInfo, Errno> {
    loop {
        let taken = {
            let mut signals = thread.rank().signals();
            let mut own = thread.signals();
            signals.process.take(&mut own.thread, wanted)
        };
        if let Some(info) = taken {
            return Ok(info);
        }
        if signal::is_wanted(thread) {
            return Err(Errno::EINTR);
        }
        if deadline.is_some_and(|at| at <= hal::time::tsc()) {
            return Err(Errno::EAGAIN);
        }
        sched::park();
    }
}

pub fn sigaltstack(call: &mut Call<'_>) -> SysResult {
    let [new, old, ..] = call.args();
    let sp = Va(call.frame.rsp);
    let wanted = match new {
        0 => None,
        _ => {
            let [base, flags, size_bytes] = get_words(new)?;
            Some(AltStack {
                base: Va(base),
                flags: flags as u32,
                size_bytes,
            })
        }
    };
    let before = with_own(call, |thread| -> Result<AltStack, Errno> {
        let before = thread.altstack.report(sp);
        if let Some(wanted) = wanted {
            thread.altstack.set(wanted, sp, MINSIGSTKSZ)?;
        }
        Ok(before)
    })?;
    put_words_opt(
        old,
        &[before.base.0, u64::from(before.flags), before.size_bytes],
    )
    .map(|()| 0)
}

/// The signal with number `signo`; `None` for 0, which only checks whether the target is there.
fn signal_or_probe(signo: u64) -> Result<Option<Signal>, Errno> {
    match signo as u32 {
        0 => Ok(None),
        signo => Signal::new(u64::from(signo)).map(Some).ok_or(Errno::EINVAL),
    }
}

fn from_self(call: &Call<'_>, signal: Signal, code: i32) -> SigInfo {
    let identity = call.rank.identity();
    SigInfo::sent(
        signal,
        code,
        identity.pid as u32,
        identity.info.uid as u32,
        0,
    )
}

/// Notes whether a shipped call arranges that a descriptor signals the rank. `name`: the call's.
pub fn note_later(call: &Call<'_>, name: &str) {
    if signals_later(name, &call.args()) {
        call.rank.attributes().note_signalling_descriptor();
    }
}

pub fn fcntl(call: &mut Call<'_>) -> SysResult {
    note_later(call, "fcntl");
    ship_on(call)
}

/// Makes a descriptor that receives signals, or has one receive others: they wait in Linux from now on.
pub fn signalfd(call: &mut Call<'_>) -> SysResult {
    let [_, mask, ..] = call.args();
    let fd = ship_on(call)?;
    signal::left::receive(call.thread, get_set(mask)?);
    Ok(fd)
}

pub fn mq_notify(call: &mut Call<'_>) -> SysResult {
    note_later(call, "mq_notify");
    ship_on(call)
}

/// What the rank sends itself comes before the call returns.
pub fn pidfd_send_signal(call: &mut Call<'_>) -> SysResult {
    let result = ship_on(call);
    signal::collect(call.rank);
    result
}

/// Its process group and all have itself among them, through its proxy: what the rank has sent to itself comes before the call
/// returns (kill(2)), and what was sent to it while it was stopped by that.
#[cold]
fn kill_others(call: &mut Call<'_>, pid: i32) -> SysResult {
    let result = ship_on(call);
    if pid <= 0 {
        signal::collect(call.rank);
    }
    result
}

/// To itself, here; to others, on Linux.
pub fn kill(call: &mut Call<'_>) -> SysResult {
    let [pid, signo, ..] = call.args();
    if !is_self(call, pid) {
        return kill_others(call, pid as i32);
    }
    match signal_or_probe(signo)? {
        None => Ok(0),
        Some(signal) => {
            let info = from_self(call, signal, code::USER);
            signal::send_from(call.thread, None, info).map(|()| 0)
        }
    }
}

pub fn tkill(call: &mut Call<'_>) -> SysResult {
    let [tid, signo, ..] = call.args();
    if tid as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    match thread_of(call, tid) {
        Some(thread) => to_thread(call, thread, signo),
        None => ship_on(call),
    }
}

pub fn tgkill(call: &mut Call<'_>) -> SysResult {
    let [pid, tid, signo, ..] = call.args();
    if pid as i32 <= 0 || tid as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    match thread_of(call, tid) {
        Some(thread) if is_self(call, pid) => to_thread(call, thread, signo),
        None if !is_self(call, pid) => ship_on(call),
        _ => Err(Errno::ESRCH),
    }
}

fn to_thread(call: &Call<'_>, thread: &'static Thread, signo: u64) -> SysResult {
    match signal_or_probe(signo)? {
        None => Ok(0),
        Some(signal) => {
            let info = from_self(call, signal, code::TKILL);
            signal::send_from(call.thread, Some(thread), info).map(|()| 0)
        }
    }
}

pub fn sigqueueinfo(call: &mut Call<'_>) -> SysResult {
    let [pid, signo, info, ..] = call.args();
    if !is_self(call, pid) {
        return ship_on(call);
    }
    match queued_info(signo, info)? {
        None => Ok(0),
        Some(info) => signal::send_from(call.thread, None, info).map(|()| 0),
    }
}

pub fn tgsigqueueinfo(call: &mut Call<'_>) -> SysResult {
    let [pid, tid, signo, info, ..] = call.args();
    if pid as i32 <= 0 || tid as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    if !is_self(call, pid) {
        return ship_on(call);
    }
    let thread = thread_of(call, tid).ok_or(Errno::ESRCH)?;
    match queued_info(signo, info)? {
        None => Ok(0),
        Some(info) => signal::send_from(call.thread, Some(thread), info).map(|()| 0),
    }
}

fn queued_info(signo: u64, from: u64) -> Result<Option<SigInfo>, Errno> {
    let mut bytes = [0; SIGINFO_BYTES];
    get_bytes(&mut bytes, from)?;
    Ok(signal_or_probe(signo)?.map(|signal| SigInfo::from_bytes(signal, &bytes)))
}
