//! Fresh directories to run in, and lists of what a program left there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::capture::Captured;
use crate::clean::new_mark;
use crate::run::NOBODY;
use crate::tree;

/// A directory that is removed with everything in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one in the target directory: /tmp is watched by tests that say nothing may be left there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Scratch> {
        let parent = tree::target().join("scratch");
        fs::create_dir_all(&parent)?;
        let path = fresh_in(&parent, new_mark);
        let path =
            path.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        Ok(Scratch { path })
    }

    /// Makes one for a run as a user that owns nothing; only root can do that.
    ///
    /// # Errors
    /// When it cannot be made, or given away.
    pub fn of_nobody() -> Result<Scratch> {
        let scratch = Scratch::new()?;
        let cwd = scratch.path.join("cwd");
        fs::create_dir_all(&cwd)?;
        for directory in [&scratch.path, &cwd] {
            chown(directory, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(scratch)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.path).is_err() {
            // A program took away its own permissions.
            open_up(&self.path);
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes a directory with the first of these names that none has: a run that was killed has left some, and process ids come again.
///
/// # Errors
/// When it cannot be made.
pub fn fresh_in(parent: &Path, mut name: impl FnMut() -> String) -> io::Result<PathBuf> {
    loop {
        let path = parent.join(name());
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            made => return made.map(|()| path),
        }
    }
}

/// Writes a file that is run soon. Another process does it: a process that a test beside this one is just starting has what is open
/// here until its own exec, and Linux runs no file that is open for writing (ETXTBSY).
///
/// # Errors
/// When install(1) is missing or fails.
pub fn write_program(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let mut install = Command::new("/usr/bin/install")
        .args(["-m", &format!("{mode:o}"), "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run install")?;
    let written = install.stdin.take().map(|mut pipe| pipe.write_all(bytes));
    let status = install.wait()?;
    written.transpose()?;
    ensure!(status.success(), "cannot write {}", path.display());
    Ok(())
}

fn open_up(path: &Path) {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    if is_dir {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}

/// A file as others see it; times and owners are not compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Kind and permission bits.
    pub mode: u32,
    /// Names that it has.
    pub links: u64,
    /// What is in it.
    pub content: Content,
}

/// What is in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Bytes.
    Bytes(Captured),
    /// Where a symbolic link points.
    Link(PathBuf),
    /// A directory, pipe, socket or device, or a file that cannot be read.
    Nothing,
}

/// Everything below a directory, by its path from there.
///
/// # Errors
/// When a directory cannot be read.
pub fn list(directory: &Path) -> io::Result<BTreeMap<PathBuf, Left>> {
    let mut found = BTreeMap::new();
    collect(directory, Path::new(""), &mut found)?;
    Ok(found)
}

fn collect(root: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Left>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let name = below.join(entry?.file_name());
        let path = root.join(&name);
        let meta = fs::symlink_metadata(&path)?;
        let kind = meta.file_type();
        let content = if kind.is_symlink() {
            Content::Link(fs::read_link(&path)?)
        } else if kind.is_file() {
            File::open(&path)
                .and_then(|mut file| Captured::read(&mut file))
                .map_or(Content::Nothing, Content::Bytes)
        } else {
            Content::Nothing
        };
        let left = Left {
            mode: meta.mode(),
            links: meta.nlink(),
            content,
        };
        found.insert(name.clone(), left);
        if kind.is_dir() {
            collect(root, &name, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_below_is_listed() {
        let scratch = Scratch::new().expect("a directory");
        let dir = scratch.path();
        fs::create_dir(dir.join("d")).expect("made");
        fs::write(dir.join("d/f"), b"x").expect("written");
        std::os::unix::fs::symlink("f", dir.join("d/l")).expect("linked");
        let found = list(dir).expect("listed");
        let names: Vec<_> = found.keys().map(|path| path.to_string_lossy()).collect();
        assert_eq!(names, ["d", "d/f", "d/l"]);
        assert_eq!(found[Path::new("d/l")].content, Content::Link("f".into()));
        assert_eq!(
            found[Path::new("d/f")].content,
            Content::Bytes(Captured::of(b"x"))
        );
    }

    /// It was, with what lay in it.
    #[test]
    fn what_another_run_has_left_is_not_taken() {
        let scratch = Scratch::new().expect("a directory");
        fs::create_dir(scratch.path().join("1-1")).expect("left");
        let mut names = ["1-1", "1-2"].into_iter().map(String::from);
        let path = fresh_in(scratch.path(), || names.next().expect("a name"));
        assert_eq!(path.expect("made"), scratch.path().join("1-2"));
    }

    #[test]
    fn programs_are_written_with_their_mode() {
        let scratch = Scratch::new().expect("a directory");
        let path = scratch.path().join("program");
        let bytes = b"#!/bin/sh\nexit 7\n".repeat(10_000);
        write_program(&path, &bytes, 0o711).expect("written");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(
            (fs::read(&path).expect("read"), mode & 0o7777),
            (bytes, 0o711)
        );
        let status = Command::new(&path).status().expect("it runs");
        assert_eq!(status.code(), Some(7));
        assert!(write_program(&scratch.path().join("no/where"), b"", 0o755).is_err());
    }

    #[test]
    fn closed_directories_are_removed_too() {
        let scratch = Scratch::new().expect("a directory");
        let dir = scratch.path().to_path_buf();
        fs::create_dir_all(dir.join("a/b")).expect("made");
        fs::set_permissions(dir.join("a"), fs::Permissions::from_mode(0o000)).expect("closed");
        drop(scratch);
        assert!(!dir.exists());
    }
}
