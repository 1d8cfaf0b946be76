//! Children of vfork: they use the rank's memory until they call exec.

use abi::control::FORK_OVER;

use super::*;

pub const CASES: &[Case] = &[
    ("of_vfork_give_back_the_stack", of_vfork_give_back_the_stack),
    (
        "of_vfork_use_the_memory_of_the_rank",
        of_vfork_use_the_memory_of_the_rank,
    ),
    (
        "of_vfork_do_not_lend_the_memory_of_the_rank",
        of_vfork_do_not_lend_the_memory_of_the_rank,
    ),
];

/// Starts a child and waits until it has called exec or ended.
fn vfork(node: &mut Node) -> i64 {
    let answer = fork(node) as u64;
    let pid = answer & !FORK_OVER;
    if answer == pid {
        assert_eq!(node.host_op(HostOp::AwaitExec, &[pid]), 0);
    }
    pid as i64
}

fn of_vfork_give_back_the_stack() {
    let mut node = node();
    node.put_words(STACK + 0x10, &[1]);
    // mov dword ptr [rsp + 16], 77; mov edi, 5; mov eax, SYS_exit_group; syscall
    let code = [
        0xc7, 0x44, 0x24, 16, 77, 0, 0, 0, 0xbf, 5, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05,
    ];
    describe(&node, &code, [0; 4]);
    node.area().child.how.put(how::VFORK);
    node.area().child.stack_at.put(STACK);
    let pid = vfork(&mut node);
    assert_eq!(node.get_i32(STACK + 0x10), 77);
    assert_eq!(wait(&mut node, pid), 5 << 8);
    assert_eq!(node.host_op(HostOp::AwaitExec, &[pid as u64]), ECHILD);
}

/// What a rank has touched was copied for every vfork, gigabytes for one command of a shell.
fn of_vfork_use_the_memory_of_the_rank() {
    let mut node = node();
    let word = DATA.0 + 0x100;
    node.put_words(word, &[7]);
    // 1: mov eax, [rdi]; cmp eax, 9; pause; jne 1b; add dword ptr [rdi], 1; mov edi, eax; mov eax, SYS_exit_group; syscall
    let code = [
        0x8b, 0x07, 0x83, 0xf8, 9, 0xf3, 0x90, 0x75, 0xf7, 0x83, 0x07, 1, 0x89, 0xc7, 0xb8, 231, 0,
        0, 0, 0x0f, 0x05,
    ];
    describe(&node, &code, [0, word, 0, 0]);
    node.area().child.how.put(how::VFORK);
    node.area().child.stack_at.put(STACK);
    let pid = fork(&mut node);
    assert!(pid > 0, "{pid}");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let start = format!("{:x}-", DATA.0);
    let data = maps
        .lines()
        .find(|line| line.trim_start_matches('0').starts_with(&start));
    let data = data.unwrap_or_else(|| panic!("{maps}"));
    assert!(data.contains(" rw-p ") && data.contains("memfd:"), "{data}");
    node.put_words(word, &[9]);
    assert_eq!(node.host_op(HostOp::AwaitExec, &[pid as u64]), 0);
    assert_eq!(wait(&mut node, pid), 9 << 8);
    // What it stores besides the stack stays in the child: its mapping would grow over what is not the rank's.
    assert_eq!(node.get_i32(word), 9);
}

/// A child of theirs would go on with memory that the rank, awake again, changes.
fn of_vfork_do_not_lend_the_memory_of_the_rank() {
    let mut node = node();
    // syscall; mov edi, eax; mov rsi, rsp; xor edx, edx; xor r10d, r10d; mov eax, SYS_wait4; syscall;
    // mov edi, [rsp]; mov eax, SYS_exit_group; syscall
    let code = [
        0x0f, 0x05, 0x89, 0xc7, 0x48, 0x89, 0xe6, 0x31, 0xd2, 0x45, 0x31, 0xd2, 0xb8, 61, 0, 0, 0,
        0x0f, 0x05, 0x8b, 0x3c, 0x24, 0xb8, 231, 0, 0, 0, 0x0f, 0x05,
    ];
    describe(&node, &code, [libc::SYS_fork as u64, 0, 0, 0]);
    node.area().child.how.put(how::VFORK);
    node.area().child.stack_at.put(STACK);
    let pid = vfork(&mut node);
    let status_of_its_child = wait(&mut node, pid) >> 8;
    assert_eq!(status_of_its_child & 0x7f, libc::SIGSEGV);
}
