//! Every run of every system as a mark, the figure of all as a bar, a group per row.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::scale::Scale;
use super::{Area, GREY, PALE, failed, font, marks};
use crate::compare::report::Report;
use crate::compare::summary::Cell;
use crate::number::number;

const LINE: i32 = 20;
const GAP: i32 = 12;
/// Between a title and the plot.
const MARGIN: i32 = 14;
/// Of a letter of a title, generously: what shows the plot has the fonts, not we.
const LETTER: i32 = 7;
const RIGHT: i32 = 130;
const AXIS: i32 = 52;

/// A row of the report.
pub struct Group<'a> {
    title: &'a str,
    unit: &'a str,
    lower_is_better: bool,
    over: &'static str,
    /// By column.
    cells: Vec<Result<&'a Cell, &'a str>>,
}

/// The rows of a plot that have any figure.
pub fn groups<'a>(report: &'a Report, plot: &str) -> Vec<Group<'a>> {
    report
        .jobs
        .iter()
        .flat_map(|job| &job.rows)
        .filter(|entry| entry.row.plot == Some(plot))
        .filter(|entry| entry.cells.iter().any(|(_, cell)| cell.is_ok()))
        .map(|entry| Group {
            title: entry.title,
            unit: entry.unit,
            lower_is_better: entry.lower_is_better,
            over: entry.row.over.title(),
            cells: entry
                .cells
                .iter()
                .map(|(_, cell)| cell.as_ref().map_err(String::as_str))
                .collect(),
        })
        .collect()
}

/// Pixels that the groups take.
pub fn height(groups: &[Group<'_>]) -> u32 {
    let lines: usize = groups.iter().map(|group| group.cells.len()).sum();
    (lines as i32 * LINE + groups.len() as i32 * GAP + GAP + AXIS) as u32
}

/// Where the plot begins: all titles have room before it.
fn left(groups: &[Group<'_>]) -> i32 {
    let longest = groups.iter().map(|group| group.title.chars().count()).max();
    longest.unwrap_or(0) as i32 * LETTER + 2 * MARGIN
}

/// Draws them.
pub fn draw(area: &Area<'_>, groups: &[Group<'_>], log: bool) -> Result<()> {
    let (width, height) = area.dim_in_pixel();
    let (left, right) = (left(groups), width as i32 - RIGHT);
    let bottom = height as i32 - AXIS;
    let values = groups
        .iter()
        .flat_map(|group| group.cells.iter().flatten())
        .flat_map(|cell| cell.values.iter().copied());
    let scale = if log {
        Scale::log(values, (left, right))
    } else {
        Scale::linear(values, (left, right))
    };
    axis(area, &scale, bottom, &caption(groups, log))?;
    let mut y = GAP;
    for group in groups {
        let middle = y + LINE * group.cells.len() as i32 / 2;
        let style = font().pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(
            group.title.to_owned(),
            (left - MARGIN, middle),
            style,
        ))
        .map_err(failed)?;
        for (column, cell) in group.cells.iter().enumerate() {
            match cell {
                Ok(cell) => one(area, &scale, column, cell, y + LINE / 2, right)?,
                Err(_) => {
                    let style = font().color(&GREY).pos(Pos::new(HPos::Left, VPos::Center));
                    area.draw(&Text::new("no figure", (right + 12, y + LINE / 2), style))
                        .map_err(failed)?;
                }
            }
            y += LINE;
        }
        y += GAP;
        rule(area, (left, y - GAP / 2), (right, y - GAP / 2))?;
    }
    Ok(())
}

fn caption(groups: &[Group<'_>], log: bool) -> String {
    let lower = groups.iter().all(|group| group.lower_is_better);
    let higher = groups.iter().all(|group| !group.lower_is_better);
    let better = match (lower, higher) {
        (true, _) => "; less is better",
        (_, true) => "; more is better",
        _ => "",
    };
    let kind = if log { ", logarithmic" } else { "" };
    format!(
        "{}{kind}{better}. A mark per run; bar and figure: {}",
        groups[0].unit, groups[0].over
    )
}

/// The runs of a cell and its figure, as a bar and in digits.
fn one(
    area: &Area<'_>,
    scale: &Scale,
    column: usize,
    cell: &Cell,
    y: i32,
    right: i32,
) -> Result<()> {
    for value in &cell.values {
        marks::mark(area, column, (scale.pixel(*value), y))?;
    }
    let x = scale.pixel(cell.value);
    let bar = marks::color(column).stroke_width(3);
    area.draw(&PathElement::new(vec![(x, y - 9), (x, y + 9)], bar))
        .map_err(failed)?;
    let style = font().pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(number(cell.value), (right + 12, y), style))
        .map_err(failed)
}

fn rule(area: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> Result<()> {
    area.draw(&PathElement::new(vec![from, to], PALE.stroke_width(1)))
        .map_err(failed)
}

/// The axis at the bottom, with lines up through the plot.
fn axis(area: &Area<'_>, scale: &Scale, bottom: i32, caption: &str) -> Result<()> {
    let style = font().pos(Pos::new(HPos::Center, VPos::Top));
    for (value, label) in scale.ticks() {
        let x = scale.pixel(value);
        rule(area, (x, 0), (x, bottom))?;
        area.draw(&Text::new(label, (x, bottom + 6), style.clone()))
            .map_err(failed)?;
    }
    let (left, _) = scale.ends();
    area.draw(&Text::new(caption.to_owned(), (left, bottom + 28), font()))
        .map_err(failed)
}
