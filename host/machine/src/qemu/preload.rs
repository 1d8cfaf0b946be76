//! Preloading the agent into QEMU.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use super::Qemu;
use crate::agent::Agent;
use crate::sys;

/// Where the agent finds its descriptors; and libraries that ld.so loads first (ld.so(8)).
const DESCRIPTORS: &str = "MARGAY_AGENT";
const LIBRARIES: &str = "LD_PRELOAD";

/// What QEMU inherits for it.
pub struct Preload {
    library: File,
    socket: OwnedFd,
}

impl Preload {
    /// Opens the library and makes the socket.
    ///
    /// # Errors
    /// There is no such file, or no descriptor left.
    pub fn new(library: &Path) -> io::Result<(Agent, Preload)> {
        let library = File::open(library).map_err(|error| {
            let path = library.display();
            io::Error::new(error.kind(), format!("agent {path}: {error}"))
        })?;
        let (agent, socket) = Agent::new()?;
        Ok((agent, Preload { library, socket }))
    }

    /// What a command that [`Self::set_variables`] was used on has to inherit, besides the pool.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.library.as_fd(), self.socket.as_fd()]
    }

    /// Has a command load the library, for a pool that it inherits. What the user has preloaded comes behind.
    pub fn set_variables(&self, command: &mut Command, pool: BorrowedFd<'_>) {
        let users = std::env::var_os(LIBRARIES);
        command.env(LIBRARIES, libraries(self.library.as_raw_fd(), users));
        let (socket, pool) = (self.socket.as_raw_fd(), pool.as_raw_fd());
        command.env(DESCRIPTORS, format!("{socket},{pool}"));
    }
}

/// By its number: a path may have blanks and colons, which would be others' ends.
fn libraries(library: i32, users: Option<OsString>) -> OsString {
    let mut list = OsString::from(format!("/proc/self/fd/{library}"));
    if let Some(users) = users.filter(|users| !users.is_empty()) {
        list.push(":");
        list.push(users);
    }
    list
}

impl Qemu {
    /// Whether it takes the agent: it is started with it, to say its version.
    ///
    /// # Errors
    /// It cannot be started, or [`Preload::new`] fails.
    pub fn takes_agent(&self, library: &Path) -> io::Result<bool> {
        let (agent, preload) = Preload::new(library)?;
        let pool = memfd_create("margay-try", MemfdFlags::CLOEXEC)?;
        let mut command = Command::new(&self.path);
        command.arg("--version").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        preload.set_variables(&mut command, pool.as_fd());
        let [library, socket] = preload.descriptors();
        sys::spawn_bound(&mut command, &[library, socket, pool.as_fd()], &[])?.wait()?;
        agent.read(|_| ());
        Ok(agent.is_there())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_preloads_comes_behind() {
        let list = |users: Option<&str>| libraries(7, users.map(OsString::from));
        assert_eq!(list(None), "/proc/self/fd/7");
        assert_eq!(list(Some("")), "/proc/self/fd/7");
        assert_eq!(list(Some("/a.so b.so")), "/proc/self/fd/7:/a.so b.so");
    }
}
