//! Which features the node's processors show.
//!
//! A program may start children, and those run on the host: so it is never shown an instruction that the host's processors
//! lack. Under KVM that is so by itself; the emulator has some of its own, which are taken away.

/// Features of QEMU's emulated `max` processor that bring instructions for programs: QEMU's name, and the flag of
/// /proc/cpuinfo. What every x86-64 processor has, and what is of use only to a kernel, is not among them.
///
/// Protection keys (`pku`) stay on every host: the node's kernel does not let programs use them, but their state comes last
/// in an XSAVE image. So a program that queries how large an image is (the C library's loader, once) leaves room for one of any
/// host, where its child saves more states than the emulator has.
const EMULATED: &[(&str, &str)] = &[
    ("sse3", "pni"),
    ("pclmulqdq", "pclmulqdq"),
    ("ssse3", "ssse3"),
    ("fma", "fma"),
    ("cx16", "cx16"),
    ("sse4.1", "sse4_1"),
    ("sse4.2", "sse4_2"),
    ("movbe", "movbe"),
    ("popcnt", "popcnt"),
    ("aes", "aes"),
    ("avx", "avx"),
    ("f16c", "f16c"),
    ("rdrand", "rdrand"),
    ("mmxext", "mmxext"),
    ("rdtscp", "rdtscp"),
    ("3dnowext", "3dnowext"),
    ("3dnow", "3dnow"),
    ("lahf-lm", "lahf_lm"),
    ("abm", "abm"),
    ("sse4a", "sse4a"),
    ("bmi1", "bmi1"),
    ("avx2", "avx2"),
    ("bmi2", "bmi2"),
    ("mpx", "mpx"),
    ("rdseed", "rdseed"),
    ("adx", "adx"),
    // Linux has no flag for it any more: no processor that was ever sold has the instruction.
    ("pcommit", "pcommit"),
    ("clflushopt", "clflushopt"),
    ("clwb", "clwb"),
    ("vaes", "vaes"),
    ("rdpid", "rdpid"),
    ("xsaveopt", "xsaveopt"),
    ("xgetbv1", "xgetbv1"),
    ("clzero", "clzero"),
    ("xsaveerptr", "xsaveerptr"),
];

/// Which processor the emulated one says it is, as QEMU takes it: AMD's first with AVX2 and without 3DNow!. By itself it is of a
/// family that always has 3DNow!, and what goes by that (OpenBLAS) uses it, whatever the features say.
pub const MODEL: &str = "family=23,model=1,stepping=2";

/// What of that the host lacks, by QEMU's names. Nothing is taken away where the host does not say what it has.
#[must_use]
pub fn lacking() -> Vec<&'static str> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    not_in(&cpuinfo)
}

fn not_in(cpuinfo: &str) -> Vec<&'static str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let Some((_, flags)) = line.and_then(|line| line.split_once(':')) else {
        return Vec::new();
    };
    let lacks = |flag: &str| flags.split_ascii_whitespace().all(|word| word != flag);
    let emulated = EMULATED.iter().filter(|(_, flag)| lacks(flag));
    emulated.map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs on an emulated node were shown 3DNow!, MPX and protection keys on hosts that have none of them.
    #[test]
    fn what_the_host_lacks_is_taken_away() {
        let all: Vec<&str> = EMULATED.iter().map(|(_, flag)| *flag).collect();
        let cpuinfo =
            |flags: &[&str]| format!("processor\t: 0\nflags\t\t: fpu {} lm\n\n", flags.join(" "));
        assert!(not_in(&cpuinfo(&all)).is_empty());
        let without: Vec<&str> = all
            .into_iter()
            .filter(|flag| !["mpx", "sse4_1"].contains(flag))
            .collect();
        assert_eq!(not_in(&cpuinfo(&without)), ["sse4.1", "mpx"]);
        assert!(not_in("").is_empty());
    }
}
