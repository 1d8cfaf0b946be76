//! Linux, Debian's kernel for clouds: the example of an adapter.
//!
//! 1. The machine is the one that yod would start (`machine`).
//! 2. The program goes into an initial RAM disk (`guest::cpio`), with the files that it needs (`guest::files`), bench/linux/init.c as the first
//!    process and a file that says what to run. The machine gets as much more memory as that disk takes.
//! 3. Output comes over the serial console (`console`).
//!
//! xtask fetches the kernel; it is never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use margay_tests::guest::cpio::{Archive, Kind};
use margay_tests::guest::{self, files::Tree};
use margay_tests::tree;

use super::console::{self, BEGIN};
use super::machine::Machine;
use super::margay::how;
use super::system::{Mode, Order, Output, System};
use crate::lab::{How, Lab};
use crate::launch::Launch;
use crate::scratch::Scratch;
use crate::{process, programs};

/// The source of the first process, from the root of the source tree.
const INIT: &str = "bench/linux/init.c";

/// What every Linux is given: where to print, and to end when it cannot go on.
const COMMON: &str = "console=ttyS0 quiet panic=-1";
/// So that two runs of the same program are the same run: with `-seed` and a clock that counts instructions.
const REPEATABLE: &str = "nokaslr";
/// Tuned for computing. Without `tsc=reliable` the tick goes on, for this TSC does not say that it is invariant.
const TUNED: &str = "transparent_hugepage=always mitigations=off init_on_alloc=0 tsc=reliable";
/// And with CPU 1 left to the program.
const ISOLATED: &str = "nohz_full=1 isolcpus=nohz,domain,managed_irq,1 rcu_nocbs=1 irqaffinity=0";
/// Where init.c finds the program.
const PROGRAM: &str = "/program";
/// Any program that yod starts as many ranks of as it is given.
const PLAIN: &str = "first";
/// The CPU that is left to the program.
const QUIET_CPU: usize = 1;

/// How Linux is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tuning {
    /// As it comes.
    Stock,
    /// As for computing.
    Tuned,
}

impl Tuning {
    /// Short name.
    pub fn name(self) -> &'static str {
        match self {
            Tuning::Stock => "linux",
            Tuning::Tuned => "linux-tuned",
        }
    }

    /// Name in the report.
    pub fn title(self) -> &'static str {
        match self {
            Tuning::Stock => "Linux, stock",
            Tuning::Tuned => "Linux, tuned",
        }
    }

    fn command_line(self, mode: Mode) -> String {
        let mut words = vec![COMMON];
        if mode.is_counted() {
            words.push(REPEATABLE);
        }
        if self == Tuning::Tuned {
            words.push(TUNED);
            if mode.cpus() > QUIET_CPU {
                words.push(ISOLATED);
            }
        }
        words.join(" ")
    }

    /// The CPUs of each process, as init.c takes them; none: Linux decides.
    fn cpus(self, order: &Order<'_>) -> Vec<String> {
        if order.launch != Launch::None {
            return vec![format!("0-{}", order.ranks.min(order.mode.cpus()) - 1)];
        }
        match (self, order.ranks, order.threads) {
            (_, 1, threads) if threads > 1 => vec![format!("0-{}", threads - 1)],
            (Tuning::Tuned, 1, _) if order.mode.cpus() > QUIET_CPU => vec![QUIET_CPU.to_string()],
            (_, 1, _) => vec![],
            (_, ranks, _) => (0..ranks).map(|cpu| cpu.to_string()).collect(),
        }
    }
}

/// A Linux.
pub struct Linux<'a> {
    lab: &'a Lab,
    tuning: Tuning,
    kernel: PathBuf,
    init: PathBuf,
    output: PathBuf,
}

impl<'a> Linux<'a> {
    /// Finds the kernel and builds the first process.
    ///
    /// # Errors
    /// When the kernel was not fetched or there is no compiler.
    pub fn new(lab: &'a Lab, output: &Path, tuning: Tuning) -> Result<Linux<'a>> {
        let kernel = guest::kernel(&output.with_file_name("linux")).context(
            "no kernel of Linux in the target directory: make compare fetches Debian's, and says why when it cannot",
        )?;
        let init = output.join("init");
        programs::compile(&tree::root().join(INIT), &init, &[])?;
        Ok(Linux {
            lab,
            tuning,
            kernel,
            init,
            output: output.to_path_buf(),
        })
    }

    fn ram_disk(&self, order: &Order<'_>) -> Result<Vec<u8>> {
        let init = fs::read(&self.init)?;
        let program = fs::read(order.program)
            .with_context(|| format!("cannot read {}", order.program.display()))?;
        let text = order_file(self.tuning, order);
        let mut archive = Archive::default();
        order.tree.pack(&mut archive)?;
        for (name, kind) in [
            ("dev", Kind::Directory),
            ("dev/console", Kind::Device(5, 1)),
            ("proc", Kind::Directory),
            ("sys", Kind::Directory),
            ("tmp", Kind::Directory),
            ("init", Kind::File(&init)),
            ("program", Kind::File(&program)),
            ("order", Kind::File(text.as_bytes())),
        ] {
            archive.add(name, kind, 0);
        }
        Ok(archive.finish())
    }

    fn command(&self, machine: &Machine, order: &Order<'_>, ram_disk: &Path) -> Command {
        // Should we be killed, QEMU is, too.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "taskset", "--cpu-list", order.cores])
            .arg(&machine.qemu)
            .args(machine.words());
        if order.mode.is_counted() {
            command.args(["-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
        }
        if let Some(plugin) = order.plugin {
            command.args(["-plugin", plugin]);
        }
        command
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(ram_disk)
            .args(["-append", &self.tuning.command_line(order.mode)]);
        command
    }
}

impl System for Linux<'_> {
    fn about(&self) -> Result<String> {
        let version = version(&fs::read(&self.kernel)?)?;
        let line = |mode| self.tuning.command_line(mode);
        Ok(format!(
            "{version}; command line `{}`, and for instruction counts `{}`",
            line(Mode::Wall),
            line(Mode::Instructions)
        ))
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.kernel.clone(), self.init.clone()]
    }

    fn run(&self, order: &Order<'_>) -> Result<Output> {
        // yod would not start ranks of an MPI by itself; the machine is the same.
        let how = How {
            launch: Launch::None,
            ..how(order)
        };
        let plan = self.lab.plan(how, &self.lab.program(PLAIN))?;
        let machine = Machine::parse(&plan)?.with_more(room_for(order.tree))?;
        let scratch = Scratch::new(&self.output)?;
        let ram_disk = scratch.path().join("initrd");
        fs::write(&ram_disk, self.ram_disk(order)?)
            .with_context(|| format!("cannot write {}", ram_disk.display()))?;
        let mut command = self.command(&machine, order, &ram_disk);
        let outcome = process::run_to_mark(&mut command, order.limit, BEGIN)?.good()?;
        let mut output = console::parse(&outcome.stdout)?;
        output.first_output_s = outcome.first_output_seconds;
        Ok(output)
    }
}

/// As bench/linux/init.c reads it.
fn order_file(tuning: Tuning, order: &Order<'_>) -> String {
    let mut text = String::new();
    if order.direct {
        text.push_str("direct\n");
    }
    for cpus in tuning.cpus(order) {
        text.push_str(&format!("rank {cpus}\n"));
    }
    let mut launcher = Vec::new();
    if let Some(mpi) = order.launch.mpi() {
        for (name, value) in mpi.variables() {
            text.push_str(&format!("env {name}={value}\n"));
        }
        launcher = mpi.launcher(order.ranks, order.mode.cpus());
    }
    if let Some((path, words)) = launcher.split_first() {
        text.push_str(&format!("launcher {path}\n"));
        for word in words.iter().map(String::as_str).chain([PROGRAM]) {
            text.push_str(&format!("arg {word}\n"));
        }
    }
    for arg in order.prepare {
        text.push_str(&format!("before {arg}\n"));
    }
    for arg in order.args {
        text.push_str(&format!("arg {arg}\n"));
    }
    text
}

/// Memory for a tree: Linux has the disk and its files while it unpacks, in whole pages.
fn room_for(tree: &Tree) -> u64 {
    const MIB: u64 = 1 << 20;
    if tree.is_empty() {
        return 0;
    }
    (5 * tree.bytes() / 2).next_multiple_of(MIB) + 16 * MIB
}

/// The version that a kernel's image states: field kernel_version of its header, an offset from 0x200 (Linux,
/// Documentation/arch/x86/boot.rst).
fn version(image: &[u8]) -> Result<String> {
    let field = image
        .get(0x20e..0x210)
        .context("the kernel's image is too short")?;
    let at = 0x200 + usize::from(u16::from_le_bytes([field[0], field[1]]));
    let text = image
        .get(at..)
        .context("the kernel's image states no version")?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(format!("Linux {}", String::from_utf8_lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_tests::guest::files;
    use std::time::Duration;

    fn order(mode: Mode, ranks: usize) -> Order<'static> {
        Order {
            program: Path::new("/p"),
            tree: &files::EMPTY,
            args: &[],
            prepare: &[],
            mode,
            ranks,
            launch: Launch::None,
            threads: 1,
            cores: "0",
            direct: false,
            plugin: None,
            limit: Duration::ZERO,
        }
    }

    #[test]
    fn tuned_leaves_a_cpu_to_the_program_where_there_are_two() {
        assert!(
            Tuning::Tuned
                .command_line(Mode::Wall)
                .contains("nohz_full=1")
        );
        let counted = Tuning::Tuned.command_line(Mode::Instructions);
        assert!(!counted.contains("nohz_full") && counted.contains("mitigations=off"));
        assert!(
            !Tuning::Stock
                .command_line(Mode::Wall)
                .contains("mitigations")
        );
        let cpus = |tuning: Tuning, mode, ranks| tuning.cpus(&order(mode, ranks)).join(" ");
        assert_eq!(cpus(Tuning::Tuned, Mode::Wall, 1), "1");
        assert_eq!(cpus(Tuning::Tuned, Mode::Instructions, 1), "");
        assert_eq!(cpus(Tuning::Stock, Mode::Wall, 1), "");
        assert_eq!(cpus(Tuning::Stock, Mode::Wall, 2), "0 1");
        let two_threads = Order {
            threads: 2,
            ..order(Mode::Wall, 1)
        };
        assert_eq!(Tuning::Tuned.cpus(&two_threads), ["0-1"]);
    }

    /// It binds its ranks itself, which needs every CPU.
    #[test]
    fn a_launcher_has_all_cpus() {
        let launched = Order {
            launch: Launch::Components,
            ..order(Mode::Wall, 2)
        };
        assert_eq!(Tuning::Tuned.cpus(&launched), ["0-1"]);
        let file = order_file(Tuning::Tuned, &launched);
        assert!(
            file.contains("\nlauncher /usr/bin/mpirun.openmpi\narg --use-hwthread-cpus\narg -n\narg 2\narg /program\n"),
            "{file}"
        );
        assert!(file.contains("env OMPI_ALLOW_RUN_AS_ROOT=1\n"), "{file}");
        let shared = Order {
            ranks: 4,
            ..launched
        };
        assert_eq!(Tuning::Tuned.cpus(&shared), ["0-1"]);
        assert_eq!(order_file(Tuning::Tuned, &order(Mode::Wall, 1)), "rank 1\n");
    }

    #[test]
    fn a_tree_gets_room_for_the_disk_and_its_files() {
        assert_eq!(room_for(&files::EMPTY), 0);
        let loader = Tree::gather(&[], Path::new("/usr/bin/env")).expect("a tree");
        assert!(room_for(&loader) > 2 * loader.bytes() && room_for(&loader).is_multiple_of(4096));
    }

    #[test]
    fn the_version_is_read_from_the_image() {
        let mut image = vec![0; 0x400];
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x307].copy_from_slice(b"6.1.0-x");
        assert_eq!(version(&image).expect("a version"), "Linux 6.1.0-x");
        assert!(version(&[0; 9]).is_err());
    }
}
