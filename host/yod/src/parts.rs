//! Where yod's own parts are: the kernel, the PCT, and the agent that goes into QEMU.
//!
//! Named by MARGAY_KERNEL, MARGAY_PCT and MARGAY_AGENT_LIBRARY (for tests), installed beside yod (PREFIX/bin/yod, PREFIX/lib/margay/), or in the
//! build tree above it (target/release/yod, target/margay/).

use std::path::{Path, PathBuf};

use crate::failure::{Failure, status};

const KERNEL: &str = "margay.elf";
const PCT: &str = "pct";
const AGENT: &str = "agent.so";

/// Absolute paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    pub kernel: PathBuf,
    pub pct: PathBuf,
    pub agent: PathBuf,
}

impl Parts {
    pub fn find() -> Result<Parts, Failure> {
        Ok(Parts {
            kernel: find("MARGAY_KERNEL", KERNEL, "kernel")?,
            pct: find("MARGAY_PCT", PCT, "PCT")?,
            agent: find("MARGAY_AGENT_LIBRARY", AGENT, "agent")?,
        })
    }
}

fn find(variable: &str, file: &str, what: &str) -> Result<PathBuf, Failure> {
    let missing = |line: String| Failure::new(status::UNAVAILABLE, line);
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        let path = std::path::absolute(&path).unwrap_or_else(|_| path.into());
        return match path.is_file() {
            true => Ok(path),
            false => Err(missing(format!(
                "{what} {} ({variable}): no such file",
                path.display()
            ))),
        };
    }
    let exe = std::env::current_exe().map_err(|error| Failure::os("find my own program", error))?;
    places(&exe, file).into_iter().find(|path| path.is_file()).ok_or_else(|| {
        missing(format!(
            "{what} not found: no lib/margay/{file} or margay/{file} above {}: build it (cargo xtask build) or install again",
            exe.display()
        ))
    })
}

/// Places to look in, in order.
fn places(exe: &Path, file: &str) -> Vec<PathBuf> {
    let above = exe.ancestors().skip(1);
    let installed = above
        .clone()
        .nth(1)
        .map(|prefix| prefix.join("lib/margay").join(file));
    // A build tree's directory; the root of a file system is not one.
    let built = above.take(4).map(|dir| dir.join("margay").join(file));
    installed.into_iter().chain(built).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_and_built_places_are_tried() {
        let places = |exe: &str| places(Path::new(exe), "pct");
        assert_eq!(places("/usr/bin/yod")[0], Path::new("/usr/lib/margay/pct"));
        assert!(places("/src/target/release/yod").contains(&"/src/target/margay/pct".into()));
        assert!(
            places("/src/target/debug/deps/yod-123").contains(&"/src/target/margay/pct".into())
        );
    }
}
