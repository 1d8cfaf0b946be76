//! Writing a core file: pages of zeros become holes, and RLIMIT_CORE is the most that is written, as Linux has it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What is examined as a whole when zeros are left out.
const BLOCK: usize = abi::map::PAGE as usize;

/// A core file that is being written.
#[derive(Debug)]
pub struct Core {
    file: File,
    at: u64,
    written: u64,
    limit_bytes: u64,
}

/// Why a core file is not whole.
#[derive(Debug)]
pub enum Cut {
    /// RLIMIT_CORE was reached.
    Limit,
    /// Linux could not write.
    Failed(io::Error),
}

impl Core {
    /// Creates it, or empties what is there: a file of the user's own that nothing else refers to (Linux: do_coredump).
    ///
    /// # Errors
    /// What open(2) says; one in words for a file that is not the user's own.
    pub fn create(path: &Path, limit_bytes: u64) -> io::Result<Core> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        let stat = file.metadata()?;
        let user = rustix::process::geteuid().as_raw();
        if !stat.is_file() || stat.nlink() != 1 || stat.uid() != user {
            return Err(io::Error::other(
                "what is there is no file of yours with one name",
            ));
        }
        file.set_len(0)?;
        Ok(Core {
            file,
            at: 0,
            written: 0,
            limit_bytes,
        })
    }

    /// Writes bytes behind those before.
    ///
    /// # Errors
    /// [`Cut`]: nothing more can be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Cut> {
        for block in bytes.chunks(BLOCK) {
            if block.iter().any(|byte| *byte != 0) {
                self.written += block.len() as u64;
                if self.written > self.limit_bytes {
                    return Err(Cut::Limit);
                }
                self.file
                    .write_all_at(block, self.at)
                    .map_err(Cut::Failed)?;
            }
            self.at += block.len() as u64;
        }
        Ok(())
    }

    /// Leaves zeros up to the next multiple of `align`.
    pub fn align(&mut self, align: u64) {
        self.at = self.at.next_multiple_of(align);
    }

    /// Gives the file its length: it may end in a hole.
    ///
    /// # Errors
    /// [`Cut::Failed`].
    pub fn finish(self) -> Result<(), Cut> {
        self.file.set_len(self.at).map_err(Cut::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("margay-core-{name}-{}", std::process::id()))
    }

    #[test]
    fn zeros_are_holes_and_cost_nothing_of_the_limit() {
        let path = scratch("holes");
        let mut core = Core::create(&path, 2 * BLOCK as u64).expect("a file");
        let blocks = [[1; BLOCK], [0; BLOCK], [2; BLOCK], [0; BLOCK]].concat();
        core.write(&blocks).expect("room for two");
        assert!(matches!(core.write(&[3]), Err(Cut::Limit)));
        core.finish().expect("a length");
        assert_eq!(std::fs::read(&path).expect("readable"), blocks);
        // What was there is gone, whichever user is to read it.
        Core::create(&path, 1).expect("the same file");
        assert_eq!(std::fs::metadata(&path).expect("there").len(), 0);
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn only_a_file_of_ones_own_is_written_to() {
        let (path, other) = (scratch("link"), scratch("linked"));
        std::fs::write(&other, "precious").expect("written");
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        Core::create(&path, 1).expect_err("a symbolic link");
        std::fs::remove_file(&path).expect("removed");
        std::fs::hard_link(&other, &path).expect("a link");
        Core::create(&path, 1).expect_err("a second name");
        assert_eq!(std::fs::read(&other).expect("readable"), b"precious");
        for path in [path, other] {
            std::fs::remove_file(path).expect("removed");
        }
        Core::create(Path::new("/dev/null"), 1).expect_err("a device");
    }
}
