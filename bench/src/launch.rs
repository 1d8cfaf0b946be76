//! MPI programs: Debian's Open MPI and MPICH, whose launchers start ranks.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use margay_tests::tree;

/// An MPI.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mpi {
    /// Open MPI.
    OpenMpi,
    /// MPICH.
    Mpich,
}

impl Mpi {
    /// Both.
    pub const ALL: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

    /// What names of its programs begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi_",
            Mpi::Mpich => "mpich_",
        }
    }

    /// Which one a program of bench/programs/mpi is for, and the name of its source there.
    pub fn of(program: &str) -> Option<(Mpi, &str)> {
        let of = |mpi: Mpi| Some((mpi, program.strip_prefix(mpi.prefix())?));
        Mpi::ALL.into_iter().find_map(of)
    }

    /// Its compiler, and the package that has it.
    pub fn compiler(self) -> (&'static str, &'static str) {
        match self {
            Mpi::OpenMpi => ("mpicc.openmpi", "libopenmpi-dev"),
            Mpi::Mpich => ("mpicc.mpich", "libmpich-dev"),
        }
    }

    /// Its launcher, which starts this many ranks of the program that follows, each bound to one of `cpus` CPUs, in turn. Open MPI's
    /// does that itself, but per core unless set otherwise, and only while there are enough. Unbound ranks would stay on one CPU of a Linux
    /// that does not balance the other.
    pub fn launcher(self, ranks: usize, cpus: usize) -> Vec<String> {
        let words: &[&str] = match self {
            Mpi::OpenMpi => &["/usr/bin/mpirun.openmpi", "--use-hwthread-cpus"],
            Mpi::Mpich => &["/usr/bin/mpiexec.hydra", "-bind-to", "hwthread"],
        };
        let shared: &[&str] = match self {
            Mpi::OpenMpi if ranks > cpus => {
                &["--oversubscribe", "--bind-to", "hwthread:overload-allowed"]
            }
            Mpi::OpenMpi | Mpi::Mpich => &[],
        };
        let words = words.iter().chain(shared);
        let mut words: Vec<String> = words.map(ToString::to_string).collect();
        words.extend(["-n".to_owned(), ranks.to_string()]);
        words
    }

    /// Variables of the launcher: Open MPI's has root say twice that it is meant, and otherwise looks for ssh though there is no
    /// other machine.
    pub fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Mpi::OpenMpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_plm", "isolated"),
            ],
            Mpi::Mpich => &[],
        }
    }
}

/// How ranks are started.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Launch {
    /// By the system: the program does not use MPI.
    None,
    /// By the launcher of an MPI.
    Mpi(Mpi),
    /// By Open MPI's; on Margay each with the components of lib/mpi.
    Components,
}

impl Launch {
    /// The MPI.
    pub fn mpi(self) -> Option<Mpi> {
        match self {
            Launch::None => None,
            Launch::Mpi(mpi) => Some(mpi),
            Launch::Components => Some(Mpi::OpenMpi),
        }
    }

    /// What is loaded into ranks from the target directory.
    pub fn files(self, target: &Path) -> Vec<PathBuf> {
        match self {
            Launch::None | Launch::Mpi(_) => vec![],
            Launch::Components => [
                "smartmap/libsmartmap.so",
                "mpi/components/mca_coll_smartmap.so",
                "mpi/components/mca_pml_smartmap.so",
            ]
            .map(|file| target.join(file))
            .to_vec(),
        }
    }

    /// # Errors
    /// One of the files is not built.
    pub fn is_built(self, target: &Path) -> Result<()> {
        for file in self.files(target) {
            ensure!(
                file.is_file(),
                "{} is missing: make -C lib/mpi builds it",
                file.display()
            );
        }
        Ok(())
    }
}

/// Runs a rank with lib/mpi's components.
pub fn wrapper() -> PathBuf {
    tree::root().join("lib/mpi/smartmap-run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_which_mpi_they_are_for() {
        assert_eq!(Mpi::of("mpich_start"), Some((Mpi::Mpich, "start")));
        assert_eq!(Mpi::of("openmpi_start"), Some((Mpi::OpenMpi, "start")));
        assert_eq!(Mpi::of("omp_cg"), None);
        assert_eq!(Launch::Components.mpi(), Some(Mpi::OpenMpi));
        assert!(
            Launch::Mpi(Mpi::Mpich)
                .is_built(Path::new("/nowhere"))
                .is_ok()
        );
        let error = Launch::Components.is_built(Path::new("/nowhere"));
        let error = error.expect_err("not built").to_string();
        assert!(
            error.ends_with("is missing: make -C lib/mpi builds it"),
            "{error}"
        );
        assert_eq!(
            Mpi::Mpich.launcher(2, 2),
            ["/usr/bin/mpiexec.hydra", "-bind-to", "hwthread", "-n", "2"]
        );
        let shared = Mpi::OpenMpi.launcher(4, 2);
        assert!(
            shared.contains(&"--oversubscribe".to_owned())
                && shared.ends_with(&["-n".into(), "4".into()])
        );
    }
}
