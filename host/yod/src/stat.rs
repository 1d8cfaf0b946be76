//! What /proc/PID/stat says of a process (proc(5)).

use std::str::FromStr;

/// Number of the field with the parent's pid.
pub const PARENT: usize = 4;
/// Number of the field with the time at which it began, in clock ticks since the host did.
pub const START: usize = 22;

/// The file's text; `None`: the process is gone. Its name may be any bytes.
pub fn read(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A field from the third on, counted from 1: the name, the second, is in parentheses and may hold anything.
pub fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_after_the_name() {
        assert_eq!(field("7 (a) b) S 5 1", PARENT), Some(5));
        assert_eq!(field::<i32>("7 (a) S", PARENT), None);
        let own = read(std::process::id()).expect("it is there");
        assert_eq!(
            field(&own, PARENT),
            Some(std::os::unix::process::parent_id())
        );
        assert_eq!(read(u32::MAX), None);
    }
}
