//! What was measured, as it comes in: a line of JSON per run. So nothing is lost when the comparison ends early, and the next one
//! goes on from there.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Sample {
    /// Of the catalogue.
    pub job: String,
    /// A column's name.
    pub system: String,
    /// What was run, as a number: samples with different ones are not compared.
    pub fingerprint: u64,
    /// When it began, seconds since 1970.
    pub unix_s: u64,
    /// Load average of the host (1 minute) when it began.
    pub load: f64,
    /// What came out.
    pub outcome: Outcome,
}

/// What a run gave.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Values by name, in the program's order; a name may come again. Events and series have several.
    Values(Vec<(String, Vec<f64>)>),
    /// Nothing, for a reason of one line.
    Failed(String),
}

impl Sample {
    /// All values of a name; empty when there is none.
    pub fn values(&self, name: &str) -> Vec<f64> {
        match &self.outcome {
            Outcome::Values(values) => values
                .iter()
                .filter(|(known, _)| known == name)
                .flat_map(|(_, values)| values.iter().copied())
                .collect(),
            Outcome::Failed(_) => Vec::new(),
        }
    }
}

/// The file, and all that is in it.
pub struct Journal {
    path: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    samples: Vec<Sample>,
    /// Writing failed before: it was said, and what comes is kept in memory only.
    broken: bool,
}

impl Journal {
    /// Opens the file, or makes it. Failures of earlier comparisons are forgotten: they are tried again. Lines that are cut off,
    /// or that an older version wrote, are passed over.
    ///
    /// # Errors
    /// When it cannot be read or made.
    pub fn open(path: &Path, fresh: bool) -> Result<Journal> {
        let open = || -> std::io::Result<Inner> {
            let mut file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .open(path)?;
            if fresh {
                file.set_len(0)?;
            }
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            if !text.is_empty() && !text.ends_with('\n') {
                file.write_all(b"\n")?;
            }
            let samples = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Sample>(line).ok())
                .filter(|sample| matches!(sample.outcome, Outcome::Values(_)))
                .collect();
            Ok(Inner {
                file,
                samples,
                broken: false,
            })
        };
        let inner = open().with_context(|| format!("cannot use {}", path.display()))?;
        Ok(Journal {
            path: path.to_path_buf(),
            inner: Mutex::new(inner),
        })
    }

    /// Keeps a sample. When it cannot be written (a full disk), that is returned once, and the sample still counts.
    ///
    /// # Errors
    /// See above.
    pub fn add(&self, sample: Sample) -> Result<()> {
        let mut inner = self.lock();
        let written = serde_json::to_string(&sample)
            .map_err(std::io::Error::from)
            .and_then(|line| inner.file.write_all(format!("{line}\n").as_bytes()));
        inner.samples.push(sample);
        if written.is_err() && !std::mem::replace(&mut inner.broken, true) {
            written.with_context(|| {
                format!(
                    "cannot write {}: a later run will not go on from here",
                    self.path.display()
                )
            })?;
        }
        Ok(())
    }

    /// Everything so far.
    pub fn samples(&self) -> Vec<Sample> {
        self.lock().samples.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
pub mod tests {
    //! Also makes samples for the tests of others.
    use super::*;
    use crate::scratch::Scratch;

    /// A sample that went well.
    pub fn sample(job: &str, system: &str, values: &[(&str, &[f64])]) -> Sample {
        let values = values
            .iter()
            .map(|(name, values)| ((*name).to_owned(), values.to_vec()));
        Sample {
            job: job.to_owned(),
            system: system.to_owned(),
            fingerprint: 7,
            unix_s: 1,
            load: 0.5,
            outcome: Outcome::Values(values.collect()),
        }
    }

    /// One that did not.
    pub fn failure(job: &str, system: &str, reason: &str) -> Sample {
        Sample {
            outcome: Outcome::Failed(reason.to_owned()),
            ..sample(job, system, &[])
        }
    }

    #[test]
    fn what_was_written_is_there_again_without_failures_and_cut_lines() {
        let scratch = Scratch::new(&std::env::temp_dir()).expect("a directory");
        let path = scratch.path().join("samples.jsonl");
        let good = sample("boot", "margay", &[("a", &[1.0, 2.5]), ("a", &[3.0])]);
        let journal = Journal::open(&path, false).expect("made");
        journal.add(good.clone()).expect("written");
        journal
            .add(failure("boot", "linux", "no"))
            .expect("written");
        assert_eq!(journal.samples().len(), 2);
        assert_eq!(good.values("a"), [1.0, 2.5, 3.0]);
        let text = std::fs::read_to_string(&path).expect("text");
        std::fs::write(&path, format!("{text}{{\"job\":\"cut o")).expect("written");

        let journal = Journal::open(&path, false).expect("read");
        assert_eq!(journal.samples(), std::slice::from_ref(&good));
        journal.add(good.clone()).expect("written");
        assert_eq!(
            Journal::open(&path, false).expect("read").samples(),
            [good.clone(), good]
        );
        assert!(
            Journal::open(&path, true)
                .expect("emptied")
                .samples()
                .is_empty()
        );
    }

    #[test]
    fn a_full_disk_is_reported_once_and_loses_nothing_of_this_run() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let journal = Journal {
            path: "/dev/full".into(),
            inner: Mutex::new(Inner {
                file: full.expect("opened"),
                samples: Vec::new(),
                broken: false,
            }),
        };
        let good = sample("boot", "margay", &[]);
        let error = journal.add(good.clone()).expect_err("full");
        assert!(format!("{error:#}").contains("No space left"), "{error:#}");
        journal.add(good).expect("reported already");
        assert_eq!(journal.samples().len(), 2);
    }
}
