//! The trees of a node of a few cores.

use super::*;

fn facts(cores: usize) -> Facts {
    let cache = |level: &str| Cache(vec![("level", level.into()), ("size", "48K".into())]);
    Facts {
        cores,
        caches: vec![cache("1"), cache("3")],
    }
}

fn says(facts: &Facts, path: &str) -> Option<String> {
    match facts.find(path)? {
        Entry::File(Text::Line(line)) => Some(line),
        _ => None,
    }
}

#[test]
fn masks_and_lists_are_written_as_linux_does() {
    assert_eq!(mask(0..1, 1), "1");
    assert_eq!(mask(0..2, 2), "3");
    assert_eq!(mask(4..5, 6), "10");
    assert_eq!(mask(33..34, 40), "02,00000000");
    assert_eq!(mask(0..64, 64), "ffffffff,ffffffff");
    assert_eq!((range(1), range(255)), ("0".into(), "0-254".into()));
}

#[test]
fn files_speak_of_the_node() {
    let node = facts(3);
    for (path, line) in [
        ("/devices/system/cpu/online", "0-2"),
        ("/devices/system/cpu/kernel_max", "255"),
        ("/devices/system/cpu/cpu2/topology/core_id", "2"),
        ("/devices/system/cpu/cpu2/topology/core_cpus", "4"),
        ("/devices/system/cpu/cpu2/topology/package_cpus_list", "0-2"),
        ("/devices/system/cpu/cpu1/cache/index0/shared_cpu_list", "1"),
        ("/devices/system/cpu/cpu1/cache/index1/shared_cpu_map", "7"),
        ("/devices/system/node/node0/cpulist", "0-2"),
    ] {
        assert_eq!(says(&node, path).as_deref(), Some(line), "{path}");
    }
    for path in [
        "/devices/system/cpu/cpu3",
        "/devices/system/cpu/cpu00",
        "/devices/system/cpu/cpu+1",
        "/devices/system/cpu/cpufreq",
        "/devices/system/cpu/cpu0/cache/index2",
        "/devices/system/cpu/online/x",
        "/devices/system/cpus",
        "/devices/system/node/node1",
        "/devices/system",
    ] {
        assert_eq!(node.find(path), None, "{path}");
    }
}

/// Every listing has just the names that can be found, and every directory's path leads to it.
#[test]
fn what_is_listed_is_there() {
    let node = facts(3);
    let mut left: Vec<Dir> = Dir::ROOTS.into();
    let mut seen = 0;
    while let Some(dir) = left.pop() {
        assert_eq!(node.find(&dir.path()), Some(Entry::Directory(dir)));
        for name in node.names(dir) {
            let entry = node
                .child(dir, &name)
                .unwrap_or_else(|| panic!("{dir:?}/{name}"));
            if let Entry::Directory(below) = entry {
                assert_eq!(below.parent(), Some(dir));
                left.push(below);
            }
            seen += 1;
        }
    }
    assert!(seen > 60);
}
