//! Linux in QEMU, beside which margay.ko runs nodes: Debian's kernel with an initial RAM disk, tests/cokernel/init.c as the first
//! process, and a console over which everything comes.

pub mod cpio;
pub mod files;
mod host;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::scratch::Scratch;
use crate::tree;
use cpio::{Archive, Kind};
use files::{Tree, Wanted};
use host::Served;

/// Begins each line of init's.
const OWN: &str = "@cokernel ";
/// What the kernel is given: where to print, and to end when it cannot go on.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 log_buf_len=4M";
/// How all programs for the guest are compiled.
const FLAGS: [&str; 6] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-static",
];

/// The newest kernel, by name, below the folder that xtask unpacked one in.
#[must_use]
pub fn kernel(unpacked: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(unpacked.join("boot")).ok()?;
    let paths = entries.flatten().map(|entry| entry.path());
    let kernels = paths.filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("vmlinuz-")
    });
    kernels.max()
}

/// Compiles C files of the source tree into a static program.
///
/// # Errors
/// What the compiler had to say.
pub fn compile(sources: &[&str], to: &Path, more: &[&str]) -> Result<()> {
    let output = Command::new("gcc")
        .args(FLAGS)
        .args(more)
        .arg("-o")
        .arg(to)
        .args(sources)
        .current_dir(tree::root())
        .output()
        .context("cannot run gcc")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{sources:?}: {said}");
    Ok(())
}

/// A guest that is being put together.
pub struct Guest {
    scratch: Scratch,
    archive: Archive,
    modules: String,
    order: String,
    command_line: String,
    /// Whether it has the files of this host.
    hosted: bool,
}

/// What a command of the order did.
#[derive(PartialEq, Debug)]
pub struct Ran {
    /// What it printed.
    pub output: String,
    /// `status N` or `signal N`.
    pub how: String,
}

/// What a guest did.
pub struct Outcome {
    /// Its commands, in order.
    pub ran: Vec<Ran>,
    /// The log of its kernel, with `<priority>` before each line.
    pub log: String,
    /// What its kernel printed after that.
    pub end: String,
}

impl Guest {
    /// With margay.ko, which the first process loads.
    ///
    /// # Errors
    /// When the module was not built, or the first process cannot be.
    pub fn new() -> Result<Guest> {
        let mut guest = Guest::without_module()?;
        let module = tree::node_files().join("cokernel/margay.ko");
        guest
            .add_module(&module)
            .context("cargo run -p xtask -- cokernel builds it")?;
        Ok(guest)
    }

    /// As [`Guest::new`]; the root of commands is that of this host, to read, as far as the guest has no file systems of its own.
    ///
    /// # Errors
    /// As [`Guest::new`], or when there is no kernel of Linux.
    pub fn with_files_of_host() -> Result<Guest> {
        let mut guest = Guest::new()?;
        for module in host::prepare(&mut guest.archive)? {
            guest.add_module(&module)?;
        }
        guest.hosted = true;
        Ok(guest)
    }

    /// Why there can be no guest with the files of this host.
    #[must_use]
    pub fn no_files_of_host() -> Option<String> {
        host::missing()
    }

    /// Without margay.ko.
    ///
    /// # Errors
    /// When the first process cannot be built.
    pub fn without_module() -> Result<Guest> {
        let scratch = Scratch::new()?;
        let mut archive = Archive::default();
        for folder in ["dev", "proc", "sys", "tmp"] {
            archive.add(folder, Kind::Directory, 0);
        }
        archive.add("dev/console", Kind::Device(5, 1), 0);
        let init = scratch.path().join("init");
        compile(&["tests/cokernel/init.c"], &init, &[])?;
        let mut guest = Guest {
            scratch,
            archive,
            modules: String::new(),
            order: String::new(),
            command_line: COMMAND_LINE.to_owned(),
            hosted: false,
        };
        guest.add("init", &init)?;
        Ok(guest)
    }

    /// A module that the first process loads.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn add_module(&mut self, from: &Path) -> Result<()> {
        let name = from.file_name().context("no module")?.to_string_lossy();
        self.add(&name, from)?;
        self.modules.push_str(&format!("/{name}\n"));
        Ok(())
    }

    /// Where to make files for it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// A directory of it.
    pub fn add_folder(&mut self, name: &str) {
        self.archive.add(name, Kind::Directory, 0);
    }

    /// A file of it, an executable one; its directory is there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn add(&mut self, name: &str, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.archive.add(name, Kind::File(&bytes), 0);
        Ok(())
    }

    /// Files of this host, at the same paths.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn add_files(&mut self, files: &Tree) -> Result<()> {
        files.pack(&mut self.archive)
    }

    /// A word more on its kernel's command line.
    pub fn add_word(&mut self, word: &str) {
        self.command_line.push(' ');
        self.command_line.push_str(word);
    }

    /// What to run next, as which user, and for how long at most.
    pub fn run(&mut self, user: u32, limit: Duration, command: &str) {
        let line = format!("{user} {} {command}\n", limit.as_secs());
        self.order.push_str(&line);
    }

    /// Boots it, with these options of QEMU (`-m` among them), and waits for its end.
    ///
    /// # Errors
    /// When there is no kernel, or it does not come to its end: with the last that the console had.
    pub fn boot(mut self, options: &[&str], limit: Duration) -> Result<Outcome> {
        let kernel = kernel(&tree::target().join("linux"))
            .context("no kernel of Linux: cargo run -p xtask -- cokernel fetches Debian's")?;
        for (name, text) in [("modules", &self.modules), ("order", &self.order)] {
            self.archive.add(name, Kind::File(text.as_bytes()), 0);
        }
        let (disk, console) = (self.folder().join("disk"), self.folder().join("console"));
        let (_served, more) = self.serve(options)?;
        fs::write(&disk, self.archive.finish())?;
        // Should we be killed, QEMU is, too.
        let mut qemu = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(["-display", "none", "-nodefaults", "-no-reboot"])
            .args(["-serial", "stdio", "-append", &self.command_line])
            .args(options)
            .args(more)
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(&disk)
            .stdin(Stdio::null())
            .stdout(File::create(&console)?)
            .spawn()
            .context("cannot run qemu-system-x86_64")?;
        let ended = process::wait(&mut qemu, limit)?;
        if ended.is_none() {
            qemu.kill()?;
            qemu.wait()?;
        }
        let text = String::from_utf8_lossy(&fs::read(&console)?).replace('\r', "");
        parse(&text).with_context(|| match ended {
            Some(status) => format!("QEMU ended ({status})"),
            None => format!("killed after {} s", limit.as_secs()),
        })
    }

    /// yod with its libraries, the kernel and the PCT for it and for the module; and these programs.
    ///
    /// # Errors
    /// When one of them was not built, or is not installed.
    pub fn add_yod(&mut self, programs: &[Wanted]) -> Result<()> {
        self.add_files(&Tree::gather(programs, &tree::yod())?)?;
        self.add("yod", &tree::yod())?;
        // Root's, which the module reads, and those where yod looks for its own.
        const FOLDERS: [&str; 2] = ["usr/lib/firmware/margay", "margay"];
        for folder in ["usr/lib/firmware"].into_iter().chain(FOLDERS) {
            self.add_folder(folder);
        }
        for name in ["margay.elf", "pct", "agent.so"] {
            let file = tree::node_files().join(name);
            for folder in FOLDERS {
                self.add(&format!("{folder}/{name}"), &file)?;
            }
        }
        Ok(())
    }

    /// Serves the files of this host, and the options for that, if it has them.
    fn serve(&self, options: &[&str]) -> Result<(Option<Served>, Vec<String>)> {
        if !self.hosted {
            return Ok((None, Vec::new()));
        }
        let memory = options.windows(2).find(|words| words[0] == "-m");
        let memory = memory.context("-m is not among the options")?[1];
        let socket = self.folder().join("files");
        Ok((Some(Served::new(&socket)?), host::options(&socket, memory)))
    }
}

/// Takes the console's text apart.
fn parse(text: &str) -> Result<Outcome> {
    let mut ran: Vec<Ran> = Vec::new();
    let Some((before, log)) = text.split_once(&format!("\n{OWN}log\n")) else {
        let last: Vec<&str> = text.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!(
            "the guest did not end; its last lines:\n{}",
            last.join("\n")
        );
    };
    for part in before.split(OWN).skip(1) {
        let (own, rest) = part.split_once('\n').unwrap_or((part, ""));
        match own.split_once(' ') {
            Some(("begin", _)) => ran.push(Ran {
                output: rest.trim_end_matches('\n').to_owned(),
                how: String::new(),
            }),
            Some(("end", how)) => {
                let last = ran.last_mut().context("an end before a begin")?;
                how.split_once(' ')
                    .context("no status")?
                    .1
                    .clone_into(&mut last.how);
            }
            _ => bail!("init: {own}"),
        }
    }
    let over = format!("\n{OWN}over\n");
    let (log, end) = log.split_once(&over).unwrap_or((log, ""));
    Ok(Outcome {
        ran,
        log: log.to_owned(),
        end: end.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_log_are_distinguished() {
        let text = "noise\n\n@cokernel begin 0\na\nb\n\n@cokernel end 0 status 3\n\n@cokernel begin 1\n\n\
                    @cokernel end 1 signal 9\n\n@cokernel log\n<4>[ 1.0] x\n\n@cokernel over\n[2.0] reboot\n";
        let outcome = parse(text).expect("it ended");
        let ran = |output: &str, how: &str| Ran {
            output: output.to_owned(),
            how: how.to_owned(),
        };
        assert_eq!(outcome.ran, [ran("a\nb", "status 3"), ran("", "signal 9")]);
        assert_eq!(outcome.log, "<4>[ 1.0] x\n");
        assert_eq!(outcome.end, "[2.0] reboot\n");
        let error = parse("@cokernel begin 0\nKernel panic\n").err();
        assert!(error.is_some_and(|error| error.to_string().ends_with("begin 0\nKernel panic")));
        assert!(parse("\n@cokernel failed mount: no\n\n@cokernel log\n").is_err());
    }
}
