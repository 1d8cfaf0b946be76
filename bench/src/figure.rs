//! A figure: a row of the catalogue and what was found, or why nothing was.

use crate::catalogue::Row;

/// What a measurement found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The value, in the row's unit.
    pub value: f64,
    /// 95 % confidence interval, where the value comes from wall time.
    pub interval: Option<[f64; 2]>,
    /// What belongs to this run: parts the value was made from, how many runs.
    pub detail: String,
}

impl Found {
    /// A counted value.
    pub fn exactly(value: f64, detail: impl Into<String>) -> Found {
        Found {
            value,
            interval: None,
            detail: detail.into(),
        }
    }
}

/// A measured row.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Which.
    pub row: &'static Row,
    /// Found, or the reason why not in one line.
    pub found: Result<Found, String>,
}

impl Figure {
    /// How the value came about, in one line.
    pub fn how(&self) -> String {
        match &self.found {
            Ok(found) if found.detail.is_empty() => self.row.how.to_owned(),
            Ok(found) => format!("{}: {}", self.row.how, found.detail),
            Err(why) => format!("not measured: {why}"),
        }
    }
}
