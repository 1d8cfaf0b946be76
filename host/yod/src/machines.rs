//! Which machine makes the node: the one place where there is a choice.

use std::io;

use machine::cokernel::{self, Cokernel, Cpus};
use machine::keeper::{self, Job, Launch};
use machine::machine::{Limits, Machine as _};
use machine::node::Keeper;
use machine::qemu::Q35;
use machine::qemu::accel::Accel;
use machine::resources::Resources;

use crate::cli;
use crate::failure::{Failure, status};

/// What a job may use of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    pub resources: Resources,
    /// The CPUs of all its yods.
    pub cpus: Vec<u32>,
}

/// Which machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Qemu,
    Cokernel,
}

/// It, as it is launched.
#[derive(Clone, Debug)]
pub enum Machine {
    Qemu(Q35),
    Cokernel,
}

impl Kind {
    /// Follows the user's choice. `only_qemu`: an option or variable that was given and is QEMU's alone. `usable`: whether there can be
    /// a co-kernel here.
    ///
    /// # Errors
    /// A line: both were wanted, or there is no co-kernel.
    pub fn choose(
        choice: cli::Machine,
        only_qemu: Option<&str>,
        usable: impl Fn() -> Result<(), String>,
    ) -> Result<Kind, Failure> {
        match (choice, only_qemu) {
            (cli::Machine::Qemu, _) | (cli::Machine::Auto, Some(_)) => Ok(Kind::Qemu),
            (cli::Machine::Auto, None) => Ok(usable().map_or(Kind::Qemu, |()| Kind::Cokernel)),
            (cli::Machine::Cokernel, Some(given)) => Err(Failure::new(
                status::USAGE,
                format_args!(
                    "{given} is of QEMU, not of --machine cokernel: leave one of them out"
                ),
            )),
            (cli::Machine::Cokernel, None) => usable().map(|()| Kind::Cokernel).map_err(|why| {
                Failure::new(
                    status::UNAVAILABLE,
                    format_args!("--machine cokernel: {why}; --machine qemu does without"),
                )
            }),
        }
    }
}

impl Machine {
    /// What a job may use of it, and what plans have to know of it.
    ///
    /// # Errors
    /// A line: it has nothing for this job.
    pub fn offer(&self, host: &Host) -> Result<(Resources, Limits), Failure> {
        match self {
            Machine::Qemu(_) => Ok((host.resources, Q35::LIMITS)),
            Machine::Cokernel => {
                let offer = cokernel::offer(&Cpus::of_host(&host.cpus), &host.resources);
                let none = || {
                    let cpus = cokernel::list(&host.cpus);
                    let line = format_args!(
                        "of the CPUs that this job may use ({cpus}) none is left for a co-kernel: Linux keeps CPU 0 and one of them, and other nodes what they have; --machine qemu does without"
                    );
                    Failure::new(status::USAGE, line)
                };
                offer.ok_or_else(none)
            }
        }
    }

    /// Forks the keeper of a node of it.
    ///
    /// # Errors
    /// No process, descriptor or memory left.
    pub fn keeper(launch: &Launch<Machine>, job: Job) -> io::Result<Keeper> {
        match &launch.machine {
            Machine::Qemu(q35) => keeper::start(&launch.with(q35.clone()), job),
            Machine::Cokernel => keeper::start(&launch.with(Cokernel), job),
        }
    }

    /// QEMU, unless it is another.
    pub fn qemu(&self) -> Option<&Q35> {
        match self {
            Machine::Qemu(q35) => Some(q35),
            Machine::Cokernel => None,
        }
    }

    /// What a node is to its user's host: the processes that `ps` shows, the package that is installed.
    pub const fn name(&self) -> &'static str {
        match self {
            Machine::Qemu(_) => Q35::NAME,
            Machine::Cokernel => Cokernel::NAME,
        }
    }

    /// That, and what executes.
    pub fn executes_by(&self) -> String {
        match self {
            Machine::Qemu(q35) => format!("{}, {}", Q35::NAME, q35.accel),
            Machine::Cokernel => Cokernel::NAME.into(),
        }
    }

    /// How a node of it comes up.
    pub const fn how(&self) -> &'static str {
        match self {
            Machine::Qemu(Q35 { accel, .. }) => match accel {
                Accel::Kvm => "under KVM",
                Accel::Tcg => "under TCG",
            },
            Machine::Cokernel => "as a co-kernel",
        }
    }

    /// For whom it does not come up: what else there is.
    pub const fn way_out(&self) -> &'static str {
        match self {
            Machine::Qemu(Q35 { accel, .. }) => match accel {
                Accel::Kvm => ", and --accel tcg does without KVM",
                Accel::Tcg => "",
            },
            Machine::Cokernel => ", and --machine qemu does without Linux's CPUs",
        }
    }

    /// Whether the CPU is emulated.
    pub fn emulates(&self) -> bool {
        self.qemu().is_some_and(|q35| q35.accel == Accel::Tcg)
    }

    /// Why it can be no node, where that is known.
    pub fn unfit(&self) -> Option<String> {
        match self {
            Machine::Qemu(q35) => q35.unfit(),
            Machine::Cokernel => Cokernel.unfit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_co_kernel_is_chosen_where_it_can_be() {
        let choose = |choice, only_qemu, usable: bool| {
            let usable = || usable.then_some(()).ok_or_else(|| "no device".to_owned());
            Kind::choose(choice, only_qemu, usable)
        };
        use cli::Machine::{Auto, Cokernel, Qemu};
        assert_eq!(choose(Auto, None, true), Ok(Kind::Cokernel));
        assert_eq!(choose(Auto, None, false), Ok(Kind::Qemu));
        assert_eq!(choose(Auto, Some("--accel tcg"), true), Ok(Kind::Qemu));
        assert_eq!(choose(Qemu, None, true), Ok(Kind::Qemu));
        assert_eq!(choose(Cokernel, None, true), Ok(Kind::Cokernel));
        let none = choose(Cokernel, None, false).expect_err("none");
        assert_eq!(none.status, 69);
        assert!(none.line.starts_with("--machine cokernel: no device; "));
        let both = choose(Cokernel, Some("--accel tcg"), true).expect_err("both");
        assert_eq!(both.status, 2);
        assert!(both.line.starts_with("--accel tcg is of QEMU, "));
    }

    #[test]
    fn a_job_on_cpu_0_alone_has_no_co_kernel() {
        let host = Host {
            resources: Resources {
                cores: 1,
                memory_bytes: 1 << 30,
            },
            cpus: vec![0],
        };
        let none = Machine::Cokernel.offer(&host).expect_err("none");
        assert_eq!(none.status, 2);
        assert!(none.line.contains("(0) none is left"), "{}", none.line);
    }
}
