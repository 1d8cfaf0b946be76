//! gdb's packets as they come in (gdb's manual, "Remote Protocol: Overview"): `$BODY#XX`, XX the sum of the body's bytes.
//!
//! One that is damaged is answered with `-`, upon which gdb sends it again, and one whose body has not its command's form with an error;
//! neither goes further. What gdb answers with `-` is sent again. Crate gdbstub ends the session at all three.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use gdbstub::conn::{Connection, ConnectionExt};
use rustix::net::{RecvFlags, recv};

use super::form::{self, MOST_BYTES};

/// Ctrl-C, outside of packets.
const INTERRUPT: u8 = 3;

/// For a malformed packet.
const ERROR: &[u8] = b"$E01#a6";

/// A connection to gdb, of which only whole packets are read.
pub struct Packets {
    stream: UnixStream,
    incoming: Incoming,
    outgoing: Outgoing,
}

/// The packet that was sent last.
struct Outgoing {
    packet: Vec<u8>,
    /// How many digits of its sum have yet to be sent; `None`: of its body some.
    digits: Option<usize>,
}

impl Outgoing {
    /// Nothing was sent.
    const NONE: Outgoing = Outgoing {
        packet: Vec::new(),
        digits: Some(0),
    };

    /// Keeps a byte that is sent, if it is one of a packet.
    fn keep(&mut self, byte: u8) {
        self.digits = match (byte, self.digits) {
            (b'$', _) => {
                self.packet.clear();
                None
            }
            (_, Some(0)) => return,
            (b'#', None) => Some(2),
            (_, digits) => digits.map(|left| left - 1),
        };
        self.packet.push(byte);
    }
}

/// What has come in.
#[derive(Default)]
struct Incoming {
    /// A packet that has begun.
    partial: Vec<u8>,
    /// Whole packets, and what stands between them.
    ready: VecDeque<u8>,
    /// gdb can only look: no thread makes a step.
    looks_only: bool,
}

/// What a byte more comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    Fine,
    /// A packet has the wrong sum, or none.
    Damaged,
    /// Its body is none that the stub could take.
    Malformed,
}

impl Incoming {
    fn take(&mut self, byte: u8) -> Taken {
        let body = self.partial.iter().position(|byte| *byte == b'#');
        match (byte, self.partial.len()) {
            (b'$', len) if body.is_none() => {
                self.partial = vec![b'$'];
                return if len > 0 { Taken::Damaged } else { Taken::Fine };
            }
            (b'+' | INTERRUPT, 0) => self.ready.push_back(byte),
            (_, 0) => {}
            (_, MOST_BYTES..) => {
                self.partial.clear();
                return Taken::Damaged;
            }
            _ => self.partial.push(byte),
        }
        let Some(end) = body.filter(|end| end + 3 == self.partial.len()) else {
            return Taken::Fine;
        };
        let packet = std::mem::take(&mut self.partial);
        let body = &packet[1..end];
        if body.is_empty() || sum_of(&packet[end + 1..]) != Some(sum(body)) {
            return Taken::Damaged;
        }
        if !form::is_right(body) || self.looks_only && form::steps(body) {
            return Taken::Malformed;
        }
        self.ready.extend(packet);
        Taken::Fine
    }
}

fn sum(body: &[u8]) -> u8 {
    body.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn sum_of(digits: &[u8]) -> Option<u8> {
    let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
    let value = digits
        .into_iter()
        .try_fold(0, |value, digit| Some(value << 4 | digit?))?;
    u8::try_from(value).ok()
}

impl Packets {
    /// `looks_only`: the stub has no thread make a step.
    pub fn new(stream: UnixStream, looks_only: bool) -> Packets {
        let incoming = Incoming {
            looks_only,
            ..Incoming::default()
        };
        Packets {
            stream,
            incoming,
            outgoing: Outgoing::NONE,
        }
    }

    /// A byte that has come in already.
    pub fn next_ready(&mut self) -> Option<u8> {
        self.incoming.ready.pop_front()
    }

    /// Takes in what there is; blocks if there is nothing.
    ///
    /// # Errors
    /// gdb is gone.
    pub fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; MOST_BYTES];
        match (&self.stream).read(&mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => self.take(&bytes[..len]),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            if *byte == b'-' && self.incoming.partial.is_empty() {
                (&self.stream).write_all(&self.outgoing.packet)?;
                continue;
            }
            match self.incoming.take(*byte) {
                Taken::Fine => {}
                Taken::Damaged => (&self.stream).write_all(b"-")?,
                Taken::Malformed => {
                    // To a gdb that wants no acknowledgements this is noise.
                    self.write_all(b"+")?;
                    self.write_all(ERROR)?;
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection for Packets {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.write_all(&[byte])
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.iter().for_each(|byte| self.outgoing.keep(*byte));
        (&self.stream).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.stream).flush()
    }
}

impl ConnectionExt for Packets {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            if let Some(byte) = self.next_ready() {
                return Ok(byte);
            }
            self.receive()?;
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        let mut bytes = [0; MOST_BYTES];
        if self.incoming.ready.is_empty() {
            match recv(&self.stream, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => self.take(&bytes[..len])?,
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.incoming.ready.front().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes on to the stub, and how many packets are asked for again.
    fn taken(bytes: &[u8]) -> (String, usize) {
        let mut incoming = Incoming::default();
        let taken = bytes.iter().map(|byte| incoming.take(*byte));
        let damaged = taken.filter(|taken| *taken == Taken::Damaged).count();
        let ready = Vec::from(incoming.ready);
        (String::from_utf8_lossy(&ready).into_owned(), damaged)
    }

    #[test]
    fn whole_packets_go_on() {
        assert_eq!(
            taken(b"+$g#67\x03+$m0,1#fa"),
            ("+$g#67\x03+$m0,1#fa".into(), 0)
        );
        assert_eq!(taken(b"$g#6"), (String::new(), 0), "not all of it is there");
    }

    /// At one of them the session ended, and the rank went on without its debugger.
    #[test]
    fn damaged_packets_are_requested_again() {
        for damaged in ["$g#68", "$g#zz", "$#00", "$g#+7"] {
            assert_eq!(taken(damaged.as_bytes()), (String::new(), 1), "{damaged}");
            let with_next = format!("noise{damaged}$g#67");
            assert_eq!(
                taken(with_next.as_bytes()),
                ("$g#67".into(), 1),
                "{damaged}"
            );
        }
        assert_eq!(
            taken(b"$m0,$g#67"),
            ("$g#67".into(), 1),
            "one that was cut off"
        );
        let mut long = vec![b'$'];
        long.resize(2 * MOST_BYTES, b'x');
        assert_eq!(taken(&long), (String::new(), 1));
    }

    /// At the first of these the session ended, although their sums are right.
    #[test]
    fn malformed_packets_are_errors() -> io::Result<()> {
        let (gdb, stub) = UnixStream::pair()?;
        let mut packets = Packets::new(stub, true);
        (&gdb).write_all(b"$gx#df$m0#9d$vCont;s:1#23$g#67")?;
        let read: io::Result<Vec<u8>> = (0..5).map(|_| packets.read()).collect();
        assert_eq!(read?, b"$g#67");
        let mut answers = [0; 24];
        (&gdb).read_exact(&mut answers)?;
        assert_eq!(&answers, b"+$E01#a6+$E01#a6+$E01#a6");
        (&gdb).write_all(b"-+")?;
        assert_eq!(packets.read()?, b'+');
        let mut again = [0; 7];
        (&gdb).read_exact(&mut again)?;
        assert_eq!(&again, ERROR);
        Ok(())
    }

    /// At the first `-` the session ended, and the rank went on without its debugger.
    #[test]
    fn what_gdb_did_not_understand_is_sent_again() -> io::Result<()> {
        let (gdb, stub) = UnixStream::pair()?;
        let mut packets = Packets::new(stub, false);
        (&gdb).write_all(b"-+")?;
        assert_eq!(packets.read()?, b'+', "there was nothing to send again");
        packets.write_all(b"+$T05#b9")?;
        packets.write(b'+')?;
        (&gdb).write_all(b"-$g#67")?;
        assert_eq!(packets.read()?, b'$');
        let mut sent = [0; 16];
        (&gdb).read_exact(&mut sent)?;
        assert_eq!(&sent, b"+$T05#b9+$T05#b9");
        Ok(())
    }

    #[test]
    fn what_was_sent_is_answered() -> io::Result<()> {
        let (gdb, stub) = UnixStream::pair()?;
        let mut packets = Packets::new(stub, false);
        assert_eq!(packets.peek()?, None);
        (&gdb).write_all(b"$g#00$g#67")?;
        assert_eq!(packets.peek()?, Some(b'$'));
        let read: io::Result<Vec<u8>> = (0..5).map(|_| packets.read()).collect();
        assert_eq!(read?, b"$g#67");
        let mut answer = [0];
        (&gdb).read_exact(&mut answer)?;
        assert_eq!(answer, *b"-");
        drop(gdb);
        assert!(packets.read().is_err());
        Ok(())
    }
}
