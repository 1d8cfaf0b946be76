//! What a program needs besides itself: files of the host that another system gets as a tree, at the same paths.
//!
//! On Margay a program finds them where they are, for its files are the host's. [`Tree::gather`] takes what a job names, the
//! interpreter and all libraries of each program among it (those that the host's ld.so names), and every symbolic link on the way.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::cpio::{Archive, Kind};

/// The loader of the host: an interpreter of programs, and what lists their libraries.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// Where the loader finds libraries that are in none of its own directories.
const LOADER_CACHE: &str = "/etc/ld.so.cache";
/// Symbolic links on one path, as Linux has it (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// A file or a directory of the host that a job needs.
#[derive(Debug)]
pub struct Wanted {
    /// Its path.
    pub path: &'static str,
    /// The package of Debian that has it.
    pub package: &'static str,
    /// Names of files and directories below it that are left out.
    pub without: &'static [&'static str],
    /// Whether it is left out where it is not installed.
    pub optional: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Entry {
    Directory,
    /// Bytes, and when they were last changed: Python goes by that.
    File {
        bytes: u64,
        modified: u32,
    },
    Link(String),
}

/// Files, directories and symbolic links, by their paths from the root on; a directory comes before what is in it.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Tree(BTreeMap<PathBuf, Entry>);

/// Nothing: of a static program.
pub static EMPTY: Tree = Tree(BTreeMap::new());

impl Tree {
    /// All that is wanted, and the libraries that `program` is linked with.
    ///
    /// # Errors
    /// The first that is not installed, with its package; or a file that cannot be read.
    pub fn gather(wanted: &[Wanted], program: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        for Wanted {
            path,
            package,
            without,
            optional,
        } in wanted
        {
            let path = Path::new(path);
            if !path.exists() {
                ensure!(
                    *optional,
                    "{} is not installed: apt-get install {package}",
                    path.display()
                );
                continue;
            }
            tree.add(path, without)?;
            let named = path.is_file();
            for file in tree.files_below(&fs::canonicalize(path)?) {
                tree.add_libraries(&file, named)?;
            }
        }
        tree.add_libraries(program, true)?;
        if !tree.is_empty() && Path::new(LOADER_CACHE).exists() {
            tree.add(Path::new(LOADER_CACHE), &[])?;
        }
        Ok(tree)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        let of = |entry: &Entry| match entry {
            Entry::File { bytes, .. } => *bytes,
            Entry::Directory | Entry::Link(_) => 0,
        };
        self.0.values().map(of).sum()
    }

    /// Puts all of it into an archive.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn pack(&self, archive: &mut Archive) -> Result<()> {
        for (path, entry) in &self.0 {
            let name = path.to_string_lossy();
            match entry {
                Entry::Directory => archive.add(&name, Kind::Directory, 0),
                Entry::Link(to) => archive.add(&name, Kind::Link(to), 0),
                Entry::File { modified, .. } => {
                    let source = Path::new("/").join(path);
                    let bytes = fs::read(&source)
                        .with_context(|| format!("cannot read {}", source.display()))?;
                    archive.add(&name, Kind::File(&bytes), *modified);
                }
            }
        }
        Ok(())
    }

    /// Adds a path: the directories and links that lead there, and what is there, all of it if it is a directory.
    fn add(&mut self, path: &Path, without: &[&str]) -> Result<()> {
        let real = self.lead_to(path)?;
        let meta = metadata(&real)?;
        if !meta.is_dir() {
            return Ok(());
        }
        let entries =
            fs::read_dir(&real).with_context(|| format!("cannot read {}", real.display()))?;
        for entry in entries {
            let inner = entry?.path();
            let name = inner.file_name().unwrap_or_default();
            let kind = fs::symlink_metadata(&inner)?.file_type();
            if without.iter().any(|left_out| OsStr::new(left_out) == name) {
                continue;
            }
            if kind.is_dir() {
                self.add(&inner, without)?;
            } else if kind.is_file() || (kind.is_symlink() && inner.is_file()) {
                self.lead_to(&inner)?;
            }
        }
        Ok(())
    }

    /// Adds what is on the way to a path, each symbolic link with where it leads, and the file or directory at its end, whose path
    /// without links it returns.
    fn lead_to(&mut self, path: &Path) -> Result<PathBuf> {
        let (mut ahead, mut real, mut links) = (path.to_path_buf(), PathBuf::from("/"), 0);
        'again: loop {
            let steps: Vec<_> = ahead.components().map(owned).collect();
            for (at, step) in steps.iter().enumerate() {
                match step.as_os_str().as_encoded_bytes() {
                    b"/" => real = PathBuf::from("/"),
                    b".." => drop(real.pop()),
                    _ => {
                        let here = real.join(step);
                        let to = self.enter(&here)?;
                        let Some(to) = to else {
                            real = here;
                            continue;
                        };
                        links += 1;
                        ensure!(links <= MOST_LINKS, "{}: too many links", path.display());
                        // From the directory of the link, or from the root.
                        ahead = to;
                        ahead.extend(&steps[at + 1..]);
                        continue 'again;
                    }
                }
            }
            return Ok(real);
        }
    }

    /// Adds one path, whose directory is there; where it leads if it is a link.
    fn enter(&mut self, path: &Path) -> Result<Option<PathBuf>> {
        let meta = metadata(path)?;
        let (kind, to) = (meta.file_type(), fs::read_link(path).ok());
        let entry = match &to {
            Some(to) => Entry::Link(to.to_string_lossy().into_owned()),
            None if kind.is_dir() => Entry::Directory,
            None if kind.is_file() => Entry::File {
                bytes: meta.len(),
                modified: u32::try_from(meta.mtime()).unwrap_or(0),
            },
            None => bail!("{} is neither file nor directory", path.display()),
        };
        let name = path.strip_prefix("/").unwrap_or(path);
        self.0.insert(name.to_path_buf(), entry);
        Ok(to)
    }

    /// The files at or below a path, by their paths.
    fn files_below(&self, path: &Path) -> Vec<PathBuf> {
        let name = path.strip_prefix("/").unwrap_or(path);
        let below = self
            .0
            .iter()
            .filter(|(path, entry)| path.starts_with(name) && matches!(entry, Entry::File { .. }));
        below.map(|(path, _)| Path::new("/").join(path)).collect()
    }

    /// Adds the interpreter and the libraries of a program or library, as the host's loader finds them; of any other file, nothing.
    /// One that is not found is an error if `all` must be: a plugin that cannot be loaded is left out on the host, too.
    fn add_libraries(&mut self, file: &Path, all: bool) -> Result<()> {
        if !is_elf(file)? {
            return Ok(());
        }
        // Of a static program it lists nothing.
        let listing = Command::new(LOADER).arg("--list").arg(file).output();
        let listing = listing.with_context(|| format!("cannot run {LOADER}"))?;
        let libraries = libraries(&String::from_utf8_lossy(&listing.stdout));
        if !libraries.is_empty() {
            self.lead_to(Path::new(LOADER))?;
        }
        for (name, found) in libraries {
            match found {
                Some(path) => drop(self.lead_to(&path)?),
                None => ensure!(
                    !all,
                    "{}: its library {name} is not installed",
                    file.display()
                ),
            }
        }
        Ok(())
    }
}

fn owned(component: Component<'_>) -> PathBuf {
    PathBuf::from(component.as_os_str())
}

fn metadata(path: &Path) -> Result<fs::Metadata> {
    fs::symlink_metadata(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Whether it is a program or a library (System V ABI, ELF-64: e_ident).
fn is_elf(file: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let read = File::open(file).and_then(|mut file| file.read(&mut magic));
    read.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(magic == *b"\x7fELF")
}

/// Names and paths in what `ld.so --list` says; no path: it was not found.
fn libraries(listing: &str) -> Vec<(String, Option<PathBuf>)> {
    let line = |line: &str| {
        let (name, found) = line.trim().split_once(" => ")?;
        let path = found
            .split(" (")
            .next()
            .filter(|path| path.starts_with('/'));
        Some((name.to_owned(), path.map(PathBuf::from)))
    };
    listing.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::symlink;

    /// Of one file or directory, which must be there.
    fn gathered(path: &Path, without: &'static [&'static str]) -> Result<Tree> {
        let wanted = Wanted {
            path: Box::leak(path.to_string_lossy().into_owned().into_boxed_str()),
            package: "a-package",
            without,
            optional: false,
        };
        Tree::gather(&[wanted], Path::new("/dev/null"))
    }

    fn names(tree: &Tree, below: &Path) -> Vec<String> {
        let below = below.strip_prefix("/").expect("absolute");
        let inner = tree
            .0
            .keys()
            .filter_map(|path| path.strip_prefix(below).ok());
        inner.map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_directory_comes_with_what_is_in_it_and_where_its_links_lead() {
        let scratch = Scratch::new().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        for directory in ["real/inner", "real/test", "elsewhere"] {
            fs::create_dir_all(root.join(directory)).expect("made");
        }
        for file in ["real/a", "real/inner/b", "real/test/c", "elsewhere/d"] {
            fs::write(root.join(file), "text").expect("written");
        }
        symlink("real", root.join("link")).expect("a link");
        symlink("../elsewhere/d", root.join("real/to-d")).expect("a link");
        symlink("nowhere", root.join("real/broken")).expect("a link");
        let tree = gathered(&root.join("link"), &["test"]).expect("a tree");
        assert_eq!(
            names(&tree, &root),
            [
                "",
                "elsewhere",
                "elsewhere/d",
                "link",
                "real",
                "real/a",
                "real/inner",
                "real/inner/b",
                "real/to-d"
            ]
        );
        assert_eq!(tree.bytes() - loader_cache(), 12);
        let mut archive = Archive::default();
        tree.pack(&mut archive).expect("packed");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert!(text.contains("/real/to-d\0") && text.contains("../elsewhere/d"));

        symlink("round", root.join("round")).expect("a link");
        let error = Tree::default().lead_to(&root.join("round"));
        assert!(
            error
                .expect_err("a loop")
                .to_string()
                .contains("too many links")
        );
    }

    fn loader_cache() -> u64 {
        fs::metadata(LOADER_CACHE).map_or(0, |meta| meta.len())
    }

    #[test]
    fn a_program_comes_with_its_interpreter_and_libraries() {
        let tree = gathered(Path::new("/usr/bin/env"), &[]).expect("a tree");
        let real = |path: &str| {
            let real = fs::canonicalize(path).expect("a path");
            real.strip_prefix("/").expect("absolute").to_path_buf()
        };
        assert!(tree.0.contains_key(&real("/usr/bin/env")));
        assert!(tree.0.contains_key(&real(LOADER)));
        assert!(tree.0.keys().any(|path| path.ends_with("libc.so.6")));
        // As on the host, whose directories of programs and libraries may be links.
        let is_link = fs::symlink_metadata("/lib64").expect("there").is_symlink();
        let entry = tree.0.get(Path::new("lib64")).expect("an entry");
        assert_eq!(matches!(entry, Entry::Link(_)), is_link);
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let error = gathered(Path::new("/no/such/file"), &[]).expect_err("missing");
        assert_eq!(
            error.to_string(),
            "/no/such/file is not installed: apt-get install a-package"
        );
        let optional = Wanted {
            path: "/no/such/file",
            package: "a-package",
            without: &[],
            optional: true,
        };
        let tree = Tree::gather(&[optional], Path::new("/dev/null")).expect("nothing");
        assert!(tree.is_empty() && tree.bytes() == 0);
    }

    #[test]
    fn the_loaders_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tliba.so.1 => /lib/liba.so.1 (0x2)\n\tlibb.so => not found\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        assert_eq!(
            libraries(text),
            [
                (
                    "liba.so.1".to_owned(),
                    Some(PathBuf::from("/lib/liba.so.1"))
                ),
                ("libb.so".to_owned(), None)
            ]
        );
        assert!(libraries("\tstatically linked\n").is_empty());
    }
}
