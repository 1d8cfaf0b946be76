//! What the debugger requests of the node.

use std::time::Duration;

use wire::signal::{LOOK, Signal};

use crate::rank::Rank;

/// How often a stop is requested again while the rank's mailbox is full.
pub const RETRY: Duration = Duration::from_millis(5);

/// Passes a change of what the debugger requests to the node.
pub fn announce(rank: &Rank, wanted: u64) {
    rank.words().area.host.debugger.store(wanted);
    let poll = Signal {
        signo: LOOK,
        ..Signal::default()
    };
    loop {
        {
            let _posting = rank.posting();
            if rank.words().area.mailbox.post(&poll) {
                break;
            }
        }
        rank.link().signal();
        std::thread::sleep(RETRY);
    }
    rank.link().signal();
}
