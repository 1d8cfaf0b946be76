//! What could not be written back. A program is notified by msync; of what it unmaps or leaves mapped only its user can be.

use std::sync::Mutex;

use super::Objects;
use super::held::{File, Source, path_of};
use crate::sync::lock;

/// Files that are named, each once.
const NAMED: usize = 8;

/// The files that were named.
#[derive(Debug, Default)]
pub struct Lost(Mutex<Vec<File>>);

impl Lost {
    /// Whether this file is to be named.
    fn is_new(&self, file: File) -> bool {
        let mut named = lock(&self.0);
        let new = named.len() < NAMED && !named.contains(&file);
        if new {
            named.push(file);
        }
        new
    }
}

impl Objects {
    /// The name of a file that what was stored in memory does not reach; `None`: the user was notified before.
    pub fn lost(&self, file: File) -> Option<String> {
        self.lost.is_new(file).then(|| self.name(file))
    }

    fn name(&self, file: File) -> String {
        let path = self.holder.have(
            move |files| match files.get(&file).map(|held| &held.source) {
                Some(Source::File(fd)) => std::fs::read_link(path_of(fd)).ok(),
                Some(Source::Segment(_)) | None => None,
            },
        );
        let path = path.ok().flatten();
        path.map_or_else(|| "a file".into(), |path| path.display().to_string())
    }
}
