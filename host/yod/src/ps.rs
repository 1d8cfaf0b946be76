//! `--ps`: the nodes of this user on this host, as text or as JSON, and which of their ranks compute.
//!
//! A node is a QEMU of the user's whose name holds its plan ([`Plan::name`]); its parent is the node's keeper, and the keeper's
//! parent the yod that started it, while that lives. All of that is in /proc for every user to read (proc(5)), so no node is disturbed and
//! none is needed to answer. What a rank computes is the processor time of the threads of QEMU that are its cores, the kernel's part included;
//! ranks that share cores have no time of their own.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use abi::cores::Cores;
use machine::plan::{Bytes, Plan};
use machine::stat;
use rustix::process::getuid;
use serde::Serialize;

use crate::cli::Format;

/// A process as /proc shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Process {
    pid: u32,
    parent: u32,
    uid: u32,
    /// Time since its start.
    age: Duration,
    /// Bytes of shared memory that it has touched: guest RAM, for QEMU.
    shared_bytes: u64,
    args: Vec<String>,
}

/// The report.
pub fn list(format: Format) -> String {
    let nodes = own_nodes();
    match format {
        Format::Text => render(&nodes, &|_, _, seconds| {
            age_text(Duration::from_secs_f64(seconds))
        }),
        Format::Json => serde_json::to_string(&nodes).unwrap_or_default() + "\n",
    }
}

/// The nodes of this user.
pub fn own_nodes() -> Vec<Node> {
    let uid = getuid().as_raw();
    let all: Vec<Process> = processes().filter(|process| process.uid == uid).collect();
    nodes(&all, &cpu_times)
}

/// What is shown of a node.
#[derive(Serialize)]
pub struct Node {
    /// Its yod's process, while that lives.
    yod: Option<u32>,
    /// QEMU's.
    pub machine: u32,
    age_s: u64,
    ranks: usize,
    cores: Option<usize>,
    partition_bytes: u64,
    touched_bytes: u64,
    /// Processor time of its cores.
    pub cpu_s: f64,
    /// Of each rank's, if ranks share none.
    pub rank_cpu_s: Option<Vec<f64>>,
    command: Vec<String>,
}

/// `times`: of a machine's cores.
fn nodes(all: &[Process], times: &dyn Fn(u32) -> CpuTimes) -> Vec<Node> {
    let with = |pid: u32| all.iter().find(|process| process.pid == pid);
    let node = |qemu: &Process| {
        let name = value(&qemu.args, "-name")?.split(',').next()?;
        let (ranks, partition_bytes) = Plan::from_name(name)?;
        // The keeper is a fork. Once its yod has ended before the others of the job, its parent is no yod.
        let yod = with(qemu.parent)
            .and_then(|keeper| with(keeper.parent).filter(|yod| yod.args == keeper.args));
        let cores = value(&qemu.args, "-smp").and_then(|cpus| cpus.parse::<usize>().ok());
        let times = times(qemu.pid);
        Some(Node {
            yod: yod.map(|yod| yod.pid),
            machine: qemu.pid,
            age_s: qemu.age.as_secs(),
            ranks,
            cores,
            partition_bytes,
            touched_bytes: qemu.shared_bytes,
            cpu_s: times.values().sum::<Duration>().as_secs_f64(),
            rank_cpu_s: cores.and_then(|cores| by_rank(ranks, cores, &times)),
            command: yod.map_or_else(Vec::new, |yod| yod.args.clone()),
        })
    };
    all.iter().filter_map(node).collect()
}

/// Sums of each rank's cores; `None`: they are not known, or ranks share them.
fn by_rank(ranks: usize, cores: usize, times: &CpuTimes) -> Option<Vec<f64>> {
    if cores < ranks || times.len() != cores {
        return None;
    }
    let of = |rank: usize| {
        let own = Cores::of(rank as u64, ranks as u64, cores as u64)?;
        let own = times.range(own.first..own.first + own.count);
        Some(own.map(|(_, time)| *time).sum::<Duration>().as_secs_f64())
    };
    (0..ranks).map(of).collect()
}

/// `cpu` shows the processor time of a node, or of one of its ranks, in seconds.
pub fn render(nodes: &[Node], cpu: &dyn Fn(u32, Option<usize>, f64) -> String) -> String {
    if nodes.is_empty() {
        return "no node of yours is running here\n".into();
    }
    let head = ["YOD", "AGE", "RANKS", "CORES", "MEMORY", "TOUCHED", "CPU"];
    let mut text = row(head, "COMMAND");
    for node in nodes {
        let ranks = node.ranks;
        let cores = match node.cores {
            Some(cores) if cores < ranks => format!("{cores} shared"),
            Some(cores) if ranks > 0 => format!("{ranks} x {}", cores / ranks),
            _ => "?".into(),
        };
        text += &row(
            [
                &node.yod.map_or_else(|| "-".into(), |pid| pid.to_string()),
                &age_text(Duration::from_secs(node.age_s)),
                &ranks.to_string(),
                &cores,
                &format!("{ranks} x {}", Bytes(node.partition_bytes)),
                &Bytes(node.touched_bytes).to_string(),
                &cpu(node.machine, None, node.cpu_s),
            ],
            &printable(&node.command.join(" ")),
        );
        let times = node.rank_cpu_s.iter().flatten().enumerate();
        for (rank, time) in times.filter(|_| ranks > 1) {
            let time = cpu(node.machine, Some(rank), *time);
            text += &row([&format!("rank {rank}"), "", "", "", "", "", &time], "");
        }
    }
    text
}

fn row(cells: [&str; 7], command: &str) -> String {
    let [pid, age, ranks, cores, memory, touched, cpu] = cells;
    let line = format!(
        "{pid:>8} {age:>9} {ranks:>6} {cores:>10} {memory:>12} {touched:>8} {cpu:>9}  {command}"
    );
    line.trim_end().to_owned() + "\n"
}

/// Processor time of a machine's cores, by their numbers.
type CpuTimes = BTreeMap<u64, Duration>;

/// QEMU names the threads that are cores `CPU 0/TCG` or `CPU 0/KVM` (debug-threads=on).
fn cpu_times(qemu: u32) -> CpuTimes {
    let threads = fs::read_dir(format!("/proc/{qemu}/task"));
    let stats = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let bytes = fs::read(thread.path().join("stat")).ok()?;
            cpu_time(&String::from_utf8_lossy(&bytes))
        });
    stats.collect()
}

fn cpu_time(stat: &str) -> Option<(u64, Duration)> {
    let (_, name) = stat.split_once(" (CPU ")?;
    let core = name.split_once('/')?.0.parse().ok()?;
    let ticks = [stat::USER_TIME, stat::SYSTEM_TIME].map(|field| stat::field::<u64>(stat, field));
    let ticks = ticks[0]? + ticks[1]?;
    Some((core, Duration::from_secs_f64(ticks as f64 / USER_HZ)))
}

/// The word after an option.
fn value<'a>(args: &'a [String], option: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg == option)?;
    args.get(at + 1).map(String::as_str)
}

/// A program chooses its own arguments; a terminal is not to act on them.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

/// As ps(1) has it: `[[dd-]hh:]mm:ss`.
fn age_text(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours) = (seconds / 86400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let up = fs::read_to_string("/proc/uptime").ok();
    let up_seconds = up.and_then(|text| text.split(' ').next()?.parse().ok());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // One that ends meanwhile is none.
        let file = |name| fs::read(entry.path().join(name)).ok();
        let status = file("status")?;
        process(
            pid,
            &stat::read(pid)?,
            &String::from_utf8_lossy(&status),
            &String::from_utf8_lossy(&file("cmdline")?),
            up_seconds?,
        )
    })
}

/// Clock ticks per second in /proc: USER_HZ of x86.
const USER_HZ: f64 = 100.0;

fn process(pid: u32, stat: &str, status: &str, cmdline: &str, up_seconds: f64) -> Option<Process> {
    let parent = stat::field(stat, stat::PARENT)?;
    let start: f64 = stat::field(stat, stat::START)?;
    let number = |field: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Process {
        pid,
        parent,
        uid: number("Uid:")? as u32,
        age: Duration::try_from_secs_f64(up_seconds - start / USER_HZ).unwrap_or_default(),
        shared_bytes: number("RssShmem:").unwrap_or(0) << 10,
        args: cmdline
            .trim_end_matches('\0')
            .split('\0')
            .map(str::to_owned)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pid: u32, parent: u32, args: &str) -> Process {
        Process {
            pid,
            parent,
            age: Duration::from_secs(3725),
            shared_bytes: 5 << 20,
            args: args.split(' ').map(str::to_owned).collect(),
            ..Process::default()
        }
    }

    #[test]
    fn a_node_is_shown_with_what_started_it() {
        let all = [
            of(10, 1, "yod -n 2 ./a.out \u{1b}[2J"),
            of(11, 10, "yod -n 2 ./a.out \u{1b}[2J"),
            of(
                12,
                11,
                "qemu -name margay:2x67108864,debug-threads=on -smp 4 -m 1B",
            ),
            of(13, 1, "qemu -name debian -smp 4"),
            of(14, 1, "vi -name"),
        ];
        let seconds = |cores: &[u64]| -> CpuTimes {
            let all = cores.iter().enumerate();
            all.map(|(core, s)| (core as u64, Duration::from_secs(*s)))
                .collect()
        };
        let render = |all: &[Process], cores: &[u64]| {
            render(&nodes(all, &|_| seconds(cores)), &|_, _, seconds| {
                age_text(Duration::from_secs_f64(seconds))
            })
        };
        let text = render(&all, &[5, 60, 0, 0]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert_eq!(
            rows[1],
            [
                "10", "01:02:05", "2", "2", "x", "2", "2", "x", "64M", "5M", "01:05", "yod", "-n",
                "2", "./a.out", "?[2J"
            ]
        );
        assert_eq!(rows[2..], [["rank", "0", "01:05"], ["rank", "1", "00:00"]]);
        assert_eq!(render(&all[3..], &[]), "no node of yours is running here\n");
        let of_init = [of(1, 0, "init"), of(11, 1, "yod a.out"), all[2].clone()];
        assert!(render(&of_init, &[]).contains("\n       -  "));
        let shared = of(12, 11, "qemu -name margay:16x4194304 -smp 2");
        let text = render(&[shared], &[1, 2]);
        assert!(text.contains("2 shared") && text.lines().count() == 2);
        let nodes = serde_json::to_value(nodes(&all, &|_| seconds(&[1, 2, 3, 4]))).expect("JSON");
        assert_eq!(nodes[0]["rank_cpu_s"], serde_json::json!([3.0, 7.0]));
        assert_eq!(
            (&nodes[0]["yod"], &nodes[0]["cpu_s"]),
            (&10.into(), &10.0.into())
        );
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b) S 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 6000 0";
        let process = process(
            7,
            stat,
            "Name:\tx\nUid:\t5\t6\nRssShmem:\t 12 kB\n",
            "a\0b c\0",
            100.0,
        );
        let process = process.expect("a process");
        assert_eq!(
            (process.parent, process.uid, process.shared_bytes),
            (3, 5, 12 << 10)
        );
        assert_eq!(process.age, Duration::from_secs(40));
        assert_eq!(process.args, ["a", "b c"]);
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id();
        let found = processes()
            .find(|process| process.pid == me)
            .expect("itself");
        assert!(found.uid == getuid().as_raw() && found.age < Duration::from_secs(86400));
    }

    #[test]
    fn cores_are_threads_of_qemu() {
        let stat = |name| format!("7 ({name}) S 3 0 0 0 0 0 0 0 0 0 150 50 0 0 0 0 0 0 6000 0");
        assert_eq!(
            cpu_time(&stat("CPU 3/TCG")),
            Some((3, Duration::from_secs(2)))
        );
        assert_eq!(cpu_time(&stat("ALL CPUs/TCG")), None);
        assert_eq!(cpu_time(&stat("worker")), None);
    }

    #[test]
    fn ages_are_as_ps_has_them() {
        let text = |seconds| age_text(Duration::from_secs(seconds));
        assert_eq!(text(65), "01:05");
        assert_eq!(text(90061), "1-01:01:01");
    }
}
