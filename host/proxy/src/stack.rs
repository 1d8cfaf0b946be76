//! The stack of the process's first thread: of a size of its own, as other threads' stacks are.
//!
//! Linux lets the one that a process begins with grow as far as RLIMIT_STACK, which is the program's: some programs run with 64 KiB, and
//! some lower it. What a worker does for a call takes more.

use std::arch::asm;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};

use crate::start::{self, Impossible};

/// Bytes of it. What is not used costs nothing.
const BYTES: usize = 1 << 20;
/// Below it: who goes beyond faults.
const GUARD_BYTES: usize = 64 << 10;

/// Goes on with `life` on a stack of its own; says so where there is no memory for one.
pub fn on_own<T>(argument: Box<T>, life: extern "C" fn(Box<T>) -> !) -> ! {
    let top = match new() {
        Ok(top) => top,
        Err(errno) => start::give_up(&Impossible::Linux("make a stack", errno)),
    };
    // SAFETY: 1. `top` is the end of memory that nobody else uses, is a multiple of 16, as the ABI has it before a call, and stays mapped for
    //            as long as the process lives. 2. `life` is called with its argument, whose ownership goes with it, and does not
    //            return. 3. The stack that is left stays as it is: references to what lies there stay valid.
    unsafe {
        asm!(
            "mov rsp, {top}",
            "xor ebp, ebp",
            "call {life}",
            "ud2",
            top = in(reg) top,
            life = in(reg) life,
            in("rdi") Box::into_raw(argument),
            options(noreturn),
        )
    }
}

/// Maps a stack; returns its end.
fn new() -> rustix::io::Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: 1. New memory at an address of Linux's choice is nobody's. 2. Its lowest part is within it, and nothing lies there yet.
    unsafe {
        let base = mmap_anonymous(std::ptr::null_mut(), GUARD_BYTES + BYTES, access, flags)?;
        mprotect(base, GUARD_BYTES, MprotectFlags::empty())?;
        Ok(base.cast::<u8>().add(GUARD_BYTES + BYTES))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;

    /// Sends the address of something on its stack.
    fn send_place(to: &Sender<usize>) {
        let here = 0u8;
        to.send((&raw const here).addr()).unwrap();
    }

    extern "C" fn live(to: Box<Sender<usize>>) -> ! {
        send_place(&to);
        loop {
            thread::park();
        }
    }

    /// Some calls need more stack than a program's limit leaves; which, depends on how this was compiled.
    #[test]
    fn a_thread_leaves_the_stack_that_it_came_with() {
        const CAME_WITH_BYTES: usize = 128 << 10;
        let (sender, places) = channel();
        let begin = move || {
            send_place(&sender);
            on_own(Box::new(sender), live)
        };
        let thread = thread::Builder::new().stack_size(CAME_WITH_BYTES);
        thread.spawn::<_, ()>(begin).unwrap();
        let [before, after] = [places.recv().unwrap(), places.recv().unwrap()];
        assert!(before.abs_diff(after) > CAME_WITH_BYTES / 2);
    }
}
