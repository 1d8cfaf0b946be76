//! What the programs of `jobs` need besides themselves, and the packages of Debian that have it.

use margay_tests::guest::files::Wanted;

const fn wanted(path: &'static str, package: &'static str) -> Wanted {
    Wanted {
        path,
        package,
        without: &[],
        optional: false,
    }
}

/// Python and its library, without what only builds and tests programs.
const PYTHON_3: Wanted = wanted("/usr/bin/python3", "python3");
const LIBRARY: Wanted = Wanted {
    without: &[
        "config-3.11-x86_64-linux-gnu",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "test",
    ],
    ..wanted("/usr/lib/python3.11", "libpython3.11-stdlib")
};

const fn optional(path: &'static str, package: &'static str) -> Wanted {
    Wanted {
        optional: true,
        ..wanted(path, package)
    }
}

/// What libraries of both MPIs load where it is.
const HWLOC: Wanted = optional("/usr/lib/x86_64-linux-gnu/hwloc", "libhwloc-plugins");

const LAUNCHER: Wanted = wanted("/usr/bin/mpirun.openmpi", "openmpi-bin");
const PLUGINS: Wanted = wanted("/usr/lib/x86_64-linux-gnu/openmpi", "libopenmpi3");
const TEXTS: Wanted = wanted("/usr/share/openmpi", "openmpi-common");
const SETTINGS: Wanted = wanted("/etc/openmpi", "openmpi-common");
const PMIX: Wanted = Wanted {
    without: &["include", "libpmix.a"],
    ..wanted("/usr/lib/x86_64-linux-gnu/pmix2", "libpmix2")
};

/// Open MPI: launcher, plugins, texts and settings.
pub const OPEN_MPI: &[Wanted] = &[LAUNCHER, PLUGINS, TEXTS, SETTINGS, PMIX, HWLOC];
/// Open MPI, and what `programs/mpi/hpcc.c` executes.
pub const HPCC: &[Wanted] = &[
    LAUNCHER,
    PLUGINS,
    TEXTS,
    SETTINGS,
    PMIX,
    HWLOC,
    wanted("/usr/bin/hpcc", "hpcc"),
];
/// MPICH: launcher, its part on each machine, and plugins.
pub const MPICH: &[Wanted] = &[
    wanted("/usr/bin/mpiexec.hydra", "mpich"),
    wanted("/usr/bin/hydra_pmi_proxy", "mpich"),
    HWLOC,
    wanted("/usr/lib/x86_64-linux-gnu/ucx", "libucx0"),
];

/// Python.
pub const PYTHON: &[Wanted] = &[PYTHON_3, LIBRARY];
/// Python and numpy.
pub const NUMPY: &[Wanted] = &[
    PYTHON_3,
    LIBRARY,
    Wanted {
        without: &["distutils", "f2py", "include", "tests"],
        ..wanted("/usr/lib/python3/dist-packages/numpy", "python3-numpy")
    },
];
