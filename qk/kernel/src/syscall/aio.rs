//! Kernel AIO (io_setup(2)). What is submitted is done by then, by the calls that it stands for, which the proxy makes; a context
//! holds the results. Linux maps a ring of them into the program, and its address names the context. Here that is a page of which
//! nothing can be read but that it is no ring: so libaio makes the calls.

use abi::Errno;
use abi::map::PAGE;
use abi::syscall::{Call as Row, by_name};
use qk_core::aio::Context;
use qk_core::signals::SigSet;

use super::shipped::with_mask;
use super::{Call, RESTART, RESTART_NO_HANDLER, SysResult, make};
use crate::thread::Thread;
use crate::user::{get_u32, get_u64, get_words, put_u32, put_u64_opt, put_words, sigset_size};
use crate::{futex, preempt};

/// Offset in a context's page of a word that is 1: what is written to an eventfd. The first word counts results.
const ONE: u64 = 64;
/// Offset in struct iocb of aio_key, and of aio_buf and aio_nbytes, which are a struct iovec (uapi/linux/aio_abi.h).
const KEY: u64 = 8;
const VECTOR: u64 = 24;
const IOCB_FLAG_RESFD: u32 = 1;
/// Work of taking a request, or handing out one result, in instructions.
const EVENT_WORK: u32 = 100;

const PREADV2: &Row = by_name("preadv2").expect("a row");
const PWRITEV2: &Row = by_name("pwritev2").expect("a row");
const WRITE: &Row = by_name("write").expect("a row");
const MMAP: &Row = by_name("mmap").expect("a row");
const MUNMAP: &Row = by_name("munmap").expect("a row");
const FCNTL: &Row = by_name("fcntl").expect("a row");
const FSYNC: &Row = by_name("fsync").expect("a row");
const FDATASYNC: &Row = by_name("fdatasync").expect("a row");

pub fn setup(call: &mut Call<'_>) -> SysResult {
    /// More than this Linux takes for a mistake (ioctx_alloc).
    const TOO_MANY: u32 = 0x1000_0000 / 32;
    let [events, at, ..] = call.args();
    let before = get_u64(at)?;
    let events = events as u32;
    if before != 0 || events == 0 || events > TOO_MANY {
        return Err(Errno::EINVAL);
    }
    // PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
    let page = make(call, MMAP, [0, PAGE, 3, 0x22, 0, 0])?;
    let mut words = [0; (ONE / 8 + 1) as usize];
    words[(ONE / 8) as usize] = 1;
    let made = Context::new(page, events as usize)
        .and_then(|context| call.rank.aio().add(context))
        .and_then(|()| put_words(page, &words))
        .and_then(|()| put_u64_opt(at, page));
    if let Err(errno) = made {
        let _ = call.rank.aio().remove(page);
        let _ = make(call, MUNMAP, [page, PAGE, 0, 0, 0, 0]);
        return Err(errno);
    }
    Ok(0)
}

pub fn destroy(call: &mut Call<'_>) -> SysResult {
    let [at, ..] = call.args();
    let gone = call.rank.aio().remove(at);
    gone?;
    // Who waits for results finds no context.
    let _ = wake(call.thread, at, 0);
    make(call, MUNMAP, [at, PAGE, 0, 0, 0, 0])
}

/// Notifies who waits for results that there are so many.
fn wake(thread: &'static Thread, at: u64, count: u32) -> SysResult {
    put_u32(at, count)?;
    futex::wake_all(thread, at)
}

pub fn submit(call: &mut Call<'_>) -> SysResult {
    let [at, count, from, ..] = call.args();
    if (count as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    call.rank.aio().check(at)?;
    for i in 0..count {
        preempt::point(EVENT_WORK);
        let submitted = submit_one(call, at, from.wrapping_add(8 * i));
        if let Err(errno) = submitted {
            return if i == 0 { Err(errno) } else { Ok(i) };
        }
    }
    Ok(count)
}

fn submit_one(call: &Call<'_>, at: u64, from: u64) -> Result<(), Errno> {
    let control = get_u64(from)?;
    let request = Request::read(control)?;
    put_u32(control.wrapping_add(KEY), 0)?;
    call.rank.aio().begin(at)?;
    let result = match request.carry_out(call, control, at) {
        Ok(done) => done,
        Err(errno) => {
            call.rank.aio().refuse(at);
            return Err(errno);
        }
    };
    let event = [request.data, control, result as u64, 0];
    let count = call.rank.aio().end(at, event);
    if let Some(count) = count {
        let _ = wake(call.thread, at, count);
    }
    if let Some(fd) = request.notified {
        let _ = make(call, WRITE, [fd, at + ONE, 8, 0, 0, 0]);
    }
    Ok(())
}

/// What a struct iocb says.
struct Request {
    data: u64,
    flags: u32,
    operation: u16,
    fd: u64,
    at: u64,
    len: u64,
    offset: u64,
    /// The eventfd that is to count it.
    notified: Option<u64>,
}

impl Request {
    fn read(control: u64) -> Result<Request, Errno> {
        let [data, key_flags, what, at, len, offset, reserved, more] = get_words(control)?;
        if reserved != 0 || (len as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        let counts = more as u32 & IOCB_FLAG_RESFD != 0;
        Ok(Request {
            data,
            flags: (key_flags >> 32) as u32,
            operation: what as u16,
            fd: what >> 32,
            at,
            len,
            offset,
            notified: counts.then_some(more >> 32),
        })
    }

    /// What it comes to: bytes or a negative error, which its result says.
    ///
    /// # Errors
    /// What is wrong with the request itself.
    fn carry_out(&self, call: &Call<'_>, control: u64, context: u64) -> Result<i64, Errno> {
        if let Some(fd) = self.notified {
            const F_GETFD: u64 = 1;
            make(call, FCNTL, [fd, F_GETFD, 0, 0, 0, 0])?;
            // An eventfd takes no less than eight bytes; what takes none is no eventfd.
            let written = make(call, WRITE, [fd, context + ONE, 0, 0, 0, 0]);
            if written != Err(Errno::EINVAL) {
                return Err(Errno::EINVAL);
            }
        }
        let own = [control.wrapping_add(VECTOR), 1];
        let theirs = [self.at, self.len];
        match self.operation {
            0 => self.move_bytes(call, PREADV2, own),
            1 => self.move_bytes(call, PWRITEV2, own),
            2 => self.sync(call, FSYNC),
            3 => self.sync(call, FDATASYNC),
            7 => self.move_bytes(call, PREADV2, theirs),
            8 => self.move_bytes(call, PWRITEV2, theirs),
            _ => Err(Errno::EINVAL), // IOCB_CMD_POLL among them, as before Linux 4.18
        }
    }

    fn move_bytes(
        &self,
        call: &Call<'_>,
        row: &Row,
        [vectors, count]: [u64; 2],
    ) -> Result<i64, Errno> {
        /// Of what has no positions.
        const NONE: u64 = u64::MAX;
        if (self.offset as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        let at = |offset| {
            let args = [
                self.fd,
                vectors,
                count,
                offset,
                offset >> 32,
                self.flags.into(),
            ];
            make(call, row, args)
        };
        match at(self.offset).or_else(|errno| match errno {
            Errno::ESPIPE => at(NONE),
            errno => Err(errno),
        }) {
            Err(errno @ (Errno::EBADF | Errno::EOPNOTSUPP)) => Err(errno),
            done => Ok(encode(done)),
        }
    }

    fn sync(&self, call: &Call<'_>, row: &Row) -> Result<i64, Errno> {
        if self.at | self.len | self.offset | u64::from(self.flags) != 0 {
            return Err(Errno::EINVAL);
        }
        match make(call, row, [self.fd, 0, 0, 0, 0, 0]) {
            Err(errno @ (Errno::EBADF | Errno::EINVAL)) => Err(errno),
            done => Ok(encode(done)),
        }
    }
}

/// As an event says it: one that a signal interrupted is not started again (aio_rw_done).
fn encode(done: SysResult) -> i64 {
    match done {
        Ok(bytes) => bytes as i64,
        Err(RESTART | RESTART_NO_HANDLER) => Errno::EINTR.ret(),
        Err(errno) => errno.ret(),
    }
}

pub fn cancel(call: &mut Call<'_>) -> SysResult {
    let [at, control, ..] = call.args();
    get_u32(control.wrapping_add(KEY))?;
    call.rank.aio().check(at)?;
    Err(Errno::EINVAL) // all that was submitted is done
}

pub fn getevents(call: &mut Call<'_>) -> SysResult {
    get(call.thread, call.args())
}

pub fn pgetevents(call: &mut Call<'_>) -> SysResult {
    let args = call.args();
    let [mask, len_bytes] = match args[5] {
        0 => [0, 0],
        at => get_words(at)?,
    };
    if mask == 0 {
        return get(call.thread, args);
    }
    sigset_size(len_bytes)?;
    let set = SigSet(get_u64(mask)?);
    with_mask(call.thread, set, || get(call.thread, args))
}

fn get(thread: &'static Thread, [at, least, most, to, timeout, _]: [u64; 6]) -> SysResult {
    const EVENT_BYTES: u64 = 32;
    let until = futex::relative(thread, timeout)?;
    let contexts = || thread.rank().aio();
    contexts().check(at)?;
    if (least as i64) < 0 || (least as i64) > most as i64 {
        return Err(Errno::EINVAL);
    }
    // The word that is waited on goes with its context.
    let told = |errno| contexts().check(at).err().unwrap_or(errno);
    let mut got = 0;
    loop {
        let seen = get_u32(at).map_err(told)?;
        while got < most {
            preempt::point(EVENT_WORK);
            let next = contexts().next(at)?;
            let Some(event) = next else { break };
            put_words(to.wrapping_add(EVENT_BYTES * got), &event)?;
            got += 1;
        }
        if got >= least {
            return Ok(got);
        }
        match futex::wait_while(thread, at, seen, until) {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(Errno::ETIMEDOUT) => return Ok(got),
            Err(_) if got > 0 => return Ok(got),
            Err(RESTART) => return Err(thread.interrupted(RESTART_NO_HANDLER)),
            Err(errno) => return Err(told(errno)),
        }
    }
}
