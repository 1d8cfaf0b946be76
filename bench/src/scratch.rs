//! A directory for what programs write: in memory when there is room, and gone in the end.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use margay_tests::clean::new_mark;
use margay_tests::scratch::fresh_in;

/// Files of programs, all together, take less.
const ROOM_BYTES: u64 = 2 << 30;

/// The directory.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in /dev/shm when there is room to spare, else in `otherwise`, where the page cache holds what is in it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(otherwise: &Path) -> Result<Scratch> {
        let shm = Path::new("/dev/shm");
        let free_bytes = rustix::fs::statvfs(shm).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
        let parent = if free_bytes > ROOM_BYTES {
            shm
        } else {
            otherwise
        };
        // No name that a node could have left behind: the tests look for those.
        let path = fresh_in(parent, || format!("bench-{}", new_mark()));
        let path =
            path.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // No caller is left to take an error.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_apart_and_leave_nothing() {
        let parent = std::env::temp_dir();
        let (a, b) = (
            Scratch::new(&parent).expect("one"),
            Scratch::new(&parent).expect("another"),
        );
        assert_ne!(a.path(), b.path());
        fs::write(a.path().join("file"), "x").expect("written");
        let path = a.path().to_path_buf();
        drop(a);
        assert!(!path.exists() && b.path().is_dir());
    }
}
