//! Paths as text.

/// The path up to its last component, and that.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_before_the_last_component() {
        assert_eq!(split(b"/proc/self/exe"), (&b"/proc/self"[..], &b"exe"[..]));
        assert_eq!(split(b"exe"), (&b"."[..], &b"exe"[..]));
        assert_eq!(split(b"/exe"), (&b"/"[..], &b"exe"[..]));
        assert_eq!(split(b"a/"), (&b"a"[..], &b""[..]));
    }
}
