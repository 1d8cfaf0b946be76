//! What could not be written back. A program is told by msync; of what it unmaps or leaves mapped only its user can be told.

use std::sync::{Mutex, PoisonError};

use abi::Errno;

use super::{File, Source, path_of};
use crate::end;
use crate::rank::Rank;

/// Files that are named, each once.
const NAMED: usize = 8;

/// The files that were named.
#[derive(Debug, Default)]
pub struct Lost(Mutex<Vec<File>>);

impl Lost {
    /// Whether this file is to be named.
    fn is_new(&self, file: File) -> bool {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = named.len() < NAMED && !named.contains(&file);
        if new {
            named.push(file);
        }
        new
    }
}

/// Tells the user that what the rank has stored in memory does not reach the file.
pub fn tell(rank: &Rank, file: File, why: Errno) {
    if !rank.objects.lost.is_new(file) {
        return;
    }
    let name = name(rank, file);
    let why = rustix::io::Errno::from_raw_os_error(why.0.into());
    let line = format!(
        "{}: could not write back {name}, which it had mapped: {why}; what was stored is lost (msync tells a program)\n",
        rank.name()
    );
    end::say(rank, &line);
}

fn name(rank: &Rank, file: File) -> String {
    let path = rank.objects.holder.have(rank, move |files| {
        match files.get(&file).map(|held| &held.source) {
            Some(Source::File(fd)) => std::fs::read_link(path_of(fd)).ok(),
            Some(Source::Segment(_)) | None => None,
        }
    });
    let path = path.ok().flatten();
    path.map_or_else(|| "a file".into(), |path| path.display().to_string())
}
