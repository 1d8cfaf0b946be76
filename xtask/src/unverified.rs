//! What no test of ours has met yet, because emulation has not got it: a row each in docs/unverified.md and in the report of a volunteer
//! whose CPU has KVM, with whether that machine has it, and with the steps of the check that then have run on it.

use std::fmt::Write as _;

/// Where a host says that it has something.
enum Here {
    /// Every host with KVM has it.
    Always,
    /// A word of the flags in /proc/cpuinfo.
    Flag(&'static str),
    /// A file of /sys that begins with one of `Y` and `1`.
    Parameter(&'static str),
}

/// Something that only real processors do.
struct Row {
    what: &'static str,
    here: Here,
    steps: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        what: "guests by VMX",
        here: Here::Flag("vmx"),
        steps: &["machine", "conformance"],
    },
    Row {
        what: "guests by SVM",
        here: Here::Flag("svm"),
        steps: &["machine", "conformance"],
    },
    Row {
        what: "nested tables by EPT",
        here: Here::Parameter("/sys/module/kvm_intel/parameters/ept"),
        steps: &["windows", "shared", "attack"],
    },
    Row {
        what: "nested tables by NPT",
        here: Here::Parameter("/sys/module/kvm_amd/parameters/npt"),
        steps: &["windows", "shared", "attack"],
    },
    Row {
        what: "timer of the local APIC by TSC deadline",
        here: Here::Flag("tsc_deadline_timer"),
        steps: &["machine", "conformance"],
    },
    Row {
        what: "interrupts that reach a guest without an exit (Intel)",
        here: Here::Parameter("/sys/module/kvm_intel/parameters/enable_apicv"),
        steps: &["sweeps", "launchers"],
    },
    Row {
        what: "interrupts that reach a guest without an exit (AMD)",
        here: Here::Parameter("/sys/module/kvm_amd/parameters/avic"),
        steps: &["sweeps", "launchers"],
    },
    Row {
        what: "a TSC that began elsewhere than the host's",
        here: Here::Always,
        steps: &["conformance", "unseen"],
    },
    Row {
        what: "XSAVE of AVX-512",
        here: Here::Flag("avx512f"),
        steps: &["conformance", "children"],
    },
    Row {
        what: "XSAVE in the compact form",
        here: Here::Flag("xsavec"),
        steps: &["conformance"],
    },
    Row {
        what: "CPUs that a panic stops by NMI",
        here: Here::Always,
        steps: &["machine", "kill"],
    },
    Row {
        what: "virtual CPUs that a signal takes out of KVM_RUN (EINTR)",
        here: Here::Always,
        steps: &["kill", "gdb", "launchers"],
    },
    Row {
        what: "memory order of several processors without an emulator's locks",
        here: Here::Always,
        steps: &["sweeps", "ranks", "hostile"],
    },
];

/// A table: what, whether this machine has it by its /proc/cpuinfo and /sys, and the steps that meet it.
pub fn table(cpuinfo: &str, read: impl Fn(&str) -> Option<String>) -> String {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let has =
        |flag: &str| flags.is_some_and(|line| line.split_whitespace().any(|word| word == flag));
    let mut text = String::from("| what | here | steps of the check |\n|---|---|---|\n");
    for Row { what, here, steps } in ROWS {
        let here = match here {
            Here::Always => true,
            Here::Flag(flag) => has(flag),
            Here::Parameter(path) => read(path).is_some_and(|text| text.starts_with(['Y', '1'])),
        };
        let here = if here { "yes" } else { "no" };
        let _ = writeln!(text, "| {what} | {here} | {} |", steps.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_what_its_files_name() {
        let read = |path: &str| path.ends_with("/ept").then(|| "Y\n".to_owned());
        let text = table("flags\t\t: fpu vmx\nflags\t\t: svm\n", read);
        for (what, here) in [
            ("guests by VMX", "yes"),
            ("guests by SVM", "no"),
            ("nested tables by EPT", "yes"),
            ("nested tables by NPT", "no"),
            ("a TSC that began elsewhere than the host's", "yes"),
        ] {
            assert!(text.contains(&format!("| {what} | {here} |")), "{text}");
        }
    }

    #[test]
    fn steps_are_steps_of_the_check() {
        for step in ROWS.iter().flat_map(|row| row.steps) {
            assert!(crate::check::has_step(step), "{step}");
        }
    }

    /// The book has the same rows, each with why it may go wrong.
    #[test]
    fn the_book_has_the_rows() {
        let path = crate::build::root().join("docs/unverified.md");
        let book = std::fs::read_to_string(path).expect("the chapter");
        let firsts = book
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let rows: Vec<&str> = firsts.skip(1).collect();
        let named: Vec<&str> = ROWS.iter().map(|row| row.what).collect();
        assert_eq!(rows, named);
    }
}
