//! From runs to figures: what stands in a cell, and what a ratio is worth.

use serde::Serialize;

use super::catalogue::{Over, Row, Take, Together};
use super::journal::{Outcome, Sample};
use crate::statistics::{median, median_interval, ratio_of_medians};

/// A figure of one system.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Cell {
    /// Of each run, in the row's unit.
    pub values: Vec<f64>,
    /// The figure: their median, or what the row says.
    pub value: f64,
    /// The 95 % interval of a median, when there are runs enough for one.
    pub interval: Option<[f64; 2]>,
    /// All runs gave the same.
    pub identical: bool,
    /// Of events, the median of each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_core: Option<Vec<f64>>,
    /// Why there are not more runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// One figure over another.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Ratio {
    /// Of the figures.
    pub value: f64,
    /// The 95 % interval of medians, when there are runs enough for one.
    pub interval: Option<[f64; 2]>,
}

/// Why there is no figure of an event that a system has no counter for.
pub const NOT_COUNTED: &str = "not counted there";

/// Fewer runs say nothing about how sure a median is.
const FEWEST_FOR_INTERVAL: usize = 3;

/// The cell of a row from the runs of one system, oldest first.
///
/// # Errors
/// The reason why there is no figure.
pub fn cell(row: &Row, samples: &[&Sample], tsc_hz: f64) -> Result<Cell, String> {
    let factor = row.unit.factor(tsc_hz);
    let runs: Vec<Vec<f64>> = samples
        .iter()
        .map(|sample| sample.values(row.result))
        .filter(|values| !values.is_empty())
        .collect();
    let failed = samples
        .iter()
        .rev()
        .find_map(|sample| match &sample.outcome {
            Outcome::Failed(reason) => Some(reason.clone()),
            Outcome::Values(_) => None,
        });
    if runs.is_empty() {
        let otherwise = if samples.is_empty() {
            "not run"
        } else {
            NOT_COUNTED
        };
        return Err(failed.unwrap_or_else(|| otherwise.to_owned()));
    }
    let values: Vec<f64> = runs
        .iter()
        .map(|run| factor * take(row.take, run))
        .collect();
    let cores = runs.iter().map(Vec::len).min().unwrap_or(0);
    let per_core = (row.take == Take::Sum && cores > 1).then(|| {
        let of_core = |core: usize| median(&runs.iter().map(|run| run[core]).collect::<Vec<_>>());
        (0..cores).map(of_core).collect()
    });
    Ok(Cell {
        value: over(row.over, &values),
        interval: (row.over == Over::Median && enough(&values)).then(|| median_interval(&values)),
        identical: values.iter().all(|value| *value == values[0]),
        per_core,
        failed,
        values,
    })
}

/// How `a` compares with `b`; none when there is nothing to divide by.
pub fn ratio(row: &Row, a: &Cell, b: &Cell) -> Option<Ratio> {
    if b.values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let sure = row.over == Over::Median && enough(&a.values) && enough(&b.values);
    Some(Ratio {
        value: a.value / b.value,
        interval: sure.then(|| ratio_of_medians(&a.values, &b.values).1),
    })
}

/// One ratio of several; none when there are none.
pub fn together(how: Together, ratios: &[f64]) -> Option<f64> {
    if ratios.is_empty() {
        return None;
    }
    Some(match how {
        Together::Most => most(ratios),
        Together::GeometricMean => {
            let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
            (logarithms / ratios.len() as f64).exp()
        }
    })
}

fn enough(values: &[f64]) -> bool {
    values.len() >= FEWEST_FOR_INTERVAL
}

fn take(how: Take, values: &[f64]) -> f64 {
    match how {
        Take::Median => median(values),
        Take::Max => most(values),
        Take::Sum => values.iter().sum(),
        Take::Spread => most(values) / least(values),
    }
}

fn over(how: Over, values: &[f64]) -> f64 {
    match how {
        Over::Median => median(values),
        Over::Least => least(values),
        Over::Most => most(values),
    }
}

/// The largest; of nothing, below everything.
pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The smallest; of nothing, above everything.
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::catalogue::{Better, Unit};
    use crate::compare::journal::tests::{failure, sample};

    fn row(take: Take, unit: Unit) -> Row {
        Row {
            name: "r",
            title: "r",
            result: "r",
            take,
            over: Over::Median,
            unit,
            better: Better::Lower,
            plot: None,
        }
    }

    fn samples(runs: &[&[f64]]) -> Vec<Sample> {
        runs.iter()
            .map(|run| sample("j", "s", &[("r", run)]))
            .collect()
    }

    fn found(row: &Row, samples: &[Sample]) -> Result<Cell, String> {
        cell(row, &samples.iter().collect::<Vec<_>>(), 2e9)
    }

    #[test]
    fn a_run_gives_one_value_and_runs_a_median() {
        let runs = samples(&[&[1.0, 2.0, 30.0], &[4.0], &[3.0, 3.0]]);
        let seen = found(&row(Take::Median, Unit::Instructions), &runs).expect("a cell");
        assert_eq!(
            (seen.values, seen.value, seen.identical),
            (vec![2.0, 4.0, 3.0], 3.0, false)
        );
        let ns = found(&row(Take::Max, Unit::TicksAsNs), &runs).expect("a cell");
        assert_eq!(ns.values, [15.0, 2.0, 1.5]);
        let spread = found(&row(Take::Spread, Unit::Ratio), &runs).expect("a cell");
        assert_eq!(spread.values, [30.0, 1.0, 1.0]);
    }

    #[test]
    fn the_longest_of_all_runs_has_no_interval() {
        let row = Row {
            over: Over::Most,
            ..row(Take::Max, Unit::Instructions)
        };
        let seen = found(&row, &samples(&[&[1.0], &[9.0, 3.0], &[2.0]])).expect("a cell");
        assert_eq!((seen.value, seen.interval), (9.0, None));
        assert_eq!(
            ratio(&row, &seen, &seen).map(|ratio| ratio.interval),
            Some(None)
        );
    }

    #[test]
    fn events_are_listed_per_core() {
        let runs = samples(&[&[1.0, 10.0], &[3.0, 20.0], &[2.0, 90.0]]);
        let seen = found(&row(Take::Sum, Unit::Count), &runs).expect("a cell");
        assert_eq!((seen.value, seen.per_core), (23.0, Some(vec![2.0, 20.0])));
    }

    #[test]
    fn identical_is_what_is_the_same_in_all_runs() {
        let same = samples(&[&[5.0], &[5.0], &[5.0]]);
        assert!(
            found(&row(Take::Median, Unit::Instructions), &same)
                .expect("a cell")
                .identical
        );
    }

    #[test]
    fn a_failure_is_the_cell_or_a_note_in_it() {
        let row = row(Take::Median, Unit::Seconds);
        assert_eq!(
            found(&row, &[failure("j", "s", "hangs")]),
            Err("hangs".to_owned())
        );
        assert_eq!(found(&row, &[]), Err("not run".to_owned()));
        let other = [sample("j", "s", &[("other", &[1.0])])];
        assert_eq!(found(&row, &other), Err(NOT_COUNTED.to_owned()));
        let mut some = samples(&[&[1.0]]);
        some.push(failure("j", "s", "hangs"));
        assert_eq!(
            found(&row, &some).expect("a cell").failed.as_deref(),
            Some("hangs")
        );
    }

    #[test]
    fn ratios_are_taken_together() {
        let ratios = [0.5, 2.0, 8.0];
        assert_eq!(together(Together::Most, &ratios), Some(8.0));
        let mean = together(Together::GeometricMean, &ratios).expect("a mean");
        assert!((mean - 2.0).abs() < 1e-9, "{mean}");
        assert_eq!(together(Together::Most, &[]), None);
    }

    #[test]
    fn ratios_have_an_interval_and_something_to_divide_by() {
        let row = row(Take::Median, Unit::Seconds);
        let (a, b) = (
            samples(&[&[2.0], &[2.0], &[2.0]]),
            samples(&[&[4.0], &[8.0], &[4.0]]),
        );
        let (a, b) = (found(&row, &a).expect("a"), found(&row, &b).expect("b"));
        let seen = ratio(&row, &a, &b).expect("a ratio");
        assert_eq!((seen.value, seen.interval), (0.5, Some([0.25, 0.5])));
        let few = found(&row, &samples(&[&[4.0], &[8.0]])).expect("a cell");
        assert_eq!(
            (
                few.interval,
                ratio(&row, &few, &b).expect("a ratio").interval
            ),
            (None, None)
        );
        let nothing = found(&row, &samples(&[&[0.0]])).expect("a cell");
        assert_eq!(ratio(&row, &a, &nothing), None);
    }
}
