//! A kernel that tests the hardware layer on the machine it is for. `tests/machine` builds and boots it.
//!
//! Without a word on the command line it runs everything that ends well and prints `ok <name>` for each part, then `PASS`. With a
//! word it dies in the way named, and the test looks at the panic report. Test code, so `unsafe` is used where a test must do what the layer
//! keeps the kernel from doing.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod misuse;
#[cfg(target_os = "none")]
mod pages;
#[cfg(target_os = "none")]
mod programs;
#[cfg(target_os = "none")]
mod run;
#[cfg(target_os = "none")]
qk_hal::entry!(run::kernel_main);

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the self-test is a kernel: cargo test -p qk-hal --test machine builds and boots it");
}
