//! MPI programs that no launcher has started. Ranks of `yod -n 2` would find no peers: each would be the only one in its
//! MPI_COMM_WORLD, and compute all that two were to share. One rank is alone on purpose, and needs the same settings as launched ones.
//!
//! Which MPI a program is linked with is told by the names of its libraries (DT_NEEDED). Programs that load one later, as Python's,
//! are not found out.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use object::elf::DT_NEEDED;
use object::endian::Endianness;
use object::read::ReadCache;
use object::read::elf::ElfFile64;

use crate::failure::{Failure, status};
use crate::launcher::{self, Settings};
use crate::program::search;

/// An MPI.
#[derive(PartialEq, Eq, Debug)]
struct Mpi {
    name: &'static str,
    /// How its launcher may be called. Debian has both MPIs' beside each other, so the names without doubt come first.
    launchers: &'static [&'static str],
    /// What its ranks need.
    settings: Settings,
}

const OPEN_MPI: Mpi = Mpi {
    name: "Open MPI",
    launchers: &["mpirun.openmpi", "mpirun"],
    settings: launcher::OPEN_MPI,
};
const MPICH: Mpi = Mpi {
    name: "MPICH",
    launchers: &["mpiexec.hydra", "mpiexec.mpich", "mpiexec"],
    settings: launcher::MPICH,
};

/// What a rank of the program, opened from `path`, needs when no launcher has started it.
///
/// # Errors
/// There are several ranks, and they would not find each other; the line says how to start it.
pub fn settings(file: &File, path: &Path, ranks: usize) -> Result<Settings, Failure> {
    let Some(Mpi {
        name,
        launchers,
        settings,
    }) = mpi_of(file)
    else {
        return Ok(&[]);
    };
    if ranks == 1 {
        return Ok(settings);
    }
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let is_here = |launcher: &&&str| search(OsStr::new(launcher), &dirs).is_ok();
    let launcher = launchers.iter().find(is_here).or(launchers.last());
    let launcher = launcher.unwrap_or(&"mpirun");
    let program = path.display();
    let line = format_args!(
        "-n {ranks}: {program} is linked with {name}, whose ranks find each other by their launcher; start it with: {launcher} -n {ranks} yod {program}"
    );
    Err(Failure::new(status::USAGE, line))
}

/// What is not an ELF file, or has no sections, says nothing about its libraries.
fn mpi_of(file: &File) -> Option<Mpi> {
    let cache = ReadCache::new(file);
    let file: ElfFile64<'_, Endianness, _> = ElfFile64::parse(&cache).ok()?;
    let dynamic = file.elf_dynamic_table().ok()?;
    let mut needed = dynamic.iter().filter(|entry| entry.tag == DT_NEEDED);
    needed.find_map(|entry| of_library(&String::from_utf8_lossy(dynamic.string(entry).ok()?)))
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
    fn mpis_are_told_by_their_libraries() {
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
}
