// A Rust panic: caught once with its message, Drop runs while unwinding, then
// one not caught: message on stderr and status 101.
use std::panic::{self, AssertUnwindSafe};

struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        println!("dropped {}", self.0);
    }
}

fn depth(n: u32) -> u32 {
    let _guard = if n == 2 { Some(Noisy("in the middle")) } else { None };
    if n == 0 { "x".parse::<u32>().expect("a number") } else { depth(n - 1) + 1 }
}

fn main() {
    panic::set_hook(Box::new(|info| eprintln!("hook: {}", info.payload_as_str().unwrap_or("no text"))));
    let caught = panic::catch_unwind(|| depth(5));
    println!("caught: {}", caught.is_err());
    let values = [1, 2, 3];
    let index = std::env::args().count() + 9;
    let caught = panic::catch_unwind(AssertUnwindSafe(|| values[index]));
    println!("index out of bounds caught: {}", caught.is_err());
    let checked = i32::MAX.checked_add(index as i32);
    println!("checked overflow: {checked:?}");
    let _last = Noisy("by the last panic");
    panic!("not caught");
}
