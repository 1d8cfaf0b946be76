//! Telling a terminal user, once per session, that the CPU is emulated.
//!
//! That it was told is remembered by an empty file where sessions keep such things (XDG Base Directory Specification):
//! XDG_RUNTIME_DIR, which goes away with the session, or the state directory where there is none.

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::path::PathBuf;

use machine::accel::Accel;

use crate::console;

const TEXT: &str = "no KVM here: the CPU is emulated; compare counts and ratios, not seconds";

/// Prints the notice if it is due.
pub fn emulation(accel: Accel) {
    if accel == Accel::Tcg && std::io::stderr().is_terminal() && first_time() {
        console::say(TEXT);
    }
}

/// Where nothing can be remembered, every time is the first.
fn first_time() -> bool {
    let Some(dir) = directory(|name| std::env::var_os(name).map(PathBuf::from)) else {
        return true;
    };
    let _ = std::fs::create_dir_all(&dir);
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(dir.join("emulation-noticed"));
    !matches!(created, Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
}

fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let base = |name| variable(name).filter(|dir| dir.is_absolute());
    base("XDG_RUNTIME_DIR")
        .or_else(|| base("XDG_STATE_HOME"))
        .or_else(|| base("HOME").map(|home| home.join(".local/state")))
        .map(|dir| dir.join("margay"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_remembers_rather_than_the_home() {
        let dir = |set: &[(&str, &str)]| {
            directory(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(
            dir(&[("XDG_RUNTIME_DIR", "/run/user/1"), ("HOME", "/h")]),
            Some("/run/user/1/margay".into())
        );
        assert_eq!(
            dir(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]),
            Some("/h/.local/state/margay".into())
        );
        assert_eq!(dir(&[]), None);
    }
}
