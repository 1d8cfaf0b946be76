//! A series over another one: the median of the runs as a line, the runs as marks.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::Scale;
use super::{Area, GREY, PALE, failed, font, marks};
use crate::compare::catalogue::Unit;
use crate::compare::report::{JobEntry, Report};
use crate::statistics::median;

/// Of such a plot.
pub const HEIGHT: u32 = 380;
const LEFT: i32 = 90;
const RIGHT: i32 = 30;
const BOTTOM: i32 = 60;

/// A system's.
pub struct Curve {
    column: usize,
    /// Place, and the values of all runs there.
    points: Vec<(f64, Vec<f64>)>,
}

/// The curves of a job; those without runs are left out.
pub fn curves(report: &Report, job: &JobEntry, x: &str, (y, unit): (&str, Unit)) -> Vec<Curve> {
    let factor = unit.factor(report.facts.tsc_hz);
    let curve = |(column, samples): (usize, &Vec<crate::compare::journal::Sample>)| {
        let places = samples
            .iter()
            .map(|sample| sample.values(x))
            .find(|places| !places.is_empty())?;
        let at = |i: usize| -> Vec<f64> {
            samples
                .iter()
                .filter_map(|sample| sample.values(y).get(i).map(|value| factor * value))
                .collect()
        };
        let points = places
            .into_iter()
            .enumerate()
            .map(|(i, place)| (place, at(i)))
            .filter(|(_, values)| !values.is_empty());
        Some(Curve {
            column,
            points: points.collect(),
        })
    };
    job.samples.iter().enumerate().filter_map(curve).collect()
}

/// Draws them.
pub fn draw(
    area: &Area<'_>,
    curves: &[Curve],
    x_title: &str,
    (_, y_title, unit): (&str, &str, Unit),
) -> Result<()> {
    let (width, height) = area.dim_in_pixel();
    let (right, bottom) = (width as i32 - RIGHT, height as i32 - BOTTOM);
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = Scale::linear(points().map(|(place, _)| *place), (LEFT, right));
    let y = Scale::linear(
        points().flat_map(|(_, values)| values.iter().copied()),
        (bottom, 30),
    );
    for (value, label) in y.ticks() {
        let at = y.pixel(value);
        rule(area, (LEFT, at), (right, at))?;
        let style = font().pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(label, (LEFT - 8, at), style))
            .map_err(failed)?;
    }
    for (value, label) in x.ticks() {
        let style = font().pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(label, (x.pixel(value), bottom + 6), style))
            .map_err(failed)?;
    }
    area.draw(&Text::new(
        format!("{y_title}, {}", unit.sign()),
        (LEFT, 6),
        font(),
    ))
    .map_err(failed)?;
    let caption = format!("{x_title}. A mark per run; line: median");
    area.draw(&Text::new(caption, (LEFT, bottom + 30), font()))
        .map_err(failed)?;
    for curve in curves {
        let color = marks::color(curve.column);
        let medians = curve
            .points
            .iter()
            .map(|(place, values)| (x.pixel(*place), y.pixel(median(values))));
        area.draw(&PathElement::new(
            medians.collect::<Vec<_>>(),
            color.stroke_width(2),
        ))
        .map_err(failed)?;
        for (place, values) in &curve.points {
            for value in values {
                marks::mark(area, curve.column, (x.pixel(*place), y.pixel(*value)))?;
            }
        }
    }
    let frame = GREY.stroke_width(1);
    area.draw(&PathElement::new(
        vec![(LEFT, bottom), (right, bottom)],
        frame,
    ))
    .map_err(failed)
}

fn rule(area: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> Result<()> {
    area.draw(&PathElement::new(vec![from, to], PALE.stroke_width(1)))
        .map_err(failed)
}
