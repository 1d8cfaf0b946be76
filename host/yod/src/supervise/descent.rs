//! From whom a process descends.

use machine::stat;

/// Generations that are followed.
const GENERATIONS: usize = 64;

/// Whether `is_it` says so of a process or one of its ancestors. Its argument says whether the process is gone: then its ancestors are not
/// known.
pub fn any(pid: i32, is_it: impl Fn(i32, bool) -> bool) -> bool {
    let mut at = pid;
    for _ in 0..GENERATIONS {
        let parent = parent(at);
        if is_it(at, parent.is_none()) {
            return true;
        }
        match parent {
            Some(parent) if parent > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

/// `None`: it is gone.
fn parent(pid: i32) -> Option<i32> {
    stat::field(&stat::read(pid as u32)?, stat::PARENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_found_and_those_who_are_gone_said_to_be() {
        let own = std::process::id() as i32;
        let parent = std::os::unix::process::parent_id() as i32;
        assert!(any(own, |pid, is_gone| pid == parent && !is_gone));
        assert!(!any(own, |_, is_gone| is_gone));
        assert!(any(i32::MAX, |pid, is_gone| pid == i32::MAX && is_gone));
    }
}
