//! The words of the tables in `jobs`: what most jobs, rows and plots have in common.

use super::super::system::Mode;
use super::{Better, Job, Noise, Over, Plot, Row, Shape, Take, Unit};
use crate::launch::Launch;

/// Of one process, with rows and a sentence to be added.
pub const fn job(
    name: &'static str,
    mode: Mode,
    program: &'static str,
    args: &'static [&'static str],
) -> Job {
    Job {
        name,
        about: "",
        program,
        args,
        tree: &[],
        prepare: &[],
        mode,
        ranks: 1,
        launch: Launch::None,
        threads: 1,
        rows: &[],
    }
}

/// Less is better.
pub const fn lower(
    name: &'static str,
    title: &'static str,
    result: &'static str,
    unit: Unit,
    plot: &'static str,
) -> Row {
    Row {
        name,
        title,
        result,
        take: Take::Median,
        over: Over::Median,
        unit,
        better: Better::Lower,
        plot: if plot.is_empty() { None } else { Some(plot) },
    }
}

/// More is better.
pub const fn higher(
    name: &'static str,
    title: &'static str,
    result: &'static str,
    unit: Unit,
    plot: &'static str,
) -> Row {
    Row {
        better: Better::Higher,
        ..lower(name, title, result, unit, plot)
    }
}

/// Instructions, in the one plot of them.
pub const fn counted(name: &'static str, title: &'static str, result: &'static str) -> Row {
    lower(name, title, result, Unit::Instructions, "instructions")
}

/// What waiting for the host can only make larger.
pub const fn least(
    name: &'static str,
    title: &'static str,
    result: &'static str,
    unit: Unit,
    plot: &'static str,
) -> Row {
    Row {
        over: Over::Least,
        ..lower(name, title, result, unit, plot)
    }
}

/// The longest detour of all runs.
pub const fn longest(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    plot: &'static str,
) -> Row {
    Row {
        take: Take::Max,
        over: Over::Most,
        ..lower(name, title, "longest_detour_ticks", unit, plot)
    }
}

/// What must not be large even once.
pub const fn most(
    name: &'static str,
    title: &'static str,
    result: &'static str,
    unit: Unit,
) -> Row {
    Row {
        over: Over::Most,
        ..lower(name, title, result, unit, "")
    }
}

/// The best of a series over its worst.
pub const fn spread(name: &'static str, title: &'static str, result: &'static str) -> Row {
    Row {
        take: Take::Spread,
        ..lower(name, title, result, Unit::Ratio, "")
    }
}

/// An event, per core.
pub const fn event(name: &'static str, title: &'static str, result: &'static str) -> Row {
    Row {
        take: Take::Sum,
        ..lower(name, title, result, Unit::Count, "")
    }
}

/// The values of all rows that name it, on a logarithmic axis or not.
pub const fn strips(name: &'static str, title: &'static str, log: bool) -> Plot {
    Plot {
        name,
        title,
        shape: Shape::Strips { log },
    }
}

/// Of the job of its name.
pub const fn noise(job: &'static str, title: &'static str, how: Noise, unit: Unit) -> Plot {
    Plot {
        name: job,
        title,
        shape: Shape::Noise {
            job,
            noise: Noise { unit, ..how },
        },
    }
}
