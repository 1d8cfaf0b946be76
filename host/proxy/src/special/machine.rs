//! Texts of /proc about the node as a machine.

mod flags;

use std::fmt::Write as _;

use abi::ident;
use flags::FLAGS;

/// /proc/cpuinfo: the host's first processor as often as the node has cores, with those of its flags that the node's
/// processors have as well, as `features` says. A node that has not said it yet shows none.
pub fn cpuinfo(linux: &str, cores: usize, features: &[u64; 5]) -> String {
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
                "flags" if features.iter().all(|word| *word == 0) => Ok(()),
                "flags" => writeln!(text, "{key}:{}", common(value, features)),
                "processor" | "core id" | "apicid" | "initial apicid" => {
                    writeln!(text, "{key}: {core}")
                }
                "siblings" | "cpu cores" => writeln!(text, "{key}: {cores}"),
                "physical id" => writeln!(text, "{key}: 0"),
                _ => writeln!(text, "{line}"),
            };
        }
        text.push('\n');
    }
    text
}

/// Those of the host's flags that the node's processors have, each after a space.
fn common(linux: &str, features: &[u64; 5]) -> String {
    let has = |flag: &&str| {
        let known = FLAGS.iter().find(|(name, ..)| name == flag);
        known.is_some_and(|(_, word, bit)| features[*word] >> bit & 1 != 0)
    };
    let common = linux.split_ascii_whitespace().filter(has);
    common.map(|flag| format!(" {flag}")).collect()
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
        let block = |core, flags: &str| {
            format!("processor\t: {core}\nmodel name\t: X\nsiblings\t: 2\n{flags}\n")
        };
        let features = [1 | 1 << 26 | 1 << 23, 0, 0, 1 << 29, 0];
        let flags = "flags\t\t: fpu sse2 lm\n";
        assert_eq!(
            cpuinfo(linux, 2, &features),
            block(0, flags) + &block(1, flags)
        );
        assert_eq!(cpuinfo(linux, 2, &[0; 5]), block(0, "") + &block(1, ""));
    }

    #[test]
    fn each_flag_has_a_place_of_its_own() {
        let mut places: Vec<_> = FLAGS.iter().map(|(_, word, bit)| (word, bit)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), FLAGS.len());
        assert!(FLAGS.iter().all(|(_, word, bit)| *word < 5 && *bit < 64));
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
