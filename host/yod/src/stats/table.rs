//! The table of `--stats`, for people.

use std::fmt::Write;

use machine::plan::Bytes;

use super::{Core, Stats, Ticks};

const IRQS_OFF: &str = "longest interrupts-off";
/// A thread of the emulator that translates code, or that Linux puts off, counts as much as the kernel's own work.
const EMULATED: &str = "  (of the emulator and its host)";

impl Core {
    /// Of CPUs that Linux gave up.
    fn speed(&self) -> String {
        let level = match self.performance {
            0 => "as Linux left it".into(),
            level => format!("level {level} of 255 asked for at least (HWP)"),
        };
        match self.lifted {
            0 => level,
            lifted => format!("{level}, SPEC_CTRL 0 instead of {lifted:#x}"),
        }
    }
}

impl Stats {
    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let out = &mut text;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "yod: what the kernel counted (TSC at {:.3} GHz)",
            self.tsc_hz as f64 / 1e9
        );
        let _ = self.rows(out);
        let _ = self.call_rows(out);
        let _ = self.rank_rows(out);
        text
    }

    fn rows(&self, out: &mut String) -> std::fmt::Result {
        let count = |get: fn(&Core) -> u64| move |core: &Core| get(core).to_string();
        type Show<'a> = Box<dyn Fn(&Core) -> String + 'a>;
        let rows: [(&str, Show<'_>); 14] = [
            ("entries from ring 3", Box::new(count(|c| c.entries))),
            ("  of these the PCT's", Box::new(count(|c| c.pct_entries))),
            ("local calls", Box::new(count(|c| c.local_calls))),
            ("shipped calls", Box::new(count(|c| c.shipped_calls))),
            ("page faults", Box::new(count(|c| c.page_faults))),
            ("other exceptions", Box::new(count(|c| c.exceptions))),
            ("timer interrupts", Box::new(count(|c| c.timer_interrupts))),
            ("IPIs", Box::new(count(|c| c.ipis))),
            ("doorbells", Box::new(count(|c| c.doorbells))),
            ("other interrupts", Box::new(count(|c| c.other_interrupts))),
            ("polls before halting", Box::new(count(|c| c.halt_polls))),
            (IRQS_OFF, Box::new(|c| c.irqs_off_max.to_string())),
            ("time in kernel", Box::new(|c| c.kernel.to_string())),
            (
                "waiting for the host",
                Box::new(|c| c.ship_wait.to_string()),
            ),
        ];
        // A column per core while they fit on a screen.
        let cores: &[Core] = if (2..=4).contains(&self.cores.len()) {
            &self.cores
        } else {
            &[]
        };
        write!(out, "{:<24}{:>24}", "", "all cores")?;
        for core in cores {
            write!(
                out,
                "{:>24}",
                format!("core {}", core.core.unwrap_or_default())
            )?;
        }
        writeln!(out)?;
        for (name, show) in &rows {
            write!(out, "{name:<24}{:>24}", show(&self.total))?;
            for core in cores {
                write!(out, "{:>24}", show(core))?;
            }
            let emulated = self.emulated && *name == IRQS_OFF;
            writeln!(out, "{}", if emulated { EMULATED } else { "" })?;
        }
        Ok(())
    }

    fn call_rows(&self, out: &mut String) -> std::fmt::Result {
        for call in &self.calls {
            writeln!(
                out,
                "  {:<22}{:>24}  {}",
                call.name, call.count, call.served
            )?;
        }
        Ok(())
    }

    fn rank_rows(&self, out: &mut String) -> std::fmt::Result {
        for rank in &self.ranks {
            let cores = match rank.cores {
                0 | 1 => format!("core {}", rank.first_core),
                n => format!("cores {}-{}", rank.first_core, rank.first_core + n - 1),
            };
            writeln!(
                out,
                "rank {}: {cores}, {} of memory, {} of it used at most",
                rank.rank,
                Bytes(rank.partition_bytes),
                Bytes(rank.peak_bytes)
            )?;
            rank.children.rows(out)?;
        }
        let (ram, kernel) = (Bytes(self.node.ram_bytes), Bytes(self.node.kernel_bytes));
        writeln!(out, "node: {ram} of RAM, {kernel} of it for the kernel")?;
        self.host_rows(out)?;
        let wall = self.wall_ns as f64 / 1e9;
        writeln!(
            out,
            "wall time: {wall:.3} s, with starting and ending the node"
        )
    }

    /// What is the host's.
    fn host_rows(&self, out: &mut String) -> std::fmt::Result {
        if self.native {
            writeln!(out, "speed: {}", self.total.speed())?;
            return match self.total.other_interrupts {
                0 => Ok(()),
                count if linux_broadcasts() => writeln!(
                    out,
                    "interrupts from Linux: {count}; boot Linux with no_ipi_broadcast=1"
                ),
                // Such that it had left to the CPU when it gave it up.
                count => writeln!(out, "interrupts from Linux: {count}"),
            };
        }
        let (resident, large) = (self.node.resident_bytes, self.node.large_bytes);
        let populated = Bytes(self.node.populated_bytes);
        writeln!(
            out,
            "host: {} of memory behind it, {} of that in pages of 2 MiB, {populated} had before it was touched",
            Bytes(resident),
            Bytes(large)
        )
    }
}

impl std::fmt::Display for Ticks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ns = self.ns as f64;
        let time = match self.ns {
            0..10_000 => format!("{} ns", self.ns),
            10_000..10_000_000 => format!("{:.1} us", ns / 1e3),
            10_000_000..10_000_000_000 => format!("{:.1} ms", ns / 1e6),
            _ => format!("{:.1} s", ns / 1e9),
        };
        write!(f, "{} = {time}", self.ticks)
    }
}

/// Whether this host's Linux may interrupt all CPUs of the machine at once.
fn linux_broadcasts() -> bool {
    broadcasts(&std::fs::read_to_string("/proc/cmdline").unwrap_or_default())
}

/// By its command line.
fn broadcasts(line: &str) -> bool {
    !line
        .split_whitespace()
        .any(|word| word == "no_ipi_broadcast=1")
}

#[cfg(test)]
mod tests {
    use super::broadcasts;

    /// Once a Linux that was booted so was to be booted so: a CPU comes with what Linux had left to it, mostly one interrupt.
    #[test]
    fn a_linux_that_does_not_broadcast_is_not_to_be_booted_again() {
        assert!(broadcasts("quiet no_ipi_broadcast=0"));
        assert!(!broadcasts("quiet no_ipi_broadcast=1\n"));
    }
}
