//! Directories of the trees, and what cannot be done in them.

use super::*;
use crate::Case;
use crate::node::Node;

pub const CASES: &[Case] = &[
    ("nothing_can_be_changed", nothing_can_be_changed),
    ("the_working_directory", the_working_directory),
    ("stat_and_links", stat_and_links),
    ("confined_opens", confined_opens),
    (
        "descriptors_are_given_in_order",
        descriptors_are_given_in_order,
    ),
];

fn nothing_can_be_changed() {
    let mut node = Node::new();
    let (file, new) = (format!("{CPU}/online"), format!("{CPU}/new"));
    let errno = |errno: i32| -i64::from(errno);
    for (path, flags, want) in [
        (&file, libc::O_WRONLY, EROFS),
        (&file, libc::O_RDWR, EROFS),
        (&file, libc::O_TRUNC, EROFS),
        (&file, libc::O_CREAT | libc::O_EXCL, errno(libc::EEXIST)),
        (&file, libc::O_DIRECTORY, errno(libc::ENOTDIR)),
        (&new, libc::O_CREAT | libc::O_WRONLY, EROFS),
        (&CPU.to_owned(), libc::O_RDWR, errno(libc::EISDIR)),
        (&CPU.to_owned(), libc::O_TMPFILE | libc::O_RDWR, EROFS),
    ] {
        assert_eq!(
            open_at(&mut node, AT, path, flags),
            want,
            "{path} {flags:#o}"
        );
    }
    for (nr, path, more, want) in [
        (libc::SYS_mkdir, &new, &[0o755][..], EROFS),
        (libc::SYS_mkdir, &file, &[0o755], errno(libc::EEXIST)),
        (libc::SYS_mknod, &new, &[0o644, 0], EROFS),
        (libc::SYS_unlink, &file, &[], EROFS),
        (libc::SYS_rmdir, &format!("{CPU}/cpu0"), &[], EROFS),
        (libc::SYS_chmod, &file, &[0o777], EROFS),
        (libc::SYS_chown, &file, &[0, 0], EROFS),
        (libc::SYS_truncate, &file, &[0], EROFS),
        (libc::SYS_access, &file, &[libc::W_OK as u64], EROFS),
        (
            libc::SYS_access,
            &file,
            &[libc::X_OK as u64],
            errno(libc::EACCES),
        ),
        (libc::SYS_access, &file, &[libc::R_OK as u64], 0),
        (libc::SYS_unlink, &new, &[], ENOENT),
    ] {
        assert_eq!(path_call(&mut node, nr, path, more), want, "{path} {nr}");
    }
    node.put(PATH + 0x800, b"/sys/devices/system/cpu/other\0");
    assert_eq!(
        path_call(&mut node, libc::SYS_rename, &file, &[PATH + 0x800]),
        EROFS
    );
    let fd = open_at(&mut node, AT, &file, 0) as u64;
    assert_eq!(node.call(libc::SYS_fchmod, &[fd, 0o666]), EROFS);
    assert_eq!(
        node.call(libc::SYS_write, &[fd, BUF, 1]),
        errno(libc::EBADF)
    );
}

fn the_working_directory() {
    let mut node = Node::new();
    let all = says(&mut node, &format!("{CPU}/online"));
    let cwd = |node: &mut Node| {
        let len = node.call(libc::SYS_getcwd, &[BUF, 4096]);
        assert!(len > 0, "{len}");
        String::from_utf8(node.get(BUF, len as usize - 1)).unwrap()
    };
    let fd = open(&mut node, format!("{CPU}/cpu1\0").as_bytes(), DIRECTORY) as u64;
    assert_eq!(node.call(libc::SYS_fchdir, &[fd]), 0);
    assert_eq!(cwd(&mut node), format!("{CPU}/cpu1"));
    assert_eq!(
        node.call(libc::SYS_getcwd, &[BUF, 5]),
        -i64::from(libc::ERANGE)
    );
    assert_eq!(says(&mut node, "../online"), all);
    assert_eq!(says(&mut node, "topology/core_id"), "1\n");
    assert_eq!(path_call(&mut node, libc::SYS_chdir, "..", &[]), 0);
    assert_eq!(says(&mut node, "online"), all);
    assert_eq!(
        path_call(&mut node, libc::SYS_chdir, "online", &[]),
        -i64::from(libc::ENOTDIR)
    );
    assert_eq!(path_call(&mut node, libc::SYS_chdir, "..", &[]), 0);
    assert_eq!(cwd(&mut node), "/sys/devices/system");
    assert_eq!(says(&mut node, "cpu/online"), all);
    assert_eq!(path_call(&mut node, libc::SYS_chdir, "cpu", &[]), 0);
    assert_eq!(path_call(&mut node, libc::SYS_chdir, "/", &[]), 0);
    assert_eq!(open_at(&mut node, AT, "online", 0), ENOENT);
    assert_eq!(cwd(&mut node), "/");
}

fn stat_and_links() {
    let mut node = Node::new();
    let mode = |node: &Node| u32::from_le_bytes(node.get(BUF + 24, 4).try_into().unwrap());
    let inode = |node: &Node| u64::from_le_bytes(node.get(BUF + 8, 8).try_into().unwrap());
    let link = format!("{NODE}/node0/cpu1");
    assert_eq!(path_call(&mut node, libc::SYS_lstat, &link, &[BUF]), 0);
    assert_eq!(mode(&node), libc::S_IFLNK | 0o777);
    assert_eq!(path_call(&mut node, libc::SYS_stat, &link, &[BUF]), 0);
    let followed = inode(&node);
    assert_eq!(mode(&node), libc::S_IFDIR | 0o755);
    assert_eq!(
        path_call(&mut node, libc::SYS_stat, &format!("{CPU}/cpu1"), &[BUF]),
        0
    );
    assert_eq!(inode(&node), followed);
    let len = path_call(&mut node, libc::SYS_readlink, &link, &[BUF, 100]);
    assert_eq!(node.get(BUF, len as usize), b"../../cpu/cpu1");
    assert_eq!(
        path_call(
            &mut node,
            libc::SYS_readlink,
            &format!("{CPU}/online"),
            &[BUF, 100]
        ),
        -22
    );
    let flags = libc::O_NOFOLLOW;
    assert_eq!(
        open_at(&mut node, AT, &link, flags),
        -i64::from(libc::ELOOP)
    );
    for (path, want) in [
        (format!("{CPU}/online"), libc::S_IFREG | 0o444),
        (CPU.into(), libc::S_IFDIR | 0o755),
    ] {
        let fd = open_at(&mut node, AT, &path, 0) as u64;
        assert_eq!(node.call(libc::SYS_fstat, &[fd, BUF]), 0);
        assert_eq!(mode(&node), want);
        let by_descriptor = inode(&node);
        node.put(PATH, b"\0");
        assert_eq!(
            node.call(
                libc::SYS_newfstatat,
                &[fd, PATH, BUF, libc::AT_EMPTY_PATH as u64]
            ),
            0
        );
        assert_eq!((mode(&node), inode(&node)), (want, by_descriptor));
        let statx = [
            fd,
            PATH,
            libc::AT_EMPTY_PATH as u64,
            u64::from(libc::STATX_BASIC_STATS),
            BUF,
        ];
        assert_eq!(node.call(libc::SYS_statx, &statx), 0);
        assert_eq!(node.get(BUF + 28, 2), (want as u16).to_le_bytes());
        assert_eq!(node.get(BUF + 32, 8), by_descriptor.to_le_bytes());
        assert_eq!(node.call(libc::SYS_fstatfs, &[fd, BUF]), 0);
        assert_eq!(
            node.get(BUF, 4),
            (rustix::fs::statfs("/sys").unwrap().f_type as u32).to_le_bytes()
        );
        node.call(libc::SYS_close, &[fd]);
    }
}

/// openat2 with limits on where a path may lead.
fn confined_opens() {
    const NO_SYMLINKS: u64 = 4;
    const BENEATH: u64 = 8;
    let mut node = Node::new();
    let all = says(&mut node, &format!("{CPU}/online"));
    let mut open2 = |at: u64, path: &str, resolve: u64| {
        node.put(PATH, format!("{path}\0").as_bytes());
        node.put_words(PATH + 0x800, &[0, 0, resolve]);
        let fd = node.call(libc::SYS_openat2, &[at, PATH, PATH + 0x800, 24]);
        if fd < 0 { Err(-fd as i32) } else { Ok(fd) }
    };
    let tree = open2(AT, CPU, 0).unwrap() as u64;
    let inside = open2(tree, "online", BENEATH).unwrap();
    let beside = open2(AT, &format!("{CPU}/online"), NO_SYMLINKS).unwrap();
    assert_eq!(open2(tree, "../node/online", BENEATH), Err(libc::EXDEV));
    assert_eq!(open2(tree, "/etc/passwd", BENEATH), Err(libc::EXDEV));
    assert_eq!(
        open2(tree, "cpu0/node0/cpulist", BENEATH | NO_SYMLINKS),
        Err(libc::ELOOP)
    );
    for fd in [inside, beside] {
        assert_eq!(text(&mut node, fd), all);
    }
}

/// The rank gets the lowest number that is free, and EMFILE at its limit.
fn descriptors_are_given_in_order() {
    let mut node = Node::new();
    let path = format!("{CPU}/online");
    assert_eq!(open_at(&mut node, AT, &path, 0), 3);
    assert_eq!(open_at(&mut node, AT, &path, libc::O_CLOEXEC), 4);
    assert_eq!(node.call(libc::SYS_fcntl, &[3, libc::F_GETFD as u64]), 0);
    assert_eq!(node.call(libc::SYS_fcntl, &[4, libc::F_GETFD as u64]), 1);
    node.call(libc::SYS_close, &[3]);
    assert_eq!(open_at(&mut node, AT, CPU, 0), 3);
    let mut last = 4;
    loop {
        match open_at(&mut node, AT, &path, 0) {
            fd @ 0.. => last = fd,
            errno => break assert_eq!(errno, -i64::from(libc::EMFILE)),
        }
    }
    node.call(libc::SYS_close, &[last as u64]);
    assert_eq!(open_at(&mut node, AT, &path, 0), last);
}
