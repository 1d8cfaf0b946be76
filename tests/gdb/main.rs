//! What the host's gdb makes of a rank: of the core file that it leaves.

mod core;
mod host;

use libtest_mimic::Arguments;

fn main() {
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, core::all()).exit();
}
