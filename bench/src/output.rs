//! What programs print, and what is written for programs to read.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::figure::Figure;

/// The results of a program: lines `name value`, or `name=value` as others print them, in order; other lines are not for us.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results(Vec<(String, f64)>);

impl Results {
    /// Reads a program's output.
    pub fn parse(text: &str) -> Results {
        let line = |line: &str| {
            let (name, value) = line.trim_end().split_once([' ', '='])?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Results(text.lines().filter_map(line).collect())
    }

    /// All values of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn all(&self, name: &str) -> Result<Vec<f64>> {
        let values: Vec<f64> = self
            .0
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| *v)
            .collect();
        (!values.is_empty())
            .then_some(values)
            .with_context(|| format!("the program did not print {name}"))
    }

    /// The only or first value of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn one(&self, name: &str) -> Result<f64> {
        Ok(self.all(name)?[0])
    }

    /// Every line.
    pub fn lines(&self) -> &[(String, f64)] {
        &self.0
    }
}

/// The series of a program: lines `series name v1 v2 ...`.
pub fn series(text: &str) -> Vec<(String, Vec<f64>)> {
    let line = |line: &str| {
        let (name, values) = line.trim_end().strip_prefix("series ")?.split_once(' ')?;
        let values: Result<Vec<f64>, _> = values.split(' ').map(str::parse).collect();
        Some((name.to_owned(), values.ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// A line of bench.jsonl. `value` is null when nothing was measured.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    value: Option<f64>,
    unit: &'a str,
    how: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<[f64; 2]>,
}

fn line(figure: &Figure) -> Line<'_> {
    let found = figure.found.as_ref().ok();
    Line {
        name: figure.row.name,
        value: found.map(|found| found.value),
        unit: figure.row.unit,
        how: figure.how(),
        interval: found.and_then(|found| found.interval),
    }
}

/// Writes the figures, a JSON object per line.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, figures: &[Figure]) -> Result<()> {
    let mut text = String::new();
    for figure in figures {
        text += &serde_json::to_string(&line(figure))?;
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CATALOGUE;
    use crate::figure::Found;

    #[test]
    fn results_are_names_and_numbers() {
        let results = Results::parse("a 1.5\nnot a result\nb -2e3\n\na 2\nc x\nd\n");
        assert_eq!(results.all("a").expect("a"), [1.5, 2.0]);
        assert_eq!(results.one("b").expect("b"), -2000.0);
        assert_eq!(results.lines().len(), 3);
        let error = results.all("c").expect_err("no number");
        assert_eq!(error.to_string(), "the program did not print c");
    }

    #[test]
    fn series_are_names_and_several_numbers() {
        let found = series("a 1\nseries b 1 2.5 3\nseries c\nseries d 1 x\n");
        assert_eq!(found, [("b".to_owned(), vec![1.0, 2.5, 3.0])]);
    }

    #[test]
    fn lines_are_json_objects() {
        let found = Found {
            value: 0.5,
            interval: Some([0.4, 0.6]),
            detail: "7 runs".into(),
        };
        let good = Figure {
            row: &CATALOGUE[0],
            found: Ok(found),
        };
        let bad = Figure {
            row: &CATALOGUE[1],
            found: Err("no \"yod\"".into()),
        };
        let value = |figure| serde_json::to_value(line(figure)).expect("JSON");
        assert_eq!(value(&good)["name"], CATALOGUE[0].name);
        assert_eq!(value(&good)["interval"][1], 0.6);
        assert!(
            value(&good)["how"]
                .as_str()
                .expect("text")
                .ends_with(": 7 runs")
        );
        assert!(value(&bad)["value"].is_null() && value(&bad).get("interval").is_none());
        assert_eq!(value(&bad)["how"], "not measured: no \"yod\"");
    }
}
