//! The hostile host: threads that write what they like into the words of a node, at every moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use abi::halt::Order;
use abi::map::PAGE;
use margay_tests::random::Random;

use crate::area::{ANSWER, Area, Part, REQUEST};

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Any word of any record.
    AllWords,
    /// Words that the kernel reads, and the host's processes only write.
    HostWords,
    /// Answers to calls that are under way, faster than the proxy or in its place.
    Answers,
    /// Both of the last.
    HostWordsAndAnswers,
}

/// How often a node is written to.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub way: Way,
    /// The only rank whose words are written, and nothing of the node as a whole; `None`: all.
    pub only: Option<usize>,
    /// Turns without a write between two: a node that is hit all the time does not get far.
    pub pause: u64,
    /// The only part, of all that may be written: an index, of as many as there are.
    pub part: Option<u64>,
}

/// Writes until it is stopped; counts the words.
pub fn write(area: &Area, plan: Plan, seed: u64, stop: &AtomicBool, written: &AtomicU64) {
    let mut random = Random::new(seed);
    let parts = chosen(area, plan);
    while !stop.load(Ordering::Relaxed) {
        let answers = match plan.way {
            Way::AllWords | Way::HostWords => false,
            Way::Answers => true,
            Way::HostWordsAndAnswers => random.once_in(2),
        };
        if answers {
            answer(area, plan, &mut random, written);
        } else {
            let part = random.pick(&parts);
            let words = part.len_bytes / 8;
            let first = random.below(words);
            // One word, or some that belong together.
            let count = 1 + random.below(4) * random.below(8);
            for word in first..words.min(first + count) {
                let at = part.start + 8 * word;
                let value = value(&mut random, area.get(at));
                area.set(at, value);
                written.fetch_add(1, Ordering::Relaxed);
            }
        }
        for _ in 0..random.below(plan.pause + 1) {
            std::hint::spin_loop();
        }
    }
}

/// Keeps words at 0 until it is told to stop, whatever is written there.
pub fn hold(area: &Area, words: &[u64], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for &at in words {
            area.set(at, 0);
        }
    }
}

fn chosen(area: &Area, plan: Plan) -> Vec<Part> {
    let may = |part: &Part| {
        (plan.way == Way::AllWords || part.is_hosts)
            && (plan.only.is_none() || part.rank == plan.only)
    };
    let mut parts: Vec<Part> = area.parts().into_iter().filter(may).collect();
    if let Some(index) = plan.part {
        parts = vec![parts[index as usize % parts.len()]];
    }
    parts
}

/// What may mean something, where a word held `old`.
fn value(random: &mut Random, old: u64) -> u64 {
    match random.below(10) {
        0 => 0,
        1 => u64::MAX - random.below(8),
        2 => random.below(16),
        3 => old.wrapping_add(random.below(5)).wrapping_sub(2),
        4 => old ^ 1 << random.below(64),
        5 => 1 << random.below(64),
        6 => random.below(1 << 40) * PAGE,
        7 => (1 << 63 | random.next()).wrapping_neg() >> random.below(64),
        8 => random.below(1 << 12),
        _ => random.next(),
    }
}

/// Answers one call, whether it is under way or not.
fn answer(area: &Area, plan: Plan, random: &mut Random, written: &AtomicU64) {
    let rank = match plan.only {
        Some(rank) => rank,
        None => random.below(area.ranks() as u64) as usize,
    };
    let index = random.below(Area::threads() as u64) as usize;
    let slot = area.thread(rank, index);
    let (seq, done) = (area.get(slot + REQUEST), area.get(slot + ANSWER));
    if seq == done && !random.once_in(16) {
        return;
    }
    let [ret, more @ ..] = result(random);
    let bell = seq << 1 | random.below(2);
    // The order of the words in `wire::ship::Slot`; what publishes them comes last.
    for (word, value) in [(1, ret), (4, more[0]), (5, more[1]), (3, bell), (0, seq)] {
        area.set(slot + ANSWER + 8 * word, value);
    }
    written.fetch_add(5, Ordering::Relaxed);
}

/// What was returned, and two words more.
fn result(random: &mut Random) -> [u64; 3] {
    let ret = match random.below(8) {
        0 => 0,
        1 => random.below(200).wrapping_neg(),
        2 => random.below(512),
        3 => random.below(1 << 20) * PAGE,
        4 => order(random).encode(),
        5 => (1 << 63) | random.next(),
        6 => value(random, 0),
        _ => random.below(6) | random.next() << 8,
    };
    [ret, value(random, 0), value(random, 1)]
}

fn order(random: &mut Random) -> Order {
    let signo = random.below(70) as u8;
    match random.below(6) {
        0 => Order::Go(signo),
        1 => Order::Step(signo),
        2 => Order::Show,
        3 => Order::Load,
        4 => Order::Rewrite(random.below(1 << 20)),
        _ => Order::Own(random.below(1 << 27)),
    }
}
