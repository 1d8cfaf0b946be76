//! The plots, for print: every system, every run, units on the axes; colours that colour-blind people tell apart (M. Okabe and
//! K. Ito, "Color Universal Design"), and a mark of its own for each system, so that grey will do.

mod lines;
mod marks;
mod noise;
mod scale;
mod strips;

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{JobEntry, Report};
use crate::compare::catalogue::{PLOTS, Plot, Shape};

/// Where things are drawn.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 900;
const TITLE_HEIGHT: u32 = 34;
const LEGEND_HEIGHT: u32 = 26;
const TITLE_SIZE: u32 = 20;
const TEXT_SIZE: u32 = 15;
const GREY: RGBColor = RGBColor(120, 120, 120);
const PALE: RGBColor = RGBColor(215, 215, 215);

/// Draws all plots for which there is something; returns the name and title of each that was drawn.
///
/// # Errors
/// When a file cannot be written.
pub fn draw(report: &Report, directory: &Path) -> Result<Vec<(&'static str, &'static str)>> {
    let mut drawn = Vec::new();
    for plot in PLOTS {
        let path = directory.join(plot.name).with_extension("svg");
        let there = draw_one(report, plot, &path)
            .map_err(|error| anyhow!("cannot draw {}: {error:#}", path.display()))?;
        if there {
            drawn.push((plot.name, plot.title));
        } else {
            // One of an earlier report would tell of other runs. There may be none.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(drawn)
}

fn draw_one(report: &Report, plot: &Plot, path: &Path) -> Result<bool> {
    match plot.shape {
        Shape::Strips { log } => {
            let groups = strips::groups(report, plot.name);
            if groups.is_empty() {
                return Ok(false);
            }
            canvas(report, plot, path, strips::height(&groups), |area| {
                strips::draw(area, &groups, log)
            })
        }
        Shape::Lines { job, x, y } => {
            let curves = find(report, job)
                .map_or_else(Vec::new, |job| lines::curves(report, job, x.0, (y.0, y.2)));
            if curves.is_empty() {
                return Ok(false);
            }
            canvas(report, plot, path, lines::HEIGHT, |area| {
                lines::draw(area, &curves, x.1, y)
            })
        }
        Shape::Noise { job, ref noise } => {
            let panels =
                find(report, job).map_or_else(Vec::new, |job| noise::panels(report, job, noise));
            if panels.is_empty() {
                return Ok(false);
            }
            canvas(report, plot, path, noise::height(&panels), |area| {
                noise::draw(area, &panels, noise)
            })
        }
    }
}

fn find<'a>(report: &'a Report, name: &str) -> Option<&'a JobEntry> {
    report.jobs.iter().find(|job| job.name == name)
}

/// A white page with title and legend, the rest for `draw`.
fn canvas(
    report: &Report,
    plot: &Plot,
    path: &Path,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<bool> {
    let size = (WIDTH, TITLE_HEIGHT + LEGEND_HEIGHT + height);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let title = ("sans-serif", TITLE_SIZE)
            .into_font()
            .style(FontStyle::Bold);
        root.draw(&Text::new(plot.title, (16, 10), title.color(&BLACK)))
            .map_err(failed)?;
        let (_, below) = root.split_vertically(TITLE_HEIGHT);
        let (legend, rest) = below.split_vertically(LEGEND_HEIGHT);
        for (column, system) in report.systems.iter().enumerate() {
            let x = 24 + 200 * column as i32;
            marks::mark(&legend, column, (x, 10))?;
            legend
                .draw(&Text::new(system.title, (x + 14, 2), font()))
                .map_err(failed)?;
        }
        draw(&rest)?;
        root.present().map_err(failed)?;
    }
    std::fs::write(path, text)?;
    Ok(true)
}

fn font() -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE).into_font().color(&BLACK)
}

/// plotters' errors are not ours to pass on.
fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> anyhow::Error {
    anyhow!("{error}")
}
