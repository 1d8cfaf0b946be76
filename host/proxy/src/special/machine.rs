//! Texts of /proc about the node as a machine.

mod flags;
mod processor;

use std::fmt::Write as _;

use abi::ident;

pub use processor::Processor;

/// /proc/cpuinfo: as often as the node has cores the host's first processor, under the names that the node's have, and with those of
/// its flags that they have as well. A node that has not said it yet shows none.
pub fn cpuinfo(linux: &str, cores: usize, processor: &Processor) -> String {
    /// About mistakes of the host's processors, and what only its kernel uses.
    const LEFT_OUT: &[&str] = &["vmx flags", "bugs"];
    let first = linux.split("\n\n").next().unwrap_or_default();
    let mut text = String::new();
    for core in 0..cores {
        for line in first.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let _ = match key.trim_end() {
                name if LEFT_OUT.contains(&name) => Ok(()),
                "flags" if !processor.is_known() => Ok(()),
                "flags" => writeln!(text, "{key}:{}", processor.common(value)),
                "processor" | "core id" | "apicid" | "initial apicid" => {
                    writeln!(text, "{key}: {core}")
                }
                "siblings" | "cpu cores" => writeln!(text, "{key}: {cores}"),
                "physical id" => writeln!(text, "{key}: 0"),
                name => match processor.value(name) {
                    Some(own) => writeln!(text, "{key}: {own}"),
                    None => writeln!(text, "{line}"),
                },
            };
        }
        text.push('\n');
    }
    text
}

/// /proc/stat: nothing of this is counted on the node. When it was booted is the host's to say, as all its clocks are.
pub fn stat(linux: &str, cores: usize) -> String {
    const TIMES: &str = " 0 0 0 0 0 0 0 0 0 0";
    let mut text = format!("cpu {TIMES}\n");
    for core in 0..cores {
        let _ = writeln!(text, "cpu{core}{TIMES}");
    }
    text += "intr 0\nctxt 0\n";
    let boot = linux.lines().find(|line| line.starts_with("btime "));
    let _ = writeln!(text, "{}", boot.unwrap_or("btime 0"));
    text + "processes 0\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n"
}

/// /proc/loadavg, as sysinfo(2) has it: no load is kept. The process runs, and is the last that was started.
pub fn loadavg(pid: u32) -> String {
    format!("0.00 0.00 0.00 1/1 {pid}\n")
}

/// /proc/version: what uname says, in Linux's order.
pub fn version() -> String {
    let (system, release, version) = (ident::SYSNAME, ident::RELEASE, ident::VERSION);
    format!("{system} version {release} (Margay) {version}\n")
}

/// /proc/sys/kernel/yama/ptrace_scope (Documentation/admin-guide/LSM/Yama.rst): process_vm_readv between ranks is the QK's,
/// which requires nothing more than the same user. MPI libraries read this file to find out.
pub fn ptrace_scope() -> String {
    "0\n".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_has_a_block_per_core_and_the_flags_of_both() {
        let linux = "processor\t: 0\nmodel name\t: X\nsiblings\t: 64\nflags\t\t: fpu sse2 avx512f lm odd\nbugs\t\t: a\n\n\
            processor\t: 1\n";
        let block = |core, name: &str, flags: &str| {
            format!("processor\t: {core}\nmodel name\t: {name}\nsiblings\t: 2\n{flags}\n")
        };
        let node = Processor {
            features: [1 | 1 << 26 | 1 << 23, 0, 0, 1 << 29, 0],
            identity: [0, 0, u64::from(b'Y'), 0, 0, 0, 0, 0],
        };
        let text = |core| block(core, "Y", "flags\t\t: fpu sse2 lm\n");
        assert_eq!(cpuinfo(linux, 2, &node), text(0) + &text(1));
        let silent = Processor {
            features: [0; 5],
            identity: [0; 8],
        };
        assert_eq!(
            cpuinfo(linux, 1, &silent),
            block(0, "X", "").replace(": 2", ": 1")
        );
    }

    #[test]
    fn stat_has_a_line_per_core() {
        let text = stat("cpu 1 2\nbtime 77\nprocesses 5\n", 2);
        assert!(
            text.starts_with("cpu  0 ") && text.contains("\ncpu1 0 ") && !text.contains("cpu2")
        );
        assert!(text.contains("\nbtime 77\n"));
    }
}
