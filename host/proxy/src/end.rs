//! The end of a rank is the end of its proxy, in the same way: shells and launchers see the truth.

use rustix::process::{Resource, Rlimit, setrlimit};
use wire::rank::state;

use crate::rank::Rank;
use crate::{child, crash, signals};

/// Exit code when the node's kernel says what cannot be (EX_SOFTWARE, sysexits.h).
const EXIT_BROKEN: i32 = 70;
/// Longest line a node may have printed for a refused program.
const MESSAGE_BYTES: usize = 256;

/// Ends the process if the rank has ended.
pub fn if_over(rank: &Rank) {
    let node = &rank.words().area.node;
    match node.state.load() {
        state::EXITED => {
            only_once(rank);
            let status = node.wait_status.load() as i32;
            rank.debug().ended(rank.halted(), status);
            child::settle(rank);
            if node.crash.valid.load() == 1 {
                // What was mapped since the last shipped call; of a log that makes no sense, what came before.
                let _ = rank.catch_up(rank.words().log.position());
                let memory = rank.memory();
                let image = crash::Image::of(&rank.program().file);
                let report = crash::report(
                    &rank.name(),
                    &node.crash,
                    image.as_ref(),
                    &*memory,
                    memory.regions(),
                    rank.words().areas().stack_top(),
                );
                print(rank, &report);
            }
            let core = rank.dump().line();
            if !core.is_empty() {
                print(rank, &format!("{}: {core}\n", rank.name()));
            }
            end_with(status)
        }
        state::REFUSED => {
            only_once(rank);
            let mut bytes = [0; MESSAGE_BYTES];
            let message = String::from_utf8_lossy(node.message.get(&mut bytes));
            print(rank, &format!("{}: {message}\n", rank.name()));
            end_with(node.wait_status.load() as i32)
        }
        _ => {}
    }
}

/// Ends the process as wait(2) says it.
fn end_with(status: i32) -> ! {
    match status & 0x7f {
        0 => signals::exit(status >> 8 & 0xff),
        signo => die_without_core(signo),
    }
}

/// Ends the process because the node's kernel broke the protocol.
pub fn broken(rank: &Rank, why: &str) -> ! {
    only_once(rank);
    print(rank, &format!("{}: {why}\n", rank.name()));
    signals::exit(EXIT_BROKEN)
}

/// Ends the process by a signal.
pub fn die(rank: &Rank, signo: i32) -> ! {
    only_once(rank);
    die_without_core(signo)
}

/// A core file would hold the proxy, not the program.
fn die_without_core(signo: i32) -> ! {
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
    signals::die(signo)
}

/// Worker and watcher may both see the end: the second waits for the first to finish.
fn only_once(rank: &Rank) {
    if !rank.begin_end() {
        loop {
            std::thread::park();
        }
    }
}

/// Prints text as one block.
pub fn print(rank: &Rank, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(rank.descriptors().stderr(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return, // no output left
        }
    }
}
