//! Launchers that lie: yods whose variables say of their ranks what cannot be, or of a job that never comes together; and for the MPI
//! program a process manager at the other end of PMI_FD that answers wrongly, by halves, or goes (MPICH's PMI-1, `src/pmi/`).

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result, ensure};
use margay_tests::clean::{self, new_mark};
use margay_tests::process::MARK;
use margay_tests::random::Random;
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::Round;

/// Jobs of a round. The first is as a launcher starts it, and must run.
const JOBS: u64 = 4;
/// Yods of a job at most.
const YODS: u64 = 3;
/// Ranks that wait for others, or for their process manager, wait no longer.
const LIMIT: &[&str] = &["--timeout", "5"];
const BOOT_LIMIT: (&str, &str) = ("MARGAY_BOOT_TIMEOUT_S", "5");
/// What yod says that it is to blame for.
const OWN_FAULT: i32 = 70;
/// Of yod, with a line.
const REFUSED: [i32; 2] = [2, 71];

/// In the place of a number.
const SENSELESS: &[&str] = &[
    "",
    "-1",
    "0",
    "1",
    "2",
    "4096",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e3",
    " 1",
    "1\n2",
    "0x1",
    "2(x3),1",
    "2(x",
    "1(x18446744073709551615),2",
    ",,,",
    "../../../tmp",
    "\u{7f}\u{1b}[2J",
];

/// A variable, and what it is of `(rank, size)` of a job.
type Variable = (&'static str, fn(&Job, u64) -> String);

/// What launchers say.
const OPEN_MPI: &[Variable] = &[
    ("OMPI_COMM_WORLD_LOCAL_RANK", |_, rank| rank.to_string()),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", |job, _| job.size.to_string()),
    ("PMIX_NAMESPACE", |job, _| job.mark.clone()),
    ("PMIX_RANK", |_, rank| rank.to_string()),
    ("PMIX_SERVER_URI2", |job, _| {
        format!("{}.0;tcp4://127.0.0.1:9", job.mark)
    }),
];
const HYDRA: &[Variable] = &[
    ("MPI_LOCALRANKID", |_, rank| rank.to_string()),
    ("MPI_LOCALNRANKS", |job, _| job.size.to_string()),
    ("PMI_RANK", |_, rank| rank.to_string()),
    ("PMI_SIZE", |job, _| job.size.to_string()),
];
const SLURM: &[Variable] = &[
    ("SLURM_LOCALID", |_, rank| rank.to_string()),
    ("SLURM_STEP_TASKS_PER_NODE", |job, _| job.size.to_string()),
    ("SLURM_STEP_ID", |_, _| "0".into()),
    ("SLURM_JOB_ID", |job, _| job.mark.clone()),
    ("SLURM_NODEID", |_, _| "0".into()),
];
const PMIX: &[Variable] = &[
    ("PMIX_RANK", |_, rank| rank.to_string()),
    ("PMIX_NAMESPACE", |job, _| job.mark.clone()),
];

/// Yods that one launcher starts.
struct Job {
    scratch: Scratch,
    mark: String,
    size: u64,
    is_right: bool,
}

/// A round: how many yods there were.
pub fn launchers(round: Round) -> Result<u64> {
    let mut random = Random::new(round.seed);
    let mut yods = 0;
    for number in 0..JOBS {
        let job = Job {
            scratch: Scratch::new()?,
            mark: new_mark(),
            size: round.ranks.min(YODS),
            is_right: number == 0,
        };
        job.play(&mut random)?;
        yods += job.size;
    }
    Ok(yods)
}

impl Job {
    fn play(&self, random: &mut Random) -> Result<()> {
        let temporary = self.scratch.path().join("tmp");
        std::fs::create_dir_all(&temporary)?;
        let before = clean::shared_files();
        let all = match self.is_right {
            true => OPEN_MPI,
            false => *random.pick(&[OPEN_MPI, HYDRA, HYDRA, SLURM, PMIX]),
        };
        let mut managers = Vec::new();
        let mut started: Vec<(Started<'_>, String)> = Vec::new();
        for rank in 0..self.size {
            let said = self.variables(all, rank, random);
            let (yod, manager) = self.start(&said, random)?;
            started.push((yod, format!("{said:?}")));
            managers.extend(manager);
        }
        let ended: Result<Vec<(Outcome, String)>> = started
            .into_iter()
            .map(|(yod, said)| Ok((yod.finish(HANG)?, said)))
            .collect();
        let ended = ended?;
        for (one, said) in &ended {
            self.judge(one).with_context(|| said.clone())?;
        }
        let is_refused = |one: &Outcome| one.status.is_some_and(|status| REFUSED.contains(&status));
        let silent = |one: &Outcome| report::own_lines(one.stderr.head()).is_empty();
        let all_silent = ended.iter().all(|(one, _)| silent(one));
        let refused = ended.iter().find(|(one, _)| is_refused(one));
        ensure!(
            !all_silent || refused.is_none(),
            "refused without a line: {}",
            refused.map_or("", |(_, said)| said)
        );
        // Open MPI's own, of a rank that did not come to its end.
        for entry in std::fs::read_dir(&temporary)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("ompi.") {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        clean::nothing_left(&self.mark, &temporary, &before)?;
        for manager in managers {
            manager.join().expect("no panic");
        }
        Ok(())
    }

    /// What the launcher says to the yod of a rank: some of it wrong, or not at all.
    fn variables(
        &self,
        all: &[Variable],
        rank: u64,
        random: &mut Random,
    ) -> Vec<(&'static str, String)> {
        let mut said = Vec::new();
        for (name, right) in all {
            let value = match random.below(16) {
                _ if self.is_right => right(self, rank),
                0 => continue,
                1..6 => (*random.pick(SENSELESS)).to_owned(),
                6 => "9".repeat(random.below(100_000) as usize),
                _ => right(self, rank),
            };
            said.push((*name, value));
        }
        said
    }

    /// Starts a yod of an MPI program, with its process manager.
    fn start(
        &self,
        said: &[(&'static str, String)],
        random: &mut Random,
    ) -> Result<(Started<'_>, Option<JoinHandle<()>>)> {
        let (kind, name) = match self.is_right {
            true => ("glibc-static", "hello"),
            false => *random.pick(&[
                ("mpich", "alone"),
                ("openmpi", "alone"),
                ("glibc-static", "hello"),
            ]),
        };
        let program = tree::program(kind, name);
        let temporary = self.scratch.path().join("tmp");
        let mut run = Run::yod(&["-m", "64M", "--oversubscribe"]).env(said).env(&[
            (MARK, self.mark.as_str()),
            ("TMPDIR", &temporary.to_string_lossy()),
        ]);
        if self.is_right {
            let run = run.args(&["--", &program.to_string_lossy()]);
            return Ok((run.start(&self.scratch)?, None));
        }
        run = run
            .env(&[BOOT_LIMIT])
            .args(LIMIT)
            .args(&["--", &program.to_string_lossy()]);
        let (own, theirs) = UnixStream::pair()?;
        let number = match random.below(8) {
            0 => (*random.pick(SENSELESS)).to_owned(),
            _ => theirs.as_raw_fd().to_string(),
        };
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let yod = run.env(&[("PMI_FD", number)]).start(&self.scratch);
        drop(theirs);
        let random = Random::new(random.next());
        Ok((yod?, Some(thread::spawn(move || manage(own, random)))))
    }

    /// Each yod ends in time, and says one line at most, besides that its time was over: a busy machine may be too slow for the program,
    /// too. The first job of a round runs.
    fn judge(&self, one: &Outcome) -> Result<()> {
        let stderr = one.stderr.text();
        let status = one
            .status
            .with_context(|| format!("it hung: {}", one.doings))?;
        ensure!(
            status != OWN_FAULT && !stderr.contains("panicked"),
            "status {status}: {stderr}"
        );
        let lines = report::own_lines(one.stderr.head());
        let besides = lines.iter().filter(|line| !line.contains("timed out"));
        ensure!(besides.count() <= 1, "not one line: {stderr}");
        let has_run = status == 0 && one.stdout.len_bytes > 0;
        ensure!(has_run || !self.is_right, "status {status}: {stderr}");
        Ok(())
    }
}

/// Answers a rank's requests as a process manager does, mostly; until the rank, or the manager, goes.
fn manage(mut rank: UnixStream, mut random: Random) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = rank.read(&mut bytes) {
        let request = String::from_utf8_lossy(&bytes[..len]);
        let mut answer = right_answer(&request).to_owned().into_bytes();
        match random.below(12) {
            0 => return,
            1 => answer.truncate(random.below(answer.len() as u64) as usize),
            2 => {
                answer = (0..random.below(4096))
                    .map(|_| random.next() as u8)
                    .collect()
            }
            3 => answer
                .splice(
                    4..4,
                    std::iter::repeat_n(b'x', random.below(200_000) as usize),
                )
                .for_each(drop),
            4 => {
                answer = String::from_utf8_lossy(&answer)
                    .replace("=0", &format!("={}", random.pick(SENSELESS)))
                    .into_bytes()
            }
            5 => answer.extend_from_within(..),
            _ => {}
        }
        if rank.write_all(&answer).is_err() {
            return;
        }
    }
}

/// What hydra answers (`src/pm/hydra/proxy/pmip_pmi_v1.c`).
fn right_answer(request: &str) -> &'static str {
    const ANSWERS: &[(&str, &str)] = &[
        (
            "cmd=init",
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
        ),
        (
            "cmd=get_maxes",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
        ),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_0\n"),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=1\n"),
        ("cmd=get", "cmd=get_result rc=0 value=0\n"),
        ("cmd=put", "cmd=put_result rc=0\n"),
        ("cmd=barrier_in", "cmd=barrier_out rc=0\n"),
        ("cmd=finalize", "cmd=finalize_ack rc=0\n"),
    ];
    let found = ANSWERS.iter().find(|(begin, _)| request.starts_with(begin));
    found.map_or("cmd=what rc=0\n", |(_, answer)| answer)
}
