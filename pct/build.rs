//! Makes the vDSO (C, see lib/vdso) for the PCT to carry, and says where the PCT itself is linked.

use std::env;
use std::path::Path;
use std::process::Command;

/// Where static programs are usually linked; the QK loads the PCT as it does any other.
const IMAGE_BASE: &str = "0x400000";

fn main() {
    build_vdso();
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        for arg in [
            "--no-pie",
            &format!("--image-base={IMAGE_BASE}"),
            "-z",
            "max-page-size=4096",
            "-z",
            "noexecstack",
        ] {
            println!("cargo::rustc-link-arg-bins={arg}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}

fn build_vdso() {
    // cargo runs this in the folder of the package.
    let source = Path::new("../lib/vdso");
    for file in ["vdso.c", "vdso.lds", "clock_page.h"] {
        println!("cargo::rerun-if-changed={}", source.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=MARGAY_CC");
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("vdso.so");
    let compiler = env::var("MARGAY_CC").unwrap_or_else(|_| "gcc".into());
    let status = Command::new(&compiler)
        .args([
            "-shared",
            "-nostdlib",
            "-fPIC",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        // Nothing that would call out of the image, and no landing pads: CET is off.
        .args([
            "-ffreestanding",
            "-fno-stack-protector",
            "-fcf-protection=none",
        ])
        .args([
            "-Wl,--hash-style=both",
            "-Wl,-soname,linux-vdso.so.1",
            "-Wl,-Bsymbolic",
        ])
        .args([
            "-Wl,--no-undefined",
            "-Wl,--build-id=sha1",
            "-Wl,--eh-frame-hdr",
            "-Wl,-s",
        ])
        .args(["-Wl,-z,max-page-size=4096", "-Wl,-z,noexecstack"])
        .arg(format!("-Wl,-T,{}", source.join("vdso.lds").display()))
        .arg(source.join("vdso.c"))
        .arg("-o")
        .arg(&out)
        .status()
        .unwrap_or_else(|error| panic!("cannot run {compiler} to build the vDSO: {error}"));
    assert!(status.success(), "{compiler} could not build the vDSO");
}
