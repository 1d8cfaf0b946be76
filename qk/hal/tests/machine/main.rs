//! Boots the self-test kernel (examples/selftest) under QEMU: as it runs well, and as it dies.
//!
//! Needs qemu-system-x86_64 and the target x86_64-unknown-none.

#[path = "../firmware/build.rs"]
#[allow(dead_code)] // The other test uses all of it.
mod build;
mod given;
mod injected;
mod kernel;
mod node;

use kernel::{kernel, tmp};
use node::{DIED, ENDED_WELL, Machine};

#[test]
fn passes_with_one_four_and_sixteen_cpus() {
    for cpus in ["1", "4", "16"] {
        let text = Machine {
            cpus,
            ..Machine::default()
        }
        .must_pass();
        assert!(text.contains(&format!("PASS {cpus} cpus")), "{text}");
    }
}

#[test]
fn passes_under_seabios_and_with_memory_above_4_gib() {
    Machine {
        qboot: false,
        ..Machine::default()
    }
    .must_pass();
    Machine {
        memory: "6G",
        ..Machine::default()
    }
    .must_pass();
}

/// The older machine of QEMU: no configuration space in memory; and the one without a PC's devices, where COM1 has to be named.
#[test]
fn passes_on_other_machines() {
    for qboot in [true, false] {
        let text = Machine {
            machine: "pc,vmport=off,hpet=off,i8042=off",
            qboot,
            ..Machine::default()
        }
        .must_pass();
        assert!(text.contains("PASS 4 cpus"), "{text}");
    }
    let machine = Machine {
        machine: "microvm,pit=off,pic=off,rtc=off",
        ..Machine::default()
    };
    let (status, text) = machine.boot("margay.log=com1");
    assert!(
        status == ENDED_WELL && text.contains("PASS 4 cpus"),
        "status {status}\n{text}"
    );
}

/// SeaBIOS puts so large a BAR of 64 bits above 4 GiB.
#[test]
fn maps_devices_above_4_gib() {
    let machine = Machine {
        qboot: false,
        more: &["-device", "pci-testdev,membar=8G,addr=7"],
        ..Machine::default()
    };
    let (status, text) = machine.boot("show");
    let at = text
        .split("testdev p:0x")
        .nth(1)
        .and_then(|rest| u64::from_str_radix(rest.split_whitespace().next()?, 16).ok());
    assert!(
        status == ENDED_WELL && at.is_some_and(|at| at >> 32 != 0),
        "{text}"
    );
}

#[test]
fn passes_on_lesser_cpus() {
    // No SMAP: stac and clac are patched out. No giant pages. No AVX. No memory keys.
    for cpu in [
        "max,smap=off,smep=off",
        "max,pdpe1gb=off",
        "max,avx=off,avx2=off",
        "max,pku=off",
    ] {
        Machine {
            cpu,
            cpus: "2",
            ..Machine::default()
        }
        .must_pass();
    }
}

#[test]
fn says_what_a_cpu_lacks() {
    let machine = Machine {
        cpu: "max,fsgsbase=off",
        cpus: "1",
        ..Machine::default()
    };
    let (status, text) = machine.boot("");
    assert!(
        status == DIED && text.contains("this CPU lacks FSGSBASE"),
        "{text}"
    );
}

/// A loader may put the image elsewhere: here 48 MiB higher, by changing the addresses in the ELF headers and the PVH note.
#[test]
fn runs_where_it_is_loaded() {
    const SHIFT: u64 = 48 << 20;
    let mut elf = std::fs::read(kernel()).expect("the kernel was built");
    let number =
        |elf: &[u8], at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().expect("8 bytes"));
    let mut shift = |at: usize| {
        let moved = number(&elf, at) + SHIFT;
        elf[at..at + 8].copy_from_slice(&moved.to_le_bytes());
    };
    // ELF64: e_phoff at 32; four program headers of 56 bytes, p_paddr at 24.
    (0..4).for_each(|header| shift(64 + header * 56 + 24));
    let note = elf
        .windows(8)
        .position(|bytes| bytes == b"\x12\0\0\0Xen\0")
        .expect("the PVH note")
        + 8;
    let entry = number(&elf, note) + SHIFT;
    elf[note..note + 8].copy_from_slice(&entry.to_le_bytes());
    let moved = tmp("moved");
    std::fs::write(&moved, elf).expect("the target folder is writable");
    Machine {
        kernel: &moved,
        memory: "128",
        ..Machine::default()
    }
    .must_pass();
}

/// From reset to the kernel's main function: firmware and boot, in instructions.
#[test]
fn boots_within_a_million_instructions() {
    let text = Machine {
        cpus: "1",
        more: &["-icount", "shift=0,sleep=off"],
        ..Machine::default()
    }
    .must_pass();
    let tsc = text
        .split("boot ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse::<u64>().ok());
    assert!(tsc.is_some_and(|tsc| tsc < 1_000_000), "{text}");
}

#[test]
fn dies_with_a_report() {
    let machine = Machine::default();
    machine.must_die("panic", &["PANIC cpu 0: as told"]);
    machine.must_die("overflow", &["kernel stack overflow", "rsp ffffff00"]);
    machine.must_die("null", &["page fault in the kernel", "address 0x8"]);
    machine.must_die("pool", &["is not pool memory"]);
}

#[test]
fn protects_the_kernel_from_itself() {
    let machine = Machine::default();
    machine.must_die("text", &["page fault in the kernel, error 0x3"]);
    machine.must_die("alias", &["page fault in the kernel, error 0x3"]);
    machine.must_die("execute", &["page fault in the kernel, error 0x11"]);
}

/// Once the kernel ran as well with SMAP and SMEP switched off: nothing tried what they forbid.
#[test]
fn keeps_the_kernel_out_of_a_programs_memory() {
    let machine = Machine::default();
    let fault = |error| [error, "address 0x"];
    machine.must_die("smap", &fault("page fault in the kernel, error 0x1,"));
    machine.must_die("smep", &fault("page fault in the kernel, error 0x11,"));
}

#[test]
fn a_panic_stops_the_other_cpus() {
    // Of so many some are still starting, and an NMI would reset them and the node.
    let machine = Machine {
        cpus: "16",
        ..Machine::default()
    };
    machine.must_die("ap", &["PANIC cpu 1: as told"]);
}

/// What a kernel without `unsafe` can try with the safe functions of the hardware layer to reach a Rust object (README.md). Once
/// any frame could be entered in any page table, by the accessors of pool memory, too.
#[test]
fn ends_what_could_break_a_rust_object() {
    const ENTRY: &str = "a page table of level";
    const IN_USE: &str = "is in use already";
    const NOT_POOL: &str = "is not pool memory";
    let machine = Machine {
        cpus: "2",
        ..Machine::default()
    };
    for (how, why) in [
        ("show-heap", ENTRY),
        ("show-heap-later", ENTRY),
        ("show-heap-instead", ENTRY),
        ("show-heap-to-host", "is not pool memory"),
        ("show-table", ENTRY),
        ("link-page", ENTRY),
        ("link-unused", ENTRY),
        ("link-level", ENTRY),
        ("page-as-table", ENTRY),
        ("large-root", ENTRY),
        ("kernel-slot", ENTRY),
        ("kernel-group", ENTRY),
        ("kernel-take", ENTRY),
        ("kernel-note", ENTRY),
        ("kernel-window", "index out of bounds"),
        ("no-root", "is not a root table"),
        ("activate-page", "is not the root of an address space"),
        ("activate-table", "is not the root of an address space"),
        ("begin-page", "is not the root of an address space"),
        ("table-in-pool", "is not of the memory for page tables"),
        ("table-unused", "is no page table"),
        ("table-twice", "is a page table already"),
        ("table-level", "tables have no level 5"),
        ("table-words", NOT_POOL),
        ("table-records", NOT_POOL),
        ("table-bytes", NOT_POOL),
        ("heap-as-pool", IN_USE),
        ("tables-as-heap", IN_USE),
        ("tables-twice", IN_USE),
        ("late-heap", "before other CPUs are started"),
        ("late-pool", "before other CPUs are started"),
        ("exception", "an IPI is no exception"),
        ("unbegun", "a context that never began"),
        ("twice", "does not run here"),
    ] {
        machine.must_die(how, &[why]);
    }
}
