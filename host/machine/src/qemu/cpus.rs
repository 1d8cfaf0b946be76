//! Which threads of QEMU are the node's cores.
//!
//! QEMU names them (`-name ...,debug-threads=on`): "CPU 3/TCG" or "CPU 3/KVM". Under `-icount` one thread is all of them, has
//! another name and keeps the CPUs of all ranks.

use std::fs;

use rustix::process::Pid;

use crate::binding::Binding;
use crate::plan::Plan;

/// Binds QEMU's virtual CPUs.
pub fn bind(qemu: Pid, binding: &Binding, plan: &Plan) {
    let threads = format!("/proc/{}/task", qemu.as_raw_pid());
    for thread in fs::read_dir(threads).into_iter().flatten().flatten() {
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let tid = thread.file_name().to_str().and_then(|tid| tid.parse().ok());
        if let (Some(cpu), Some(tid)) = (virtual_cpu(&name), tid.and_then(Pid::from_raw)) {
            binding.bind(tid, cpu, plan);
        }
    }
}

/// The number in the name of a thread that is a virtual CPU.
fn virtual_cpu(name: &str) -> Option<u64> {
    let (number, _) = name.strip_prefix("CPU ")?.split_once('/')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_cpus_are_known_by_name() {
        assert_eq!(virtual_cpu("CPU 12/TCG\n"), Some(12));
        assert_eq!(virtual_cpu("CPU 0/KVM\n"), Some(0));
        for other in ["ALL CPUs/TCG\n", "qemu-system-x86\n", "CPU x/TCG", ""] {
            assert_eq!(virtual_cpu(other), None);
        }
    }
}
