//! `--kernel-log`: the kernel's log in a file.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::failure::Failure;
use crate::trace::create;

/// The file.
pub struct KernelLog(File);

impl KernelLog {
    pub fn create(path: &Path) -> Result<KernelLog, Failure> {
        create(path).map(KernelLog)
    }

    /// Appends what came. A full disk must not end a running job: then the log is cut.
    pub fn write(&mut self, text: &str) {
        let _ = self.0.write_all(text.as_bytes());
    }
}
