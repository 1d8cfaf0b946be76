//! Directories of tests.

/// A directory that goes away with the value.
pub struct Directory(pub std::path::PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("margay-{}-{name}", std::process::id()));
        // That of a test that was killed, whose process id comes again in another namespace.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }

    /// A path in it, NUL-terminated.
    pub fn path(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}\0", self.0.display()).into_bytes()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
