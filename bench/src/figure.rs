//! A figure: a row of the catalogue and what was found, or why nothing was.

use crate::catalogue::{Aim, Row};
use crate::plugin;
use crate::statistics::ratio_of_medians;

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

    /// The median of `a` over that of `b`, and how sure that is.
    pub fn ratio(a: &[f64], b: &[f64], detail: String) -> Found {
        let (value, interval) = ratio_of_medians(a, b);
        Found {
            value,
            interval: Some(interval),
            detail,
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
    /// It needs the plugin, and there is none.
    pub fn cannot_be_measured(&self) -> bool {
        self.found.as_ref().is_err_and(|why| why == plugin::MISSING)
    }

    /// It was not measured, though it could have been.
    pub fn failed(&self) -> bool {
        self.found.is_err() && !self.cannot_be_measured()
    }

    /// More than is promised. What is only aimed at may be missed.
    pub fn breaks_its_promise(&self) -> bool {
        let (Aim::AtMost(_) | Aim::AtMostInLong(_), Ok(found)) = (self.row.aim, &self.found) else {
            return false;
        };
        self.row.aim.met(found.value) == Some(false)
    }

    /// How the value came about, in one line.
    pub fn how(&self) -> String {
        match &self.found {
            Ok(found) if found.detail.is_empty() => self.row.how.to_owned(),
            Ok(found) => format!("{}: {}", self.row.how, found.detail),
            Err(why) => format!("not measured: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::by_name;

    /// Once a promise that was missed ended `make bench` with status 0.
    #[test]
    fn only_promises_can_be_broken() {
        let figure = |name: &str, found: Result<f64, &str>| Figure {
            row: by_name(name).expect("a figure"),
            found: found
                .map(|value| Found::exactly(value, ""))
                .map_err(str::to_owned),
        };
        assert!(figure("ticks_after_start", Ok(1.0)).breaks_its_promise());
        assert!(!figure("ticks_after_start", Ok(0.0)).breaks_its_promise());
        assert!(!figure("boot_wall_s", Ok(100.0)).breaks_its_promise());
        assert!(figure("boot_wall_s", Err("no yod")).failed());
        let skipped = figure("boot_instructions", Err(plugin::MISSING));
        assert!(skipped.cannot_be_measured() && !skipped.failed());
    }
}
