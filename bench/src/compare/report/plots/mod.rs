//! The plots, for print: every system, every run, units on the axes; colours that colour-blind people tell apart (M. Okabe and
//! K. Ito, "Color Universal Design"), and a mark of its own for each system, so that grey will do.

mod lines;
mod marks;
mod noise;
mod scale;
mod strips;

use anyhow::{Context, Result, anyhow};
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

/// Draws all plots for which there is something, as SVG.
///
/// # Errors
/// When one cannot be drawn.
pub fn draw(report: &Report) -> Result<Vec<(&'static Plot, String)>> {
    let mut drawn = Vec::new();
    for plot in PLOTS {
        let svg = draw_one(report, plot).with_context(|| format!("cannot draw {}", plot.name))?;
        drawn.extend(svg.map(|svg| (plot, svg)));
    }
    Ok(drawn)
}

/// `None`: there is nothing to show.
fn draw_one(report: &Report, plot: &Plot) -> Result<Option<String>> {
    let svg = match plot.shape {
        Shape::Strips { log } => {
            let groups = strips::groups(report, plot.name);
            if groups.is_empty() {
                return Ok(None);
            }
            canvas(report, plot, strips::height(&groups), |area| {
                strips::draw(area, &groups, log)
            })
        }
        Shape::Lines { job, x, y } => {
            let curves = find(report, job)
                .map_or_else(Vec::new, |job| lines::curves(report, job, x.0, (y.0, y.2)));
            if curves.is_empty() {
                return Ok(None);
            }
            canvas(report, plot, lines::HEIGHT, |area| {
                lines::draw(area, &curves, x.1, y)
            })
        }
        Shape::Noise { job, ref noise } => {
            let panels =
                find(report, job).map_or_else(Vec::new, |job| noise::panels(report, job, noise));
            if panels.is_empty() {
                return Ok(None);
            }
            canvas(report, plot, noise::height(&panels), |area| {
                noise::draw(area, &panels, noise)
            })
        }
    };
    svg.map(Some)
}

fn find<'a>(report: &'a Report, name: &str) -> Option<&'a JobEntry> {
    report.jobs.iter().find(|job| job.name == name)
}

/// A white page with title and legend, the rest for `draw`.
fn canvas(
    report: &Report,
    plot: &Plot,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
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
    Ok(text)
}

fn font() -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE).into_font().color(&BLACK)
}

/// plotters' errors are not ours to pass on.
fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> anyhow::Error {
    anyhow!("{error}")
}
