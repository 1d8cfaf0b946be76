//! Memory that the other side may have filled with anything: whatever is in it, reading ends, and what comes out is in
//! range.
#![cfg(not(loom))]

use abi::map::{MAX_RANKS, PAGE, USER_BASE, USER_TOP};
use margay_wire::boot::{Config, Header, MAX_CPUS, flag};
use margay_wire::clock::ClockPage;
use margay_wire::region_log::{Change, RECORDS, RegionLog, prot};
use margay_wire::ship::{Caller, Server, Slot};
use margay_wire::signal::{self, Mailbox, Signal};
use margay_wire::trace::{self, DATA_BYTES, TraceRing};
use margay_wire::word::Text;
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros};

/// Where the reader's and the writer's count lie in every ring, in words.
const HEAD: usize = 0;
const TAIL: usize = 8;

/// Words as a confused or hostile writer leaves them: noise, edges, and what almost makes sense.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..600u64,
        (0..600u64).prop_map(|n| u64::MAX - n),
        (0..1u64 << 36, 0..64u64).prop_map(|(page, low)| (page * PAGE) | low),
    ]
}

fn words<T>() -> impl Strategy<Value = Vec<u64>> {
    // A few words, over and over: rings are long, and proptest is slow with long inputs.
    vec(word(), 1..40).prop_map(|few| few.into_iter().cycle().take(size_of::<T>() / 8).collect())
}

fn memory<T: FromBytes>(words: &[u64]) -> T {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    T::read_from_bytes(&bytes).expect("as many words as it has")
}

fn ring<T: FromBytes>(mut words: Vec<u64>, head: u64, tail: u64) -> T {
    words[HEAD] = head;
    words[TAIL] = tail;
    memory(&words)
}

/// Two counts: near each other in either order, or not.
fn counts() -> impl Strategy<Value = (u64, u64)> {
    (word(), prop_oneof![0..600u64, word()])
        .prop_map(|(tail, more)| (tail.wrapping_add(more), tail))
}

/// Random words hardly ever make a change that is right but for its end.
#[test]
fn a_change_that_leaves_memory_is_refused() {
    let change = |addr, pages| Change::Map {
        addr,
        len_bytes: pages * PAGE,
        gpa: PAGE,
        prot: prot::ALL,
    };
    for (addr, pages, right) in [
        (USER_TOP - PAGE, 1, true),
        (USER_TOP - PAGE, 2, false),
        (USER_BASE, 1, true),
        (USER_BASE - PAGE, 2, false),
    ] {
        let log: RegionLog = ring(vec![0; size_of::<RegionLog>() / 8], 0, 0);
        let position = log.append(&change(addr, pages)).expect("there is room");
        let seen = log.catch_up(position, |_| {});
        assert_eq!(seen.is_ok(), right, "{pages} pages at {addr:#x}");
    }
}

proptest! {
    #[test]
    fn boot_information_is_in_range(words in words::<Header>(), right in 0..10usize) {
        let mut words = words;
        let config = Config { ranks: 2, cpus: 3, flags: flag::TRACE, tsc_hz: 0, partition_bytes: 0, pool_bytes: 0 };
        let good: Header = Header::new_zeroed();
        config.write(&good);
        let fields = [&good.magic, &good.version, &good.total_bytes, &good.ranks, &good.cpus, &good.flags,
            &good.tsc_hz, &good.partition_bytes, &good.pool_bytes];
        for (to, from) in words.iter_mut().zip(fields).take(right) {
            *to = from.load();
        }
        if let Ok(read) = Config::read(&memory::<Header>(&words)) {
            prop_assert!((1..=MAX_RANKS).contains(&read.ranks) && (1..=MAX_CPUS).contains(&read.cpus));
            prop_assert_eq!(read.flags & !flag::ALL, 0);
        } else {
            prop_assert!(right < fields.len());
        }
    }

    #[test]
    fn changes_are_in_range_and_few(words in words::<RegionLog>(), (head, applied) in counts(), position in word(), to_head: bool) {
        let log: RegionLog = ring(words, head, applied);
        let position = if to_head { head } else { position };
        let mut changes = Vec::new();
        let caught_up = log.catch_up(position, |change| changes.push(change));
        prop_assert!(changes.len() <= RECORDS);
        for change in changes {
            let (addr, len_bytes, gpa) = match change {
                Change::Map { addr, len_bytes, gpa, .. } => (addr, len_bytes, gpa),
                Change::Unmap { addr, len_bytes } | Change::Forget { addr, len_bytes } | Change::Reserve { addr, len_bytes, .. } => {
                    (addr, len_bytes, 0)
                }
            };
            prop_assert!([addr, len_bytes, gpa].iter().all(|n| n % PAGE == 0) && len_bytes > 0);
            prop_assert!((USER_BASE..=USER_TOP).contains(&addr) && len_bytes <= USER_TOP - addr);
            prop_assert!(gpa.checked_add(len_bytes).is_some());
        }
        if caught_up.is_ok() {
            prop_assert!(position <= log.applied() && log.applied() <= log.position());
        }
    }

    #[test]
    fn a_proxy_is_not_believed_to_be_ahead((head, applied) in counts(), words in words::<RegionLog>()) {
        let log: RegionLog = ring(words, head, applied);
        prop_assert!(log.applied() <= head && log.room() <= RECORDS);
        let appended = log.append(&Change::Unmap { addr: USER_BASE, len_bytes: PAGE });
        prop_assert!(appended.is_none() || applied <= head);
    }

    #[test]
    fn a_mailbox_gives_signals_and_has_an_end(words in words::<Mailbox>(), (head, tail) in counts()) {
        let mailbox: Mailbox = ring(words, head, tail);
        let taken: Vec<_> = std::iter::from_fn(|| mailbox.take()).take(signal::CAPACITY + 1).collect();
        prop_assert!(taken.len() <= signal::CAPACITY && mailbox.is_empty());
        prop_assert!(taken.iter().all(|signal| (signal::LOOK..=64).contains(&signal.signo)));
        let posted = Signal { signo: 1, ..Default::default() };
        prop_assert!(mailbox.post(&posted));
        prop_assert_eq!(mailbox.take(), Some(posted));
    }

    #[test]
    fn a_trace_has_an_end(words in words::<TraceRing>(), (head, tail) in counts()) {
        let ring: TraceRing = ring(words, head, tail);
        let taken: Vec<_> = std::iter::from_fn(|| ring.take()).take(trace::CAPACITY + 1).collect();
        prop_assert!(taken.len() <= trace::CAPACITY);
        for record in taken {
            let bytes: usize = record.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
            prop_assert!(bytes <= DATA_BYTES);
        }
    }

    #[test]
    fn a_slot_gives_a_request_once(words in words::<Slot>(), ret: i64) {
        let slot: Slot = memory(&words);
        let mut server = Server::default();
        let request = server.poll(&slot);
        prop_assert_eq!(request.map_or(0, |request| request.seq), words[0]);
        prop_assert_eq!(server.poll(&slot), None);
        let _ = (server.answer(&slot, ret), slot.cancelled(words[0]));

        // A caller gets an answer to its own request only, and by then its own wishes are the only ones.
        let slot: Slot = memory(&words);
        let mut caller = Caller::default();
        let _ = caller.post(&slot, 1, &[2; 6], false, 3);
        prop_assert_eq!(caller.result(&slot).is_some(), words[16] == 1);
        caller.announce_wait(&slot);
        caller.cancel(&slot);
        prop_assert!(slot.cancelled(1) && !slot.cancelled(2));
    }

    #[test]
    fn time_from_a_page_of_noise_is_some_time(words in words::<ClockPage>(), even: bool, tsc in word(), ns in word()) {
        let mut words = words;
        words[0] = if even { words[0] & !1 } else { words[0] };
        let page: ClockPage = memory(&words);
        if let Some(params) = page.read() {
            prop_assert!(words[0] != 0 && words[0] % 2 == 0 && params.shift < 64);
            let _ = params.since_base_ns(tsc);
            prop_assert!(params.tsc_at(ns) >= params.tsc_base);
            page.write(&params);
            prop_assert_eq!(page.read(), Some(params));
        }
    }

    #[test]
    fn text_fits_and_has_no_zero(words in words::<Text<6>>(), room in 0..64usize) {
        let text: Text<6> = memory(&words);
        let mut out = [0xff; 64];
        let got = text.get(&mut out[..room]);
        prop_assert!(got.len() <= room.min(48) && !got.contains(&0));
    }
}

/// Taking would have gone on for 2^63 signals, in an interrupt handler.
#[test]
fn a_mailbox_with_too_much_in_it_is_emptied() {
    let mut words = vec![0; size_of::<Mailbox>() / 8];
    words[HEAD] = signal::CAPACITY as u64 + 1;
    let mailbox: Mailbox = memory(&words);
    assert_eq!(mailbox.take(), None);
    assert!(mailbox.is_empty());
}

/// A count of applied records at the end of the number range looked as if it were just behind.
#[test]
fn a_count_of_applied_records_that_cannot_be_is_an_error() {
    let words = vec![0; size_of::<RegionLog>() / 8];
    let log: RegionLog = ring(words, 3, u64::MAX - 1);
    assert!(log.catch_up(3, drop).is_err());
    assert_eq!((log.applied(), log.room()), (0, 0));
}
