//! `--doctor`: what this host offers, what is missing and what to do about it.

use std::path::Path;

use machine::accel;
use machine::plan::Bytes;
use machine::qemu::{OLDEST, Qemu};
use machine::resources::Resources;
use rustix::process::{Resource, getrlimit};

use crate::console;
use crate::failure::status;
use crate::parts::Parts;

/// What was found out about one thing.
enum Finding {
    /// As it should be.
    Good(String),
    /// Runs work, but could be better.
    Note(String),
    /// No run without it.
    Bad(String),
}

use Finding::{Bad, Good, Note};

/// Prints the report on stdout; returns yod's exit status.
pub fn report() -> u8 {
    let findings = [
        ("QEMU", qemu()),
        ("kernel", parts()),
        ("firmware", firmware()),
        ("accelerator", accelerator()),
    ]
    .into_iter()
    .chain([
        ("cores", cores()),
        ("memory", memory()),
        ("limits", limits()),
        ("file size", file_size()),
        ("clock", clock()),
    ]);
    let mut bad = 0;
    for (what, finding) in findings {
        let (mark, text) = match finding {
            Good(text) => ("ok  ", text),
            Note(text) => ("note", text),
            Bad(text) => {
                bad += 1;
                ("BAD ", text)
            }
        };
        console::out(format_args!("{mark}  {what:<14} {text}\n"));
    }
    console::out(match bad {
        0 => "this host can run Margay nodes\n".to_owned(),
        1 => "one thing is in the way: see BAD above\n".to_owned(),
        n => format!("{n} things are in the way: see BAD above\n"),
    });
    if bad == 0 { 0 } else { status::UNAVAILABLE }
}

fn qemu() -> Finding {
    let Ok(qemu) = Qemu::find() else {
        return Bad(machine::qemu::NotFound.to_string());
    };
    let path = qemu.path.display();
    match qemu.version() {
        Some(version) if version < OLDEST => Bad(too_old(&qemu, version)),
        Some(version) => Good(format!("{path}, version {version}")),
        None => Bad(format!("{path} does not tell its version: is it QEMU?")),
    }
}

/// The line for a QEMU that lacks what is needed.
pub fn too_old(qemu: &Qemu, version: machine::qemu::Version) -> String {
    format!(
        "{} is version {version}: QEMU {OLDEST} or newer is needed",
        qemu.path.display()
    )
}

fn parts() -> Finding {
    match Parts::find() {
        Ok(parts) => Good(format!(
            "{}, PCT {}",
            parts.kernel.display(),
            parts.pct.display()
        )),
        Err(failure) => Bad(failure.line),
    }
}

fn firmware() -> Finding {
    match Qemu::find().ok().and_then(|qemu| qemu.qboot) {
        Some(rom) => Good(format!("qboot ({})", rom.display())),
        None => Note("no qboot.rom: SeaBIOS is used, booting takes some 30 ms longer".into()),
    }
}

fn accelerator() -> Finding {
    match accel::kvm() {
        Ok(()) => Good("KVM".into()),
        Err(no) => Note(format!(
            "TCG, the CPU is emulated: compare counts and ratios, not seconds; no KVM: {no}"
        )),
    }
}

fn cores() -> Finding {
    let cores = Resources::of_host().cores;
    Good(format!(
        "{cores} by affinity mask and cgroup quota: up to {cores} ranks without --oversubscribe"
    ))
}

fn memory() -> Finding {
    let bytes = Resources::of_host().memory_bytes;
    let text = format!(
        "{} available by MemAvailable and cgroup limits",
        Bytes(bytes)
    );
    if bytes < 64 << 20 {
        Bad(format!("{text}: too little for a node"))
    } else {
        Good(text)
    }
}

fn limits() -> Finding {
    let cores = Resources::of_host().cores;
    match proxy::check_limits(cores) {
        Ok(()) => Good("address space and open files suffice".into()),
        Err(why) => Bad(why.to_string()),
    }
}

fn file_size() -> Finding {
    match getrlimit(Resource::Fsize).current {
        None => Good("not limited".into()),
        Some(limit) => Note(format!(
            "ulimit -f allows {}: a node's memory must be less",
            Bytes(limit)
        )),
    }
}

fn clock() -> Finding {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(Path::new(source))
        .unwrap_or_default()
        .trim()
    {
        "tsc" | "kvm-clock" => Good("the TSC is stable".into()),
        "" => Note("unknown whether the TSC is stable".into()),
        other => Note(format!(
            "the host's clock is {other}: if its TSC is not stable, times of ranks may be off"
        )),
    }
}
