//! Links the self-test kernel (examples/selftest) as the kernel is linked. On the host it is an ordinary program that explains itself.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=link/kernel.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        // From the root of the workspace, where cargo runs the compiler: a copy of the checkout uses its own.
        println!("cargo::rustc-link-arg-examples=-Tqk/hal/link/kernel.ld");
    }
}
