//! What makes a node: the seam between the keeper and the machine that it keeps.
//!
//! Of a machine the keeper needs RAM that this host can map, a start, doorbells in both directions, its death and its log. A
//! machine is one module with a [`Machine`] (what can be started) and its [`Instance`] (what runs); the keeper, the yods and
//! the proxies are handed descriptors and the list of RAM, and know nothing else of it. Which machine it is is chosen where a
//! [`crate::keeper::Launch`] is made: the keeper is compiled for each.

use std::io;
use std::ops::Range;
use std::path::Path;

use rustix::event::PollFd;

use crate::agent::Agent;
use crate::bells::Bells;
use crate::binding::Binding;
use crate::memory::Memory;
use crate::message::{Cause, UsedUp};
use crate::plan::Plan;

/// What a plan has to know of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most cores of a node.
    pub cores: usize,
    /// Fifths of the available memory that the partitions of a job get together which names no other size.
    pub default_fifths: u64,
    /// RAM is handed over zeroed.
    pub zeroed: bool,
    /// Bytes of RAM, counted from its start, that neither the kernel's image nor what loads it uses: a communication area that
    /// fits lies there and costs nothing.
    pub unused: Range<u64>,
    /// Where one lies that does not: from the start of RAM, above the kernel's image.
    pub above_kernel: u64,
}

/// What the first instructions of a node are given.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'a> {
    /// The kernel, an ELF file.
    pub kernel: &'a Path,
    /// The PCT, handed over as initial RAM disk.
    pub pct: &'a Path,
    /// The kernel's command line.
    pub command_line: &'a str,
}

/// A machine that can be a node.
pub trait Machine {
    /// What it is called, for lines to the user.
    const NAME: &'static str;
    /// What plans have to know of it.
    const LIMITS: Limits;
    /// What comes with RAM and is needed to start.
    type Reserved;
    /// It as it runs.
    type Instance: Instance;

    /// Makes RAM for a plan. The kernel is loaded near the start of the first range.
    ///
    /// # Errors
    /// There is not so much; it would be in too many pieces.
    fn memory(&self, plan: &Plan) -> io::Result<(Memory, Self::Reserved)>;

    /// Why it can be no node, where that is known; for a start that has failed. Finding out may take as long as a start.
    fn unfit(&self) -> Option<String>;

    /// Starts a node: `memory` and `reserved` are what [`Self::memory`] made, with the boot information in it.
    ///
    /// The caller has no other children. Signals of [`crate::sys::OF_THE_RANKS`] are not for what is started here.
    ///
    /// # Errors
    /// It cannot be started.
    fn start(
        &self,
        plan: &Plan,
        memory: &Memory,
        reserved: Self::Reserved,
        boot: &Boot<'_>,
    ) -> io::Result<Self::Instance>;
}

/// A machine that runs. It ends with this process, whatever that dies of.
pub trait Instance {
    /// Its doorbells: one per core towards the node; one per rank and one for the keeper towards the host, at least. None
    /// is lost that the node rings, from its first instruction on; one for the node waits until the machine has come to it.
    fn bells(&self) -> &Bells;

    /// Adds the descriptors that the keeper has to be awake for: its death, more of its log, what it has to do itself.
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>);

    /// Does what it has to do itself, if anything.
    fn serve(&mut self);

    /// What lays pages of files over the node pool, if it has one; it is there before the machine does anything, or never.
    fn agent(&self) -> Option<&Agent>;

    /// Takes what there is of the kernel log, without waiting.
    fn read_log(&mut self, take: impl FnMut(&[u8]));

    /// How it ended, once it has: returned once.
    fn death(&mut self) -> Option<Death>;

    /// The node is up: its cores run on the CPUs of their ranks from now on, where they are threads of this host.
    fn bind(&self, binding: &Binding, plan: &Plan);

    /// Ends it. When this returns nothing of it is left.
    fn end(&mut self);
}

/// How a machine ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    /// What became of it.
    pub cause: Cause,
    /// What it complained of, if anything.
    pub complaint: String,
    /// The limit on its processor time, when it has used that up.
    pub used_up: Option<UsedUp>,
}
