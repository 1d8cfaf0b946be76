//! Where Linux would put a core file: /proc/sys/kernel/core_pattern (core(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What a pattern may name.
#[derive(Debug)]
pub struct Facts {
    /// The rank's process id.
    pub pid: u32,
    /// The thread's that took the signal.
    pub tid: u32,
    /// User and group.
    pub ids: [u32; 2],
    /// The signal.
    pub signo: i32,
    /// Seconds since 1970.
    pub time_s: u64,
    /// The host's name.
    pub host: Vec<u8>,
    /// The thread's name (comm).
    pub name: Vec<u8>,
    /// The program's path.
    pub path: Vec<u8>,
    /// The soft limit on core files, in bytes.
    pub limit_bytes: u64,
}

/// The file that `pattern` names; relative to the rank's working directory if it is no absolute path. `None`: it names none.
///
/// A pattern that begins with `|` starts a program, which is to be given the core of a process of Linux. There is
/// none here, so the file is `core.PID` then.
pub fn path(pattern: &[u8], uses_pid: bool, facts: &Facts) -> Option<PathBuf> {
    let pattern = pattern.trim_ascii_end();
    if pattern.starts_with(b"|") {
        return Some(format!("core.{}", facts.pid).into());
    }
    let (mut path, named_pid) = expand(pattern, facts);
    if uses_pid && !named_pid {
        path.extend(format!(".{}", facts.pid).bytes());
    }
    (!path.is_empty()).then(|| OsString::from_vec(path).into())
}

/// The pattern with its specifiers replaced (Linux: fs/coredump.c, format_corename), and whether `%p` was among them.
fn expand(pattern: &[u8], facts: &Facts) -> (Vec<u8>, bool) {
    let (mut path, mut named_pid) = (Vec::new(), false);
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            path.push(byte);
            continue;
        }
        let file = facts.path.rsplit(|&byte| byte == b'/').next();
        let number = |number: u64| number.to_string().into_bytes();
        named_pid |= bytes.as_slice().first() == Some(&b'p');
        path.extend(match bytes.next() {
            Some(b'%') => b"%".to_vec(),
            Some(b'p' | b'P') => number(facts.pid.into()),
            Some(b'i' | b'I') => number(facts.tid.into()),
            Some(b'u') => number(facts.ids[0].into()),
            Some(b'g') => number(facts.ids[1].into()),
            Some(b'd') => number(1), // it is dumpable, or there would be no core
            Some(b's') => number(facts.signo as u64),
            Some(b't') => number(facts.time_s),
            Some(b'c') => number(facts.limit_bytes),
            Some(b'h') => without_slashes(&facts.host),
            Some(b'e') => without_slashes(&facts.name),
            Some(b'f') => without_slashes(file.unwrap_or_default()),
            Some(b'E') => without_slashes(&facts.path),
            _ => Vec::new(),
        });
    }
    (path, named_pid)
}

fn without_slashes(name: &[u8]) -> Vec<u8> {
    let shown = |&byte: &u8| if byte == b'/' { b'!' } else { byte };
    name.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pattern: &str, uses_pid: bool) -> Option<String> {
        let facts = Facts {
            pid: 42,
            tid: 43,
            ids: [1000, 100],
            signo: 11,
            time_s: 1_700_000_000,
            host: b"node/1".to_vec(),
            name: b"worker".to_vec(),
            path: b"/usr/bin/prog".to_vec(),
            limit_bytes: u64::MAX,
        };
        let path = path(pattern.as_bytes(), uses_pid, &facts)?;
        Some(path.to_string_lossy().into_owned())
    }

    #[test]
    fn patterns_are_linuxs() {
        for (pattern, uses_pid, path) in [
            ("core\n", false, "core"),
            ("core", true, "core.42"),
            ("core.%p", true, "core.42"),
            ("core.%P", true, "core.42.42"),
            (
                "/var/c-%e-%i-%s-%t",
                false,
                "/var/c-worker-43-11-1700000000",
            ),
            ("%h.%u.%g.%d", false, "node!1.1000.100.1"),
            ("%f%%%E", false, "prog%!usr!bin!prog"),
            ("%c", false, "18446744073709551615"),
            ("a%zb%", false, "ab"),
            ("|/lib/systemd/systemd-coredump %P", false, "core.42"),
        ] {
            assert_eq!(named(pattern, uses_pid).as_deref(), Some(path), "{pattern}");
        }
        assert_eq!(named("", false), None);
        assert_eq!(named("\n", true).as_deref(), Some(".42"));
    }
}
