//! The files of this host in a guest, at the same paths: virtiofsd serves them, to be read only.
//!
//! What is written goes into file systems of the guest's own. So the programs that were built here, tests among them, run there as they do here.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::cpio::{Archive, Kind};
use super::kernel;
use crate::tree;

/// Debian's qemu-system-common has it.
const SERVER: &str = "/usr/lib/qemu/virtiofsd";
/// What the kernel of clouds has as modules, each behind those that it needs.
const MODULES: [&str; 7] = [
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "fs/fuse/fuse",
    "fs/fuse/virtiofs",
];
/// The guest's own, by kind and directory; the kind is the name that the files of the host have there, too.
const MOUNTS: [(&str, &str); 8] = [
    ("virtiofs", ""),
    ("devtmpfs", "/dev"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
    ("tmpfs", "/dev/shm"),
    ("devpts", "/dev/pts"),
];
/// Where tests write, below cargo's directory.
const WRITTEN: [&str; 2] = ["scratch", "tmp"];

/// Why there can be none.
pub fn missing() -> Option<String> {
    if !Path::new(SERVER).exists() {
        return Some(format!("no {SERVER}: apt-get install qemu-system-common"));
    }
    let root = rustix::process::geteuid().is_root();
    (!root).then(|| "only root can serve all files of this host".into())
}

/// Adds what the guest needs for it; the modules, in order.
pub fn prepare(archive: &mut Archive) -> Result<Vec<PathBuf>> {
    archive.add("host", Kind::Directory, 0);
    let mut mounts = String::new();
    for (kind, at) in MOUNTS {
        mounts.push_str(&format!("{kind} /host{at}\n"));
    }
    for name in WRITTEN {
        let at = tree::target().join(name);
        fs::create_dir_all(&at).with_context(|| format!("cannot make {}", at.display()))?;
        mounts.push_str(&format!("tmpfs /host{}\n", at.display()));
    }
    archive.add("mounts", Kind::File(mounts.as_bytes()), 0);

    let unpacked = tree::target().join("linux");
    let kernel = kernel(&unpacked).context("no kernel of Linux")?;
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    let version = name.trim_start_matches("vmlinuz-");
    let folder = unpacked.join(format!("lib/modules/{version}/kernel"));
    let path = |name| folder.join(format!("{name}.ko"));
    Ok(MODULES.into_iter().map(path).collect())
}

/// virtiofsd, until it is dropped.
pub struct Served(Child);

impl Served {
    /// Serves one guest at `socket`.
    pub fn new(socket: &Path) -> Result<Served> {
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("cannot make {}", socket.display()))?;
        // Should we be killed, it is, too.
        let server = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", SERVER, "--fd=0"])
            .args(["-o", "source=/", "-o", "sandbox=chroot"])
            .args(["-o", "cache=always", "-o", "announce_submounts"])
            .stdin(OwnedFd::from(listener))
            .stderr(Stdio::null())
            .spawn();
        Ok(Served(
            server.with_context(|| format!("cannot run {SERVER}"))?,
        ))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// QEMU's, for a guest of this memory.
pub fn options(socket: &Path, memory: &str) -> Vec<String> {
    let words = [
        "-object",
        &format!("memory-backend-memfd,id=memory,size={memory},share=on"),
        "-numa",
        "node,memdev=memory",
        "-chardev",
        &format!("socket,id=files,path={}", socket.display()),
        "-device",
        "vhost-user-fs-pci,chardev=files,tag=virtiofs",
    ];
    words.map(String::from).to_vec()
}
