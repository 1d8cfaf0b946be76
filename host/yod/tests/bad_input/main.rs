//! What bad input gets: one clear line and the right status, before anything is started or with everything ended.

#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod kills;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{dir, elf_header, executable, finish, run, skipped, wait_for, yod, yod_path};

/// A program that passes all checks: it is never run here.
fn program(dir: &Path) -> PathBuf {
    let mut elf = elf_header(2, 62);
    elf[32] = 64; // The program header follows.
    elf[56] = 1;
    elf[24..32].copy_from_slice(&0x40_1000u64.to_le_bytes());
    for word in [1 | 5 << 32, 0x1000, 0x40_1000, 0x40_1000, 16, 16, 0x1000u64] {
        elf.extend(word.to_le_bytes());
    }
    elf.resize(0x1000 + 16, 0x90);
    let path = dir.join("program");
    executable(&path, &elf);
    path
}

/// yod with a QEMU that is a shell script.
fn with_qemu(dir: &Path, script: &str) -> Command {
    executable(
        &dir.join("qemu-system-x86_64"),
        format!("#!/bin/sh\n{script}\n").as_bytes(),
    );
    let mut path = dir.as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    let mut yod = with_parts(dir);
    yod.env("PATH", path);
    yod
}

/// yod with files that pass for kernel, PCT and agent.
fn with_parts(dir: &Path) -> Command {
    let mut yod = yod();
    set_parts(&mut yod, dir);
    yod
}

fn set_parts(yod: &mut Command, dir: &Path) {
    let (file, agent) = (dir.join("kernel"), dir.join("agent.so"));
    std::fs::write(&file, "no kernel").expect("written");
    // What ld.so cannot load it says in QEMU's name.
    let empty = ["-shared", "-x", "c", "/dev/null", "-o"];
    let status = Command::new("cc").args(empty).arg(&agent).status();
    assert!(status.expect("a C compiler").success());
    yod.env("MARGAY_KERNEL", &file).env("MARGAY_PCT", &file);
    yod.env("MARGAY_AGENT_LIBRARY", &agent);
}

#[test]
fn usage() {
    let dir = dir("usage");
    let program = program(&dir);
    for (args, part) in [
        (&[][..], "no PROGRAM"),
        (&["--bogus", "x"], "--bogus"),
        (&["-n", "0", "P"], "-n 0: at least one rank"),
        (&["-n", "x", "P"], "'x'"),
        (&["-n", "256", "P"], "at most 255"),
        (&["-n", "250", "P"], "cores are available here"),
        (&["-m", "0K", "P"], "-m 0"),
        (&["-m", "512", "P"], "K, M or G"),
        (&["-m", "900T", "P"], "available here"),
        (&["--timeout", "-3", "P"], "more than 0"),
        (&["--accel", "hvf", "P"], "hvf"),
    ] {
        let args = args.iter().map(|&arg| {
            if arg == "P" {
                program.as_os_str()
            } else {
                OsStr::new(arg)
            }
        });
        run(yod().args(args)).one_line(2, part);
    }
}

#[test]
fn programs_that_are_not_there() {
    run(yod().arg("/nonexistent/program")).one_line(127, "/nonexistent/program: no such file");
    run(yod().arg("no-such-program-anywhere")).one_line(127, "not found in PATH");
    run(yod().arg("/etc/passwd/x")).one_line(127, "no such file");
    run(yod().arg("")).one_line(127, "not found");
    // As execvp(3) has it: it was 127.
    run(yod().env("PATH", "/").arg("usr")).one_line(126, "/usr: is a directory");
}

#[test]
fn programs_that_cannot_run() {
    let dir = dir("cannot-run");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        executable(&path, bytes);
        path
    };
    let plain = dir.join("plain");
    std::fs::write(&plain, "text").expect("written");
    let long = [elf_header(2, 62), vec![0; 8]].concat();
    for (path, part) in [
        (dir.clone(), "is a directory"),
        ("/dev/null".into(), "not a regular file"),
        (plain, "not executable"),
        (file("text", b"text"), "not an ELF"),
        (file("empty", b""), "not an ELF"),
        (file("script", b"#!\n"), "names no interpreter"),
        (file("i386", &elf_header(1, 3)), "32-bit"),
        (file("arm", &elf_header(2, 183)), "ARM"),
        (file("short", &elf_header(2, 62)[..40]), "truncated"),
        (file("hollow", &long), "no segments"),
    ] {
        let ended = run(yod().arg(&path));
        ended.one_line(126, part);
        assert!(
            ended.err.contains(path.to_str().expect("UTF-8")),
            "{ended:?}"
        );
    }
}

#[test]
fn programs_that_are_cut_off() {
    let dir = dir("cut-off");
    let program = program(&dir);
    let bytes = std::fs::read(&program).expect("readable");
    executable(&program, &bytes[..0x1008]);
    run(yod().arg(&program)).one_line(126, "truncated");
}

#[test]
fn a_host_without_qemu_or_kernel() {
    let dir = dir("without");
    let program = program(&dir);
    if !Path::new("/usr/libexec/qemu-kvm").exists() {
        run(with_parts(&dir).env("PATH", "/nonexistent").arg(&program))
            .one_line(69, "QEMU not found");
    }
    run(yod().env("MARGAY_KERNEL", "/nonexistent/k").arg(&program))
        .one_line(69, "kernel /nonexistent/k");
    run(with_parts(&dir)
        .env("MARGAY_PCT", "/nonexistent/p")
        .arg(&program))
    .one_line(69, "PCT /nonexistent/p");
    run(with_parts(&dir)
        .env("MARGAY_AGENT_LIBRARY", "/nonexistent/a")
        .arg(&program))
    .one_line(69, "agent /nonexistent/a");
}

#[test]
fn a_qemu_that_is_too_old() {
    let dir = dir("old");
    let program = program(&dir);
    let script = "[ \"$1\" = --version ] && echo 'QEMU emulator version 5.2.0 (x)' && exit 0\n\
                  echo 'qemu: unknown property i8042' >&2; exit 1";
    run(with_qemu(&dir, script).arg(&program))
        .one_line(69, "is version 5.2: QEMU 7.0 or newer is needed");
}

#[test]
fn a_qemu_that_fails() {
    let dir = dir("fails");
    let program = program(&dir);
    run(with_qemu(&dir, "echo 'qemu: no luck today' >&2; exit 1").arg(&program))
        .one_line(69, "qemu: no luck today");
    run(with_qemu(&dir, "echo 'qemu: too much luck' >&2; kill -11 $$").arg(&program)).one_line(
        69,
        "the node (QEMU) was killed by signal 11 (SIGSEGV) before it was up: qemu: too much luck",
    );
}

/// QEMU goes on when KVM has stopped the machine, and the job hung for ever, or for 20 s while it booted.
#[test]
fn a_machine_that_kvm_stopped() {
    let dir = dir("stopped");
    let program = program(&dir);
    let script = "printf 'qemu: warning\\nKVM internal error. Suberror: 1\\nRAX=1 RBX=2\\n' >&2; exec sleep 1000";
    let ended = run(with_qemu(&dir, script).arg(&program));
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(
        ended.status == 69 && ended.err.contains("RAX=1 RBX=2\n"),
        "{ended:?}"
    );
    let line = "stopped before it was up: KVM internal error. Suberror: 1; ";
    assert!(last.contains(line), "{ended:?}");
}

#[test]
fn a_kernel_that_is_none() {
    let dir = dir("no-kernel");
    let program = program(&dir);
    let ended = run(with_parts(&dir).arg(&program));
    assert_eq!(ended.status, 69, "{ended:?}");
}

/// A QEMU that starts and does nothing.
const HANGS: &str = "exec sleep 1000";

#[test]
fn a_node_that_does_not_come_up() {
    let dir = dir("hangs");
    let program = program(&dir);
    run(with_qemu(&dir, HANGS)
        .env("MARGAY_BOOT_TIMEOUT_S", "0.2")
        .arg(&program))
    .one_line(69, "did not come up within 0.2 s under TCG");
    run(with_qemu(&dir, HANGS)
        .args(["--timeout", "0.2"])
        .arg(&program))
    .one_line(124, "timed out after 0.2 s");
}

/// yod under a limit of the shell's.
fn limited(dir: &Path, limit: &str, program: &Path) -> Command {
    let mut sh = Command::new("sh");
    let yod = yod_path();
    sh.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), yod])
        .arg(program);
    set_parts(&mut sh, dir);
    sh.stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    sh
}

#[test]
fn limits_that_are_too_low() {
    let dir = dir("limits");
    let program = program(&dir);
    run(&mut limited(&dir, "-v 4000000", &program)).one_line(71, "ulimit -v unlimited");
    run(&mut limited(&dir, "-f 2000", &program)).one_line(71, "ulimit -f");
}

/// Makes a system call fail with EPERM, by seccomp, for the rest of its arguments and their children; ends when all that these
/// have started have ended, with the status of the first.
const DENY: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int status, first = 2;
    pid_t ended, child;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) || (child = fork()) < 0) return 2;
    if (child > 0) {
        while ((ended = wait(&status)) > 0 || errno == EINTR)
            if (ended == child) first = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return first;
    }
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(argv[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    execv(argv[2], argv + 2);
    return 2;
}
"#;

/// yod hung, left its keeper or did not say why. `DENY` ends only when nothing is left.
#[test]
fn a_filter_of_calls_that_yod_needs_is_named() {
    let dir = dir("filter");
    let (program, deny) = (program(&dir), common::compile(&dir, "deny", DENY));
    let calls = [
        ("fcntl", libc::SYS_fcntl),
        ("wait4", libc::SYS_wait4),
        ("kill", libc::SYS_kill),
    ];
    for (name, number) in calls {
        let mut command = Command::new(&deny);
        command.args([&number.to_string(), yod_path()]);
        let ended = run(command
            .arg(&program)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped()));
        ended.one_line(71, &format!("Linux refuses {name} to this process"));
    }
}

/// The line did not say which file there is not.
#[test]
fn a_host_without_dev_null_is_named() {
    let dir = dir("null");
    let program = program(&dir);
    let script = "mount -t tmpfs none /dev && exec \"$0\" \"$@\"";
    let shell = ["--user", "--map-root-user", "--mount", "sh", "-c"];
    let can = Command::new("unshare")
        .args(shell)
        .args([script, "true"])
        .stderr(std::process::Stdio::null())
        .status();
    if !can.is_ok_and(|status| status.success()) {
        skipped("no user namespaces here");
        return;
    }
    let ended = run(Command::new("unshare")
        .args(shell)
        .args([script, yod_path()])
        .arg(&program)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped()));
    ended.one_line(71, "cannot open /dev/null");
}

#[test]
fn twenty_at_once_fail_by_themselves() {
    let dir = dir("twenty");
    let program = program(&dir);
    let there = dir.display();
    let script = format!(
        ": >{there}/begun.$$; until [ -e {there}/all ]; do sleep 0.01; done; echo 'qemu: done' >&2; exit 1"
    );
    let mut yod = with_qemu(&dir, &script);
    yod.arg(&program);
    let all: Vec<_> = (0..20).map(|_| yod.spawn().expect("yod starts")).collect();
    wait_for("QEMUs at once", || {
        let names = std::fs::read_dir(&dir).expect("a directory").flatten();
        let begun = names.filter(|it| it.file_name().to_string_lossy().starts_with("begun"));
        (begun.count() == all.len()).then_some(())
    });
    std::fs::write(dir.join("all"), "").expect("written");
    for child in all {
        finish(child).one_line(69, "qemu: done");
    }
}

#[test]
fn a_dry_run_starts_nothing() {
    let dir = dir("dry");
    let program = program(&dir);
    let ended = run(with_qemu(&dir, "touch started")
        .current_dir(&dir)
        .arg("--dry-run")
        .arg(&program));
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(
        ended.out.contains("-append margay.comm=0x100000"),
        "{ended:?}"
    );
    let ended = run(with_qemu(&dir, "touch started")
        .current_dir(&dir)
        .args(["--dry-run=json", "-m", "64M"])
        .arg(&program));
    assert!(!dir.join("started").exists());
    let plan: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(plan["partition_bytes"], 64 << 20, "{plan}");
    assert_eq!(plan["ranks"][0]["first_core"], 0, "{plan}");
    let machine = plan["machine"].as_array().expect("a command line");
    assert_eq!(machine.last(), Some(&"margay.comm=0x100000".into()));
}
