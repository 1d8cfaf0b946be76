//! A proxy whose yod has ended. Linux ends it then, whatever its words in the communication area say: they once were wrong, and a
//! worker waited in them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use abi::control::HostOp;
use abi::halt::Halt;
use wire::layout::Layout;
use wire::rank::state;

use crate::Case;
use crate::launch::AS_YOD;
use crate::life::is_zombie;
use crate::node::{COMM_GPA, DATA, Node, WIRE, wait_for};

pub const CASES: &[Case] = &[
    ("it_dies_with_yod", it_dies_with_yod),
    ("wrong_words_do_not_hold_it", wrong_words_do_not_hold_it),
];

/// What a proxy is held by: a name, and what is done to it.
type Hold = (&'static str, fn(&mut Node));

/// The first one holds nothing.
const HOLDS: &[Hold] = &[
    ("nothing", |_| {}),
    ("an order that does not come", |node| {
        node.begin_host_op(HostOp::Halted, &[Halt::Signal as u64, 11]);
    }),
    ("a child that is never waited for", |node| {
        node.begin_host_op(HostOp::Fork, &[]);
        node.begin_host_op(HostOp::AwaitExec, &[1]);
    }),
    ("an end without a doorbell", |node| {
        node.begin(libc::SYS_read, &[0, DATA.0, 1]);
        node.area().node.state.store(state::EXITED);
    }),
    ("ones", |node| everything(node, |_| u64::MAX)),
    ("small numbers", |node| everything(node, |at| at % 16)),
    ("a pattern", |node| {
        everything(node, |at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }),
];

/// Writes words into a part of the communication area, by their places.
fn fill(node: &Node, start: usize, end: usize, word: impl Fn(u64) -> u64) {
    let words = start as u64 / 8..end as u64 / 8;
    let bytes: Vec<u8> = words.flat_map(|at| word(at).to_ne_bytes()).collect();
    node.put_gpa(COMM_GPA + start as u64, &bytes);
}

/// Writes all of the rank's words, with a call under way.
fn everything(node: &mut Node, word: impl Fn(u64) -> u64) {
    node.begin_and_wait(libc::SYS_read, &[0, DATA.0, 1]);
    let layout = Layout::new(&WIRE);
    fill(node, layout.rank(0), layout.total_bytes, word);
    node.doorbell();
}

fn it_dies_with_yod() {
    dies_with_yod(0);
}

fn wrong_words_do_not_hold_it() {
    (1..HOLDS.len()).for_each(dies_with_yod);
}

fn dies_with_yod(hold: usize) {
    let (what, _) = HOLDS[hold];
    let mut yod = Command::new(std::env::current_exe().unwrap())
        .args([AS_YOD, &hold.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(yod.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let proxy: i32 = line.trim().parse().unwrap();
    // SAFETY: 1. Signal 0 only checks whether the process is there.
    let alive = || unsafe { libc::kill(proxy, 0) } == 0 && !is_zombie(proxy);
    // With words that make no sense it may have ended by itself.
    println!(
        "held by {what}: {}",
        if alive() { "lives" } else { "has ended" }
    );
    assert!(hold > 0 || alive());
    yod.kill().unwrap();
    yod.wait().unwrap();
    wait_for(|| !alive());
}

/// What [`dies_with_yod`] starts: has a proxy that is held, and waits to be killed.
pub fn become_yod() -> ! {
    let hold = std::env::args().nth(2).and_then(|hold| hold.parse().ok());
    let (_, hold) = HOLDS[hold.unwrap_or(0_usize)];
    let mut node = Node::new();
    hold(&mut node);
    println!("{}", node.pid());
    loop {
        std::thread::park();
    }
}
