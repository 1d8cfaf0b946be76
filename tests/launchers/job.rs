//! A launcher that does what all have in common: it starts a yod for each rank, with the variables that say which rank that is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use margay_tests::clean::{self, new_mark};
use margay_tests::process::{self, MARK, Process, Role};
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// Memory of a rank.
const PARTITION: &str = "32M";

/// A job, and where it runs.
pub struct Job {
    scratch: Scratch,
    mark: String,
    size: usize,
    before: BTreeSet<PathBuf>,
}

/// A test that failed leaves ranks that compute beside those that come after it.
impl Drop for Job {
    fn drop(&mut self) {
        for left in self.processes() {
            let _ = process::kill(left.pid);
        }
    }
}

impl Job {
    /// A job of `size` ranks.
    pub fn new(size: usize) -> Result<Job> {
        let scratch = Scratch::new()?;
        fs::create_dir_all(scratch.path().join("tmp"))?;
        Ok(Job {
            scratch,
            mark: new_mark(),
            size,
            before: clean::shared_files(),
        })
    }

    /// The yod of a rank, which runs a program of this kind and name, as Open MPI would start it.
    pub fn yod(&self, rank: usize, options: &[&str], program: (&str, &str), args: &[&str]) -> Run {
        let program = tree::program(program.0, program.1);
        self.place(
            Run::yod(&["-m", PARTITION]).args(options).args(&["--"]),
            [
                ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", self.size.to_string()),
                ("PMIX_NAMESPACE", self.mark.clone()),
            ],
        )
        .args(&[program.to_string_lossy()])
        .args(args)
    }

    /// A run with these variables, in the job's directory for temporary files.
    pub fn place<const N: usize>(&self, run: Run, variables: [(&str, String); N]) -> Run {
        let temporary = self.temporary().to_string_lossy().into_owned();
        run.env(&[(MARK, self.mark.clone()), ("TMPDIR", temporary)])
            .env(&variables)
    }

    /// How many ranks it has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What marks its processes.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Where its temporary files are.
    pub fn temporary(&self) -> PathBuf {
        self.scratch.path().join("tmp")
    }

    /// Where it runs.
    pub fn directory(&self) -> PathBuf {
        self.scratch.path().join("cwd")
    }

    /// What a file there says.
    pub fn read(&self, name: &str) -> Result<String> {
        let path = self.directory().join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Starts one of its yods.
    pub fn start(&self, run: Run) -> Result<Started<'_>> {
        run.start(&self.scratch)
    }

    /// Starts the yod of a rank that never ends; what it prints goes to a file.
    pub fn start_endless(&self, rank: usize, way: &str) -> Result<Started<'_>> {
        let yod = self.yod(rank, &[], ("glibc-static", "endless"), &[way]);
        self.start(yod.output_to(&format!("out.{rank}")))
    }

    /// Waits until all ranks run, by what they print: before that, the end of one is the end of all.
    pub fn wait_for_endless(&self) -> Result<()> {
        wait_for("running ranks", || {
            (0..self.size).all(|rank| {
                let out = self.read(&format!("out.{rank}"));
                out.is_ok_and(|text| text.contains("never ending"))
            })
        })
    }

    /// Starts a yod per rank, all with the same command line.
    pub fn start_all(
        &self,
        options: &[&str],
        program: (&str, &str),
        args: &[&str],
    ) -> Result<Vec<Started<'_>>> {
        let runs = (0..self.size).map(|rank| self.yod(rank, options, program, args));
        runs.map(|run| self.start(run)).collect()
    }

    /// Waits for the end of all; nothing is left.
    pub fn finish(&self, yods: Vec<Started<'_>>) -> Result<Vec<Outcome>> {
        let ended: Result<Vec<_>> = yods.into_iter().map(|yod| yod.finish(HANG)).collect();
        let ended = ended?;
        let all = ended.iter().map(|one| one.stderr.text());
        let all: Vec<String> = all.collect();
        ensure!(
            ended.iter().all(|one| one.status.is_some()),
            "hung: {:?}; stderr {all:?}",
            statuses(&ended)
        );
        self.nothing_left()?;
        Ok(ended)
    }

    /// Runs a yod per rank, all with the same command line, to their end.
    pub fn run(
        &self,
        options: &[&str],
        program: (&str, &str),
        args: &[&str],
    ) -> Result<Vec<Outcome>> {
        self.finish(self.start_all(options, program, args)?)
    }

    /// Neither processes nor files are left.
    pub fn nothing_left(&self) -> Result<()> {
        clean::nothing_left(&self.mark, &self.temporary(), &self.before)
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<Process> {
        process::of_job(&self.mark, 0)
    }

    /// Its process with this role.
    pub fn process(&self, role: Role) -> Result<u32> {
        let all = self.processes();
        let found = all.iter().find(|process| process.role == role);
        Ok(found.with_context(|| format!("no {role:?}: {all:?}"))?.pid)
    }

    /// The proxy that a yod has started.
    pub fn proxy(&self, yod: u32) -> Result<u32> {
        let all = self.processes();
        let is_it = |process: &&Process| {
            process.role == Role::Proxy && parent(process.pid).is_some_and(|pid| pid == yod)
        };
        let found = all.iter().find(is_it).map(|process| process.pid);
        found.with_context(|| format!("yod {yod} has no proxy: {all:?}"))
    }
}

/// Statuses of runs, in their order.
pub fn statuses(ended: &[Outcome]) -> Vec<Option<i32>> {
    ended.iter().map(|one| one.status).collect()
}

/// All that yods have said is one line, of one of them, with this in it.
pub fn one_line(ended: &[Outcome], part: &str) -> Result<()> {
    let lines: Vec<String> = ended
        .iter()
        .flat_map(|one| report::own_lines(one.stderr.head()))
        .collect();
    ensure!(
        lines.len() == 1 && lines[0].contains(part),
        "not one line with {part:?}: {lines:?}"
    );
    Ok(())
}

/// Waits until something is so.
pub fn wait_for(what: &str, is_so: impl FnMut() -> bool) -> Result<()> {
    wait_long_for(1, what, is_so)
}

/// Waits until something is so that takes so many times as long as most things.
pub fn wait_long_for(times: u32, what: &str, is_so: impl FnMut() -> bool) -> Result<()> {
    ensure!(process::wait_until(HANG * times, is_so), "never: {what}");
    Ok(())
}

/// The parent of a process, which runs.
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
