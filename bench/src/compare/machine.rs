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

    /// The same machine with more memory, in the part that yod calls ram.
    ///
    /// # Errors
    /// When its memory is not stated as yod states it.
    pub fn with_more(mut self, bytes: u64) -> Result<Machine> {
        for before in ["-m ", "id=ram,size="] {
            let grown = self
                .options
                .iter_mut()
                .find_map(|option| Some((grown(option, before, bytes)?, option)));
            let (grown, option) = grown.context("yod --dry-run does not state the memory")?;
            *option = grown;
        }
        Ok(self)
    }

    /// The words of the command line.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.options.iter().flat_map(|option| option.splitn(2, ' '))
    }

    /// The options that say what the machine is, for people.
    pub fn describe(&self) -> String {
        let options = [
            "-accel ", "-cpu ", "-icount ", "-smp ", "-m ", "-M ", "-bios ",
        ];
        let shown: Vec<&str> = self
            .options
            .iter()
            .filter(|option| options.iter().any(|kept| option.starts_with(kept)))
            .map(String::as_str)
            .collect();
        shown.join(" ")
    }
}

/// An option with a larger number of bytes (`NB`) where one stands after `before`.
fn grown(option: &str, before: &str, by: u64) -> Option<String> {
    let (head, tail) = option.split_once(before)?;
    let (number, tail) = tail.split_once('B')?;
    let number: u64 = number.parse().ok()?;
    Some(format!("{head}{before}{}B{tail}", number + by))
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

    /// The machine's memory and that of its first part, not that of the pool, have to grow alike.
    #[test]
    fn more_memory_is_the_machines_and_its_first_parts() {
        let pool = "-object memory-backend-file,id=pool,size=4096B,share=on";
        let plan = format!("{PLAN} \\\n    {pool}\n");
        let machine = Machine::parse(&plan).and_then(|machine| machine.with_more(0x20_0000));
        let words = machine.expect("more").words().collect::<Vec<_>>().join(" ");
        assert!(words.contains("-m 1088421888B"), "{words}");
        assert!(
            words.contains("id=ram,size=1088421888B,share=on"),
            "{words}"
        );
        assert!(words.contains("id=pool,size=4096B"), "{words}");
        let other = "QEMU /q \\\n -cpu a \\\n -smp 1 \\\n -m 1G \\\n -M q35\n";
        let other = Machine::parse(other).expect("a machine");
        assert!(other.with_more(1).is_err());
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        assert!(Machine::parse("yod: -n 2: only 1 cores").is_err());
        assert!(Machine::parse("QEMU /q \\\n -no-reboot").is_err());
    }
}
