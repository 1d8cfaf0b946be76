//! What a system looks like: its colour and its mark.

use anyhow::Result;
use plotters::prelude::*;

use super::{Area, failed};

/// By column: blue, orange, black; then bluish green and reddish purple.
const COLORS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// A column's colour.
pub fn color(column: usize) -> RGBColor {
    COLORS[column % COLORS.len()]
}

/// Draws a column's mark: a disc, a triangle, a cross, a square.
pub fn mark(area: &Area<'_>, column: usize, at: (i32, i32)) -> Result<()> {
    let color = color(column);
    let line = color.stroke_width(2);
    let (x, y) = at;
    let path = |points: Vec<(i32, i32)>| area.draw(&PathElement::new(points, line));
    match column % 4 {
        0 => area.draw(&Circle::new(at, 5, color.filled())),
        1 => path(vec![
            (x - 5, y + 4),
            (x + 5, y + 4),
            (x, y - 5),
            (x - 5, y + 4),
        ]),
        2 => path(vec![(x - 4, y - 4), (x + 4, y + 4)])
            .and_then(|()| path(vec![(x - 4, y + 4), (x + 4, y - 4)])),
        _ => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], line)),
    }
    .map_err(failed)
}
