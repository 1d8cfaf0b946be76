//! The attacks, a round each.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use margay_tests::random::Random;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::tree;

use crate::Round;
use crate::confined::{self, Confined};

/// Calls of all ranks of a round, and so on: a round is to take a few seconds, most of them not the boot of its node.
const CALLS: u64 = 60_000;
const BIRTHS: u64 = 600;
const FRAMES: u64 = 40_000;
const OPERATIONS: u64 = 60_000;
const PATHS: u64 = 12_000;
const CHANGES: u64 = 3_000;
const STEPS: u64 = 2_000;
/// Of each rank, in each of which all wait for all.
const FILE_STEPS: u64 = 96;
/// Changed programs of a round: each needs a node of its own.
const IMAGES: u64 = 4;

/// Kinds and names of the programs that are mutated: statically and dynamically linked, with and without fixed addresses.
const PROGRAMS: &[(&str, &str)] = &[
    ("glibc-static", "hello"),
    ("static-pie", "arguments"),
    ("glibc-dynamic", "linked"),
    ("glibc-nopie", "linked"),
];
/// Bytes that hold the headers of these programs, and the paths of their interpreters.
const HEADERS_BYTES: u64 = 64 + 16 * 56;
/// Of the offset of the section headers (`e_shoff`, ELF-64 Object File Format 1.5, figure 2), which are for linkers.
const SECTIONS_AT: usize = 40;
/// A mutated program may run for ever; one that must run has the time of every job, for a machine may be busy.
const MUTATED_LIMIT: &[&str] = &["--timeout", "5"];

/// What happens in every round of random calls: where all of them fail at once, nothing is attacked.
const IN_EVERY_ROUND: &[&str] = &[
    "successes of memory",
    "successes of the node",
    "successes of paths",
    "successes of transfers",
    "interruptions",
    "ticks",
    "words moved",
];

/// What happens in every round of random births.
const IN_EVERY_ROUND_OF_BIRTHS: &[&str] = &[
    "births",
    "refused births",
    "threads",
    "children",
    "programs",
    "refused programs",
    "executions",
    "races",
    "words moved",
    "signals",
];

/// Random system calls.
pub fn calls(round: Round) -> Result<u64> {
    let each = CALLS / round.ranks;
    let outcome = own_program("calls", &[], round, each)?;
    happened(&outcome, round, IN_EVERY_ROUND)?;
    finished(&outcome, round, "calls")
}

/// Random births and programs.
pub fn births(round: Round) -> Result<u64> {
    let each = BIRTHS / round.ranks;
    let outcome = own_program("births", &[], round, each)?;
    happened(&outcome, round, IN_EVERY_ROUND_OF_BIRTHS)?;
    Ok(each * round.ranks)
}

/// Random paths below /proc.
pub fn proc_paths(round: Round) -> Result<u64> {
    let each = PATHS / round.ranks;
    let outcome = own_program("paths", &[], round, each)?;
    finished(&outcome, round, "paths")
}

/// What a program does on the host: there it must end well.
fn natively(program: &str, args: &[&str]) -> Result<Outcome> {
    let program = tree::program("attack", program);
    let native = Run::new([program.to_string_lossy()]).args(args);
    let native = native.limit(3 * HANG).run()?;
    ensure!(
        native.status == Some(0),
        "natively: {}",
        native.stdout.text()
    );
    Ok(native)
}

/// Random memory calls. The program's last line says what it saw, the same on every kernel.
pub fn memory(round: Round) -> Result<u64> {
    let (seed, each) = (
        round.seed.to_string(),
        (OPERATIONS / round.ranks).to_string(),
    );
    let native = natively("memory", &[&seed, &each])?;
    let outcome = own_program("memory", &[], round, OPERATIONS / round.ranks)?;
    same_from_each(&native, &outcome, round)?;
    finished(&outcome, round, "operations")
}

/// Changes of memory that other threads and other ranks use. The program runs natively first: what it takes for a mistake is none there.
pub fn races(round: Round) -> Result<u64> {
    let each = CHANGES / round.ranks;
    let (seed, count) = (round.seed.to_string(), each.to_string());
    natively("races", &[&seed, &count])?;
    let outcome = own_program("races", &[], round, each)?;
    happened(&outcome, round, &["uses", "calls", "faults"])?;
    finished(&outcome, round, "changes")
}

/// A file that all change. The program runs natively first.
pub fn files(round: Round) -> Result<u64> {
    let each = FILE_STEPS / round.ranks;
    let (seed, count) = (round.seed.to_string(), each.to_string());
    natively("files", &[&seed, &count])?;
    let outcome = own_program("files", &[], round, each)?;
    happened(&outcome, round, &["resizes", "texts"])?;
    finished(&outcome, round, "steps")
}

/// Ranks that hold on to translations of each other's memory, of which there is little, while it is recycled.
pub fn stale(round: Round) -> Result<u64> {
    let each = STEPS / round.ranks;
    let outcome = own_program("stale", &["--shared-memory", "4M"], round, each)?;
    let children = finished(&outcome, round, "children")?;
    ensure!(children > 0, "no children; {}", text_of(&outcome));
    finished(&outcome, round, "pages read")
}

/// Returns through random signal frames.
pub fn frames(round: Round) -> Result<u64> {
    let (seed, each) = (round.seed.to_string(), FRAMES / round.ranks);
    let name = "hostile_frames";
    let program = tree::program("glibc-static", name);
    let native = Run::new([program.to_string_lossy()]).args(&[&seed, &each.to_string()]);
    let native = native.limit(3 * HANG).run()?;
    let program = confined::program("glibc-static", name);
    let args = [program.as_str(), &seed, &each.to_string()];
    let outcome = Confined::new()?.job(round.ranks, &[], &args)?;
    ensure!(outcome.status == Some(0), "{}", text_of(&outcome));
    same_from_each(&native, &outcome, round)?;
    Ok(each * round.ranks)
}

/// Programs with mutated headers, each on a node of its own. The first must run all the same: others that end at once show nothing
/// when none does.
pub fn images(round: Round) -> Result<u64> {
    let mut random = Random::new(round.seed);
    let confined = Confined::new()?;
    for number in 0..IMAGES {
        let (kind, name) = *random.pick(PROGRAMS);
        let mut bytes = fs::read(tree::program(kind, name))?;
        let harmless = number == 0;
        let (done, options): (_, &[_]) = if harmless {
            bytes[SECTIONS_AT..SECTIONS_AT + 8].copy_from_slice(&random.next().to_le_bytes());
            ("only where no loader looks".to_owned(), &[])
        } else {
            (mutate(&mut bytes, &mut random), MUTATED_LIMIT)
        };
        bring_libraries(kind, &confined.cwd())?;
        let path = confined.cwd().join("mutated");
        fs::write(&path, &bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        let outcome = confined.job(round.ranks, options, &["./mutated"])?;
        said_why(&outcome, round).with_context(|| format!("{kind}/{name}, {done}"))?;
        let ran = outcome.status == Some(0) && outcome.stdout.len_bytes > 0;
        ensure!(
            ran || !harmless,
            "{kind}/{name}, {done}: {}",
            text_of(&outcome)
        );
    }
    Ok(IMAGES)
}

/// Programs that are linked dynamically find theirs beside themselves.
fn bring_libraries(kind: &str, to: &Path) -> Result<()> {
    let Ok(libraries) = fs::read_dir(tree::program(kind, "lib")) else {
        return Ok(());
    };
    let to = to.join("lib");
    fs::create_dir_all(&to)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    for library in libraries {
        let library = library?;
        fs::copy(library.path(), to.join(library.file_name()))?;
    }
    Ok(())
}

/// Changes a few header fields; says which.
fn mutate(bytes: &mut [u8], random: &mut Random) -> String {
    let mut done = String::new();
    for _ in 0..1 + random.below(4) {
        let at = random.below(HEADERS_BYTES) as usize;
        let word = at & !7;
        let old = u64::from_le_bytes(std::array::from_fn(|i| bytes[word + i]));
        let new = match random.below(5) {
            0 => old ^ random.below(256) << (8 * (at % 8)),
            1 => old ^ 1 << random.below(64),
            2 => old.wrapping_add(4096),
            3 => old.wrapping_sub(4096),
            _ => *random.pick(&[
                0,
                1,
                4096,
                1 << 16,
                1 << 32,
                1 << 39,
                1 << 47,
                1 << 63,
                u64::MAX,
            ]),
        };
        bytes[word..word + 8].copy_from_slice(&new.to_le_bytes());
        done += &format!("{word:#x}: {old:#x} to {new:#x}; ");
    }
    done
}

/// A mutated program may do anything, but what yod says of it is yod's, and a refusal says why. Several ranks may crash before
/// the first has ended the others.
fn said_why(outcome: &Outcome, round: Round) -> Result<()> {
    let status = outcome.status.context("it hung")?;
    let stderr = outcome.stderr.text();
    let own = stderr.lines().filter(|line| line.starts_with("yod: "));
    let lines = own.count() as u64;
    // The program's own status may be any, and some of them yod's, too.
    let refused = [126, 127].contains(&status) && outcome.stdout.len_bytes == 0;
    ensure!(
        !refused || !stderr.is_empty(),
        "status {status} without a line"
    );
    let failed = status == 71 && lines > 0;
    ensure!(!failed && lines <= round.ranks + 1, "{}", text_of(outcome));
    Ok(())
}

/// Runs one of the programs of tests/programs/attack, with these options of yod.
fn own_program(name: &str, options: &[&str], round: Round, count: u64) -> Result<Outcome> {
    let (seed, count) = (round.seed.to_string(), count.to_string());
    let args = [confined::program("attack", name), seed, count];
    let args = args.each_ref().map(String::as_str);
    Confined::new()?.job(round.ranks, options, &args)
}

/// Each rank ended well and said how much it did: the sum.
fn finished(outcome: &Outcome, round: Round, what: &str) -> Result<u64> {
    let text = outcome.stdout.text();
    let counts = text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        rest.starts_with(what).then_some(number)
    });
    let counts: Vec<u64> = counts.collect();
    let all = counts.len() as u64 == round.ranks;
    ensure!(outcome.status == Some(0) && all, "{}", text_of(outcome));
    Ok(counts.iter().sum())
}

/// All of it happened in some rank.
fn happened(outcome: &Outcome, round: Round, all: &[&str]) -> Result<()> {
    for what in all {
        let count = finished(outcome, round, what)?;
        ensure!(count > 0, "no {what}; {}", text_of(outcome));
    }
    Ok(())
}

/// Every rank printed what the program prints natively.
fn same_from_each(native: &Outcome, outcome: &Outcome, round: Round) -> Result<()> {
    let sorted = |text: &str, times| {
        let mut lines: Vec<_> = text
            .lines()
            .flat_map(|line| vec![line.to_owned(); times])
            .collect();
        lines.sort();
        lines
    };
    let wanted = sorted(&native.stdout.text(), round.ranks as usize);
    let seen = sorted(&outcome.stdout.text(), 1);
    let differs = wanted
        .iter()
        .zip(&seen)
        .find(|(wanted, seen)| wanted != seen);
    ensure!(
        wanted == seen,
        "natively otherwise: {differs:?}, {} lines instead of {}; {}",
        seen.len(),
        wanted.len(),
        outcome.stderr.text()
    );
    Ok(())
}

fn text_of(outcome: &Outcome) -> String {
    let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    format!("status {:?}\n{stdout}{stderr}", outcome.status)
}
