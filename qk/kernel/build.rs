//! Passes the kernel's linker script, and only to the kernel: the PCT is built for the same target with another layout.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../hal/link/kernel.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rustc-link-arg-bins=--no-dynamic-linker");
    println!("cargo::rustc-link-arg-bins=-z");
    println!("cargo::rustc-link-arg-bins=max-page-size=4096");
}
