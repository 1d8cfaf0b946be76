//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use machine::accel;

use crate::failure::{Failure, status};

/// Run a Linux program on the Margay lightweight kernel.
///
/// Boots a node (a QEMU machine), runs the program on it as one process per rank, serves its files and terminal from
/// this host, and ends with its exit status.
#[derive(Parser, Debug)]
#[command(
    name = "yod",
    version,
    override_usage = "yod [OPTIONS] [--] PROGRAM [ARGS]..."
)]
pub struct Cli {
    /// Number of ranks (processes).
    #[arg(
        short = 'n',
        value_name = "RANKS",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub ranks: usize,
    /// Memory per rank, with suffix K, M or G. Default: 80 % of the available memory / ranks, at most 1G.
    #[arg(short = 'm', value_name = "MEM", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// What executes the node.
    #[arg(
        long,
        value_name = "auto|kvm|tcg",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub accel: Accel,
    /// Set an environment variable for the program (again for more).
    #[arg(long = "env", value_name = "K=V", value_parser = clap::builder::ValueParser::new(parse_variable))]
    pub variables: Vec<(OsString, OsString)>,
    /// Begin each line of output with the rank's number: "[3] ".
    #[arg(long)]
    pub label: bool,
    /// Show every system call, on stderr or in FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub strace: Option<Option<PathBuf>>,
    /// At the end show what the kernel counted, on stderr; "json": one line.
    #[arg(long, value_name = "json", num_args = 0..=1, require_equals = true, hide_possible_values = true)]
    pub stats: Option<Option<StatsFormat>>,
    /// Write the kernel's log to FILE.
    #[arg(long, value_name = "FILE")]
    pub kernel_log: Option<PathBuf>,
    /// End everything after S seconds, with status 124.
    #[arg(long, value_name = "S", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Print the plan (cores, memory, QEMU's command line) and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Say what this host offers and what is missing.
    #[arg(long)]
    pub doctor: bool,
    /// Allow more ranks than cores.
    #[arg(long)]
    pub oversubscribe: bool,
    /// Program, searched in PATH when it has no slash, and its arguments.
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Accel {
    Auto,
    Kvm,
    Tcg,
}

impl From<Accel> for accel::Choice {
    fn from(accel: Accel) -> accel::Choice {
        match accel {
            Accel::Auto => accel::Choice::Auto,
            Accel::Kvm => accel::Choice::Kvm,
            Accel::Tcg => accel::Choice::Tcg,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StatsFormat {
    Json,
}

/// What to do with the arguments.
#[derive(Debug)]
pub enum Parsed {
    /// Go on.
    Run(Box<Cli>),
    /// Print this on stdout and be done: help or version.
    Print(String),
}

/// Reads the arguments; the first is yod's own name.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    use clap::error::ErrorKind;
    match Cli::try_parse_from(args) {
        Ok(cli) if cli.command.is_empty() && !cli.doctor => Err(usage("no PROGRAM given")),
        Ok(cli) => Ok(Parsed::Run(Box::new(cli))),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            Ok(Parsed::Print(error.render().to_string()))
        }
        Err(error) => {
            // The first paragraph says what is wrong; usage and tips follow.
            let text = error.render().to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let words: Vec<&str> = first
                .trim_start_matches("error: ")
                .split_whitespace()
                .collect();
            Err(usage(&words.join(" ")))
        }
    }
}

fn usage(what: &str) -> Failure {
    Failure::new(status::USAGE, format_args!("{what} (see yod --help)"))
}

/// `512M` in bytes. A number without a suffix could mean bytes or megabytes: it is refused.
fn parse_memory(text: &str) -> Result<u64, String> {
    let text = text
        .strip_suffix("iB")
        .or(text.strip_suffix('B'))
        .unwrap_or(text);
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[number.len()..] {
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err("write a number with K, M or G, as in 512M".into()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "not a number before its suffix".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".into())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be more than 0".into()),
    }
}

fn parse_variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            Ok((OsStr::new(key).into(), OsStr::new(value).into()))
        }
        _ => Err("write it as NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Cli, String> {
        let args = std::iter::once("yod")
            .chain(line.split_whitespace())
            .map(OsString::from);
        match parse(args) {
            Ok(Parsed::Run(cli)) => Ok(*cli),
            Ok(Parsed::Print(text)) => Err(text),
            Err(failure) => {
                assert_eq!(failure.status, 2);
                assert!(!failure.line.contains('\n'), "{}", failure.line);
                Err(failure.line)
            }
        }
    }

    #[test]
    fn options_after_the_program_are_the_programs() {
        let cli = run("-n 2 ./a.out -n 3 --label -- x").expect("right");
        assert_eq!((cli.ranks, cli.label), (2, false));
        assert_eq!(cli.command, ["./a.out", "-n", "3", "--label", "--", "x"]);
        assert_eq!(
            run("-- -odd --help").expect("right").command,
            ["-odd", "--help"]
        );
        assert_eq!(run("--strace ./a.out").expect("right").strace, Some(None));
        assert_eq!(run("./a.out --help").expect("right").command.len(), 2);
    }

    #[test]
    fn values_are_read() {
        let cli = run(
            "-n4 -m 512M --accel tcg --env A=b=c --env D= --strace=f --stats=json --timeout 0.5 x",
        );
        let cli = cli.expect("right");
        assert_eq!(
            (cli.ranks, cli.memory, cli.accel),
            (4, Some(512 << 20), Accel::Tcg)
        );
        assert_eq!(cli.variables[0], ("A".into(), "b=c".into()));
        assert_eq!(cli.variables[1], ("D".into(), "".into()));
        assert_eq!(cli.strace, Some(Some("f".into())));
        assert_eq!(cli.stats, Some(Some(StatsFormat::Json)));
        assert_eq!(cli.timeout, Some(Duration::from_millis(500)));
        assert!(run("--doctor").is_ok());
    }

    #[test]
    fn mistakes_are_one_line() {
        for (line, part) in [
            ("", "no PROGRAM given"),
            ("-n", "value is required"),
            ("-n two x", "invalid value 'two'"),
            ("-n -1 x", "-1"),
            ("-m 512 x", "K, M or G"),
            ("-m G x", "not a number"),
            ("-m 99999999999T x", "too large"),
            ("--accel hvf x", "hvf"),
            ("--env A x", "NAME=VALUE"),
            ("--env =b x", "NAME=VALUE"),
            ("--stats=xml x", "xml"),
            ("--timeout 0 x", "more than 0"),
            ("--timeout soon x", "not a number"),
            ("--timeout inf x", "more than 0"),
            ("--bogus x", "--bogus"),
        ] {
            let message = run(line).expect_err(line);
            assert!(message.contains(part), "{line}: {message}");
        }
    }

    #[test]
    fn memory_has_a_suffix() {
        assert_eq!(parse_memory("3K"), Ok(3 << 10));
        assert_eq!(parse_memory("3g"), Ok(3 << 30));
        assert_eq!(parse_memory("3MiB"), Ok(3 << 20));
        assert_eq!(parse_memory("3MB"), Ok(3 << 20));
        assert!(
            parse_memory("").is_err()
                && parse_memory("-3M").is_err()
                && parse_memory("3X").is_err()
        );
    }

    #[test]
    fn help_and_version_are_not_mistakes() {
        assert!(run("--help").expect_err("text").contains("--oversubscribe"));
        assert!(run("--version").expect_err("text").starts_with("yod "));
    }
}
