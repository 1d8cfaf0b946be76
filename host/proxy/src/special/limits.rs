//! /proc/self/limits: the rank's limits, of which the node keeps some and the proxy has others.

use std::fmt::Write as _;

/// Bytes of a line before its limits, and of both limits (fs/proc/base.c, proc_pid_limits).
const NAME_BYTES: usize = 26;
const LIMITS_BYTES: usize = 42;

/// Linux's lines, which are in the order of RLIMIT_* behind a heading, with other limits: soft and hard by resource.
pub fn text(linux: &str, limit: impl Fn(usize) -> [u64; 2]) -> String {
    let mut text = String::with_capacity(linux.len());
    for (number, line) in linux.lines().enumerate() {
        let parts = line.split_at_checked(NAME_BYTES);
        let parts = parts.and_then(|(name, rest)| Some((name, rest.get(LIMITS_BYTES..)?)));
        let _ = match (number.checked_sub(1), parts) {
            (Some(resource), Some((name, unit))) => {
                let [soft, hard] = limit(resource).map(shown);
                writeln!(text, "{name}{soft:<20} {hard:<20} {unit}")
            }
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

fn shown(limit: u64) -> String {
    match limit {
        u64::MAX => "unlimited".into(),
        limit => limit.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits that only the node has were not there, and that on descriptors was the proxy's.
    #[test]
    fn lines_have_the_ranks_limits() {
        let line = |name: &str, soft: &str, hard: &str, unit: &str| {
            format!("{name:<25} {soft:<20} {hard:<20} {unit}\n")
        };
        let heading = line("Limit", "Soft Limit", "Hard Limit", "Units     ");
        let linux = [
            heading.clone(),
            line("Max cpu time", "unlimited", "unlimited", "seconds   "),
            line("Max nice priority", "0", "0", ""),
        ];
        let wanted = [
            heading,
            line("Max cpu time", "10", "unlimited", "seconds   "),
            line("Max nice priority", "3", "4", ""),
        ];
        let limits = [[10, u64::MAX], [3, 4]];
        assert_eq!(
            text(&linux.concat(), |resource| limits[resource]),
            wanted.concat()
        );
    }
}
