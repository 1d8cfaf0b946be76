//! `--ps`: the nodes of this user on this host.
//!
//! A node is a QEMU of the user's whose name holds its plan ([`Plan::name`]); its parent is the node's keeper, and the keeper's
//! parent the yod that started it, while that lives. All of that is in /proc for every user to read (proc(5)), so no node is disturbed and
//! none is needed to answer.

use std::fs;
use std::time::Duration;

use machine::plan::{Bytes, Plan};
use machine::stat;
use rustix::process::getuid;

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
pub fn list() -> String {
    let uid = getuid().as_raw();
    let all: Vec<Process> = processes().filter(|process| process.uid == uid).collect();
    render(&all)
}

fn render(all: &[Process]) -> String {
    let with = |pid: u32| all.iter().find(|process| process.pid == pid);
    let mut text = String::new();
    for qemu in all {
        let Some((ranks, partition_bytes)) = value(&qemu.args, "-name").and_then(|name| {
            let name = name.split(',').next()?;
            Plan::from_name(name)
        }) else {
            continue;
        };
        // The keeper is a fork. Once its yod has ended before the others of the job, its parent is no yod.
        let yod = with(qemu.parent)
            .and_then(|keeper| with(keeper.parent).filter(|yod| yod.args == keeper.args));
        if text.is_empty() {
            text = row(
                ["YOD", "AGE", "RANKS", "CORES", "MEMORY", "TOUCHED"],
                "COMMAND",
            );
        }
        let (pid, command) = match yod {
            Some(yod) => (yod.pid.to_string(), printable(&yod.args.join(" "))),
            None => ("-".into(), String::new()),
        };
        let partition = Bytes(partition_bytes);
        let cores = value(&qemu.args, "-smp").and_then(|cpus| cpus.parse::<usize>().ok());
        let cores = match cores {
            Some(cores) if cores < ranks => format!("{cores} shared"),
            Some(cores) if ranks > 0 => format!("{ranks} x {}", cores / ranks),
            _ => "?".into(),
        };
        text += &row(
            [
                &pid,
                &age_text(qemu.age),
                &ranks.to_string(),
                &cores,
                &format!("{ranks} x {partition}"),
                &Bytes(qemu.shared_bytes).to_string(),
            ],
            &command,
        );
    }
    if text.is_empty() {
        return "no node of yours is running here\n".into();
    }
    text
}

fn row(cells: [&str; 6], command: &str) -> String {
    let [pid, age, ranks, cores, memory, touched] = cells;
    let line =
        format!("{pid:>8} {age:>9} {ranks:>6} {cores:>10} {memory:>12} {touched:>8}  {command}");
    line.trim_end().to_owned() + "\n"
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
        let text = render(&all);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert_eq!(
            rows[1],
            [
                "10", "01:02:05", "2", "2", "x", "2", "2", "x", "64M", "5M", "yod", "-n", "2",
                "./a.out", "?[2J"
            ]
        );
        assert_eq!(render(&all[3..]), "no node of yours is running here\n");
        let of_init = [of(1, 0, "init"), of(11, 1, "yod a.out"), all[2].clone()];
        assert!(render(&of_init).contains("\n       -  "));
        let shared = of(12, 11, "qemu -name margay:16x4194304 -smp 2");
        assert!(render(&[shared]).contains("2 shared"));
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
    fn ages_are_as_ps_has_them() {
        let text = |seconds| age_text(Duration::from_secs(seconds));
        assert_eq!(text(65), "01:05");
        assert_eq!(text(90061), "1-01:01:01");
    }
}
