//! gdb at a rank: `yod --gdb`, or one that comes later ([`late`]).
//!
//! A thread of the proxy speaks gdb's protocol (crate gdbstub) with one gdb, by a Unix socket. The rank halts before its
//! first instruction until gdb is there. Registers are those of threads that have halted ([`crate::halt`]); memory is
//! mapped here. When gdb leaves, in whatever way, its breakpoints are taken out and the rank goes on without it.

mod arch;
mod form;
pub mod late;
mod numbers;
mod packets;
mod request;
pub(crate) mod state;
mod target;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use abi::halt::debugger;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::end;
use crate::rank::Rank;
use packets::Packets;
use target::Target;

/// How often it is polled whether anything runs while some threads are held.
const POLL_PERIOD: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

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

/// Has the rank halt at its first instruction, and starts the thread that waits for its gdb.
///
/// # Errors
/// What Linux says.
pub fn start(rank: &'static Rank, gdb: Gdb) -> io::Result<()> {
    rank.debug().claim();
    rank.debug().wait_for_gdb();
    let wanted = debugger::ATTACHED | debugger::STOP;
    rank.words().area.host.debugger.store(wanted);
    let thread = std::thread::Builder::new().name("gdb".into());
    thread.spawn(move || serve(rank, gdb)).map(|_| ())
}

fn serve(rank: &'static Rank, gdb: Gdb) {
    crate::signals::mask(crate::signals::How::Set, crate::signals::ALL);
    let Gdb { socket, path } = gdb;
    let accepted = socket.accept().and_then(|(stream, _)| {
        // The rank has not started and does not use the number that the connection had at first.
        let stream = OwnedFd::from(stream);
        let first_own = rank.limits().first_own_fd() as i32;
        let kept = rank
            .limits()
            .with_room(|| rustix::io::fcntl_dupfd_cloexec(&stream, first_own));
        Ok(UnixStream::from(kept?))
    });
    let _ = std::fs::remove_file(path);
    drop(socket);
    let mut target = Target::new(rank);
    if target.wait_until_halted(None).is_none() {
        return; // the program could not be loaded
    }
    talk(rank, &mut target, accepted);
    rank.debug().release();
}

/// Serves a gdb until it leaves; all threads have halted.
fn talk(rank: &'static Rank, target: &mut Target, connection: io::Result<UnixStream>) {
    rank.debug().connected();
    let ended = match connection {
        Ok(stream) => GdbStub::new(Packets::new(stream, target.looks_only))
            .run_blocking::<Loop>(target)
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    rank.debug().leave();
    match ended {
        Ok(DisconnectReason::Kill) => end::die(rank, libc::SIGKILL),
        Ok(DisconnectReason::Disconnect) => target.detach(),
        Ok(_) => {}
        Err(why) if target.end().is_none() => {
            end::print(
                rank,
                &format!("{}: gdb is gone, the rank goes on: {why}\n", rank.name()),
            );
            target.detach();
        }
        Err(_) => {}
    }
}

/// What happens while the rank runs.
enum Loop {}

type WaitError = WaitForStopReasonError<&'static str, io::Error>;

impl BlockingEventLoop for Loop {
    type Target = Target;
    type Connection = Packets;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        target: &mut Target,
        conn: &mut Packets,
    ) -> Result<Event<Self::StopReason>, WaitError> {
        loop {
            if let Some(reason) = target.stop_reason() {
                return Ok(Event::TargetStopped(reason));
            }
            if let Some(byte) = conn.next_ready() {
                return Ok(Event::IncomingData(byte));
            }
            let ready = {
                let doorbell = target.doorbell();
                let conn = conn.as_fd();
                let mut fds = [
                    PollFd::new(&conn, PollFlags::IN),
                    PollFd::new(&doorbell, PollFlags::IN),
                ];
                let wait = target.holds_some().then_some(POLL_PERIOD);
                // EINTR is as good as nothing.
                let _ = poll(&mut fds, wait.as_ref());
                !fds[0].revents().is_empty()
            };
            target.clear_doorbell();
            if ready {
                conn.receive().map_err(WaitForStopReasonError::Connection)?;
            }
        }
    }

    fn on_interrupt(target: &mut Target) -> Result<Option<Self::StopReason>, &'static str> {
        Ok(Some(target.interrupt()))
    }
}
