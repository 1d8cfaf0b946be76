//! gdb at a rank: `yod --gdb`.
//!
//! A thread of the proxy speaks gdb's protocol (crate gdbstub) with one gdb, by a Unix socket. The rank halts before its
//! first instruction until gdb is there. Registers are those of threads that have halted ([`crate::halt`]); memory is
//! mapped here. When gdb leaves, in whatever way, its breakpoints are taken out and the rank goes on without it.

mod arch;
mod numbers;
mod target;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use abi::halt::debugger;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::signal::{LOOK, Signal};

use crate::end;
use crate::halt::Halted;
use crate::rank::Rank;
use target::Target;

/// How often a stop is requested again while the rank's mailbox is full.
const RETRY: Duration = Duration::from_millis(5);
/// How often it is looked whether anything runs while some threads are held.
const LOOK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Time that gdb gets to be told of the rank's end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where gdb connects.
#[derive(Debug)]
pub struct Gdb {
    /// Listens.
    pub socket: UnixListener,
    /// Its path, which is removed once gdb is there: it is for one.
    pub path: PathBuf,
}

impl Gdb {
    /// Moves the descriptor by `keep`.
    ///
    /// # Errors
    /// What `keep` says.
    pub fn keep(
        self,
        keep: impl Fn(OwnedFd) -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<Gdb> {
        Ok(Gdb {
            socket: keep(self.socket.into())?.into(),
            path: self.path,
        })
    }
}

/// What the rest of the proxy needs of gdb.
#[derive(Default, Debug)]
pub struct Debug {
    /// The rank halts until gdb connects.
    awaited: AtomicBool,
    /// gdb is there.
    present: AtomicBool,
    /// How the rank has ended, as wait(2) says it; `None` again when gdb has been told.
    end: Mutex<Option<i32>>,
    told: Condvar,
}

impl Debug {
    /// Whether the rank halts for a gdb that is not there yet: signals then act on the proxy.
    pub fn waits_for_gdb(&self) -> bool {
        self.awaited.load(Ordering::SeqCst)
    }

    /// The rank has ended: waits until gdb, if it is there, has been told.
    pub fn ended(&self, halted: &Halted, status: i32) {
        if !self.present.load(Ordering::SeqCst) {
            return;
        }
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        *end = Some(status);
        halted.ring();
        let _ = self
            .told
            .wait_timeout_while(end, LAST_WORDS, |_| self.present.load(Ordering::SeqCst));
    }

    /// How the rank has ended.
    fn end(&self) -> Option<i32> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        let end = self.end.lock();
        self.present.store(false, Ordering::SeqCst);
        self.told.notify_all();
        drop(end);
    }
}

/// Has the rank halt at its first instruction, and starts the thread that waits for its gdb.
///
/// # Errors
/// What Linux says.
pub fn start(rank: &'static Rank, gdb: Gdb) -> io::Result<()> {
    rank.debug.awaited.store(true, Ordering::SeqCst);
    let wanted = debugger::ATTACHED | debugger::STOP;
    rank.words.area.host.debugger.store(wanted);
    let thread = std::thread::Builder::new().name("gdb".into());
    thread.spawn(move || serve(rank, gdb)).map(|_| ())
}

fn serve(rank: &'static Rank, gdb: Gdb) {
    crate::signals::mask(crate::signals::How::Set, crate::signals::ALL);
    let Gdb { socket, path } = gdb;
    let accepted = socket.accept().and_then(|(stream, _)| {
        // The rank has not started and does not use the number that the connection had at first.
        let stream = OwnedFd::from(stream);
        let first_own = rank.limits.first_own_fd() as i32;
        let kept = rank
            .limits
            .with_room(|| rustix::io::fcntl_dupfd_cloexec(&stream, first_own));
        Ok(UnixStream::from(kept?))
    });
    let _ = std::fs::remove_file(path);
    drop(socket);
    let mut target = Target::new(rank);
    if target.wait_until_halted().is_none() {
        return; // the program could not be loaded
    }
    rank.debug.present.store(true, Ordering::SeqCst);
    rank.debug.awaited.store(false, Ordering::SeqCst);
    let ended = match accepted {
        Ok(stream) => GdbStub::new(stream)
            .run_blocking::<Loop>(&mut target)
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    rank.debug.leave();
    match ended {
        Ok(DisconnectReason::Kill) => end::die(rank, libc::SIGKILL),
        Ok(DisconnectReason::Disconnect) => target.detach(),
        Ok(_) => {}
        Err(why) if target.end().is_none() => {
            end::say(
                rank,
                &format!("{}: gdb is gone, the rank goes on: {why}\n", rank.name()),
            );
            target.detach();
        }
        Err(_) => {}
    }
}

/// Passes a change of what the debugger requests to the node.
fn announce(rank: &Rank, wanted: u64) {
    rank.words.area.host.debugger.store(wanted);
    let look = Signal {
        signo: LOOK,
        ..Signal::default()
    };
    loop {
        {
            let _posting = rank.posting();
            if rank.words.area.mailbox.post(&look) {
                break;
            }
        }
        rank.ring();
        std::thread::sleep(RETRY);
    }
    rank.ring();
}

/// What happens while the rank runs.
enum Loop {}

type WaitError = WaitForStopReasonError<&'static str, io::Error>;

impl BlockingEventLoop for Loop {
    type Target = Target;
    type Connection = UnixStream;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        target: &mut Target,
        conn: &mut UnixStream,
    ) -> Result<Event<Self::StopReason>, WaitError> {
        loop {
            if let Some(reason) = target.stop_reason() {
                return Ok(Event::TargetStopped(reason));
            }
            let ready = {
                let bell = target.bell();
                let conn = conn.as_fd();
                let mut fds = [
                    PollFd::new(&conn, PollFlags::IN),
                    PollFd::new(&bell, PollFlags::IN),
                ];
                let wait = target.holds_some().then_some(LOOK_AGAIN);
                // EINTR is as good as nothing.
                let _ = poll(&mut fds, wait.as_ref());
                !fds[0].revents().is_empty()
            };
            target.heard();
            if ready {
                let byte = conn.read().map_err(WaitForStopReasonError::Connection)?;
                return Ok(Event::IncomingData(byte));
            }
        }
    }

    fn on_interrupt(target: &mut Target) -> Result<Option<Self::StopReason>, &'static str> {
        Ok(Some(target.interrupt()))
    }
}
