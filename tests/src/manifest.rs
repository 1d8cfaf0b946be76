//! The manifests of programs: tab-separated tables, explained in programs/README.md.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;

use crate::{stream, tree};

/// A row: one run of one program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Unique name.
    pub name: String,
    /// What it is about.
    pub category: String,
    /// How it is built; a folder of built programs.
    pub kind: String,
    /// The program's file name.
    pub program: String,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// What it reads.
    pub stdin: Stdin,
    /// How it must end.
    pub end: End,
    /// What else the run needs.
    pub extra: Extra,
    /// System calls whose loss it notices.
    pub notices: Vec<String>,
}

impl Row {
    /// Whether another user than the one who runs the tests runs it.
    #[must_use]
    pub fn runs_as_nobody(&self) -> bool {
        self.extra.is_unprivileged && geteuid().is_root()
    }
}

/// Standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stdin {
    /// /dev/null.
    #[default]
    None,
    /// So many bytes of the numbered stream through a pipe.
    Pipe(u64),
    /// So many bytes of the numbered stream in a file.
    File(u64),
}

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// This status, as a shell sees it.
    Status(i32),
    /// None: it has to be ended.
    Never,
}

/// Words of the column "extra".
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extra {
    /// RLIMIT_STACK as ulimit takes it.
    pub stack: Option<String>,
    /// Memory of the rank.
    pub partition: Option<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Environment of the native run only.
    pub native_env: Vec<(String, String)>,
    /// It cannot pass under emulation.
    pub needs_kvm: bool,
    /// There is nothing to compare with where Linux was booted with `vsyscall=none`.
    pub needs_vsyscall: bool,
    /// Ranks under yod; makes sense there only.
    pub ranks: Option<usize>,
    /// Cores of the rank.
    pub cores: Option<usize>,
    /// As a user that owns nothing, where root runs it.
    pub is_unprivileged: bool,
    /// It takes too long to be repeated, or to be watched by the plugin.
    pub once: bool,
}

/// The tables of programs/ whose rows run on Linux and on a node, and are not to be distinguished.
const CONFORMANCE: [&str; 3] = ["programs.tsv", "threads.tsv", "children.tsv"];

/// The rows of all of them.
///
/// # Errors
/// As [`read`].
pub fn conformance(size: &str) -> Result<Vec<Row>> {
    let tables = CONFORMANCE.map(|table| read(table, size));
    let tables: Result<Vec<_>> = tables.into_iter().collect();
    Ok(tables?.into_iter().flatten().collect())
}

/// Reads a manifest of programs/. `size` is what SIZE stands for in it.
///
/// # Errors
/// When it is missing or a row makes no sense; the error names the row.
pub fn read(file: &str, size: &str) -> Result<Vec<Row>> {
    let path = tree::manifest(file);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| parse(line, size).with_context(|| format!("{}: {line}", path.display())))
        .collect()
}

fn parse(line: &str, size: &str) -> Result<Row> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [
        name,
        category,
        source,
        kind,
        args,
        stdin,
        status,
        extra,
        notices,
    ] = columns[..]
    else {
        bail!("{} columns instead of 9", columns.len());
    };
    let file = source.rsplit('/').next().unwrap_or(source);
    Ok(Row {
        name: name.into(),
        category: category.into(),
        kind: kind.into(),
        program: file.split('.').next().unwrap_or(file).into(),
        args: arguments(args, size)?,
        stdin: parse_stdin(stdin, size)?,
        end: match status {
            "timeout" => End::Never,
            number => End::Status(number.parse()?),
        },
        extra: parse_extra(extra)?,
        notices: words(notices).map(str::to_owned).collect(),
    })
}

/// A command of a program that is there already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Unique name.
    pub name: String,
    /// The program, as it is called.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its own.
    pub env: Vec<(String, String)>,
    /// File that it reads; `None`: /dev/null.
    pub stdin: Option<String>,
    /// Exit status, as a shell sees it.
    pub status: i32,
}

impl Command {
    /// Whether it has the loader list libraries.
    #[must_use]
    pub fn for_loader(&self) -> bool {
        let traces = |(name, _): &(String, String)| name == "LD_TRACE_LOADED_OBJECTS";
        self.env.iter().any(traces) || self.args.iter().any(|arg| arg == "--list")
    }

    /// Whether it prints how fast it was.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.program == "openssl" && self.args.first().is_some_and(|arg| arg == "speed")
    }

    /// Whether it is to make no child, by tests/debian/stay.c.
    #[must_use]
    pub fn stays(&self) -> bool {
        let preloads = |(_, value): &(String, String)| value == "./stay.so";
        self.env.iter().any(preloads)
    }
}

/// Reads a table of commands: name, status, stdin, command; `file` counts from the root.
///
/// # Errors
/// When it is missing or a row makes no sense; the error names the row.
pub fn commands(file: &str) -> Result<Vec<Command>> {
    let path = tree::root().join(file);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| parse_command(line).with_context(|| format!("{file}: {line}")))
        .collect()
}

fn parse_command(line: &str) -> Result<Command> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, status, stdin, command] = columns[..] else {
        bail!("{} columns instead of 4", columns.len());
    };
    let mut env = Vec::new();
    let mut words = split(command)?.into_iter().peekable();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        env.push((name.to_owned(), value.to_owned()));
        words.next();
    }
    Ok(Command {
        name: name.into(),
        program: words.next().context("no program")?,
        args: words.collect(),
        env,
        stdin: (stdin != "-").then(|| stdin.into()),
        status: status.parse()?,
    })
}

/// Words of a column; "-" has none.
fn words(column: &str) -> impl Iterator<Item = &str> {
    column
        .split(' ')
        .filter(|word| !word.is_empty() && *word != "-")
}

fn parse_stdin(column: &str, size: &str) -> Result<Stdin> {
    let bytes = |text: &str| {
        let text = if text == "SIZE" { size } else { text };
        stream::size(text).context("no size")
    };
    match column.split_once(':') {
        Some(("pipe", text)) => Ok(Stdin::Pipe(bytes(text)?)),
        Some(("file", text)) => Ok(Stdin::File(bytes(text)?)),
        _ if column == "none" => Ok(Stdin::None),
        _ => bail!("no such stdin: {column}"),
    }
}

fn parse_extra(column: &str) -> Result<Extra> {
    let mut extra = Extra::default();
    for word in words(column) {
        let (key, value) = word.split_once('=').context("no = in extra")?;
        let owned = || value.to_owned();
        match key.split_once('.') {
            Some(("env", name)) => extra.env.push((name.into(), owned())),
            Some(("native", name)) => extra.native_env.push((name.into(), owned())),
            _ => match key {
                "stack" => extra.stack = Some(owned()),
                "partition" => extra.partition = Some(owned()),
                "needs" if value == "kvm" => extra.needs_kvm = true,
                "needs" if value == "vsyscall" => extra.needs_vsyscall = true,
                "ranks" => extra.ranks = Some(value.parse()?),
                "cores" => extra.cores = Some(value.parse()?),
                "user" if value == "nobody" => extra.is_unprivileged = true,
                "once" if value == "yes" => extra.once = true,
                _ => bail!("no such extra: {word}"),
            },
        }
    }
    Ok(extra)
}

/// Splits arguments and expands SIZE and A..B.
fn arguments(column: &str, size: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if column != "-" {
        split(column)?
            .into_iter()
            .for_each(|word| expand(word, size, &mut all));
    }
    Ok(all)
}

/// Splits words as a shell would that has single quotes only.
fn split(column: &str) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in column.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => all.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    ensure!(!quoted, "a quote is not closed");
    all.extend(word);
    Ok(all)
}

fn expand(word: String, size: &str, all: &mut Vec<String>) {
    let range = word
        .split_once("..")
        .map(|(from, to)| (from.parse::<u64>(), to.parse::<u64>()));
    match range {
        Some((Ok(from), Ok(to))) => all.extend((from..=to).map(|number| number.to_string())),
        _ if word == "SIZE" => all.push(size.into()),
        _ => all.push(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_and_expanded() {
        let split = |text: &str| arguments(text, "4M").expect("right");
        assert_eq!(split("-"), [""; 0]);
        assert_eq!(split("SIZE 1M"), ["4M", "1M"]);
        assert_eq!(
            split("a 'two words' '' '$x' b'c'd"),
            ["a", "two words", "", "$x", "bcd"]
        );
        assert_eq!(split("4 0..3"), ["4", "0", "1", "2", "3"]);
        assert_eq!(split("..x"), ["..x"]);
        assert!(arguments("'", "4M").is_err());
    }

    #[test]
    fn commands_are_read() {
        let command = parse_command("n\t1\tfile\tA=b C= /bin/x 'd e=f' 0..3").expect("right");
        let text = |text: &str| text.to_owned();
        assert_eq!(command.env, [(text("A"), text("b")), (text("C"), text(""))]);
        assert_eq!((command.program.as_str(), command.status), ("/bin/x", 1));
        assert_eq!(command.args, ["d e=f", "0..3"]);
        assert_eq!(command.stdin.as_deref(), Some("file"));
        assert!(parse_command("n\t1\t-\tA=b").is_err());
        assert!(parse_command("n\t1\tx").is_err());
    }

    #[test]
    fn rows_are_read() {
        let line = "n.musl\tenv\tenv/n.c\tmusl-static\t-\tpipe:SIZE\t139\tpartition=2G env.A=b=c native.N=1\tread write";
        let row = parse(line, "1K").expect("right");
        assert_eq!((row.program.as_str(), row.stdin), ("n", Stdin::Pipe(1024)));
        assert_eq!(row.end, End::Status(139));
        assert_eq!(row.extra.env, [("A".into(), "b=c".into())]);
        assert_eq!(row.extra.native_env, [("N".into(), "1".into())]);
        assert_eq!(row.notices, ["read", "write"]);
        assert!(parse("too\tfew", "1K").is_err());
        assert!(parse(&line.replace("partition", "shore"), "1K").is_err());
        assert!(parse(&line.replace("partition=2G", "user=root"), "1K").is_err());
    }

    #[test]
    fn the_manifests_are_right() {
        for file in CONFORMANCE.into_iter().chain(["bad.tsv"]) {
            let rows = read(file, "4M").expect("a right manifest");
            let names: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.name).collect();
            assert_eq!(names.len(), rows.len(), "{file}: a name is there twice");
        }
        let tables = CONFORMANCE.map(|file| format!("tests/debian/{file}"));
        let all = tables
            .iter()
            .flat_map(|table| commands(table).expect("a right table"));
        let names: Vec<_> = all.map(|command| command.name).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(
            distinct.len(),
            names.len(),
            "a command's name is there twice"
        );
    }
}
