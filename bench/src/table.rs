//! The table for people.

use std::fmt::Write;

use crate::catalogue::Aim;
use crate::figure::Figure;
use crate::number::{number, range};

/// Columns of text, the verdict first read: what was found, what was aimed at, how it was found.
pub fn render(figures: &[Figure]) -> String {
    let heads = ["name", "value", "unit", "aim", "", "how"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(heads)
        .chain(figures.iter().map(cells))
        .collect();
    // The last column ends where it ends.
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for [name, value, unit, aim, verdict, how] in &rows {
        let [w0, w1, w2, w3, w4] = widths;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name:<w0$}  {value:>w1$}  {unit:<w2$}  {aim:>w3$}  {verdict:<w4$}  {how}"
        );
    }
    text
}

fn cells(figure: &Figure) -> [String; 6] {
    let row = figure.row;
    let (value, verdict) = match &figure.found {
        Err(_) => ("-".to_owned(), ""),
        Ok(found) => {
            let range = found
                .interval
                .map_or(String::new(), |interval| format!(" {}", range(interval)));
            let verdict = match row.aim.met(found.value) {
                Some(true) => "met",
                Some(false) => "missed",
                None => "",
            };
            (number(found.value) + &range, verdict)
        }
    };
    let aim = match row.aim {
        Aim::AtMost(most) | Aim::AtMostInLong(most) | Aim::Towards(most) => {
            format!("<= {}", number(most))
        }
        Aim::TowardsAtLeast(least) => format!(">= {}", number(least)),
        Aim::None => String::new(),
    };
    [
        row.name.to_owned(),
        value,
        row.unit.to_owned(),
        aim,
        verdict.to_owned(),
        figure.how(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::by_name;
    use crate::figure::Found;

    #[test]
    fn columns_stand_under_each_other() {
        let row = |name| by_name(name).expect("a figure");
        let figures = [
            Figure {
                row: row("local_call_instructions"),
                found: Ok(Found::exactly(82.0, "")),
            },
            Figure {
                row: row("file_read_ratio"),
                found: Ok(Found {
                    value: 0.5,
                    interval: Some([0.45, 0.55]),
                    detail: String::new(),
                }),
            },
            Figure {
                row: row("exec_to_exit_s"),
                found: Err("no yod".into()),
            },
        ];
        let text = render(&figures);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("name  "), "{text}");
        assert!(
            lines[1].contains("  82  instructions  ") && lines[1].contains("<= 100  met "),
            "{text}"
        );
        assert!(
            lines[2].contains("0.500 [0.450, 0.550]") && lines[2].contains("missed"),
            "{text}"
        );
        assert!(lines[3].ends_with("not measured: no yod"), "{text}");
        let unit = lines[0].find("unit").expect("a head");
        assert_eq!(lines[1].find("  instructions"), Some(unit - 2));
        assert_eq!(lines[2].find("of native"), Some(unit));
    }
}
