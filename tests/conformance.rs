//! Conformance: every program of the tables of programs/ runs on Linux and on a node, and the runs cannot be distinguished.
//!
//! Outputs, status and files of the native run are the yardstick, made in the same run. Each run on a node also shows that
//! it was one: uname(2) says so to the program, and the kernel counted entries from ring 3.
//!
//! STREAM_SIZE is the length of the streams, 1G unless set.

use libtest_mimic::Arguments;
use margay_tests::trial::trial;
use margay_tests::{compare, manifest, tree};

fn main() {
    let arguments = Arguments::from_args();
    let size = std::env::var("STREAM_SIZE").unwrap_or_else(|_| "1G".into());
    let rows = manifest::conformance(&size).expect("right manifests");
    let kvm = tree::accel() == "kvm";
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let vsyscall = maps.contains("[vsyscall]");
    let trials = rows.into_iter().map(|row| {
        let ignored = row.extra.needs_kvm && !kvm || row.extra.needs_vsyscall && !vsyscall;
        let name = format!("{}/{}", row.category, row.name);
        trial(name, move || compare::row(&row)).with_ignored_flag(ignored)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
