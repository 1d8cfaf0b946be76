//! `--kernel-log`: the kernel's log in a file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::console;
use crate::failure::Failure;
use crate::trace::create;

/// The file, as long as it can be written.
pub struct KernelLog {
    file: Option<File>,
    path: PathBuf,
}

impl KernelLog {
    pub fn create(path: &Path) -> Result<KernelLog, Failure> {
        Ok(KernelLog {
            file: Some(create(path)?),
            path: path.to_path_buf(),
        })
    }

    /// Appends what came. A full disk must not end a running job: then the log ends, which is said once.
    pub fn write(&mut self, text: &str) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(text.as_bytes()) {
            let path = self.path.display();
            console::say(format_args!(
                "cannot write the kernel log to {path}: {error}; it ends here"
            ));
            self.file = None;
        }
    }
}
