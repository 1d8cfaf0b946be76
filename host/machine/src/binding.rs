//! Which CPUs of the host a node's cores run on, where a launcher has bound each rank to CPUs of its own.
//!
//! The keeper takes the union of all bindings before it starts the machine, whose threads inherit it. Once the node is up, the
//! threads that are its cores get the binding of the rank whose core they are.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::plan::Plan;

/// The CPUs that the launcher gave each rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    ranks: Vec<Vec<u32>>,
}

impl Binding {
    /// From each rank's CPUs; `None` when all have the same, so that nothing is to be done.
    #[must_use]
    pub fn new(ranks: Vec<Vec<u32>>) -> Option<Binding> {
        let differ = ranks.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then_some(Binding { ranks })
    }

    /// Binds this process, and what it starts from now on, to the CPUs of all ranks.
    pub fn take_all(&self) {
        // One that cannot be given leaves the keeper where it was started.
        let _ = sched_setaffinity(None, &set(self.ranks.iter().flatten()));
    }

    /// Binds a thread of this host that is core `core` of the node.
    pub fn bind(&self, thread: Pid, core: u64, plan: &Plan) {
        let cpus = self.of_core(core, plan);
        if !cpus.is_empty() {
            let _ = sched_setaffinity(Some(thread), &set(&cpus));
        }
    }

    /// The CPUs of all ranks that have a core of the node; several may where they share cores.
    fn of_core(&self, core: u64, plan: &Plan) -> Vec<u32> {
        let has = |rank: usize| {
            let cores = plan.cores(rank);
            (cores.first..cores.first + cores.count).contains(&core)
        };
        let ranks = self.ranks.iter().enumerate();
        let ranks = ranks.filter(|(rank, _)| *rank < plan.ranks && has(*rank));
        ranks.flat_map(|(_, cpus)| cpus).copied().collect()
    }
}

fn set<'a>(cpus: impl IntoIterator<Item = &'a u32>) -> CpuSet {
    let mut set = CpuSet::new();
    let cpus = cpus.into_iter().map(|&cpu| cpu as usize);
    cpus.filter(|&cpu| cpu < CpuSet::MAX_CPU)
        .for_each(|cpu| set.set(cpu));
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ranks: usize, cpus: usize) -> Plan {
        Plan {
            ranks,
            cpus,
            partition_bytes: 2 << 20,
            pool_bytes: 0,
            node_bytes: 8 << 20,
            comm_offset: 0x10_0000,
            flags: 0,
            tsc_hz: 0,
        }
    }

    #[test]
    fn cores_go_where_their_ranks_are_bound() {
        let binding = Binding::new(vec![vec![4, 5], vec![9]]).expect("they differ");
        assert_eq!(binding.of_core(1, &plan(2, 4)), [4, 5]);
        assert_eq!(binding.of_core(2, &plan(2, 4)), [9]);
        assert_eq!(
            binding.of_core(0, &plan(2, 1)),
            [4, 5, 9],
            "they share the core"
        );
        assert_eq!(Binding::new(vec![vec![0, 1]; 3]), None);
        assert_eq!(Binding::new(vec![vec![0]]), None);
    }
}
