//! How a job ended, from how its ranks ended. Pure.

use crate::failure::{signal_text, status};

/// How a rank ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// By itself, with this status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl How {
    /// What the shell sees.
    pub fn status(self) -> u8 {
        match self {
            How::Exited(code) => code,
            How::Killed(signo) => status::SIGNAL.wrapping_add(signo as u8 & 0x7f),
        }
    }

    pub fn failed(self) -> bool {
        self != How::Exited(0)
    }
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            How::Exited(code) => write!(f, "exited with status {code}"),
            How::Killed(signo) => write!(f, "was killed by {}", signal_text(signo)),
        }
    }
}

/// Collects the ends of ranks: the first that fails decides.
#[derive(Debug, Default)]
pub struct Verdict {
    first: Option<(usize, How)>,
}

impl Verdict {
    /// A rank ended. True when it is the first that failed: now the others are to be ended.
    pub fn ended(&mut self, rank: usize, how: How) -> bool {
        let first = self.first.is_none() && how.failed();
        if first {
            self.first = Some((rank, how));
        }
        first
    }

    /// How the first failing rank ended.
    pub fn first(&self) -> Option<How> {
        self.first.map(|(_, how)| how)
    }

    /// Exit status of the job.
    pub fn status(&self) -> u8 {
        self.first.map_or(0, |(_, how)| how.status())
    }

    /// The line that names the failing rank and those that were ended because of it.
    pub fn line(&self, others: &[usize]) -> Option<String> {
        let (rank, how) = self.first?;
        Some(match others {
            [] => format!("rank {rank} {how}"),
            _ => format!("rank {rank} {how}; ended {}", ranks_text(others)),
        })
    }
}

/// `rank 3`, `ranks 0, 2-5 and 7`.
pub fn ranks_text(ranks: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let texts: Vec<String> = runs
        .iter()
        .flat_map(|&(first, last)| match last - first {
            0 => vec![first.to_string()],
            1 => vec![first.to_string(), last.to_string()],
            _ => vec![format!("{first}-{last}")],
        })
        .collect();
    match texts.split_last() {
        None => "no rank".into(),
        Some((last, [])) if ranks.len() == 1 => format!("rank {last}"),
        Some((last, [])) => format!("ranks {last}"),
        Some((last, rest)) => format!("ranks {} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failing_rank_decides() {
        let mut verdict = Verdict::default();
        assert!(!verdict.ended(1, How::Exited(0)));
        assert_eq!((verdict.status(), verdict.line(&[])), (0, None));
        assert!(verdict.ended(2, How::Killed(11)));
        assert!(!verdict.ended(0, How::Killed(9)));
        assert_eq!(verdict.status(), 139);
        assert_eq!(
            verdict.line(&[0, 3]).expect("a line"),
            "rank 2 was killed by signal 11 (SIGSEGV); ended ranks 0 and 3"
        );
    }

    #[test]
    fn statuses_are_the_shells() {
        assert_eq!(How::Exited(3).status(), 3);
        assert_eq!(How::Killed(9).status(), 137);
        assert_eq!(How::Exited(255).to_string(), "exited with status 255");
    }

    #[test]
    fn many_ranks_are_named_shortly() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1]), "ranks 0 and 1");
        assert_eq!(ranks_text(&[0, 1, 2]), "ranks 0-2");
        assert_eq!(ranks_text(&[0, 2, 3, 4, 7]), "ranks 0, 2-4 and 7");
        assert_eq!(ranks_text(&[]), "no rank");
    }
}
