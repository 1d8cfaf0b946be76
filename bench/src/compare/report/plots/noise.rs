//! What was taken from a program that only computes: a panel per system, the loss of each sample in its order, and beside it how
//! often each loss occurred. All panels have the same axes, so that they can be compared.

use std::collections::BTreeSet;

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::Scale;
use super::{Area, GREY, PALE, failed, font, marks};
use crate::compare::catalogue::{Loss, Noise};
use crate::compare::journal::Sample;
use crate::compare::report::{JobEntry, Report};
use crate::number::number;

const PANEL: i32 = 200;
const HEAD: i32 = 26;
const LEFT: i32 = 90;
const RIGHT: i32 = 30;
const AXIS: i32 = 56;
const HISTOGRAM: i32 = 230;
const GAP: i32 = 40;
const BINS: usize = 24;
/// A system's.
pub struct Panel<'a> {
    column: usize,
    title: &'a str,
    /// Place and loss of each sample of the first run.
    first: Vec<(f64, f64)>,
    /// Losses of all runs.
    all: Vec<f64>,
    runs: usize,
}

/// The panels of a job; systems without runs are left out.
pub fn panels<'a>(report: &'a Report, job: &JobEntry, noise: &Noise) -> Vec<Panel<'a>> {
    let factor = noise.unit.factor(report.facts.tsc_hz);
    let panel = |(column, samples): (usize, &Vec<Sample>)| {
        let mut runs = samples
            .iter()
            .filter(|sample| {
                job.job
                    .rows
                    .iter()
                    .any(|row| !sample.values(row.result).is_empty())
            })
            .peekable();
        let first = runs.peek()?;
        let losses = |sample: &Sample| -> Vec<f64> {
            losses(noise, sample)
                .into_iter()
                .map(|loss| factor * loss)
                .collect()
        };
        let of_first = losses(first);
        let places = match noise.at {
            Some((name, _, unit)) => {
                let factor = unit.factor(report.facts.tsc_hz);
                first
                    .values(name)
                    .into_iter()
                    .map(|at| factor * at)
                    .collect()
            }
            None => (0..of_first.len()).map(|i| i as f64).collect::<Vec<_>>(),
        };
        Some(Panel {
            column,
            title: report.systems[column].title,
            first: places.into_iter().zip(of_first).collect(),
            runs: runs.clone().count(),
            all: runs.flat_map(losses).collect(),
        })
    };
    job.samples.iter().enumerate().filter_map(panel).collect()
}

/// What each sample lost, in ticks.
fn losses(noise: &Noise, sample: &Sample) -> Vec<f64> {
    let values = sample.values(noise.series);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match noise.loss {
        Loss::Itself => values,
        Loss::AboveLeast => values.iter().map(|value| value - least).collect(),
        Loss::BelowMost { each } => {
            let each = sample.values(each).first().copied().unwrap_or(1.0);
            values.iter().map(|value| each * (most - value)).collect()
        }
    }
}

/// Pixels that they take.
pub fn height(panels: &[Panel<'_>]) -> u32 {
    (panels.len() as i32 * (PANEL + HEAD) + AXIS) as u32
}

/// Draws them.
pub fn draw(area: &Area<'_>, panels: &[Panel<'_>], noise: &Noise) -> Result<()> {
    let (width, height) = area.dim_in_pixel();
    let right = width as i32 - RIGHT - HISTOGRAM - GAP;
    let x = Scale::linear(
        panels
            .iter()
            .flat_map(|panel| panel.first.iter().map(|(at, _)| *at)),
        (LEFT, right),
    );
    let count = Scale::loss(
        panels.iter().flat_map(|panel| {
            histogram(panel, &y_scale(panels, 0))
                .into_iter()
                .map(|count| count as f64)
        }),
        (right + GAP, width as i32 - RIGHT),
    );
    for (i, panel) in panels.iter().enumerate() {
        let top = i as i32 * (PANEL + HEAD);
        let y = y_scale(panels, top + HEAD);
        head(area, panel, noise, top)?;
        frame(area, &y, (LEFT, right))?;
        frame(area, &y, (right + GAP, width as i32 - RIGHT))?;
        series(area, panel, &x, &y)?;
        bars(area, panel, &count, &y)?;
    }
    let bottom = height as i32 - AXIS;
    ticks(area, &x, bottom)?;
    ticks(area, &count, bottom)?;
    let place = noise.at.map_or_else(
        || "sample of the first run".to_owned(),
        |(_, title, unit)| format!("{title} in the first run, {}", unit.sign()),
    );
    let caption = |text: String, x: i32| {
        area.draw(&Text::new(text, (x, bottom + 28), font()))
            .map_err(failed)
    };
    caption(
        format!("{place}; upwards: {}, {}", noise.title, noise.unit.sign()),
        LEFT,
    )?;
    caption("how often, all runs".to_owned(), right + GAP)
}

/// The same for all panels, at different places.
fn y_scale(panels: &[Panel<'_>], top: i32) -> Scale {
    let all = panels.iter().flat_map(|panel| panel.all.iter().copied());
    Scale::loss(all, (top + PANEL - 14, top))
}

fn head(area: &Area<'_>, panel: &Panel<'_>, noise: &Noise, top: i32) -> Result<()> {
    let longest = panel.all.iter().copied().fold(0.0, f64::max);
    let text = format!(
        "{}: longest shown {} {}, {} run{}",
        panel.title,
        number(longest),
        noise.unit.sign(),
        panel.runs,
        if panel.runs == 1 { "" } else { "s" }
    );
    area.draw(&Text::new(text, (LEFT, top + 4), font()))
        .map_err(failed)
}

/// Lines across, with values in front when there is room.
fn frame(area: &Area<'_>, y: &Scale, (left, right): (i32, i32)) -> Result<()> {
    for (value, label) in y.ticks() {
        let at = y.pixel(value);
        let line = if value <= 1.0 { GREY } else { PALE };
        area.draw(&PathElement::new(
            vec![(left, at), (right, at)],
            line.stroke_width(1),
        ))
        .map_err(failed)?;
        if left == LEFT {
            let style = font().pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(label, (left - 8, at), style))
                .map_err(failed)?;
        }
    }
    Ok(())
}

fn ticks(area: &Area<'_>, scale: &Scale, bottom: i32) -> Result<()> {
    let style = font().pos(Pos::new(HPos::Center, VPos::Top));
    for (value, label) in scale.ticks() {
        area.draw(&Text::new(
            label,
            (scale.pixel(value), bottom + 4),
            style.clone(),
        ))
        .map_err(failed)?;
    }
    Ok(())
}

/// The first run's samples; of those that would cover each other one.
fn series(area: &Area<'_>, panel: &Panel<'_>, x: &Scale, y: &Scale) -> Result<()> {
    let places: BTreeSet<(i32, i32)> = panel
        .first
        .iter()
        .map(|(at, loss)| (x.pixel(*at) / 2 * 2, y.pixel(*loss)))
        .collect();
    let color = marks::color(panel.column);
    for place in places {
        area.draw(&Circle::new(place, 2, color.filled()))
            .map_err(failed)?;
    }
    Ok(())
}

/// How many losses there are in each of the bins of the axis.
fn histogram(panel: &Panel<'_>, y: &Scale) -> Vec<usize> {
    let mut counts = vec![0; BINS];
    for loss in &panel.all {
        let bin = (y.part(*loss) * BINS as f64) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    counts
}

fn bars(area: &Area<'_>, panel: &Panel<'_>, count: &Scale, y: &Scale) -> Result<()> {
    let (low, high) = y.ends();
    let color = marks::color(panel.column);
    for (bin, often) in histogram(panel, y).into_iter().enumerate() {
        if often == 0 {
            continue;
        }
        let at = |bin: usize| low + (high - low) * bin as i32 / BINS as i32;
        // One occurrence must be seen, too.
        let to = count.pixel(often as f64).max(count.pixel(0.0) + 3);
        let corners = [(count.pixel(0.0), at(bin)), (to, at(bin + 1) + 1)];
        area.draw(&Rectangle::new(corners, color.filled()))
            .map_err(failed)?;
    }
    Ok(())
}
