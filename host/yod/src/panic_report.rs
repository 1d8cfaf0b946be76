//! The kernel's last words: found in its log, with names for its addresses.

use std::path::{Path, PathBuf};

use machine::serial::KEPT_BYTES;

/// How a panic report begins, and where its addresses are (qk/hal, panic).
const PANIC: &str = "PANIC ";
const BACKTRACE: &str = "BACKTRACE";
/// Lines of a panic report; what else may be in the log is not part of it.
const MOST_LINES: usize = 16;

/// What a kernel that panicked left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PanicReport {
    /// "cpu 1: reason".
    pub reason: String,
    /// Register lines.
    pub registers: Vec<String>,
    /// Return addresses, innermost first.
    pub backtrace: Vec<u64>,
}

impl PanicReport {
    /// The first panic report in a log, if there is one.
    pub fn find(log: &str) -> Option<PanicReport> {
        debug_assert!(log.len() <= 4 * KEPT_BYTES);
        let mut lines = log
            .lines()
            .map(str::trim_end)
            .skip_while(|line| !line.contains(PANIC));
        let (_, reason) = lines.next()?.split_once(PANIC)?;
        let mut report = PanicReport {
            reason: reason.to_owned(),
            registers: Vec::new(),
            backtrace: Vec::new(),
        };
        for line in lines.take(MOST_LINES) {
            if let Some((_, addresses)) = line.split_once(BACKTRACE) {
                report.backtrace = addresses.split_whitespace().filter_map(hex).collect();
                break;
            }
            report.registers.push(line.to_owned());
        }
        Some(report)
    }

    /// Registers and backtrace for people, with names from `kernel` or the file of its symbols beside it.
    pub fn render(&self, kernel: &Path) -> String {
        let mut text = String::new();
        for line in &self.registers {
            text += &format!("{line}\n");
        }
        let names = Names::of(kernel);
        for (depth, &address) in self.backtrace.iter().enumerate() {
            // A return address is behind its call, maybe in the next function already.
            let at = if depth == 0 {
                address
            } else {
                address.saturating_sub(1)
            };
            text += &format!(
                "  #{depth} {address:#x}{}\n",
                names.as_ref().map_or(String::new(), |n| n.name(at))
            );
        }
        text
    }
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

struct Names(addr2line::Loader);

impl Names {
    fn of(kernel: &Path) -> Option<Names> {
        let beside = PathBuf::from(format!("{}.debug", kernel.display()));
        let file = if beside.is_file() {
            beside.as_path()
        } else {
            kernel
        };
        addr2line::Loader::new(file).ok().map(Names)
    }

    /// ` function (file:line)`, as far as known.
    fn name(&self, address: u64) -> String {
        let mut name = self.0.find_symbol(address).map_or(String::new(), |symbol| {
            format!(" {}", addr2line::demangle_auto(symbol.into(), None))
        });
        if let Ok(Some(location)) = self.0.find_location(address)
            && let (Some(file), Some(line)) = (location.file, location.line)
        {
            name += &format!(" ({file}:{line})");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[0.1] booting\r\nPANIC cpu 1: page fault at 0x10\r\n   rip ffff rsp 1 rflags 2\r\nBACKTRACE 0xffffffff80200010 0x20 zz\r\nmore\r\n";

    #[test]
    fn the_report_is_found_in_the_log() {
        let report = PanicReport::find(LOG).expect("one");
        assert_eq!(report.reason, "cpu 1: page fault at 0x10");
        assert_eq!(report.registers, ["   rip ffff rsp 1 rflags 2"]);
        assert_eq!(report.backtrace, [0xffff_ffff_8020_0010, 0x20]);
        assert_eq!(PanicReport::find("all is well\n"), None);
    }

    #[test]
    fn a_torn_report_is_shown_as_far_as_it_goes() {
        let report = PanicReport::find("PANIC cpu 0: out of mem").expect("one");
        assert_eq!(report.reason, "cpu 0: out of mem");
        assert_eq!(report.render(Path::new("/nonexistent")), "");
    }

    #[test]
    fn addresses_of_this_very_program_get_names() {
        let me = std::env::current_exe().expect("a path");
        let names = Names::of(&me).expect("an ELF file with symbols");
        // Position-independent: the symbol's address in the file is unknown here, but some address has a name.
        let bytes = std::fs::metadata(&me).expect("it is there").len();
        let mut addresses = (0..bytes).step_by(1024);
        assert!(addresses.any(|address| !names.name(address).is_empty()));
    }
}
