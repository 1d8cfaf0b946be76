//! Which MPI a program is linked with, known by the names of its libraries (DT_NEEDED). Programs that load one later, as Python's,
//! are not found out.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use object::endian::Endianness;
use object::read::ReadCache;
use object::read::elf::ElfFile64;

use crate::launcher::{self, Settings};

/// An MPI.
#[derive(PartialEq, Eq, Debug)]
pub struct Mpi {
    /// For people.
    pub name: &'static str,
    /// Names of its launcher in Debian, which has all MPIs beside each other.
    pub debians: &'static [&'static str],
    /// Names that it has elsewhere.
    pub others: &'static [&'static str],
    /// What the first line of its launcher's `--version` has in it.
    pub version_words: &'static [&'static str],
    /// Debian's package of the launcher.
    pub package: &'static str,
    /// Options of the launcher that give ranks what `yod -n` gives them, all cores to choose from; and processes that ranks spawn, which
    /// no yod starts, what those need.
    pub options: &'static [&'static str],
    /// Its option for more ranks than cores, if it refuses them otherwise.
    pub oversubscribe: Option<&'static str>,
    /// What its ranks need.
    pub settings: Settings,
}

const OPEN_MPI: Mpi = Mpi {
    name: launcher::NAMES[0],
    debians: &["mpirun.openmpi"],
    others: &["mpirun", "mpiexec"],
    // orterun goes by the name of its file: only as mpirun is it Open MPI's.
    version_words: &["(Open MPI)", "(OpenRTE)"],
    package: "openmpi-bin",
    options: &["--bind-to", "none"],
    oversubscribe: Some("--oversubscribe"),
    settings: launcher::OPEN_MPI,
};
const MPICH: Mpi = Mpi {
    name: launcher::NAMES[1],
    debians: &["mpiexec.hydra", "mpiexec.mpich"],
    others: &["mpiexec.hydra", "mpiexec", "mpirun"],
    version_words: &["HYDRA"],
    package: "mpich",
    options: &[],
    oversubscribe: None,
    settings: launcher::MPICH,
};

/// What a program's file says of its MPI.
pub struct Linked {
    /// The one.
    pub mpi: Mpi,
    /// The name of its library.
    library: String,
    /// Where the loader looks for it first (ld.so(8)): DT_RPATH, only without DT_RUNPATH, and after LD_LIBRARY_PATH DT_RUNPATH.
    rpath: OsString,
    runpath: OsString,
}

impl Linked {
    /// Of an open file; what is not an ELF file, or has no sections, says nothing about its libraries.
    pub fn of(file: &File) -> Option<Linked> {
        let cache = ReadCache::new(file);
        let file: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&cache).ok()?;
        let dynamic = file.elf_dynamic_table().ok()?;
        let strings = |tag| {
            let entries = dynamic.iter().filter(move |entry| entry.tag == tag);
            entries.filter_map(|entry| dynamic.string(entry).ok())
        };
        let path = |tag| strings(tag).next().map_or_else(OsString::new, os_string);
        let mut needed = strings(DT_NEEDED).map(String::from_utf8_lossy);
        let (mpi, library) =
            needed.find_map(|name| Some((of_library(&name)?, name.into_owned())))?;
        let runpath = path(DT_RUNPATH);
        let rpath = if runpath.is_empty() {
            path(DT_RPATH)
        } else {
            OsString::new()
        };
        Some(Linked {
            mpi,
            library,
            rpath,
            runpath,
        })
    }

    /// Whether the library is Debian's own, for a program in the directory `origin`: the loader finds it where the system has its
    /// libraries, and not in a directory that the program or LD_LIBRARY_PATH names.
    pub fn is_debians(&self, origin: &Path, ld_library_path: &OsStr) -> bool {
        let paths = [&*self.rpath, ld_library_path, &*self.runpath];
        let directories = paths.into_iter().flat_map(std::env::split_paths);
        let mut directories = directories.filter(|directory| !directory.as_os_str().is_empty());
        let found = directories.find_map(|directory| {
            let file = from_origin(&directory, origin).join(&self.library);
            file.canonicalize().ok()
        });
        found.is_none_or(|file| file.starts_with("/usr/lib"))
    }
}

fn os_string(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).into()
}

/// A directory of a run path may begin with the program's own (ld.so(8)).
fn from_origin(directory: &Path, origin: &Path) -> PathBuf {
    let names = ["$ORIGIN", "${ORIGIN}"];
    let rest = names
        .iter()
        .find_map(|name| directory.strip_prefix(name).ok());
    rest.map_or_else(|| directory.to_path_buf(), |rest| origin.join(rest))
}

/// Names of libraries for C and Fortran, with the number of their interface: libmpi.so.12 is what MPICH and its kin have in common
/// (the MPICH ABI compatibility initiative), Open MPI's has been 40 since 3.0.
fn of_library(name: &str) -> Option<Mpi> {
    let (library, version) = name.split_once(".so")?;
    match (library, version) {
        ("libmpi", ".12") | ("libmpifort", _) => Some(MPICH),
        ("libmpi", _) => Some(OPEN_MPI),
        _ if library.starts_with("libmpich") => Some(MPICH),
        _ if library.starts_with("libmpi_mpifh") || library.starts_with("libmpi_usempi") => {
            Some(OPEN_MPI)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpis_are_recognised_by_their_libraries() {
        let named = |name| of_library(name).map(|mpi| mpi.name);
        for open_mpi in [
            "libmpi.so.40",
            "libmpi_mpifh.so.40",
            "libmpi_usempif08.so.40",
        ] {
            assert_eq!(named(open_mpi), Some("Open MPI"), "{open_mpi}");
        }
        for mpich in [
            "libmpich.so.12",
            "libmpichfort.so.12",
            "libmpi.so.12",
            "libmpifort.so.12",
        ] {
            assert_eq!(named(mpich), Some("MPICH"), "{mpich}");
        }
        for other in ["libmpich", "libmpifr.so.6", "libm.so.6", "libmpc.so.3", ""] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    /// The launcher of another MPI than the program's does not connect its ranks.
    #[test]
    fn libraries_that_the_program_names_are_not_debians() {
        let place = std::env::temp_dir().join(format!("margay-mpi-{}", std::process::id()));
        let own = place.join("lib");
        std::fs::create_dir_all(&own).expect("a directory");
        std::fs::write(own.join("libmpi.so.40"), "").expect("a file");
        let is_debians = |rpath: &str, ld_library_path: &Path, runpath: &str| {
            let linked = Linked {
                mpi: OPEN_MPI,
                library: "libmpi.so.40".into(),
                rpath: rpath.into(),
                runpath: runpath.into(),
            };
            linked.is_debians(&place.join("bin"), ld_library_path.as_os_str())
        };
        let none = Path::new("");
        assert!(is_debians("", none, ""));
        assert!(is_debians("/nonexistent", none, "$ORIGIN/lib"));
        for path in ["$ORIGIN/../lib", "/nonexistent:${ORIGIN}/../lib"] {
            std::fs::create_dir_all(place.join("bin")).expect("a directory");
            assert!(!is_debians("", none, path), "{path}");
            assert!(!is_debians(path, none, ""), "{path}");
        }
        assert!(!is_debians("", &own, ""));
        std::fs::remove_dir_all(place).expect("removed");
    }
}
