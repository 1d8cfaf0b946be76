//! Packets that no gdb sends: random ones to every rank of a job under `--gdb` (gdb's manual, "Remote Protocol").

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use margay_tests::random::Random;
use margay_tests::run::HANG;

use crate::Round;
use crate::confined::{self, Confined};

/// Of all ranks of a round.
const PACKETS: u64 = 2_000;
/// A rank whose registers were changed may run for ever.
const LIMIT: &[&str] = &["--timeout", "30", "--gdb=s"];
/// How often it is looked for a socket, and an answer waited for: the stub takes one packet after another.
const MOMENT: Duration = Duration::from_millis(2);

/// How packets begin. `@` stands for a number, `*` for bytes in hexadecimal.
const BEGINNINGS: &[&str] = &[
    "?",
    "g",
    "G*",
    "p@",
    "P@=*",
    "m@,@",
    "M@,@:*",
    "X@,@:*",
    "Z0,@,@",
    "Z1,@,@",
    "Z2,@,@",
    "Z9,@,@",
    "z0,@,@",
    "z2,@,@",
    "Hg@",
    "Hc-@",
    "T@",
    "Tp@.@",
    "!",
    "QStartNoAckMode",
    "qSupported:multiprocess+;*",
    "qXfer:features:read:target.xml:@,@",
    "qXfer:auxv:read::@,@",
    "qXfer:memory-map:read::@,@",
    "qfThreadInfo",
    "qsThreadInfo",
    "qC",
    "qAttached:@",
    "qRcmd,*",
    "vCont?",
    "vMustReplyEmpty",
    "vFile:open:*,@,@",
    "vAttach;@",
    "vRun;*",
    "QPassSignals:@;@",
    "QCatchSyscalls:1;@",
    "bc",
    "bs",
    "i@,@",
    "e@,@",
    "*",
    "",
];
/// These have the rank go on, or end; after them there may be nobody to send more to.
const ENDS: &[&str] = &[
    "c",
    "s",
    "C@",
    "S@",
    "vCont;c:p@.@",
    "vCont;s:@;c",
    "vCont;C@:-1",
    "D",
    "D;@",
    "vKill;@",
    "k",
    "R@",
];

/// A round: each rank gets its part of the packets. What becomes of a rank is its debugger's affair, and of nobody else.
pub fn packets(round: Round) -> Result<u64> {
    let confined = Confined::new()?;
    let program = confined::program("glibc-static", "hello");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..round.ranks)
            .map(|rank| {
                let suffix = if round.ranks > 1 {
                    format!(".{rank}")
                } else {
                    String::new()
                };
                let socket = confined.cwd().join(format!("s{suffix}"));
                let random = Random::new(round.seed.wrapping_add(rank << 32));
                let over = &over;
                scope.spawn(move || send(&socket, random, PACKETS / round.ranks, over))
            })
            .collect();
        let outcome = confined.job(round.ranks, LIMIT, &[&program]);
        over.store(true, Ordering::SeqCst);
        let (mut sent, mut answered) = (0, 0);
        for sender in senders {
            let (packets, bytes) = sender.join().expect("no panic")?;
            sent += packets;
            answered += bytes;
        }
        let outcome = outcome?;
        let stderr = outcome.stderr.text();
        ensure!(outcome.status != Some(71), "{stderr}");
        // No packet ends a session, but those that are for that; the others end when their sender goes.
        let gone = stderr
            .lines()
            .filter_map(|line| Some(line.split_once("gdb is gone, the rank goes on: ")?.1));
        let mut by_a_packet = gone.filter(|why| !why.starts_with("Connection Error"));
        ensure!(by_a_packet.next().is_none(), "{stderr}");
        ensure!(
            sent > 0 && answered > 0,
            "{sent} packets, {answered} bytes of answers: {stderr}"
        );
        Ok(sent)
    })
}

/// Sends packets to a rank until it does not take them any more; how many, and how many bytes came back.
fn send(socket: &Path, mut random: Random, count: u64, over: &AtomicBool) -> Result<(u64, u64)> {
    // The socket is there before it is listened to.
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(_) if over.load(Ordering::SeqCst) => return Ok((0, 0)),
            Err(_) => thread::sleep(MOMENT),
        }
    };
    stream.set_write_timeout(Some(HANG))?;
    stream.set_read_timeout(Some(HANG))?;
    let mut bytes = [0; 4096];
    // Once this is answered the rank has come to where it waits.
    let greeted = stream
        .write_all(b"$?#3f")
        .and_then(|()| stream.read(&mut bytes));
    let greeting = greeted.unwrap_or(0);
    if greeting == 0 {
        return Ok((0, 0));
    }
    // The first packet may be the last that is taken.
    let (mut sent, mut answered) = (0, greeting as u64);
    stream.set_read_timeout(Some(MOMENT))?;
    for number in 0..count {
        let packet = packet(&mut random, number * 10 > count * 9);
        if stream.write_all(&packet).is_err() {
            break;
        }
        sent += 1;
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(some) => answered += some as u64,
            Err(_) => {}
        }
    }
    Ok((sent, answered))
}

/// One packet, right, damaged, or none at all; those that end something are for the end.
fn packet(random: &mut Random, to_end: bool) -> Vec<u8> {
    if random.once_in(16) {
        let garbage = (0..random.below(64)).map(|_| random.next() as u8);
        return garbage.collect();
    }
    if random.once_in(32) {
        return vec![*random.pick(b"\x03+-$#")];
    }
    let ends = to_end && random.once_in(4);
    let from = random.pick(if ends { ENDS } else { BEGINNINGS });
    let mut body = Vec::new();
    for byte in from.bytes() {
        match byte {
            b'@' => body.extend(number(random).into_bytes()),
            b'*' => body.extend((0..random.below(600)).map(|_| *random.pick(b"0123456789abcdef"))),
            byte => body.push(byte),
        }
    }
    if random.once_in(8) && !body.is_empty() {
        let at = random.below(body.len() as u64) as usize;
        body[at] = random.next() as u8;
    }
    let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let sum = if random.once_in(16) { sum ^ 1 } else { sum };
    [b"$", &body[..], b"#", format!("{sum:02x}").as_bytes()].concat()
}

fn number(random: &mut Random) -> String {
    let value = match random.below(4) {
        0 => random.below(16),
        1 => *random.pick(&[
            0x40_0000,
            0x7f_ffff_f000,
            1 << 39,
            1 << 47,
            1 << 63,
            u64::MAX,
        ]),
        2 => 1 << random.below(64),
        _ => random.next(),
    };
    format!("{value:x}")
}
