//! What could not be written back. A program is notified by msync; of what it unmaps or leaves mapped only its user can be.

use std::sync::Mutex;

use super::held::File;
use crate::sync::lock;

/// Files that are named, each once.
const NAMED: usize = 8;

/// The files that were named.
#[derive(Debug, Default)]
pub struct Lost {
    named: Mutex<Vec<File>>,
}

impl Lost {
    /// Whether this file is to be named.
    pub fn is_new(&self, file: File) -> bool {
        let mut named = lock(&self.named);
        let new = named.len() < NAMED && !named.contains(&file);
        if new {
            named.push(file);
        }
        new
    }
}
