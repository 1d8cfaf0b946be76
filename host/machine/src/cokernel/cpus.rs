//! Which CPUs of this host a node gets. Pure, but for where Linux says which are threads of one core.
//!
//! Linux keeps CPU 0, which cannot always be taken, and of those that the job may use at least one: keeper and proxies run there. A core of
//! the node is one thread of a physical core, whose other threads stay idle as long as there are cores enough.

use std::cmp::Reverse;

/// How good a CPU is for a core of a node; the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    /// The first thread of a physical core that is all the job's.
    Whole,
    /// The first of the job's threads of a core; another has the rest, or Linux has it offline.
    Part,
    /// A second thread of such a core.
    Thread,
    /// It shares its core with the CPU that Linux keeps.
    Kept,
}

/// CPUs that a node may have, the best first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpus(Vec<(Class, Reverse<u32>)>);

impl Cpus {
    /// Of those that the job may use.
    #[must_use]
    pub fn of_host(allowed: &[u32]) -> Cpus {
        let siblings = |cpu| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let text = std::fs::read_to_string(path).ok();
            text.and_then(|text| list(&text)).unwrap_or_default()
        };
        Cpus::new(allowed, &siblings)
    }

    /// `siblings`: the threads of a CPU's core that are online, itself among them; empty where that is unknown.
    fn new(allowed: &[u32], siblings: &dyn Fn(u32) -> Vec<u32>) -> Cpus {
        let Some(&kept) = allowed.iter().min() else {
            return Cpus(Vec::new());
        };
        let cores: Vec<Vec<u32>> = allowed.iter().map(|&cpu| siblings(cpu)).collect();
        let threads = cores.iter().map(Vec::len).max().unwrap_or(0);
        let class = |cpu: u32, core: &[u32]| {
            let own = || core.iter().filter(|other| allowed.contains(other));
            if core.contains(&kept) || core.contains(&0) {
                Class::Kept
            } else if own().any(|&other| other < cpu) {
                Class::Thread
            } else if own().count() < threads {
                Class::Part
            } else {
                Class::Whole
            }
        };
        let classed = allowed.iter().zip(&cores);
        let classed = classed.filter(|(cpu, _)| **cpu != kept && **cpu != 0);
        let mut classed: Vec<_> = classed
            .map(|(&cpu, core)| (class(cpu, core), Reverse(cpu)))
            .collect();
        classed.sort_unstable();
        Cpus(classed)
    }

    /// All that a node can be given.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those on physical cores of their own; or one that is not, where there are no others.
    #[must_use]
    pub fn cores(&self) -> usize {
        let own = self.0.iter().filter(|(class, _)| *class <= Class::Part);
        own.count().max(self.0.len().min(1))
    }

    /// So many, in ascending order; `None` where there are fewer.
    #[must_use]
    pub fn choose(&self, count: usize) -> Option<Vec<u32>> {
        let best = self.0.get(..count)?;
        let mut cpus: Vec<u32> = best.iter().map(|(_, cpu)| cpu.0).collect();
        cpus.sort_unstable();
        Some(cpus)
    }
}

/// `0-2,8` (Documentation/admin-guide/cputopology.rst).
fn list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With two threads for each core, thread `c + cores` beside thread `c`.
    fn with_threads(allowed: impl IntoIterator<Item = u32>, cores: u32) -> Cpus {
        let allowed: Vec<u32> = allowed.into_iter().collect();
        Cpus::new(&allowed, &|cpu| vec![cpu % cores, cpu % cores + cores])
    }

    fn chosen(cpus: &Cpus, count: usize) -> Vec<u32> {
        cpus.choose(count).expect("there are so many")
    }

    #[test]
    fn the_last_cores_are_taken_one_thread_each() {
        let cpus = with_threads(0..8, 4);
        assert_eq!((cpus.cores(), cpus.count()), (3, 7));
        assert_eq!(chosen(&cpus, 2), [2, 3]);
        assert_eq!(chosen(&cpus, 3), [1, 2, 3]);
        // There is no other way than both threads of a core; what shares the core of CPU 0 comes last.
        assert_eq!(chosen(&cpus, 4), [1, 2, 3, 7]);
        assert_eq!(chosen(&cpus, 7), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cpus.choose(8), None);
        assert_eq!(cpus.choose(0), Some(Vec::new()));
    }

    #[test]
    fn cores_that_are_the_jobs_alone_come_first() {
        // Of core 3 the job has the second thread only.
        let cpus = with_threads([0, 1, 2, 4, 5, 6, 7], 4);
        assert_eq!(chosen(&cpus, 2), [1, 2]);
        assert_eq!(chosen(&cpus, 3), [1, 2, 7]);
        assert_eq!(cpus.cores(), 3);
        // The second thread of core 3 is offline: another node has it.
        let siblings = |cpu| match cpu {
            3 => vec![3],
            cpu => vec![cpu % 4, cpu % 4 + 4],
        };
        let cpus = Cpus::new(&[0, 1, 2, 3, 4, 5, 6], &siblings);
        assert_eq!(chosen(&cpus, 2), [1, 2]);
    }

    #[test]
    fn linux_keeps_cpu_0_and_one_that_the_job_may_use() {
        let single = |allowed: &[u32]| Cpus::new(allowed, &|cpu| vec![cpu]);
        assert_eq!(chosen(&single(&[0, 1]), 1), [1]);
        assert_eq!(single(&[0, 1]).choose(2), None);
        assert_eq!(chosen(&single(&[7, 5, 6]), 2), [6, 7]);
        for none in [&[][..], &[0], &[3]] {
            assert_eq!((single(none).cores(), single(none).count()), (0, 0));
        }
        // One core with two threads: better that than nothing.
        let cpus = with_threads([0, 1], 1);
        assert_eq!((cpus.cores(), chosen(&cpus, 1)), (1, vec![1]));
        // The job has no CPU 0, but its sibling.
        let cpus = with_threads([1, 2, 3, 4], 4);
        assert_eq!(chosen(&cpus, 3), [2, 3, 4]);
        assert_eq!(cpus.cores(), 2);
    }

    #[test]
    fn cores_of_unknown_shape_count_each() {
        let cpus = Cpus::new(&[0, 1, 2], &|_| Vec::new());
        assert_eq!((cpus.cores(), chosen(&cpus, 2)), (2, vec![1, 2]));
    }

    #[test]
    fn lists_are_read_as_linux_writes_them() {
        assert_eq!(list("3\n"), Some(vec![3]));
        assert_eq!(list("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        for wrong in ["", "x", "1-", "-1", "1,,2", "99999999999"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_host_keeps_one() {
        let cpus = Cpus::of_host(&crate::resources::allowed_cpus());
        assert!(cpus.count() < crate::resources::allowed_cpus().len());
    }
}
