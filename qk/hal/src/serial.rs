//! The kernel log: COM1, or the ring that a co-kernel shares with Linux.
//!
//! A message holds the lock for a whole line, so lines of different CPUs do not mix. A panic breaks the lock: the other CPUs have been
//! stopped by then, and a panic report that is late because a dead CPU holds a lock is worth nothing.

use crate::sync::{Mutex, class};
use crate::{apic, cokernel};
use core::fmt::{self, Write};
use uart_16550::backend::PioBackend;
use uart_16550::{BaudRate, Config, Uart16550};
use wire::cokernel::LOG_BELL;

/// COM1's first I/O port, fixed since the IBM PC.
const COM1: u16 = 0x3f8;

/// Where the log goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    Nowhere,
    Com1,
    /// The record of a co-kernel.
    Record,
}

enum Sink {
    None,
    Com1(Uart16550<PioBackend>),
    Record,
}

struct Port {
    sink: Sink,
    /// A program has put out part of a line.
    in_line: bool,
}

static PORT: Mutex<Port, class::Console> = Mutex::new(Port {
    sink: Sink::None,
    in_line: false,
});
static LOGGER: Logger = Logger;

impl Port {
    fn put(&mut self, bytes: &[u8]) {
        match &mut self.sink {
            Sink::None => {}
            Sink::Com1(uart) => uart.send_bytes_exact(bytes),
            Sink::Record => {
                cokernel::log(bytes);
                if bytes.last() == Some(&b'\n') {
                    apic::ring_linux(LOG_BELL);
                }
            }
        }
    }
}

impl Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = record.level().as_str();
        // Writing to the port cannot fail; a broken `Display` of the message must not bring the kernel down.
        let _ = writeln!(
            PORT.lock(),
            "[{}] {level:5} {}",
            crate::cpu::local::id(),
            record.args()
        );
    }

    fn flush(&self) {}
}

/// Installs the logger. A machine without COM1 runs on silently.
pub(crate) fn init(to: To) {
    PORT.lock().sink = match to {
        To::Nowhere => Sink::None,
        To::Com1 => com1().map_or(Sink::None, Sink::Com1),
        To::Record => Sink::Record,
    };
    // The second caller would fail here; there is one.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(log::LevelFilter::Info);
}

fn com1() -> Option<Uart16550<PioBackend>> {
    // SAFETY: 1. COM1's ports belong to this driver alone (no other module names them).
    let mut uart = unsafe { Uart16550::new_port(COM1) }.ok()?;
    let config = Config {
        baud_rate: BaudRate::Baud115200,
        check_cts_before_sending: false,
        ..Config::default()
    };
    uart.init(config).ok()?;
    Some(uart)
}

/// Writes what a program puts out, as the console of the node.
pub fn bytes(text: &[u8]) {
    let mut port = PORT.lock();
    if let Some(last) = text.last() {
        port.put(text);
        port.in_line = *last != b'\n';
    }
}

/// Writes the last line of the console: a line of its own, whatever a program has put out before.
pub fn last_line(text: fmt::Arguments<'_>) {
    let mut port = PORT.lock();
    let end = if port.in_line { "\n" } else { "" };
    let _ = writeln!(port, "{end}{text}");
}

/// Writes one line without a prefix, as the console of the node.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(PORT.lock(), "{text}");
}

/// Takes the port from its holder.
///
/// For a panic, after the other CPUs were stopped; the guard is given to the only code still running.
pub(crate) fn break_lock() {
    if PORT.is_locked() {
        // SAFETY: 1. The holder is this CPU below us (it will not run again: panics do not return) or a stopped CPU.
        //         2. A half-sent line leaves no invariant broken in `Port`.
        unsafe { PORT.force_unlock() };
    }
}
