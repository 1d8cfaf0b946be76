//! Passes the kernel's linker script, and only to the kernel: the PCT is built for the same target with another layout.

fn main() {
    println!("cargo::rerun-if-changed=../hal/link/kernel.ld");
    println!("cargo::rerun-if-changed=build.rs");
    // From the root of the workspace, where cargo runs the compiler: a copy of the checkout uses its own.
    println!("cargo::rustc-link-arg-bins=-Tqk/hal/link/kernel.ld");
    println!("cargo::rustc-link-arg-bins=--no-dynamic-linker");
    println!("cargo::rustc-link-arg-bins=-z");
    println!("cargo::rustc-link-arg-bins=max-page-size=4096");
}
