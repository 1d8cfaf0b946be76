//! Where the report of `--stats` goes.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Stats;
use crate::console;
use crate::failure::Failure;
use crate::trace::create;

/// Where the report goes, and how it looks.
#[derive(Debug)]
pub struct StatsTo {
    json: bool,
    file: Option<(File, PathBuf)>,
}

impl StatsTo {
    /// From the option's value: nothing, "json" or a file. The file is made now, so that a mistake costs no run; a pipe gets a
    /// reader within `timeout`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(value: &Option<PathBuf>, timeout: Option<Duration>) -> Result<StatsTo, Failure> {
        let value = value.as_deref();
        let is_json = |path: &Path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        };
        let path = value.filter(|path| *path != Path::new("json"));
        Ok(StatsTo {
            json: value.is_some() && path.is_none_or(is_json),
            file: match path {
                Some(path) => Some((create(path, timeout)?, path.to_path_buf())),
                None => None,
            },
        })
    }

    /// Writes the report to its file; without one, gives the text that stderr is to show.
    pub fn report(&self, stats: &Stats) -> Option<String> {
        let text = match self.json {
            true => stats.json() + "\n",
            false => stats.table(),
        };
        let Some((file, path)) = &self.file else {
            return Some(text);
        };
        let mut file: &File = file;
        if let Err(error) = file.write_all(text.as_bytes()) {
            console::say(format_args!("cannot write {}: {error}", path.display()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_goes_where_it_is_wanted() {
        let to = |value: Option<&str>| {
            StatsTo::new(&value.map(PathBuf::from), None).expect("can be made")
        };
        assert!(!to(None).json && to(None).file.is_none());
        assert!(to(Some("json")).json && to(Some("json")).file.is_none());
        assert!(!to(Some("/dev/null")).json && to(Some("/dev/null")).file.is_some());
        assert!(StatsTo::new(&Some("/nonexistent/s.json".into()), None).is_err());
    }
}
