//! Texts about the rank's regions. Whether a page may be executed the proxy does not know: no `x` is shown. All that is mapped
//! is in memory, the rank's alone, and counts as written.

use std::fmt::Write as _;

use abi::map::{PAGE, STACK_TOP, VDSO_AREA};

use crate::regions::{Region, Regions};

/// /proc/self/maps.
pub fn maps(regions: &Regions) -> String {
    regions.iter().map(line).collect()
}

/// /proc/self/smaps.
pub fn smaps(regions: &Regions) -> String {
    regions
        .iter()
        .map(|region| line(region) + &details(region))
        .collect()
}

/// /proc/self/smaps_rollup.
pub fn rollup(regions: &Regions) -> String {
    let start = regions.iter().next().map_or(0, |region| region.start);
    let end = regions.iter().next_back().map_or(0, |region| region.end);
    let all = regions.iter().map(|region| region.end - region.start).sum();
    let head = format!("{start:08x}-{end:08x} ---p 00000000 00:00 0");
    format!("{head:<73}[rollup]\n{}", in_memory(all))
}

/// /proc/self/numa_maps.
pub fn numa_maps(regions: &Regions) -> String {
    let line = |region: &Region| {
        let (start, pages) = (region.start, (region.end - region.start) / PAGE);
        let kib = PAGE / 1024;
        format!(
            "{start:08x} default anon={pages} dirty={pages} N0={pages} kernelpagesize_kB={kib}\n"
        )
    };
    regions.iter().map(line).collect()
}

fn line(region: &Region) -> String {
    let name = match region {
        r if r.end == STACK_TOP => "[stack]",
        r if r.start == VDSO_AREA => "[vvar]",
        r if r.start == VDSO_AREA + PAGE => "[vdso]",
        _ => "",
    };
    let read = if region.read { 'r' } else { '-' };
    let write = if region.write { 'w' } else { '-' };
    let (start, end) = (region.start, region.end);
    let line = format!("{start:08x}-{end:08x} {read}{write}-p 00000000 00:00 0");
    if name.is_empty() {
        line + " \n"
    } else {
        format!("{line:<73}{name}\n")
    }
}

fn details(region: &Region) -> String {
    let bytes = region.end - region.start;
    let mut text = String::new();
    for (name, bytes) in [
        ("Size", bytes),
        ("KernelPageSize", PAGE),
        ("MMUPageSize", PAGE),
    ] {
        amount(&mut text, name, bytes);
    }
    text += &in_memory(bytes);
    let read = if region.read { "rd " } else { "" };
    let write = if region.write { "wr " } else { "" };
    let _ = writeln!(text, "VmFlags: {read}{write}mr mw me ");
    text
}

fn in_memory(bytes: u64) -> String {
    let mut text = String::new();
    for (name, bytes) in [
        ("Rss", bytes),
        ("Pss", bytes),
        ("Pss_Dirty", bytes),
        ("Shared_Clean", 0),
        ("Shared_Dirty", 0),
        ("Private_Clean", 0),
        ("Private_Dirty", bytes),
        ("Referenced", bytes),
        ("Anonymous", bytes),
        ("AnonHugePages", 0),
        ("Shared_Hugetlb", 0),
        ("Private_Hugetlb", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", 0),
    ] {
        amount(&mut text, name, bytes);
    }
    text
}

fn amount(text: &mut String, name: &str, bytes: u64) {
    let _ = writeln!(text, "{:<16}{:>8} kB", format!("{name}:"), bytes / 1024);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> Regions {
        let mut regions = Regions::default();
        for (start, end) in [(0x40_0000, 0x40_1000), (STACK_TOP - 0x2000, STACK_TOP)] {
            regions.map(Region {
                start,
                end,
                gpa: start,
                read: true,
                write: true,
            });
        }
        regions
    }

    #[test]
    fn maps_has_a_line_per_region() {
        let text = maps(&regions());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "00400000-00401000 rw-p 00000000 00:00 0 ");
        assert!(lines[1].starts_with("7fffdfe000-7fffe00000 rw-p 00000000 00:00 0 "));
        assert!(lines[1].ends_with(" [stack]"));
    }

    #[test]
    fn all_is_in_memory() {
        let text = smaps(&regions());
        assert_eq!(text.matches("Rss: ").count(), 2);
        assert!(text.contains("Private_Dirty:         8 kB\n"), "{text}");
        assert!(rollup(&regions()).contains("[rollup]\nRss:                  12 kB\n"));
        let text = numa_maps(&regions());
        assert!(text.starts_with("00400000 default anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n"));
    }
}
