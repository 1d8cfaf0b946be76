//! QEMU's command line, explained where it is put together.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};

use wire::ram::Ram;

use super::Q35;
use super::accel::Accel;
use super::features::{self, MODEL};
use super::process::vectors;
use crate::machine::Boot;
use crate::plan::Plan;

impl Q35 {
    /// QEMU's arguments. `descriptors` names those that QEMU inherits, of RAM, pool and ivshmem: numbers, or words for people.
    #[must_use]
    pub fn arguments(
        &self,
        plan: &Plan,
        ram: &Ram,
        boot: &Boot<'_>,
        descriptors: [&str; 3],
    ) -> Vec<OsString> {
        self.without(&features::lacking(), plan, ram, boot, descriptors)
    }

    /// The same on a host that lacks features of the emulator, by QEMU's names.
    fn without(
        &self,
        lacking: &[&str],
        plan: &Plan,
        ram: &Ram,
        boot: &Boot<'_>,
        [ram_fd, pool_fd, ivshmem]: [&str; 3],
    ) -> Vec<OsString> {
        let mut args = Arguments(Vec::with_capacity(48));
        args.pair("-name", &format!("{},debug-threads=on", plan.name()));
        args.words("-no-user-config -nodefaults -display none -no-reboot");
        match self.accel {
            Accel::Kvm => args.words("-accel kvm -cpu max"),
            // TCG counts and executes every iteration of a rep string instruction: software that sees ERMS or FSRM
            // would copy bytes where copying words is far cheaper.
            Accel::Tcg => {
                let lacking: String = lacking.iter().map(|name| format!(",-{name}")).collect();
                args.words(&format!("-accel tcg -cpu max,{MODEL},-erms,-fsrm{lacking}"));
            }
        }
        if self.icount {
            args.words("-icount shift=0,sleep=off");
        }
        if let Some(plugin) = &self.plugin {
            args.pair("-plugin", plugin);
        }
        args.words(&format!("-smp {} -m {}B", plan.cpus, ram.bytes()));
        let pool_bytes = plan.pool_file_bytes();
        args.memory("ram", ram.bytes() - pool_bytes, ram_fd);
        if pool_bytes > 0 {
            // RAM of two files must be of two NUMA nodes, which follow one another in guest-physical memory.
            args.memory("pool", pool_bytes, pool_fd);
            args.words("-numa node,memdev=ram -numa node,memdev=pool");
        }
        // Everything that the kernel has no driver for is off: less to set up, less to attack.
        let backend = if pool_bytes > 0 {
            ""
        } else {
            ",memory-backend=ram"
        };
        args.pair(
            "-M",
            &format!("q35{backend},sata=off,smbus=off,vmport=off,hpet=off,i8042=off"),
        );
        if let Some(rom) = &self.qemu.qboot {
            args.pair("-bios", rom);
        }
        args.pair("-chardev", &format!("socket,id=iv,fd={ivshmem}"));
        args.pair(
            "-device",
            &format!("ivshmem-doorbell,vectors={},chardev=iv", vectors(plan)),
        );
        // The kernel log comes out of QEMU's standard output.
        args.words("-chardev stdio,id=con,signal=off -serial chardev:con");
        args.words("-device isa-debug-exit,iobase=0xf4,iosize=4");
        args.pair("-kernel", boot.kernel);
        args.pair("-initrd", boot.pct);
        args.pair("-append", boot.command_line);
        args.0
    }

    /// The same with real descriptors.
    pub(super) fn arguments_with(
        &self,
        plan: &Plan,
        ram: &Ram,
        boot: &Boot<'_>,
        descriptors: [BorrowedFd<'_>; 3],
    ) -> Vec<OsString> {
        let numbers = descriptors.map(|fd| fd.as_raw_fd().to_string());
        self.arguments(plan, ram, boot, numbers.each_ref().map(String::as_str))
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn words(&mut self, words: &str) {
        self.0.extend(words.split(' ').map(OsString::from));
    }

    /// Memory of a file.
    fn memory(&mut self, id: &str, bytes: u64, descriptor: &str) {
        let path = format!("/proc/self/fd/{descriptor}");
        self.pair(
            "-object",
            &format!("memory-backend-file,id={id},size={bytes}B,share=on,mem-path={path}"),
        );
    }

    fn pair(&mut self, option: &str, value: &(impl AsRef<OsStr> + ?Sized)) {
        self.0.push(option.into());
        self.0.push(value.as_ref().into());
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::qemu::Qemu;

    fn arguments(accel: Accel, qboot: Option<&str>, icount: bool, plugin: Option<&str>) -> String {
        let plan = Plan {
            ranks: 3,
            cpus: 3,
            partition_bytes: 2 << 20,
            pool_bytes: 16 << 20,
            node_bytes: 40 << 20,
            comm_offset: 0x10_0000,
            flags: 0,
            tsc_hz: 0,
        };
        let machine = Q35 {
            qemu: Qemu {
                path: "/q".into(),
                qboot: qboot.map(PathBuf::from),
            },
            accel,
            agent: "/a.so".into(),
            icount,
            plugin: plugin.map(OsString::from),
        };
        let ram = crate::qemu::ram(&plan).expect("RAM");
        let boot = Boot {
            kernel: Path::new("/k"),
            pct: Path::new("/p"),
            command_line: &plan.command_line(&ram),
        };
        let words: Vec<String> = machine
            .without(&["mpx", "rdseed"], &plan, &ram, &boot, ["7", "9", "8"])
            .into_iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_command_line_has_what_the_node_needs() {
        let line = arguments(Accel::Tcg, Some("/d/qboot.rom"), false, None);
        for part in [
            "-name margay:3x2097152,debug-threads=on",
            "-accel tcg -cpu max,family=23,model=1,stepping=2,-erms,-fsrm,-mpx,-rdseed ",
            "-smp 3 -m 67108864B",
            "id=ram,size=48234496B,share=on,mem-path=/proc/self/fd/7",
            "id=pool,size=18874368B,share=on,mem-path=/proc/self/fd/9 -numa node,memdev=ram -numa node,memdev=pool",
            "-bios /d/qboot.rom",
            "socket,id=iv,fd=8",
            "ivshmem-doorbell,vectors=4,chardev=iv",
            "-kernel /k -initrd /p -append margay.comm=0x100000",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!line.contains("icount") && !line.contains("plugin"));
    }

    #[test]
    fn variants_differ_where_they_should() {
        let line = arguments(Accel::Kvm, None, true, None);
        assert!(
            line.contains("-accel kvm -cpu max -icount shift=0,sleep=off"),
            "{line}"
        );
        assert!(!line.contains("-bios"));
        let line = arguments(Accel::Tcg, None, false, Some("/p.so,out=/o"));
        assert!(line.contains(" -plugin /p.so,out=/o "), "{line}");
    }
}
