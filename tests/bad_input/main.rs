//! What bad input gets: wrong files, wrong options, hosts that lack something, programs that do wrong, a broken PCT.
//!
//! Each case: one clear line, the right status (126, 127, 128 + signal, 2 for usage, 69 for what the host lacks), a crash
//! report where a rank died, no process and no file left, no hang.

mod crash;
mod exhaustion;
mod files;
mod host;
mod node;
mod options;
mod programs;
mod refused;

use libtest_mimic::Arguments;
use margay_tests::trial::trial as case;

fn main() {
    let arguments = Arguments::from_args();
    let trials = [
        files::all(),
        options::all(),
        host::all(),
        node::all(),
        programs::all(),
        refused::all(),
        crash::all(),
        exhaustion::all(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit();
}

/// A program that is fine.
fn fine() -> String {
    margay_tests::tree::program("glibc-static", "hello")
        .to_string_lossy()
        .into_owned()
}
