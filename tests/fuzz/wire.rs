//! Wire records: what a side reads from memory that the other side may have filled with anything.

use abi::map::{MAX_RANKS, PAGE, USER_BASE, USER_TOP};
use anyhow::{Result, anyhow, ensure};
use margay_tests::random::Random;
use wire::boot::{Config, Header, MAX_CPUS, flag};
use wire::clock::ClockPage;
use wire::layout::Layout;
use wire::region_log::{Change, RECORDS, RegionLog};
use wire::ship::{Server, Slot};
use wire::signal::{CAPACITY, Mailbox};
use wire::trace::TraceRing;
use zerocopy::{FromBytes, FromZeros};

use crate::Budget;

pub fn records(mut budget: Budget) -> Result<()> {
    while budget.lasts() {
        for _ in 0..50 {
            region_log(&mut budget.random)?;
            region_log_of_noise(&mut budget.random)?;
            slot(&mut budget.random)?;
            mailbox(&mut budget.random)?;
            trace(&mut budget.random)?;
            clock(&mut budget.random)?;
        }
    }
    Ok(())
}

/// A structure in memory full of noise, with some words in given places (index and value).
fn noise<T: FromBytes>(random: &mut Random, words: &[(usize, u64)]) -> Result<T> {
    let mut bytes = vec![0u8; size_of::<T>()];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let given = words.iter().find(|(at, _)| *at == index);
        let word = match (given, random.below(4)) {
            (Some((_, word)), _) => *word,
            (_, 0) => random.below(8),
            (_, 1) => random.below(1 << 28) << 12,
            (_, 2) => random.below(1 << 27) << 12 | random.below(64),
            _ => random.next(),
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    T::read_from_bytes(&bytes).map_err(|_| anyhow!("no such length"))
}

fn change(random: &mut Random) -> Change {
    let page = USER_BASE + random.below((USER_TOP - USER_BASE) / PAGE) * PAGE;
    let len_bytes = (1 + random.below((USER_TOP - page) / PAGE)) * PAGE;
    let addr = page;
    match random.below(4) {
        0 => return Change::Unmap { addr, len_bytes },
        1 => return Change::Forget { addr, len_bytes },
        _ => {}
    }
    Change::Map {
        addr: page,
        len_bytes,
        gpa: random.below(1 << 40) * PAGE,
        prot: random.below(8) as u8,
    }
}

/// Everything that is appended arrives once and in order, whatever the reader's pace; a full log refuses.
fn region_log(random: &mut Random) -> Result<()> {
    let log: RegionLog = RegionLog::new_zeroed();
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    for _ in 0..random.below(40) {
        for _ in 0..random.below(100) {
            let change = change(random);
            if log.append(&change).is_some() {
                sent.push(change);
            } else {
                ensure!(sent.len() - got.len() == RECORDS, "refused with room left");
            }
        }
        let behind = sent.len() - got.len();
        let position = got.len() as u64 + random.below(behind as u64 + 1);
        let caught_up = log.catch_up(position, |change| got.push(change));
        ensure!(
            caught_up.is_ok() && got.len() as u64 == position,
            "not caught up"
        );
        ensure!(got == sent[..got.len()], "other records");
        ensure!(
            log.catch_up(sent.len() as u64 + 1, drop).is_err(),
            "a position that never was"
        );
    }
    Ok(())
}

/// Whatever the node writes, a change that gets through is page-aligned and within user memory, and there is an end.
fn region_log_of_noise(random: &mut Random) -> Result<()> {
    let applied = random.next();
    let head = if random.once_in(8) {
        random.next()
    } else {
        applied.wrapping_add(random.below(RECORDS as u64 + 2))
    };
    // The reader's own word lies on a cache line of its own.
    let log: RegionLog = noise(random, &[(0, head), (8, applied)])?;
    let position = if random.once_in(4) {
        random.next()
    } else {
        head
    };
    let mut count = 0;
    let mut wrong = None;
    let _ = log.catch_up(position, |change| {
        count += 1;
        let (addr, len_bytes) = match change {
            Change::Map {
                addr, len_bytes, ..
            }
            | Change::Unmap { addr, len_bytes }
            | Change::Forget { addr, len_bytes }
            | Change::Reserve {
                addr, len_bytes, ..
            } => (addr, len_bytes),
        };
        let end = addr.checked_add(len_bytes);
        let inside = addr >= USER_BASE && end.is_some_and(|end| end <= USER_TOP && len_bytes > 0);
        if !inside || addr % PAGE != 0 || len_bytes % PAGE != 0 {
            wrong = Some(change);
        }
    });
    ensure!(wrong.is_none(), "let through: {wrong:x?}");
    ensure!(count <= RECORDS, "{count} records in a log of {RECORDS}");
    Ok(())
}

/// What is seen of a slot is a copy; the same request is not seen twice.
fn slot(random: &mut Random) -> Result<()> {
    let slot: Slot = noise(random, &[])?;
    let mut server = Server::default();
    let first = server.poll(&slot);
    ensure!(server.poll(&slot).is_none(), "one request was seen twice");
    if let Some(request) = first {
        let _ = server.answer(&slot, random.next() as i64);
        ensure!(request.seq != 0, "a request without a number");
    }
    Ok(())
}

/// Only signals that there are come out.
fn mailbox(random: &mut Random) -> Result<()> {
    let head = random.below(CAPACITY as u64 + 1);
    let mailbox: Mailbox = noise(random, &[(0, head), (8, 0)])?;
    while let Some(signal) = mailbox.take() {
        ensure!(
            (wire::signal::LOOK..=abi::ident::NSIG).contains(&signal.signo),
            "signal {}",
            signal.signo
        );
    }
    ensure!(mailbox.is_empty(), "something was left");
    Ok(())
}

fn trace(random: &mut Random) -> Result<()> {
    let head = random.below(300);
    let ring: TraceRing = noise(random, &[(0, head)])?;
    for _ in 0..2 * wire::trace::CAPACITY {
        let Some(record) = ring.take() else { break };
        let bytes: usize = record.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        ensure!(
            bytes <= wire::trace::DATA_BYTES,
            "{bytes} bytes of a record"
        );
    }
    Ok(())
}

/// Time of a page of noise is some time, not a crash; within one page it does not run backwards.
fn clock(random: &mut Random) -> Result<()> {
    let seq = random.below(4);
    let page: ClockPage = noise(random, &[(0, seq)])?;
    let Some(params) = page.read() else {
        return Ok(());
    };
    let (early, late) = (
        params.tsc_base,
        params.tsc_base.saturating_add(random.below(1 << 40)),
    );
    let _ = (
        params.since_base_ns(random.next()),
        params.tsc_at(random.next()),
    );
    let product = (u128::from(late - early) * u128::from(params.mult)) >> params.shift;
    let fits = product <= u128::from(u64::MAX);
    ensure!(
        !fits || params.since_base_ns(early) <= params.since_base_ns(late),
        "backwards: {params:?}"
    );
    Ok(())
}

/// A header of noise, or a right one with something changed: what is accepted can be laid out.
pub fn boot_information(mut budget: Budget) -> Result<()> {
    let (mut accepted, mut refused) = (0u64, 0u64);
    while budget.lasts() {
        for _ in 0..1000 {
            match Config::read(&header(&mut budget.random)?) {
                Ok(config) => {
                    accepted += 1;
                    check(&config)?;
                }
                Err(_) => refused += 1,
            }
        }
    }
    ensure!(
        accepted > 0 && refused > 0,
        "{accepted} accepted, {refused} refused: no use"
    );
    Ok(())
}

fn header(random: &mut Random) -> Result<Header> {
    let header: Header = noise(random, &[])?;
    if random.once_in(10) {
        return Ok(header);
    }
    let ranks = 1 + random.below(MAX_RANKS as u64) as usize;
    let config = Config {
        ranks,
        cpus: 1 + random.below(MAX_CPUS as u64) as usize,
        flags: random.below(flag::ALL + 1),
        tsc_hz: random.next(),
        partition_bytes: random.next(),
        pool_bytes: random.next() & !(abi::map::PAGE_2M - 1),
    };
    config.write(&header);
    ensure!(
        Config::read(&header) == Ok(config),
        "a right header is refused"
    );
    let fields = [
        &header.magic,
        &header.version,
        &header.total_bytes,
        &header.ranks,
        &header.cpus,
        &header.flags,
    ];
    for _ in 0..random.below(3) {
        let field = random.pick(&fields);
        field.put(field.peek() ^ 1 << random.below(64));
    }
    Ok(header)
}

fn check(config: &Config) -> Result<()> {
    ensure!((1..=MAX_RANKS).contains(&config.ranks), "{config:?}");
    ensure!((1..=MAX_CPUS).contains(&config.cpus), "{config:?}");
    ensure!(config.flags & !flag::ALL == 0, "{config:?}");
    let layout = Layout::new(config);
    let (last_rank, last_cpu) = (config.ranks - 1, config.cpus - 1);
    let places = [
        layout.cpu_stats(last_cpu),
        layout.rank(last_rank),
        layout.threads(last_rank),
        layout.region_log(last_rank),
    ];
    ensure!(
        places.iter().all(|&place| place < layout.total_bytes),
        "{config:?}: {layout:?}"
    );
    Ok(())
}
