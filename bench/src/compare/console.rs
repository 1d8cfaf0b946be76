//! What came over a serial console: the program's output between the marks of bench/linux/init.c, and what init says itself.

use anyhow::{Result, bail};

use super::system::Output;

/// Before the program's output.
pub const BEGIN: &str = "@compare begin\r\n";
/// Begins each line of init's.
const OWN: &str = "@compare ";

/// Takes the console's text apart.
///
/// # Errors
/// When the program did not end, or not with 0: with the last line that it, or the kernel, had to say.
pub fn parse(text: &str) -> Result<Output> {
    let (before, after) = text.split_once(BEGIN).unwrap_or((text, ""));
    let mut output = Output::default();
    let mut ended = None;
    for line in after.lines() {
        // Whatever has no end of its own is in front of what init says next.
        let (printed, own) = match line.split_once(OWN) {
            Some((printed, own)) => (printed, Some(own)),
            None => (line, None),
        };
        if !(printed.is_empty() && own.is_some()) {
            output.text.push_str(printed);
            output.text.push('\n');
        }
        match own.map(|own| own.split(' ').collect::<Vec<_>>()).as_deref() {
            Some(["event", name, counts @ ..]) => {
                let counts = counts.iter().filter_map(|count| count.parse().ok());
                output.events.push(((*name).to_owned(), counts.collect()));
            }
            // What follows is the kernel's.
            Some(["end", how @ ..]) => {
                ended = Some(how.join(" "));
                break;
            }
            _ => {}
        }
    }
    let said = |text: &str| {
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.unwrap_or("nothing").to_owned()
    };
    match ended.as_deref() {
        Some("status 0") => Ok(output),
        Some(how) => bail!("it ended with {how}; it said last: {}", said(&output.text)),
        None if after.is_empty() => bail!(
            "it did not come up; the console said last: {}",
            said(before)
        ),
        None => bail!(
            "the system ended before the program; the console said last: {}",
            said(after)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_events_are_distinguished() {
        let text = "boot noise\r\n\r\n@compare begin\r\na 1\r\nno end@compare event page_faults 12\r\n\
                    @compare event timer_interrupts 3 4\r\n@compare end status 0\r\n[1.0] reboot\r\n";
        let output = parse(text).expect("it ended well");
        assert_eq!(output.text, "a 1\nno end\n");
        assert_eq!(
            output.events,
            [
                ("page_faults".to_owned(), vec![12.0]),
                ("timer_interrupts".to_owned(), vec![3.0, 4.0])
            ]
        );
    }

    #[test]
    fn failures_say_what_happened() {
        let reason = |text| parse(text).expect_err("a failure").to_string();
        assert_eq!(
            reason("@compare begin\r\nmmap: Cannot allocate memory\r\n@compare end status 1\r\n"),
            "it ended with status 1; it said last: mmap: Cannot allocate memory"
        );
        assert_eq!(
            reason("@compare begin\r\n@compare end signal 11\r\n[1.0] reboot\r\n"),
            "it ended with signal 11; it said last: nothing"
        );
        assert!(reason("Kernel panic\r\n").ends_with("the console said last: Kernel panic"));
        assert!(reason("@compare begin\r\nx 1\r\npanic!\r\n").ends_with("said last: panic!"));
    }
}
