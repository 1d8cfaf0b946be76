//! Which ranks of the node are this yod's: all of them, or one that a launcher has started it for.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::cli::Cli;
use crate::failure::{Failure, status};
use crate::launcher::{self, Launched};

/// The place of a yod in its job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its ranks.
    pub ranks: Range<usize>,
    /// Ranks of the node.
    pub size: usize,
    /// Who has started it, if that is a launcher.
    pub launched: Option<Launched>,
}

impl Place {
    /// From the command line and the launcher's variables.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn find(cli: &Cli) -> Result<Place, Failure> {
        Place::of(cli.ranks, launcher::find()?)
    }

    fn of(ranks: usize, launched: Option<Launched>) -> Result<Place, Failure> {
        let alone = |launched| Place {
            ranks: 0..ranks,
            size: ranks,
            launched,
        };
        let Some(found) = &launched else {
            return Ok(alone(None));
        };
        let Launched { rank, size, .. } = *found;
        let name = found.launcher;
        if rank >= size {
            let line = format!("{name} says that this is rank {rank} of {size}: see its variable");
            let line = format_args!("{line} {}", found.size_variable);
            return Err(Failure::new(status::USAGE, line));
        }
        if size == 1 {
            return Ok(alone(launched));
        }
        if ranks != 1 {
            let line = format_args!(
                "-n {ranks}: {name} has started this yod for one rank of {size}, leave -n out"
            );
            return Err(Failure::new(status::USAGE, line));
        }
        Ok(Place {
            ranks: rank..rank + 1,
            size,
            launched,
        })
    }

    /// The yods of other ranks are to be met.
    pub fn is_shared(&self) -> bool {
        self.ranks.len() < self.size
    }

    /// What is there once for a node is done by the yod that has rank 0.
    pub fn has_first(&self) -> bool {
        self.ranks.start == 0
    }

    /// A file that every yod writes for its own ranks.
    pub fn own_file(&self, path: &Path) -> PathBuf {
        let mut name = OsString::from(path);
        if self.is_shared() {
            name.push(format!(".{}", self.ranks.start));
        }
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(rank: usize, size: usize) -> Option<Launched> {
        Some(Launched {
            launcher: "mpirun",
            size_variable: "SIZE",
            job: "job".into(),
            rank,
            size,
            connects: None,
            settings: &[],
        })
    }

    #[test]
    fn a_launcher_gives_one_rank_and_the_user_any() {
        let place = Place::of(4, None).expect("right");
        assert_eq!((place.ranks.clone(), place.size), (0..4, 4));
        assert!(!place.is_shared() && place.own_file(Path::new("f")) == Path::new("f"));
        let place = Place::of(1, launched(2, 3)).expect("right");
        assert_eq!((place.ranks.clone(), place.size), (2..3, 3));
        assert!(place.is_shared() && place.own_file(Path::new("f")) == Path::new("f.2"));
        let place = Place::of(4, launched(0, 1)).expect("one that starts a node of its own");
        assert_eq!((place.ranks.len(), place.is_shared()), (4, false));
        let line = |ranks, launched| Place::of(ranks, launched).expect_err("wrong").line;
        assert!(line(2, launched(0, 3)).starts_with("-n 2: mpirun has started this yod for one"));
        assert!(line(1, launched(3, 3)).contains("rank 3 of 3"));
    }
}
