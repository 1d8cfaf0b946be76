//! Meeting the other yods of the job, where a launcher has started one for each rank.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use machine::binding::Binding;
use machine::keeper::{Job, Launch};
use machine::node::Keeper;
use machine::plan::Plan;
use machine::rendezvous::{self, Guest, Member, NoMeeting, Role, Terms, Why};
use machine::resources::{Resources, allowed_cpus};
use machine::sys::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::Cli;
use crate::console;
use crate::failure::{Failure, status};
use crate::loss;
use crate::machines::{Host, Machine};
use crate::place::Place;
use crate::setup::NODE_VARIABLES;
use crate::supervise::FATAL;
use crate::verdict::ranks_text;

/// How often time limits are checked until there is a node.
const POLL_PERIOD: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Waiting for others, with signals and time limits in view.
pub struct WaitLimits<'a> {
    pub signals: &'a Signals,
    pub began: Instant,
    /// For the node to come up.
    pub boot_limit: Duration,
    /// For the job.
    pub timeout: Option<Duration>,
}

impl WaitLimits<'_> {
    /// When the time limit of the job ends this waiting.
    pub fn due(&self) -> Option<Instant> {
        self.timeout.map(|timeout| self.began + timeout)
    }

    /// Waits until one of the descriptors is readable, or a moment.
    ///
    /// # Errors
    /// Why there is no more waiting; a line that is empty: the time for the node is over.
    pub fn wait(&self, fds: &[BorrowedFd<'_>], place: &Place) -> Result<(), Failure> {
        let waited = self.began.elapsed();
        while let Some(signal) = self.signals.next() {
            if FATAL.contains(&signal.signo) {
                return Err(loss::by_signal(signal.signo));
            }
        }
        if let Some(limit) = self.timeout.filter(|&timeout| waited >= timeout) {
            return Err(loss::timed_out(
                limit,
                &place.ranks.clone().collect::<Vec<_>>(),
            ));
        }
        if waited >= self.boot_limit {
            return Err(Failure::said(status::UNAVAILABLE));
        }
        let signals = self.signals.as_fd();
        let all = fds.iter().chain([&signals]);
        let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        // However it ends, the caller polls everything.
        let _ = poll(&mut all, Some(&POLL_PERIOD));
        Ok(())
    }
}

/// All yods of the job, as one of them sees it.
pub enum Party {
    /// This one starts the node, for itself and the others.
    First { me: Member, guests: Vec<Guest> },
    /// Another starts it.
    Later(OwnedFd),
}

impl Party {
    /// Meets the others; without a launcher there are none. `unfit`: why this yod cannot run its rank, if so.
    ///
    /// # Errors
    /// They do not come together, or one of them cannot run; those that have come are notified.
    pub fn meet(
        cli: &Cli,
        place: &Place,
        limits: &WaitLimits<'_>,
        unfit: Option<&Failure>,
    ) -> Result<Party, Failure> {
        let me = member(cli, place, unfit);
        let Some(launched) = place.launched.as_ref().filter(|_| place.is_shared()) else {
            let guests = Vec::new();
            return Ok(Party::First { me, guests });
        };
        let mut given_up = None;
        let mut wait = |fds: &[BorrowedFd<'_>]| match limits.wait(fds, place) {
            Ok(()) => true,
            Err(failure) => {
                given_up = Some(failure);
                false
            }
        };
        match rendezvous::meet(&launched.job, &me, &mut wait) {
            Ok(Role::First(guests)) => Ok(Party::First { me, guests }),
            Ok(Role::Later(socket)) => match unfit {
                None => Ok(Party::Later(socket)),
                // The first yod says it, unless it cannot.
                Some(own) => Err(rendezvous::dismissed(&socket, &mut wait)
                    .map_or_else(|| own.clone(), Failure::said)),
            },
            Err(NoMeeting { why, waiting }) => {
                let failure = given_up.filter(|failure| !failure.line.is_empty());
                let failure = failure.unwrap_or_else(|| explain(why, place, limits.boot_limit));
                let failure = say(failure);
                rendezvous::dismiss(&waiting, failure.status);
                Err(failure)
            }
        }
    }

    /// What all of them may use; `None` for one that does not start the node.
    pub fn host(&self) -> Option<Host> {
        let resources = match self {
            Party::First { me, guests } if guests.is_empty() => me.resources,
            Party::First { .. } => rendezvous::together(self.members()),
            Party::Later(_) => return None,
        };
        let mut cpus: Vec<u32> = self
            .members()
            .flat_map(|member| member.cpus.clone())
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        Some(Host { resources, cpus })
    }

    /// Notifies the others that there will be no node.
    pub fn dismiss(self, status: u8) {
        if let Party::First { guests, .. } = self {
            let sockets: Vec<_> = guests.into_iter().map(|guest| guest.socket).collect();
            rendezvous::dismiss(&sockets, status);
        }
    }

    /// The node's keeper, which is started if that is this yod's part; then there is a plan. `due`: the job's time limit for now.
    ///
    /// # Errors
    /// No process, descriptor or memory left.
    pub fn keeper(
        self,
        launch: &Launch<Machine>,
        plan: Option<Plan>,
        place: &Place,
        due: Option<Instant>,
    ) -> Result<Keeper, Failure> {
        let mut cpus: Vec<(usize, Vec<u32>)> = self
            .members()
            .map(|member| (member.rank, member.cpus.clone()))
            .collect();
        cpus.sort_unstable();
        match (self, plan) {
            (Party::First { me, guests }, Some(plan)) => {
                let ranks = place.ranks.clone();
                let job = Job {
                    plan,
                    ranks,
                    log: me.log,
                    due,
                    guests,
                    binding: Binding::new(cpus.into_iter().map(|(_, cpus)| cpus).collect()),
                };
                let started = Machine::keeper(launch, job);
                started.map_err(|error| Failure::os("start the node keeper", error))
            }
            (Party::Later(socket), _) => Ok(Keeper::of_job(socket)),
            (Party::First { .. }, None) => Err(Failure::os("start the node keeper", "no plan")),
        }
    }

    fn members(&self) -> impl Iterator<Item = &Member> + Clone {
        let (me, guests) = match self {
            Party::First { me, guests } => (Some(me), guests.as_slice()),
            Party::Later(_) => (None, [].as_slice()),
        };
        me.into_iter()
            .chain(guests.iter().map(|guest| &guest.member))
    }
}

/// Reports what others are about to receive: a launcher may drop what a yod writes once another has ended.
pub fn say(failure: Failure) -> Failure {
    if !failure.line.is_empty() {
        console::say(&failure.line);
    }
    Failure::said(failure.status)
}

fn member(cli: &Cli, place: &Place, unfit: Option<&Failure>) -> Member {
    Member {
        rank: place.ranks.start,
        cpus: allowed_cpus(),
        resources: Resources::of_host(),
        log: cli.kernel_log.is_some() && place.has_first(),
        terms: Terms {
            yod: std::fs::read_link(OWN_FILE)
                .map_or_else(|_| "yod".into(), |path| path.display().to_string()),
            file: std::fs::metadata(OWN_FILE)
                .map_or([0; 3], |meta| [meta.dev(), meta.ino(), meta.mtime() as u64]),
            size: place.size,
            options: options(cli),
        },
        unfit: unfit.map(|failure| (failure.status, failure.line.clone())),
    }
}

const OWN_FILE: &str = "/proc/self/exe";

/// Options, and variables that stand for options, that concern the node.
fn options(cli: &Cli) -> Vec<(String, String)> {
    let option = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value));
    let flag = |name, is_set: bool| option(name, is_set.then(String::new));
    let bytes = |bytes| machine::plan::Bytes(bytes).to_string();
    let accel = format!("{:?}", cli.accel).to_lowercase();
    let machine = format!("{:?}", cli.machine).to_lowercase();
    let of_cli = [
        option("-d", cli.cores.map(|cores| cores.to_string())),
        option("-m", cli.memory.map(bytes)),
        option("--shared-memory", cli.shared_memory.map(bytes)),
        option("--machine", Some(machine)),
        option("--accel", Some(accel)),
        flag("--oversubscribe", cli.oversubscribe),
        flag("--strace", cli.strace.is_some()),
        flag("--stats", cli.stats.is_some()),
        flag("--gdb", cli.gdb.is_some()),
        flag("--dry-run", cli.dry_run.is_some()),
    ];
    let variables = NODE_VARIABLES.iter().map(|name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        option(
            name,
            value.map(|value| value.to_string_lossy().into_owned()),
        )
    });
    of_cli.into_iter().chain(variables).flatten().collect()
}

fn explain(why: Why, place: &Place, limit: Duration) -> Failure {
    let cannot = "the yods of this job cannot meet";
    match why {
        Why::NoUser => Failure::new(
            status::UNAVAILABLE,
            format_args!("{cannot}: in this user namespace other users have the same id"),
        ),
        Why::Io(error) => Failure::os("meet the other yods of this job", error),
        Why::Differs(what) => Failure::new(status::USAGE, what),
        Why::Unfit(status, line) => Failure::new(status, line),
        Why::Gone(rank) => Failure::new(
            status::UNAVAILABLE,
            format_args!("rank {rank} of this job has ended before there was a node"),
        ),
        Why::FirstGone => first_gone(place),
        Why::GivenUp(missing) => {
            Failure::new(status::UNAVAILABLE, missing_line(&missing, place, limit))
        }
    }
}

/// The yod that was to start the node has ended without a word.
pub fn first_gone(place: &Place) -> Failure {
    let jobs = place.launched.iter().map(|launched| &launched.job);
    jobs.for_each(|job| rendezvous::clear_up(job));
    Failure::new(
        status::UNAVAILABLE,
        "the yod that was to start this job's node has ended",
    )
}

/// Another yod is this rank.
pub fn taken(place: &Place) -> Failure {
    let line = format_args!(
        "rank {} of this job is another yod: each process that a launcher starts runs one at a time",
        place.ranks.start
    );
    Failure::new(status::USAGE, line)
}

fn missing_line(missing: &[usize], place: &Place, limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    let (name, variable) = place.launched.as_ref().map_or(("", ""), |launched| {
        (launched.launcher, launched.size_variable)
    });
    match missing {
        [] => format!("the socket of this job stays locked for {seconds} s: is a yod stopped?"),
        missing => format!(
            "no yod came for {} within {seconds} s, though {name} says that there are {} ranks here: yod must start all of them; one that is to run alone needs {variable} unset",
            ranks_text(missing),
            place.size
        ),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Only one that comes later takes this way: which one that is, no test of whole jobs can choose.
    #[test]
    fn one_that_cannot_run_its_rank_gives_the_reason() {
        let cli = Cli::parse_from(["yod", "./a.out"]);
        let place = Place {
            ranks: 1..2,
            size: 2,
            launched: None,
        };
        let failure = Failure::new(127, "yod: ./a.out: no such file");
        let unfit = member(&cli, &place, Some(&failure)).unfit;
        assert_eq!(unfit, Some((127, failure.line)));
        assert_eq!(member(&cli, &place, None).unfit, None);
    }
}
