//! What a launcher says of the process that it starts, in the environment.
//!
//! | launcher | rank on this host, and how many | job |
//! |---|---|---|
//! | mpirun of Open MPI (orted, PRRTE) | OMPI_COMM_WORLD_LOCAL_RANK, _SIZE | PMIX_NAMESPACE and the server's address |
//! | mpiexec.hydra of MPICH, and its kin | MPI_LOCALRANKID, MPI_LOCALNRANKS | the process at the other end of PMI_FD, else the parent |
//! | srun | SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE | SLURM_JOB_ID, SLURM_STEP_ID, SLURM_NODEID |
//!
//! They are looked for in this order: inside of an allocation of Slurm mpirun's own variables count. A launcher that only serves
//! PMIx, as PRRTE's `prterun` does by itself, gives no process the others on its host.

use std::os::fd::BorrowedFd;

use machine::rendezvous::Peer;
use machine::stat;

use crate::failure::{Failure, status};

/// What a launcher's variables say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launched {
    /// Its name, for people.
    pub launcher: &'static str,
    /// The variable that says how many ranks there are, for people.
    pub size_variable: &'static str,
    /// What no other job on this host has.
    pub job: String,
    /// Number of this rank among those of the job on this host.
    pub rank: usize,
    /// How many these are.
    pub size: usize,
    /// The MPI whose ranks find each other by it; `None`: those of any.
    pub connects: Option<&'static str>,
    /// Variables that its ranks need on a node, unless they are set.
    pub settings: Settings,
}

/// Open MPI and MPICH, for people.
pub const NAMES: [&str; 2] = ["Open MPI", "MPICH"];

/// Variables and their values.
pub type Settings = &'static [(&'static str, &'static str)];

/// Which process a launcher's daemon is: its id, and when it was started, in clock ticks.
type Daemon = (u32, u64);

/// Reads this process's environment.
///
/// # Errors
/// A variable makes no sense.
pub fn find() -> Result<Option<Launched>, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    launched(&variable, &|| daemon(variable("PMI_FD")))
}

fn launched(
    variable: &dyn Fn(&str) -> Option<String>,
    daemon: &dyn Fn() -> Option<Daemon>,
) -> Result<Option<Launched>, Failure> {
    let text = |name| variable(name).unwrap_or_default();
    let both = |a, b| variable(a).is_some() && variable(b).is_some();
    if both(OMPI[0], OMPI[1]) {
        let server = ["PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2"];
        let server = server.into_iter().find_map(variable).unwrap_or_default();
        return Ok(Some(Launched {
            launcher: "mpirun",
            size_variable: OMPI[1],
            job: format!("openmpi {} {server}", text("PMIX_NAMESPACE")),
            rank: number(variable, OMPI[0])?,
            size: number(variable, OMPI[1])?,
            connects: Some(NAMES[0]),
            settings: OPEN_MPI,
        }));
    }
    if both(HYDRA[0], HYDRA[1]) {
        let (pid, start) = daemon().unwrap_or_default();
        return Ok(Some(Launched {
            launcher: "mpiexec",
            size_variable: HYDRA[1],
            job: format!("hydra {pid} {start}"),
            rank: number(variable, HYDRA[0])?,
            size: number(variable, HYDRA[1])?,
            connects: Some(NAMES[1]),
            settings: MPICH,
        }));
    }
    // Only what srun starts is in a step.
    if both(SLURM[0], SLURM[1]) && variable("SLURM_STEP_ID").is_some() {
        let node = variable("SLURM_NODEID").and_then(|node| node.parse().ok());
        let tasks = text(SLURM[1]);
        return Ok(Some(Launched {
            launcher: "srun",
            size_variable: SLURM[1],
            // A host may be several nodes of a cluster.
            job: format!(
                "slurm {}.{} {}",
                text("SLURM_JOB_ID"),
                text("SLURM_STEP_ID"),
                text("SLURM_NODEID")
            ),
            rank: number(variable, SLURM[0])?,
            size: nth(&tasks, node.unwrap_or(0)).ok_or_else(|| senseless(SLURM[1], &tasks))?,
            connects: None,
            settings: EITHER,
        }));
    }
    if both(PMIX[0], PMIX[1]) {
        let line = format_args!(
            "{}={}: the launcher does not say how many ranks are on this host; start them with mpirun, or prterun --personality ompi",
            PMIX[0],
            text(PMIX[0])
        );
        return Err(Failure::new(status::USAGE, line));
    }
    Ok(None)
}

const OMPI: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"];
const HYDRA: [&str; 2] = ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"];
const PMIX: [&str; 2] = ["PMIX_RANK", "PMIX_NAMESPACE"];
const SLURM: [&str; 2] = ["SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"];
pub const OPEN_MPI: Settings = &[NO_POSIX];
/// MPICH otherwise tries a hundred addresses for each window that ranks share, nearly all beyond what a rank has, and leaves a
/// file in /dev/shm for each.
const NO_RETRY: (&str, &str) = ("MPIR_CVAR_SHM_SYMHEAP_RETRY", "0");
pub const MPICH: Settings = &[NO_POSIX, NO_RETRY];
/// srun starts both.
const EITHER: Settings = MPICH;
/// UCX otherwise opens what another rank shares by /proc/PID/fd, which Linux refuses for proxies (docs/trust.md). With segments of
/// System V it need not, and leaves nothing behind.
const NO_POSIX: (&str, &str) = ("UCX_TLS", "^posix");
/// On a co-kernel, where ranks cannot share files: Open MPI's messages in such a file, in 4 and in 5, and PMIx's data in one, for which
/// they have other ways but complain at each start.
pub const ON_COKERNEL: Settings = &[("OMPI_MCA_btl", "^vader,sm"), ("PMIX_MCA_gds", "hash")];

fn number(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<usize, Failure> {
    let text = variable(name).unwrap_or_default();
    count(&text).ok_or_else(|| senseless(name, &text))
}

/// A number of ranks on a host, each of which is looked for: more than these no launcher starts.
fn count(text: &str) -> Option<usize> {
    text.parse().ok().map(u16::into)
}

fn senseless(name: &str, text: &str) -> Failure {
    let line = format_args!("{name}={text}: no number of ranks; is it a launcher's?");
    Failure::new(status::USAGE, line)
}

/// The number of a node in a list as Slurm has it: `2(x3),1` are three nodes with 2 and one with 1.
fn nth(list: &str, index: usize) -> Option<usize> {
    let mut left = index;
    for part in list.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        if left < times {
            return count(number);
        }
        left -= times;
    }
    None
}

/// The daemon that has made the socket `pmi_fd`, or is the parent of this process.
fn daemon(pmi_fd: Option<String>) -> Option<Daemon> {
    let made = pmi_fd.and_then(|fd| {
        let open = machine::sys::open_descriptors();
        let fd = fd.parse().ok().filter(|fd| open.contains(fd))?;
        let maker = machine::sys::with_descriptor(fd, |fd: BorrowedFd<'_>| Peer::of(&fd));
        maker?.pid
    });
    let pid = made.or_else(rustix::process::getppid)?.as_raw_pid() as u32;
    let start = stat::read(pid).and_then(|stat| stat::field(&stat, stat::START));
    Some((pid, start.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<Launched>, Failure> {
        let variable = |name: &str| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        launched(&variable, &|| Some((7, 99)))
    }

    #[test]
    fn launchers_are_recognised_by_their_variables() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "97452033"),
            ("PMIX_SERVER_URI2", "97452032.0;tcp4://127.0.0.1:35833"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_STEP_ID", "3"),
            ("SLURM_STEP_TASKS_PER_NODE", "1"),
        ];
        let found = of(&open_mpi).expect("right").expect("launched");
        assert_eq!((found.launcher, found.rank, found.size), ("mpirun", 1, 2));
        assert_eq!(found.connects, Some("Open MPI"));
        assert_eq!(
            found.job,
            "openmpi 97452033 97452032.0;tcp4://127.0.0.1:35833"
        );
        assert_eq!(found.settings, [NO_POSIX]);
        let hydra = of(&[("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "3")]);
        let hydra = hydra.expect("right").expect("launched");
        assert_eq!((hydra.rank, hydra.size, &*hydra.job), (0, 3, "hydra 7 99"));
        assert_eq!(hydra.settings, MPICH);
        let step = [
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_TASKS_PER_NODE", "1,2(x2)"),
            ("SLURM_NODEID", "2"),
            ("SLURM_JOB_ID", "17"),
        ];
        assert_eq!(of(&step), Ok(None), "a batch script is no step");
        let step = of(&[&step[..], &[("SLURM_STEP_ID", "4")]].concat());
        let step = step.expect("right").expect("launched");
        assert_eq!((step.rank, step.size, &*step.job), (1, 2, "slurm 17.4 2"));
        assert_eq!((step.connects, step.settings), (None, EITHER));
        assert_eq!(of(&[]), Ok(None));
    }

    #[test]
    fn senseless_variables_are_named() {
        let line = |set: &[(&str, &str)]| of(set).expect_err("senseless").line;
        let local = [("MPI_LOCALRANKID", "one"), ("MPI_LOCALNRANKS", "2")];
        assert!(line(&local).starts_with("MPI_LOCALRANKID=one: "));
        // yod went over all of them, to find which had not come.
        let many = [("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "4294967296")];
        assert!(line(&many).starts_with("MPI_LOCALNRANKS=4294967296: "));
        let step = [
            ("SLURM_LOCALID", "0"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x"),
        ];
        assert!(line(&step).starts_with("SLURM_STEP_TASKS_PER_NODE=2(x: "));
        let only_pmix = line(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "prterun-a-1@1")]);
        assert!(only_pmix.contains("prterun --personality ompi"));
    }

    #[test]
    fn lists_of_slurm_are_counted() {
        let all = |list| (0..5).map(|i| nth(list, i)).collect::<Vec<_>>();
        assert_eq!(all("2(x3),1"), [Some(2), Some(2), Some(2), Some(1), None]);
        assert_eq!(all("4"), [Some(4), None, None, None, None]);
        assert_eq!(all("x"), [None; 5]);
        assert_eq!(nth("65536(x2)", 1), None);
    }

    #[test]
    fn this_process_has_a_parent_that_was_started() {
        let (pid, start) = daemon(None).expect("a parent");
        assert!(pid > 0 && start > 0);
        assert_eq!(daemon(Some("9999".into())), Some((pid, start)));
    }
}
