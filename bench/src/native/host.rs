//! What the machine is, as far as figures depend on it, and nothing that names it.

use std::fs;

/// Parameters on Linux's command line that change what is measured. Others may have names of disks, hosts and people.
const PARAMETERS: &[&str] = &[
    "amd_pstate",
    "clocksource",
    "cpufreq",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "intel_idle.max_cstate",
    "intel_pstate",
    "irqaffinity",
    "isolcpus",
    "kernelcore",
    "lockdown",
    "maxcpus",
    "mce",
    "mitigations",
    "movablecore",
    "nmi_watchdog",
    "no_ipi_broadcast",
    "nohz",
    "nohz_full",
    "nokaslr",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "nox2apic",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "pti",
    "rcu_nocb_poll",
    "rcu_nocbs",
    "skew_tick",
    "spec_store_bypass_disable",
    "spectre_v2",
    "transparent_hugepage",
    "tsc",
];
/// Of /proc/cpuinfo.
const OF_CPU: [&str; 6] = [
    "model name",
    "cpu family",
    "model",
    "stepping",
    "microcode",
    "cache size",
];
/// Flags of /proc/cpuinfo that the kernel goes by.
const FLAGS: [&str; 14] = [
    "hypervisor",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_deadline_timer",
    "x2apic",
    "la57",
    "pcid",
    "invpcid",
    "fsgsbase",
    "smep",
    "smap",
    "hwp",
    "avx512f",
    "ibrs",
];
/// Files, each with what it is called.
const FILES: [(&str, &str); 8] = [
    ("Linux", "/proc/sys/kernel/osrelease"),
    ("CPUs that are online", "/sys/devices/system/cpu/online"),
    ("CPUs that are isolated", "/sys/devices/system/cpu/isolated"),
    ("CPUs without a tick", "/sys/devices/system/cpu/nohz_full"),
    (
        "several threads of a core",
        "/sys/devices/system/cpu/smt/active",
    ),
    ("NUMA nodes", "/sys/devices/system/node/online"),
    ("large pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    (
        "clock",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
];

/// Names and values.
pub fn facts(cpu: u64) -> Vec<(String, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut facts = of_cpuinfo(&read("/proc/cpuinfo"));
    let meminfo = read("/proc/meminfo");
    facts.push(("memory".into(), field(&meminfo, "MemTotal")));
    let line = known_parameters(&read("/proc/cmdline"));
    facts.push(("Linux's command line".into(), line));
    let of_cpu = |name: &str| format!("/sys/devices/system/cpu/cpu{cpu}/{name}");
    let of_node = [
        ("threads of its core", "topology/thread_siblings_list"),
        ("its governor", "cpufreq/scaling_governor"),
        ("its driver of frequencies", "cpufreq/scaling_driver"),
    ];
    facts.push(("CPU of the node".into(), cpu.to_string()));
    let of_node = of_node.map(|(name, file)| (name.to_owned(), of_cpu(file)));
    let others = FILES.map(|(name, file)| (name.to_owned(), file.to_owned()));
    for (name, path) in of_node.into_iter().chain(others) {
        let text = read(&path);
        let text = match text.trim() {
            "" | "(null)" => "none",
            text => text,
        };
        facts.push((name, text.to_owned()));
    }
    facts.extend(mitigations());
    facts
}

fn of_cpuinfo(cpuinfo: &str) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = OF_CPU
        .iter()
        .map(|name| ((*name).to_owned(), field(cpuinfo, name)))
        .collect();
    let flags = field(cpuinfo, "flags");
    let has = |flag: &&&str| flags.split(' ').any(|word| word == **flag);
    let flags: Vec<&str> = FLAGS.iter().filter(has).copied().collect();
    facts.push(("flags".into(), flags.join(" ")));
    facts
}

/// The first of a name in /proc/cpuinfo and the like.
fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_else(|| "unknown".into())
}

/// Those of a command line that are known to matter, and how many are left out.
fn known_parameters(line: &str) -> String {
    let all = line.split_whitespace();
    let (known, others): (Vec<&str>, Vec<&str>) = all.partition(|word| {
        let name = word.split('=').next().unwrap_or_default();
        PARAMETERS.contains(&name)
    });
    let shown = if known.is_empty() {
        "none of those that matter".to_owned()
    } else {
        known.join(" ")
    };
    format!("{shown} ({} left out)", others.len())
}

/// What Linux does against flaws of the processor, which entering it costs.
fn mitigations() -> Vec<(String, String)> {
    let entries = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let mut found: Vec<(String, String)> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            (text.trim() != "Not affected").then(|| (name, text.trim().to_owned()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_command_line_stay_here() {
        let line =
            "BOOT_IMAGE=/boot/vmlinuz root=/dev/mapper/alice isolcpus=3 ip=10.0.0.1 nohz_full=3\n";
        assert_eq!(
            known_parameters(line),
            "isolcpus=3 nohz_full=3 (3 left out)"
        );
        assert_eq!(
            known_parameters("quiet"),
            "none of those that matter (1 left out)"
        );
    }

    #[test]
    fn a_cpu_is_described_by_its_first_entry() {
        let text = "model name\t: A\nflags\t\t: fpu la57 hwp\n\nmodel name\t: B\n";
        let facts = of_cpuinfo(text);
        assert!(facts.contains(&("model name".into(), "A".into())));
        assert!(facts.contains(&("flags".into(), "la57 hwp".into())));
        assert!(facts.contains(&("stepping".into(), "unknown".into())));
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = facts(0);
        let linux = facts.iter().find(|(name, _)| name == "Linux");
        assert!(linux.is_some_and(|(_, release)| release != "none"));
    }
}
