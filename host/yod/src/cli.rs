//! The command line.

mod pages;
mod preset;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ContextKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum, ValueHint};
use clap_complete::Shell;
use machine::qemu::accel;

use crate::failure::{Failure, status};
use crate::quantity::{count, memory, memory_or_none, time};

/// Run a Linux program on the Margay lightweight kernel.
///
/// Boots a node (a virtual machine or a co-kernel), runs the program on it as one process per rank, serves its files and terminal from
/// this host, and ends with its exit status.
#[derive(Parser, Debug)]
#[command(
    name = "yod",
    version,
    override_usage = "yod [OPTIONS] [--] PROGRAM [ARGS]..."
)]
pub struct Cli {
    /// Number of ranks (processes); -np and --np as mpirun has it.
    #[arg(
        id = RANKS,
        short = 'n',
        long = NP,
        value_name = "RANKS",
        default_value_t = 1,
        value_parser = count,
        allow_negative_numbers = true
    )]
    pub ranks: usize,
    /// Cores per rank. Default: the available cores / ranks.
    #[arg(
        short = 'd',
        long = "cores-per-rank",
        value_name = "CORES",
        value_parser = count,
        allow_negative_numbers = true
    )]
    pub cores: Option<usize>,
    /// Memory per rank, with suffix K, M, G or T, as in 1.5G. Default: 80 % (of a co-kernel 20 %) of the available memory / ranks.
    #[arg(short = 'm', value_name = "MEM", value_parser = memory)]
    pub memory: Option<u64>,
    /// Memory of the node for what ranks share: mappings with MAP_SHARED, and text; with such a suffix, or 0. Default: an eighth of
    /// the ranks' memory together, at least 160M.
    #[arg(long, value_name = "MEM", value_parser = memory_or_none)]
    pub shared_memory: Option<u64>,
    /// What makes the node: QEMU, or CPUs and memory that this host's Linux gives up, by margay.ko. auto: the latter where /dev/margay is
    /// yours.
    #[arg(
        long,
        value_name = "auto|qemu|cokernel",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub machine: Machine,
    /// What executes a node of QEMU.
    #[arg(
        long,
        value_name = "auto|kvm|tcg",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub accel: Accel,
    /// Give the ranks' memory memory of this host at once, in the background, not when it is touched. auto: under KVM with -m.
    #[arg(
        long,
        value_name = "auto|yes|no",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub populate: Populate,
    /// Set an environment variable for the program (again for more).
    #[arg(long = "env", value_name = "K=V", value_parser = clap::builder::ValueParser::new(parse_variable))]
    pub variables: Vec<(OsString, OsString)>,
    /// Begin each line of output with the rank's number: "[3] ".
    #[arg(long)]
    pub label: bool,
    /// Show every system call and signal, on stderr or in FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    pub strace: Option<Option<PathBuf>>,
    /// Show only these calls: names, separated by commas. Implies --strace.
    #[arg(long, value_name = "CALLS")]
    pub strace_only: Option<String>,
    /// Begin each line of --strace, which this implies, with the time (seconds since 1970), end it with how long the call took.
    #[arg(long)]
    pub strace_times: bool,
    /// At the end show what the kernel counted, on stderr or in FILE; "json", or a FILE that ends in .json: one line.
    #[arg(long, value_name = "json|FILE", num_args = 0..=1, require_equals = true)]
    pub stats: Option<Option<PathBuf>>,
    /// Let gdb debug the ranks: each waits at its first instruction for one, which reaches it by a socket at PATH (PATH.RANK
    /// with several ranks).
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    pub gdb: Option<Option<PathBuf>>,
    /// Write the kernel's log to FILE.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kernel_log: Option<PathBuf>,
    /// End everything after TIME (seconds, or with suffix s, m, h or d), with status 124.
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Say nothing but what went wrong: no notices, hints and names of the ranks that were ended.
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Print the plan (cores, memory, the command line of the node's machine), as text or as one line of JSON, and do nothing.
    #[arg(long, value_name = "json", num_args = 0..=1, require_equals = true, default_missing_value = TEXT, hide_possible_values = true)]
    pub dry_run: Option<Format>,
    /// Say what this host offers and what is missing, as text or as one line of JSON, and boot a node.
    #[arg(long, value_name = "json", num_args = 0..=1, require_equals = true, default_missing_value = TEXT, hide_possible_values = true)]
    pub doctor: Option<Format>,
    /// List your nodes on this host, as text or as one line of JSON.
    #[arg(long, value_name = "json", num_args = 0..=1, require_equals = true, default_missing_value = TEXT, hide_possible_values = true)]
    pub ps: Option<Format>,
    /// As --ps, every two seconds, with how much of a processor each rank has used since.
    #[arg(long)]
    pub top: bool,
    /// Run gdb at a rank that runs: the only one among process PID and those it has started.
    #[arg(long, value_name = "PID", value_parser = count, allow_negative_numbers = true)]
    pub attach: Option<usize>,
    /// Print what every thread is doing of all ranks among process PID and those it has started.
    #[arg(long, value_name = "PID", value_parser = count, allow_negative_numbers = true)]
    pub stack: Option<usize>,
    /// Allow more cores of ranks than there are here.
    #[arg(long)]
    pub oversubscribe: bool,
    /// Print a script that completes yod's options in SHELL.
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<Shell>,
    /// Print the manual page (roff).
    #[arg(long)]
    pub man: bool,
    /// A yod that has become this launcher has handed its options on to this one.
    #[arg(id = LAUNCHED_BY_ID, long = LAUNCHED_BY, value_name = "LAUNCHER", hide = true)]
    pub launched_by: Option<PathBuf>,
    /// Program, searched in PATH when it has no slash, and its arguments.
    #[arg(id = COMMAND, value_name = "PROGRAM", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// The options that were given but `-n`, for a yod that is to have the same.
    #[arg(skip)]
    pub given: Vec<OsString>,
}

/// What makes the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Machine {
    Auto,
    Qemu,
    Cokernel,
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

/// Whether memory is had before it is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Populate {
    Auto,
    Yes,
    No,
}

/// In which form something is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One line.
    Json,
}

/// [`Format::Text`], which need not be written.
const TEXT: &str = "text";
/// The variable with options that a user always wants, separated by blanks.
pub const PRESET: &str = "MARGAY_OPTIONS";
/// mpirun's name of `-n`.
const NP: &str = "np";
/// The name of an option that is not for people.
pub const LAUNCHED_BY: &str = "launched-by";
const LAUNCHED_BY_ID: &str = "launched_by";
const RANKS: &str = "ranks";
const COMMAND: &str = "command";
/// Of the thread that reads the command line.
const PARSER_STACK_BYTES: usize = 1 << 20;

/// What to do with the arguments.
#[derive(Debug)]
pub enum Parsed {
    /// Go on.
    Run(Box<Cli>),
    /// Print this on stdout and be done: help, version, completions or the manual page.
    Print(String),
}

/// Reads the arguments, of which the first is yod's own name, and what [`PRESET`] says.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    preset: Option<OsString>,
) -> Result<Parsed, Failure> {
    let args: Vec<OsString> = args.into_iter().collect();
    // What describes all options takes 45 KiB of stack, which `ulimit -s` need not leave: they are read in a thread.
    let reader = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
    let reader = reader
        .spawn(|| parse_here(args, preset))
        .map_err(|error| Failure::os("start a thread that reads the arguments", error))?;
    match reader.join() {
        Ok(parsed) => parsed,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn parse_here(args: Vec<OsString>, preset: Option<OsString>) -> Result<Parsed, Failure> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    let args = with_long_np(args);
    let mut matches = Cli::command().try_get_matches_from(&args);
    if let (Ok(line), Some(preset)) = (&matches, preset) {
        let all = preset::add(args, line, &preset).map_err(|why| usage(&why))?;
        matches = Cli::command().try_get_matches_from(all);
    }
    let cli = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        let traces = cli.strace_only.is_some() || cli.strace_times;
        Ok(Cli {
            given: handed_on(&matches),
            strace: cli.strace.or(traces.then_some(None)),
            ..cli
        })
    });
    match cli {
        Ok(cli) if cli.man => Ok(Parsed::Print(pages::manual_page())),
        Ok(Cli {
            completions: Some(shell),
            ..
        }) => Ok(Parsed::Print(pages::completions(shell))),
        Ok(cli) if cli.command.is_empty() && !does_else(&cli) => Err(usage("no PROGRAM given")),
        Ok(cli) => Ok(Parsed::Run(Box::new(cli))),
        Err(error) if matches!(error.kind(), DisplayHelp | DisplayVersion) => {
            Ok(Parsed::Print(error.render().to_string()))
        }
        Err(error) => Err(usage(&in_one_line(&error))),
    }
}

/// Whether yod is to do something else than run a program.
fn does_else(cli: &Cli) -> bool {
    cli.top
        || cli.doctor.is_some()
        || cli.ps.is_some()
        || cli.attach.is_some()
        || cli.stack.is_some()
}

/// clap has no options of two letters behind one dash: `-np` before the program becomes `--np`.
fn with_long_np(mut args: Vec<OsString>) -> Vec<OsString> {
    let options = Cli::command();
    let takes_next = |word: &str| {
        let of = |arg: &&clap::Arg| {
            let long = arg.get_long().map(|long| format!("--{long}"));
            let short = arg.get_short().map(|short| format!("-{short}"));
            [long, short].iter().flatten().any(|name| name == word)
        };
        let option = options.get_arguments().find(of);
        option.is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
    };
    let mut i = 1;
    while i < args.len() {
        if args[i] == "-np" {
            args[i] = format!("--{NP}").into();
        }
        match args[i].to_str() {
            Some("--") => break,
            Some(word) if takes_next(word) => i += 2,
            Some(word) if word.starts_with('-') => i += 1,
            _ => break,
        }
    }
    args
}

/// An option that was given, with its value.
struct Given {
    id: String,
    /// It counts each time that it is given.
    is_repeated: bool,
    words: Vec<OsString>,
}

fn is_on_line(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The options that were given but the number of ranks, as they are to be given to a yod that a launcher starts.
fn handed_on(matches: &ArgMatches) -> Vec<OsString> {
    let options = given(matches).into_iter();
    let options = options.filter(|option| option.id != RANKS);
    options.flat_map(|option| option.words).collect()
}

/// The options that were given, each in a form that is read as it was meant.
fn given(matches: &ArgMatches) -> Vec<Given> {
    let mut given = Vec::new();
    for arg in Cli::command().get_arguments() {
        let id = arg.get_id().as_str();
        if id == COMMAND || !is_on_line(matches, id) {
            continue;
        }
        let times = matches.get_raw_occurrences(id);
        for mut values in times.into_iter().flatten() {
            let value = values.next().filter(|_| arg.get_action().takes_values());
            let value = value.filter(|value| *value != TEXT);
            let words = match (arg.get_long(), arg.get_short()) {
                (Some(long), _) => {
                    let mut word = OsString::from(format!("--{long}"));
                    // A value may look like an option.
                    value.into_iter().for_each(|value| {
                        word.push("=");
                        word.push(value);
                    });
                    vec![word]
                }
                (None, short) => {
                    let short = short.map(|short| format!("-{short}").into());
                    let value = value.map(OsString::from);
                    short.into_iter().chain(value).collect()
                }
            };
            given.push(Given {
                id: id.to_owned(),
                is_repeated: matches!(arg.get_action(), ArgAction::Append),
                words,
            });
        }
    }
    given
}

/// clap's first paragraph, which says what is wrong, and what it thinks was meant.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words = first.trim_start_matches("error: ").split_whitespace();
    let mut line = words.collect::<Vec<_>>().join(" ");
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
        if let Some(meant) = error.get(kind) {
            line += &format!("; did you mean {meant}?");
        }
    }
    line
}

fn usage(what: &str) -> Failure {
    Failure::new(status::USAGE, format_args!("{what} (see yod --help)"))
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
mod tests;
