//! The machine that another system gets: the one that yod would start for the same run.
//!
//! It is read from `yod --dry-run`, so that CPU model, CPUs, memory, firmware, chipset and accelerator are Margay's and stay
//! so. What only Margay can use is left out: the doorbell device, the channel to it, kernel and initial RAM disk.

use anyhow::{Context, Result, ensure};

/// Options that are Margay's own.
const OWN: [&str; 5] = [
    "-kernel",
    "-initrd",
    "-append",
    "-device ivshmem",
    "-chardev socket",
];

/// QEMU and its options.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// The program.
    pub qemu: String,
    /// An option per entry, with its value behind a blank.
    options: Vec<String>,
}

impl Machine {
    /// Reads what `yod --dry-run` printed.
    ///
    /// # Errors
    /// When there is no command line of QEMU in it.
    pub fn parse(plan: &str) -> Result<Machine> {
        let mut lines = plan
            .lines()
            .skip_while(|line| !line.starts_with("QEMU "))
            .map(|line| line.trim_end_matches('\\').trim());
        let qemu = lines
            .next()
            .and_then(|line| line.strip_prefix("QEMU "))
            .context("yod --dry-run names no QEMU")?;
        let options: Vec<String> = lines
            .filter(|line| !OWN.iter().any(|own| line.starts_with(own)))
            .map(memory_of_its_own)
            .collect();
        let complete = ["-cpu ", "-smp ", "-m ", "-M "]
            .iter()
            .all(|needed| options.iter().any(|option| option.starts_with(needed)));
        ensure!(complete, "yod --dry-run describes no machine");
        Ok(Machine {
            qemu: qemu.trim().to_owned(),
            options,
        })
    }

    /// The words of the command line.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.options.iter().flat_map(|option| option.splitn(2, ' '))
    }

    /// The options that say what the machine is, for people.
    pub fn describe(&self) -> String {
        let told = [
            "-accel ", "-cpu ", "-icount ", "-smp ", "-m ", "-M ", "-bios ",
        ];
        let shown: Vec<&str> = self
            .options
            .iter()
            .filter(|option| told.iter().any(|told| option.starts_with(told)))
            .map(String::as_str)
            .collect();
        shown.join(" ")
    }
}

/// yod hands over memory that it shares with the proxies; another system gets the same kind from QEMU.
fn memory_of_its_own(option: &str) -> String {
    let Some(object) = option.strip_prefix("-object memory-backend-file,") else {
        return option.to_owned();
    };
    let kept = object
        .split(',')
        .filter(|part| !part.starts_with("mem-path="));
    format!(
        "-object memory-backend-memfd,{}",
        kept.collect::<Vec<_>>().join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "program      ./a\nQEMU         /usr/bin/qemu-system-x86_64 \\\n    -no-reboot \\\n    \
        -accel tcg \\\n    -cpu max,-erms,-fsrm \\\n    -smp 2 \\\n    -m 1086324736B \\\n    \
        -object memory-backend-file,id=ram,size=1086324736B,share=on,mem-path=/proc/self/fd/RAM \\\n    \
        -M q35,memory-backend=ram \\\n    -chardev socket,id=iv,fd=IVSHMEM \\\n    \
        -device ivshmem-doorbell,vectors=2,chardev=iv \\\n    -chardev stdio,id=con,signal=off \\\n    \
        -serial chardev:con \\\n    -kernel '/a b/margay.elf' \\\n    -initrd /pct \\\n    -append margay.comm=0x100000\n";

    #[test]
    fn all_but_margays_own_is_kept() {
        let machine = Machine::parse(PLAN).expect("a machine");
        assert_eq!(machine.qemu, "/usr/bin/qemu-system-x86_64");
        let words: Vec<_> = machine.words().collect();
        assert_eq!(
            words.join(" "),
            "-no-reboot -accel tcg -cpu max,-erms,-fsrm -smp 2 -m 1086324736B \
             -object memory-backend-memfd,id=ram,size=1086324736B,share=on -M q35,memory-backend=ram \
             -chardev stdio,id=con,signal=off -serial chardev:con"
        );
        assert_eq!(
            machine.describe(),
            "-accel tcg -cpu max,-erms,-fsrm -smp 2 -m 1086324736B -M q35,memory-backend=ram"
        );
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        assert!(Machine::parse("yod: -n 2: only 1 cores").is_err());
        assert!(Machine::parse("QEMU /q \\\n -no-reboot").is_err());
    }
}
