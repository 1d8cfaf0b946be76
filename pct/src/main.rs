//! The process control thread as a program: entry, the instruction that enters the QK, the end.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod node;

use core::panic::PanicInfo;

use node::Node;
use pct::{Qk, line};

/// Serves the job. When that ends, the node gets the reason and the job ends with it.
fn main() -> ! {
    let why = pct::run(&mut Node);
    Node.log(why.as_str());
    node::end()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    Node.log(line!("{info}").as_str());
    node::end()
}
