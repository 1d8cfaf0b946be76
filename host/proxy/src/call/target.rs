//! Whom a call acts on: threads, processes, their groups.

/// Whom a call acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A thread or process; 0 is the caller.
    One(i32),
    /// A thread of this process.
    Thread { process: i32, number: i32 },
    /// A process group; 0 is the caller's.
    Group(i32),
    /// All processes, or all of a user.
    All,
}

impl Target {
    /// As kill(2) and F_SETOWN name it.
    pub const fn signalled(pid: i32) -> Target {
        match pid {
            -1 => Target::All,
            0 => Target::Group(0),
            1.. => Target::One(pid),
            _ => Target::Group(pid.wrapping_neg()),
        }
    }

    /// As struct f_owner_ex has it: F_OWNER_TID, F_OWNER_PID, F_OWNER_PGRP (uapi/asm-generic/fcntl.h).
    pub const fn of_owner(kind: i32, number: i32) -> Option<Target> {
        match kind {
            0 | 1 => Some(Target::One(number)),
            2 => Some(Target::Group(number)),
            _ => None,
        }
    }

    /// Whether a process with this id may be it.
    pub fn is_of(self, id: u32) -> bool {
        match self {
            Target::Thread { process, .. } => process == id as i32,
            _ => true,
        }
    }

    /// As a kind and a number; `kinds` are those of a process, a group, a user.
    pub const fn of_kind(kinds: [i32; 3], kind: i32, number: i32) -> Option<Target> {
        let [one, group, all] = kinds;
        match kind {
            _ if kind == one => Some(Target::One(number)),
            _ if kind == group => Some(Target::Group(number)),
            _ if kind == all => Some(Target::All),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_as_kill_does() {
        assert_eq!(Target::signalled(7), Target::One(7));
        assert_eq!(Target::signalled(-7), Target::Group(7));
        assert_eq!(Target::signalled(0), Target::Group(0));
        assert_eq!(Target::signalled(-1), Target::All);
        assert_eq!(Target::signalled(i32::MIN), Target::Group(i32::MIN));
        assert_eq!(Target::of_kind([1, 2, 3], 2, 7), Some(Target::Group(7)));
        assert_eq!(Target::of_kind([0, 1, 2], 9, 7), None);
    }
}
