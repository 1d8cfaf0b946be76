//! What the host's gdb makes of a rank, of the core file that it leaves and in a session with it; and its gprof of a profile.

mod connection;
mod core;
mod host;
mod late;
mod profile;
mod session;
mod waiting;

use libtest_mimic::Arguments;

fn main() {
    let arguments = Arguments::from_args();
    let trials = [
        core::all(),
        session::all(),
        connection::all(),
        late::all(),
        profile::all(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit();
}
