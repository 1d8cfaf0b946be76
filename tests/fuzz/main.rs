//! Fuzzing without coverage: random and mutated input for what must hold against any input, for FUZZ_SECONDS (5 unless
//! set) each. FUZZ_SEED repeats a run.
//!
//! | target | input | what must hold |
//! |---|---|---|
//! | elf_loader | headers of real programs, mutated | refused in one line, or loadable without further checks |
//! | wire_records, boot_information | shared memory full of noise, and of records with a few bits changed | copies are in range, or refused |
//! | frames, regions, paging, mappings | random operations | a simple model agrees (qk-core's own property tests, again and again) |
//! | pct, shipped_arguments | images, strings and requests that make no sense | as their property tests say |
//! | system_calls | random calls by a program on a node | it and the node go on |

mod calls;
mod loader;
mod models;
mod wire;

use std::time::{Duration, Instant};

use anyhow::Result;
use libtest_mimic::Arguments;
use margay_tests::random::Random;
use margay_tests::tree;
use margay_tests::trial::trial;

/// What a target is given: how long, and random numbers.
pub struct Budget {
    end: Instant,
    /// Never the same for two targets.
    pub random: Random,
}

impl Budget {
    /// Whether there is time for another round.
    pub fn lasts(&self) -> bool {
        !self.left().is_zero()
    }

    /// Time that is left.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

type Target = fn(Budget) -> Result<()>;

const TARGETS: &[(&str, Target)] = &[
    ("elf_loader", loader::images),
    ("wire_records", wire::records),
    ("boot_information", wire::boot_information),
    ("frames", |budget| {
        models::run("qk-core", "frames::", budget)
    }),
    ("regions", |budget| {
        models::run("qk-core", "regions::", budget)
    }),
    ("paging", |budget| {
        models::run("qk-core", "paging::", budget)
    }),
    ("mappings", |budget| {
        models::run("qk-core", "mman::", budget)
    }),
    ("pct", |budget| models::run("pct", "", budget)),
    ("shipped_arguments", |budget| {
        models::run("margay-proxy", "call::", budget)
    }),
    ("system_calls", calls::random),
];

fn main() {
    let arguments = Arguments::from_args();
    let seconds = Duration::from_secs(tree::number("FUZZ_SECONDS", 5));
    let seed = Random::from_environment("FUZZ_SEED");
    let trials = TARGETS.iter().zip(seed..).map(|(&(name, target), seed)| {
        trial(name, move || {
            let end = Instant::now() + seconds;
            target(Budget {
                end,
                random: Random::new(seed),
            })
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
