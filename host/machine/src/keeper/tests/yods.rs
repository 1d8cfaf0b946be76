//! What the yods of a job are sent of each other.

use super::*;
use crate::message::Message;
use crate::rendezvous::member;

/// The job of two yods: their ends of the connections, and the keeper's.
fn two_yods(test: &Test) -> ([OwnedFd; 2], OwnedFd, Job) {
    let ((first, of_first), (second, of_second)) = (pair(), pair());
    let guest = Guest {
        member: member(1, 2),
        socket: of_second,
    };
    let job = Job {
        ranks: 0..1,
        guests: vec![guest],
        ..test.job()
    };
    ([first, second], of_first, job)
}

/// The user has one line, not one of each yod.
#[test]
fn one_of_all_yods_reports_that_there_is_no_node() {
    hang::not(|| {
        let test = Test::new(pieces());
        let (yods, of_first, job) = two_yods(&test);
        let clients = clients(of_first, job).expect("connected");
        let keeper = std::thread::spawn(move || refuse(clients, "a reason"));
        let reports = yods.each_ref().map(|yod| match receive(yod, true) {
            Ok((
                Message::Event {
                    event: Event::Ended(ended),
                    reports,
                },
                _,
            )) => {
                assert_eq!(ended.cause, Cause::NotStarted("a reason".into()));
                reports
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(reports, [true, false]);
        drop(yods);
        assert!(keeper.join().expect("no panic").is_ok());
    });
}

/// The others cannot serve its rank: they are sent which one is lost, unless that has ended on the node.
#[test]
fn a_yod_that_leaves_loses_the_rank_that_has_not_ended() {
    for has_ended in [false, true] {
        hang::not(move || {
            let test = Test::new(pieces());
            let (yods, of_first, job) = two_yods(&test);
            let Test {
                launch,
                log,
                death,
                seen,
                ..
            } = test;
            let keeper_thread = std::thread::spawn(move || keep(&launch, job, of_first));
            let [first, second] = yods;
            let (keeper, node) = join(first);
            if has_ended {
                node.comm.rank(1).node.state.put(wire::rank::state::EXITED);
            }
            drop(second);
            let lost = (!has_ended).then_some(1);
            assert_eq!(next_event(&keeper), Event::Left { lost });
            drop((keeper, node));
            assert!(keeper_thread.join().expect("no panic").is_ok());
            drop((log, death, seen));
        });
    }
}
