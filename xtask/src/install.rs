//! Installing: PREFIX/bin/yod, PREFIX/lib/margay/{margay.elf,pct,agent.so}, which yod finds relative to itself, its manual page and its
//! completions where shells look for them; and taking all of that away again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build;

/// Made from other files or by yod itself: what makes each, and where it goes below the prefix.
const FILES: &[(From, &str)] = &[
    (From::Stripped, "bin/yod"),
    // Not stripped: panics are reported with the kernel's own names.
    (From::Node("margay.elf"), "lib/margay/margay.elf"),
    (From::Node("pct"), "lib/margay/pct"),
    (From::Node("agent.so"), "lib/margay/agent.so"),
    (From::Said(&["--man"]), "share/man/man1/yod.1"),
    (
        From::Said(&["--completions", "bash"]),
        "share/bash-completion/completions/yod",
    ),
    (
        From::Said(&["--completions", "zsh"]),
        "share/zsh/site-functions/_yod",
    ),
    (
        From::Said(&["--completions", "fish"]),
        "share/fish/vendor_completions.d/yod.fish",
    ),
];
/// Directories that are only ours.
const OWN_DIRS: &[&str] = &["lib/margay"];

enum From {
    /// yod without its symbols, most of its size.
    Stripped,
    /// A built file of the node's.
    Node(&'static str),
    /// What yod prints with these options.
    Said(&'static [&'static str]),
}

/// Builds and installs under a prefix.
///
/// # Errors
/// When a build fails or the prefix cannot be written to.
pub fn run(prefix: &Path) -> Result<()> {
    build::all()?;
    let prefix = std::path::absolute(prefix)?;
    for (from, to) in FILES {
        let to = prefix.join(to);
        let folder = to.parent().expect("it lies in a folder");
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        put(from, &to)?;
        println!("{}", to.display());
    }
    Ok(())
}

fn put(from: &From, to: &Path) -> Result<()> {
    match from {
        From::Node(name) => build::replace(&build::output().join(name), to),
        From::Stripped => build::replace_by(to, |new| {
            build::run(Command::new("strip").arg("-o").arg(new).arg(build::yod()))
        }),
        From::Said(options) => build::replace_by(to, |new| {
            fs::write(
                new,
                build::captured(Command::new(build::yod()).args(*options))?,
            )?;
            Ok(fs::set_permissions(new, fs::Permissions::from_mode(0o644))?)
        }),
    }
}

/// Removes what [`run`] installed; what is not there is no error.
///
/// # Errors
/// When a file cannot be removed.
pub fn undo(prefix: &Path) -> Result<()> {
    let prefix = std::path::absolute(prefix)?;
    for (_, file) in FILES {
        let path = prefix.join(file);
        match fs::remove_file(&path) {
            Ok(()) => println!("removed {}", path.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
        }
    }
    for dir in OWN_DIRS {
        // One that holds something else, or is not there, stays as it is.
        let _ = fs::remove_dir(prefix.join(dir));
    }
    Ok(())
}
