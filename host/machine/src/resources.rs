//! What this process may use of the host: cores and memory, never the bare machine.
//!
//! Cores: the affinity mask, cut by the CPU quotas of the cgroups it is in. Memory: MemAvailable, cut by what the
//! memory limits of its cgroups leave. Version 1 and 2 hierarchies are read, at every level up to the mount, for a
//! limit may sit anywhere above (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, scheduler/sched-bwc.rst).

use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

/// What can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resources {
    /// Cores, at least one.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl Resources {
    /// Looks at the host.
    #[must_use]
    pub fn of_host() -> Resources {
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        from_files(allowed_cores(), &read)
    }
}

/// The CPUs of the host that this process may run on, as far as Linux reports.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let mask = sched_getaffinity(None).unwrap_or_default();
    let set = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu));
    set.map(|cpu| cpu as u32).collect()
}

fn allowed_cores() -> usize {
    match sched_getaffinity(None) {
        Ok(mask) => mask.count() as usize,
        // More CPUs than the mask has room for.
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

fn from_files(allowed_cores: usize, read: Read<'_>) -> Resources {
    let mut cores = allowed_cores;
    let mut memory_bytes = read(Path::new("/proc/meminfo"))
        .and_then(|text| mem_available(&text))
        .unwrap_or(u64::MAX);
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let member = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    for group in groups(&mounts, &member) {
        for dir in group.levels() {
            if let Some(quota) = group.cpu_quota(&dir, read) {
                cores = cores.min(quota);
            }
            if let Some(left) = group.memory_left(&dir, read) {
                memory_bytes = memory_bytes.min(left);
            }
        }
    }
    Resources {
        cores: cores.max(1),
        memory_bytes,
    }
}

/// `MemAvailable:   24280000 kB` in bytes.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A control group this process is in.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    v2: bool,
    mount: PathBuf,
    /// Relative to the mount.
    path: PathBuf,
}

impl Group {
    /// Its directory and all above, up to the mount.
    fn levels(&self) -> Vec<PathBuf> {
        self.path
            .ancestors()
            .map(|level| self.mount.join(level))
            .collect()
    }

    /// Whole cores that the quota at this level allows; at least one.
    fn cpu_quota(&self, dir: &Path, read: Read<'_>) -> Option<usize> {
        let (quota, period): (u64, u64) = if self.v2 {
            let text = read(&dir.join("cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        } else {
            // "-1" is no number of type u64: no limit.
            let number = |name| read(&dir.join(name))?.trim().parse().ok();
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        };
        let cores = quota.checked_div(period)?.max(1);
        usize::try_from(cores).ok()
    }

    /// Bytes that the memory limit at this level leaves. Unused file pages count as free: they are given up
    /// when memory runs short.
    fn memory_left(&self, dir: &Path, read: Read<'_>) -> Option<u64> {
        let (limit, usage) = if self.v2 {
            ("memory.max", "memory.current")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
        };
        let number = |name| read(&dir.join(name))?.trim().parse::<u64>().ok();
        let (limit, usage) = (number(limit)?, number(usage)?);
        let field = if self.v2 {
            "inactive_file "
        } else {
            "total_inactive_file "
        };
        let idle = read(&dir.join("memory.stat"))
            .and_then(|text| {
                text.lines()
                    .find_map(|line| line.strip_prefix(field)?.parse().ok())
            })
            .unwrap_or(0);
        Some(limit.saturating_sub(usage.saturating_sub(idle)))
    }
}

/// The groups that may limit cores or memory.
///
/// `mounts` is /proc/self/mountinfo (proc(5)), `member` /proc/self/cgroup: lines `id:controllers:path`, for version 2
/// with id 0 and no controllers. In a container the mount may show a part of the hierarchy only: its root field says
/// which.
fn groups(mounts: &str, member: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for mount in mounts.lines().filter_map(parse_mount) {
        for (controllers, path) in member
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        {
            let matches = match mount.v2 {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|c| {
                    (c == "cpu" || c == "memory") && mount.options.split(',').any(|o| o == c)
                }),
            };
            if matches {
                let path = Path::new(path);
                let inside = path
                    .strip_prefix(mount.root)
                    .or_else(|_| path.strip_prefix("/"));
                found.push(Group {
                    v2: mount.v2,
                    mount: PathBuf::from(mount.point),
                    path: inside.unwrap_or(path).to_path_buf(),
                });
            }
        }
    }
    found
}

struct Mount<'a> {
    v2: bool,
    root: &'a str,
    point: &'a str,
    options: &'a str,
}

fn parse_mount(line: &str) -> Option<Mount<'_>> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let v2 = match right.next()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    Some(Mount {
        v2,
        root,
        point,
        options: right.nth(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn resources(cores: usize, files: &[(&str, &str)]) -> Resources {
        let files: HashMap<PathBuf, String> = files
            .iter()
            .map(|(k, v)| (PathBuf::from(k), (*v).to_owned()))
            .collect();
        from_files(cores, &|path: &Path| files.get(path).cloned())
    }

    const MEMINFO: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:  2000 kB\nMemFree: 500 kB\nMemAvailable:    1000 kB\n",
    );
    const V2: (&str, &str) = (
        "/proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
    );

    #[test]
    fn without_limits_it_is_the_mask_and_what_is_available() {
        let seen = resources(4, &[MEMINFO]);
        assert_eq!(
            seen,
            Resources {
                cores: 4,
                memory_bytes: 1000 << 10
            }
        );
    }

    #[test]
    fn nothing_readable_is_one_core_and_no_limit() {
        assert_eq!(
            resources(0, &[]),
            Resources {
                cores: 1,
                memory_bytes: u64::MAX
            }
        );
    }

    #[test]
    fn version_2_limits_hold_at_every_level() {
        let seen = resources(
            64,
            &[
                MEMINFO,
                V2,
                ("/proc/self/cgroup", "0::/job/step\n"),
                ("/sys/fs/cgroup/job/cpu.max", "350000 100000\n"),
                ("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n"),
                ("/sys/fs/cgroup/job/step/memory.max", "600000\n"),
                ("/sys/fs/cgroup/job/step/memory.current", "500000\n"),
                (
                    "/sys/fs/cgroup/job/step/memory.stat",
                    "anon 100\ninactive_file 300000\n",
                ),
                ("/sys/fs/cgroup/job/memory.max", "max\n"),
                ("/sys/fs/cgroup/job/memory.current", "500000\n"),
            ],
        );
        assert_eq!(
            seen,
            Resources {
                cores: 3,
                memory_bytes: 400_000
            }
        );
    }

    #[test]
    fn version_1_limits_are_found_by_controller() {
        let seen = resources(
            64,
            &[
                MEMINFO,
                (
                    "/proc/self/mountinfo",
                    "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                     35 31 0:32 /docker/ab /cg/memory rw - cgroup cgroup rw,memory\n",
                ),
                (
                    "/proc/self/cgroup",
                    "4:memory:/docker/ab/x\n3:cpuset:/y\n1:cpu,cpuacct:/z\n",
                ),
                ("/cg/cpu/z/cpu.cfs_quota_us", "50000\n"),
                ("/cg/cpu/z/cpu.cfs_period_us", "100000\n"),
                ("/cg/cpu/cpu.cfs_quota_us", "-1\n"),
                ("/cg/cpu/cpu.cfs_period_us", "100000\n"),
                ("/cg/memory/x/memory.limit_in_bytes", "4096\n"),
                ("/cg/memory/x/memory.usage_in_bytes", "8192\n"),
            ],
        );
        assert_eq!(
            seen,
            Resources {
                cores: 1,
                memory_bytes: 0
            }
        );
    }

    #[test]
    fn a_path_that_the_mount_does_not_show_is_tried_from_its_root() {
        let mounts = "1 2 0:3 /other /cg rw - cgroup2 c rw";
        assert_eq!(
            groups(mounts, "0::/a/b"),
            [Group {
                v2: true,
                mount: "/cg".into(),
                path: "a/b".into()
            }]
        );
        assert_eq!(groups("garbage", "more:garbage"), []);
    }

    #[test]
    fn this_host_has_something() {
        let host = Resources::of_host();
        assert!(host.cores >= 1 && host.memory_bytes > 1 << 20);
    }
}
