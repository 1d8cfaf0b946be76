//! The program that a rank runs.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

/// The program a rank runs.
#[derive(Debug)]
pub struct Program {
    /// Its file, open for reading.
    pub file: OwnedFd,
    /// The file of its interpreter (PT_INTERP), open for reading, when it is dynamically linked.
    pub interpreter: Option<OwnedFd>,
    /// The path it was started by (AT_EXECFN), after the search along PATH.
    pub started_as: CString,
    /// The absolute path without symbolic links: what /proc/self/exe shows.
    pub real_path: CString,
    /// Argument strings; the first is the program's name for itself.
    pub argv: Vec<CString>,
    /// Environment strings.
    pub env: Vec<CString>,
}

impl Program {
    /// The strings of `HostOp::WriteStrings` in their order.
    pub fn strings(&self) -> impl Iterator<Item = &CStr> {
        let all = self.argv.iter().chain(&self.env);
        all.map(CString::as_c_str)
            .chain([self.started_as.as_c_str()])
    }

    /// Bytes of all strings with their NULs.
    pub fn strings_bytes(&self) -> u64 {
        self.strings()
            .map(|string| string.count_bytes() as u64 + 1)
            .sum()
    }

    /// Its name for ps and for messages about threads: the last component of the path it was started by.
    pub fn file_name(&self) -> &[u8] {
        let path = self.started_as.to_bytes();
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }
}
