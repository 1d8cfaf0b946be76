//! The first yod's part: a seat per rank, until all are taken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SocketFlags, accept_with};

use super::peer::admits;
use super::{Guest, Member, NoMeeting, Terms, Wait, Why};
use crate::message::{Message, receive, send};

/// Who has come.
pub struct Table<'a> {
    first: &'a Member,
    guests: Vec<Guest>,
    /// Connected, and not introduced yet.
    newcomers: Vec<OwnedFd>,
}

impl<'a> Table<'a> {
    /// With one seat taken.
    pub fn new(first: &'a Member) -> Table<'a> {
        Table {
            first,
            guests: Vec::new(),
            newcomers: Vec::new(),
        }
    }

    /// Waits until every seat is taken; the others in the order of their ranks.
    pub fn gather(mut self, listener: &OwnedFd, wait: Wait<'_>) -> Result<Vec<Guest>, NoMeeting> {
        let why = loop {
            if let Err(why) = self.poll(listener) {
                break why;
            }
            let missing = self.missing();
            if missing.is_empty() {
                if let Some(why) = self.unfit() {
                    break why;
                }
                self.guests.sort_by_key(|guest| guest.member.rank);
                return Ok(self.guests);
            }
            let sockets = self.guests.iter().map(|guest| &guest.socket);
            let sockets = sockets.chain(&self.newcomers).chain([listener]);
            let fds: Vec<BorrowedFd<'_>> = sockets.map(AsFd::as_fd).collect();
            if !wait(&fds) {
                break Why::GivenUp(missing);
            }
        };
        let why = self.unfit().unwrap_or(why);
        let guests = self.guests.into_iter().map(|guest| guest.socket);
        Err(NoMeeting {
            why,
            waiting: guests.chain(self.newcomers).collect(),
        })
    }

    fn poll(&mut self, listener: &OwnedFd) -> Result<(), Why> {
        loop {
            match accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) if admits(&socket) => self.newcomers.push(socket),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(Why::Io(error.into())),
            }
        }
        for socket in std::mem::take(&mut self.newcomers) {
            self.introduce(socket)?;
        }
        // A yod introduces itself only once.
        let is_gone = |guest: &&Guest| !is_quiet(&receive(&guest.socket, false));
        match self.guests.iter().find(is_gone) {
            Some(guest) => Err(Why::Gone(guest.member.rank)),
            None => Ok(()),
        }
    }

    /// Reads who a newcomer is, and gives him his seat.
    fn introduce(&mut self, socket: OwnedFd) -> Result<(), Why> {
        let received = receive(&socket, false);
        if is_quiet(&received) {
            self.newcomers.push(socket);
            return Ok(());
        }
        let member = match received {
            Ok((Message::Hello(member), _)) => member,
            // It only checked whether a yod listens here.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            _ => {
                self.newcomers.push(socket);
                return Err(Why::Differs(
                    "a yod of another version takes part: all yods of a job must be the same program".into(),
                ));
            }
        };
        let differs = difference(self.first, &member);
        if differs.is_none() && !self.missing().contains(&member.rank) {
            // One too many ends, and not the job.
            let _ = send(socket.as_fd(), &Message::Taken, &[]);
            return Ok(());
        }
        self.guests.push(Guest { member, socket });
        differs.map_or(Ok(()), |what| Err(Why::Differs(what)))
    }

    /// Why the first rank of those that have come cannot run, if one cannot.
    fn unfit(&self) -> Option<Why> {
        let guests = self.guests.iter().map(|guest| &guest.member);
        let unfit = guests
            .chain([self.first])
            .filter(|member| member.unfit.is_some());
        let (status, line) = unfit.min_by_key(|member| member.rank)?.unfit.clone()?;
        Some(Why::Unfit(status, line))
    }

    /// Ranks that have not come.
    fn missing(&self) -> Vec<usize> {
        let here = |rank| {
            let mut guests = self.guests.iter().map(|guest| guest.member.rank);
            rank == self.first.rank || guests.any(|guest| guest == rank)
        };
        let all = 0..self.first.terms.size;
        all.filter(|&rank| !here(rank)).collect()
    }
}

/// There is nothing to read, yet.
fn is_quiet<T>(received: &io::Result<T>) -> bool {
    matches!(received, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// In what two yods of a job differ, if they do.
fn difference(a: &Member, b: &Member) -> Option<String> {
    let (one, other) = (&a.terms, &b.terms);
    if one.file != other.file {
        return Some(format!(
            "rank {} was started by {}, rank {} by {}: all yods of a job must be the same program",
            a.rank, one.yod, b.rank, other.yod
        ));
    }
    if one.size != other.size {
        return Some(format!(
            "the launcher told rank {} of {} ranks on this host, rank {} of {}",
            a.rank, one.size, b.rank, other.size
        ));
    }
    let value = |terms: &Terms, name: &str| {
        let found = terms.options.iter().find(|(n, _)| n == name);
        match found.map(|(_, value)| value.as_str()) {
            None => format!("no {name}"),
            Some("") => name.to_owned(),
            Some(value) => format!("{name} {value}"),
        }
    };
    let names = one.options.iter().chain(&other.options);
    let mut pairs = names.map(|(name, _)| (value(one, name), value(other, name)));
    pairs.find(|(mine, its)| mine != its).map(|(mine, its)| {
        format!(
            "rank {} has {mine}, rank {} has {its}: all yods of a job need the same options",
            a.rank, b.rank
        )
    })
}

#[cfg(test)]
pub mod tests {
    use super::super::testing::no_process_starts;
    use super::*;
    use crate::message::send;
    use crate::message::tests::pair;
    use crate::resources::Resources;

    /// Rank `rank` of `size`, with what all of a job have alike.
    pub fn member(rank: usize, size: usize) -> Member {
        Member {
            rank,
            cpus: vec![rank as u32],
            resources: Resources {
                cores: 1,
                memory_bytes: 1 << 30,
            },
            log: false,
            terms: Terms {
                yod: "/bin/yod".into(),
                file: [1, 2, 3],
                size,
                options: vec![("-m".into(), "64M".into())],
            },
            unfit: None,
        }
    }

    fn hello(member: &Member) -> (OwnedFd, OwnedFd) {
        let (ours, its) = pair();
        send(its.as_fd(), &Message::Hello(member.clone()), &[]).expect("sent");
        (ours, its)
    }

    #[test]
    fn seats_are_taken_once() {
        let _alone = no_process_starts();
        let first = member(1, 3);
        let mut table = Table::new(&first);
        assert_eq!(table.missing(), [0, 2]);
        for (rank, taken) in [(2, false), (2, true), (1, true), (7, true)] {
            let (ours, its) = hello(&member(rank, 3));
            table.introduce(ours).expect("no reason to give up");
            let answer = receive(&its, false);
            assert_eq!(matches!(answer, Ok((Message::Taken, _))), taken, "{rank}");
        }
        assert_eq!((table.guests.len(), table.missing()), (1, vec![0]));
        let (ours, its) = pair();
        drop(its);
        table.introduce(ours).expect("it only polled");
        assert!(table.newcomers.is_empty());
    }

    #[test]
    fn what_differs_is_said() {
        let line = |change: &dyn Fn(&mut Terms)| {
            let mut other = member(1, 2);
            change(&mut other.terms);
            difference(&member(0, 2), &other)
        };
        assert_eq!(line(&|_| ()), None);
        let more = line(&|terms| terms.options[0].1 = "32M".into()).expect("differs");
        assert!(
            more.starts_with("rank 0 has -m 64M, rank 1 has -m 32M: "),
            "{more}"
        );
        let none = line(&|terms| terms.options.clear()).expect("differs");
        assert!(
            none.starts_with("rank 0 has -m 64M, rank 1 has no -m: "),
            "{none}"
        );
        let flag = line(&|terms| terms.options.push(("--stats".into(), String::new())));
        assert!(
            flag.expect("differs")
                .contains("has no --stats, rank 1 has --stats: ")
        );
        let file = line(&|terms| (terms.file, terms.yod) = ([9; 3], "/y".into())).expect("differs");
        assert!(
            file.starts_with("rank 0 was started by /bin/yod, rank 1 by /y: "),
            "{file}"
        );
        assert!(
            line(&|terms| terms.size = 4)
                .expect("differs")
                .contains("rank 1 of 4")
        );
    }

    /// Whichever comes last, the line is the first rank's.
    #[test]
    fn one_that_cannot_run_is_received() {
        let _alone = no_process_starts();
        let first = member(1, 3);
        let mut table = Table::new(&first);
        assert!(table.unfit().is_none());
        let mut sockets = Vec::new();
        for (rank, line) in [(2, "two"), (0, "none")] {
            let mut guest = member(rank, 3);
            guest.unfit = Some((rank as u8, line.into()));
            let (ours, its) = hello(&guest);
            table.introduce(ours).expect("no reason to give up yet");
            sockets.push(its);
            let why = table.unfit();
            assert!(
                matches!(why, Some(Why::Unfit(status, said)) if status == rank as u8 && said == line)
            );
        }
        assert!(table.missing().is_empty());
    }

    /// A message of another version does not parse.
    #[test]
    fn another_version_is_no_riddle() {
        let first = member(0, 2);
        let mut table = Table::new(&first);
        let (ours, its) = pair();
        rustix::io::write(&its, b"{\"Hello\":{\"rank\":1}}").expect("sent");
        let why = table.introduce(ours);
        assert!(
            matches!(why, Err(Why::Differs(line)) if line.starts_with("a yod of another version"))
        );
        assert_eq!(table.newcomers.len(), 1, "it is to be dismissed");
    }
}
