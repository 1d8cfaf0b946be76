//! `--kernel-log`: the kernel's log in a file.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::sink::Sink;
use crate::trace::create;

/// The file.
pub struct KernelLog {
    pub sink: Sink,
}

impl KernelLog {
    pub fn create(path: &Path, timeout: Option<Duration>) -> Result<KernelLog, Failure> {
        let file = create(path, timeout)?;
        let sink = Sink::new(path.display().to_string(), file.as_fd())?;
        Ok(KernelLog { sink })
    }

    /// Appends what came. Where nothing reads, what comes is dropped: a log must not hold up a running job.
    pub fn append(&mut self, text: &str) {
        if !self.sink.is_full() {
            self.sink.pending().extend_from_slice(text.as_bytes());
        }
    }
}
