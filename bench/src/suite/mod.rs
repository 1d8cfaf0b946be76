//! The measurements. A group finds figures that come from the same runs.
//!
//! To add one: a row in `catalogue`, its name in a group here (or a new group, a function from a [`Lab`] to readings), a
//! program in bench/programs if it needs one, and its line in docs/SPECIFICATION.md.

pub(crate) mod boot;
mod calls;
mod children;
mod copies;
mod files;
pub(crate) mod interrupts;
mod memory;
mod mpi;
pub(crate) mod quiet;
mod shipping;
mod threads;

use anyhow::{Result, anyhow};

use crate::catalogue::by_name;
use crate::figure::{Figure, Found};
use crate::lab::Lab;

/// A figure's name and what was found.
pub type Reading = (&'static str, Found);

/// Figures that are measured together.
pub struct Group {
    /// Their names.
    pub names: &'static [&'static str],
    find: fn(&Lab) -> Result<Vec<Reading>>,
}

/// All of them, quick ones first.
pub const GROUPS: &[Group] = &[
    Group {
        names: &["kernel_elf_bytes"],
        find: boot::kernel_elf,
    },
    Group {
        names: &["boot_instructions"],
        find: boot::instructions,
    },
    Group {
        names: &[
            "start_16_ranks_instructions",
            "start_64_ranks_instructions",
            "start_255_ranks_instructions",
        ],
        find: boot::ranks,
    },
    Group {
        names: &["boot_wall_s", "exec_to_exit_s"],
        find: boot::wall,
    },
    Group {
        names: &["min_memory_mib"],
        find: memory::smallest,
    },
    Group {
        names: &[
            "local_call_instructions",
            "clock_getres_instructions",
            "rt_sigprocmask_instructions",
            "clock_gettime_instructions",
            "local_call_counted_instructions",
        ],
        find: calls::local,
    },
    Group {
        names: &["thread_create_join_instructions"],
        find: threads::create_and_join,
    },
    Group {
        names: &[
            "touch_fresh_4k_instructions",
            "touch_fresh_64k_instructions",
            "touch_fresh_1m_instructions",
            "touch_fresh_2m_instructions",
            "touch_fresh_instructions_per_4k",
            "touch_recycled_4k_instructions",
            "touch_recycled_64k_instructions",
            "touch_recycled_1m_instructions",
            "touch_recycled_2m_instructions",
            "touch_recycled_instructions_per_4k",
        ],
        find: memory::touch,
    },
    Group {
        names: &["first_touch_ratio"],
        find: memory::first_touch,
    },
    Group {
        names: &[
            "faults_after_start",
            "kernel_entries_after_start",
            "ticks_after_start",
        ],
        find: quiet::after_start,
    },
    Group {
        names: &["irqs_off_max_instructions"],
        find: interrupts::of_demanding,
    },
    Group {
        names: &["irqs_off_programs_instructions"],
        find: interrupts::of_programs,
    },
    Group {
        names: &[
            "shipped_lseek_instructions",
            "shipped_lseek_median_instructions",
            "shipped_lseek_mean_instructions",
            "shipped_lseek_p99_instructions",
        ],
        find: shipping::instructions,
    },
    Group {
        names: &[
            "shipped_lseek_us",
            "shipped_lseek_mean_us",
            "shipped_lseek_p99_us",
        ],
        find: shipping::wall,
    },
    Group {
        names: &["file_read_ratio", "file_write_ratio"],
        find: files::ratios,
    },
    Group {
        names: &["fork_10mib_ratio", "spawn_ratio"],
        find: children::ratios,
    },
    Group {
        names: &["fork_python_ratio"],
        find: children::python,
    },
    Group {
        names: &["create_ratio", "open_ratio"],
        find: children::opens,
    },
    Group {
        names: &["same_addresses_ratio"],
        find: copies::same_addresses,
    },
    Group {
        names: &["pingpong_calls_openmpi", "pingpong_calls_mpich"],
        find: mpi::ping_pong_calls,
    },
];

impl Group {
    /// Measures; of the group's figures those in `wanted` come back, each found or with the reason why not.
    pub fn measure(&self, lab: &Lab, wanted: &[&str]) -> Vec<Figure> {
        let readings = (self.find)(lab);
        let found = |name: &str| match &readings {
            Ok(readings) => readings
                .iter()
                .find(|(found, _)| *found == name)
                .map(|(_, found)| found.clone())
                .ok_or_else(|| anyhow!("its group did not find it")),
            Err(error) => Err(anyhow!("{error:#}")),
        };
        wanted
            .iter()
            .filter_map(|name| by_name(name))
            .map(|row| Figure {
                row,
                found: found(row.name).map_err(|error| error.to_string()),
            })
            .collect()
    }
}
