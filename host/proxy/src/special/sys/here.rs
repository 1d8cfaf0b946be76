//! The rank's working directory, where it is one of the trees'.

use std::sync::Mutex;

use super::tree::Dir;
use crate::sync::lock;

/// The rank's working directory where it is one of these. There is one rank per process.
static HERE: Mutex<Option<Dir>> = Mutex::new(None);

/// The directory.
pub fn here() -> Option<Dir> {
    *lock(&HERE)
}

/// Notes that it is another; `None`: one outside.
pub fn go(to: Option<Dir>) {
    *lock(&HERE) = to;
}
