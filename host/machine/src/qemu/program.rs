//! QEMU: where it is, and which one it is.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Oldest version that has all the options used: `i8042=off` came with 7.0.
pub const OLDEST: Version = Version { major: 7, minor: 0 };
const NAME: &str = "qemu-system-x86_64";
/// Where Red Hat's package has it.
const OUTSIDE_PATH: [&str; 2] = ["/usr/libexec/qemu-kvm", "/usr/bin/qemu-kvm"];
/// Where distributions put QEMU's data, besides share/qemu next to the program.
const DATA_DIRS: [&str; 5] = [
    "/usr/share/qemu",
    "/usr/local/share/qemu",
    "/usr/share/qemu-kvm",
    "/usr/share/seabios",
    "/usr/share/qboot",
];
const QBOOT: &str = "qboot.rom";

/// A QEMU that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// qboot's image; without it the slower SeaBIOS, which QEMU brings along, starts the kernel.
    pub qboot: Option<PathBuf>,
}

/// QEMU's version; the third number does not matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

/// No QEMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("QEMU not found: no {NAME} in PATH and no {}: install the package qemu-system-x86", OUTSIDE_PATH[0])]
pub struct NotFound;

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Qemu {
    /// Looks in PATH, then where else it may be.
    ///
    /// # Errors
    /// There is none.
    pub fn find() -> Result<Qemu, NotFound> {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&dirs)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(NAME))
            .chain(OUTSIDE_PATH.map(PathBuf::from))
            .find(|path| is_executable(path))
            .ok_or(NotFound)?;
        let qboot = find_qboot(&path);
        Ok(Qemu { path, qboot })
    }

    /// Runs the program to find out. This takes about as long as booting a node, so it is done only when something went wrong or
    /// the user requested it.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        let out = std::process::Command::new(&self.path)
            .arg("--version")
            .output()
            .ok()?;
        parse_version(&String::from_utf8_lossy(&out.stdout))
    }

    /// Which one it is.
    ///
    /// # Errors
    /// It lacks what is needed, or is another program.
    pub fn check(&self) -> Result<String, String> {
        let path = self.path.display();
        match self.version() {
            Some(version) if version < OLDEST => Err(self.too_old(version)),
            Some(version) => Ok(format!("{path}, version {version}")),
            None => Err(format!("{path} does not say its version: is it QEMU?")),
        }
    }

    /// The line for one that lacks what is needed.
    pub(super) fn too_old(&self, version: Version) -> String {
        format!(
            "{} is version {version}: QEMU {OLDEST} or newer is needed",
            self.path.display()
        )
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn find_qboot(program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let beside = program.parent()?.parent()?.join("share/qemu");
    std::iter::once(beside)
        .chain(DATA_DIRS.map(PathBuf::from))
        .map(|dir| dir.join(QBOOT))
        .find(|rom| rom.is_file())
}

/// `QEMU emulator version 7.2.22 (Debian ...)`.
fn parse_version(text: &str) -> Option<Version> {
    let rest = text.split_once(" version ")?.1;
    let mut numbers = rest
        .split(|c: char| !c.is_ascii_digit())
        .map(|word| word.parse().ok());
    Some(Version {
        major: numbers.next()??,
        minor: numbers.next()??,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let version = |text| parse_version(text).map(|v| (v.major, v.minor));
        assert_eq!(
            version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright"),
            Some((7, 2))
        );
        assert_eq!(
            version("QEMU emulator version 10.0.50 (v10.0)"),
            Some((10, 0))
        );
        assert_eq!(version("QEMU emulator version 6.2"), Some((6, 2)));
        assert_eq!(version("something else"), None);
        assert_eq!(version("QEMU emulator version x"), None);
        assert!(
            Version { major: 6, minor: 2 } < OLDEST
                && Version {
                    major: 10,
                    minor: 0
                } > OLDEST
        );
    }
}
