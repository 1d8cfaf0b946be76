//! The first line of a script, `#!`, as Linux reads it (fs/binfmt_script.c).

/// Bytes of a file that are looked at (BINPRM_BUF_SIZE, uapi/linux/binfmts.h).
pub const HEAD_BYTES: usize = 256;
/// Scripts that may be run by one another (fs/exec.c, exec_binprm).
pub const MOST_NESTED: usize = 5;

/// What a file begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head<'a> {
    /// No `#!`.
    Other,
    /// A script.
    Script {
        /// The path of the program that is to run it; empty when the file ends before it.
        interpreter: &'a [u8],
        /// What the line says besides: one argument, spaces included.
        argument: Option<&'a [u8]>,
    },
    /// `#!`, but no interpreter, or one whose path is cut off.
    Broken,
}

impl<'a> Head<'a> {
    /// Reads the beginning of a file; a shorter file goes on with zeros.
    #[must_use]
    pub fn parse(head: &'a [u8; HEAD_BYTES]) -> Head<'a> {
        match head.strip_prefix(b"#!") {
            Some(rest) => Head::line(rest).unwrap_or(Head::Broken),
            None => Head::Other,
        }
    }

    fn line(rest: &'a [u8]) -> Option<Head<'a>> {
        let ends = rest.iter().position(|&byte| byte == b'\n' || byte == 0);
        let line = match ends.filter(|&end| rest[end] == b'\n') {
            Some(end) => &rest[..end],
            None => {
                // The line may go on beyond what is looked at: its path must not. The last byte does not count.
                skip_blanks(rest)?
                    .iter()
                    .position(|byte| ends_word(*byte))?;
                &rest[..rest.len() - 1]
            }
        };
        let last = line.iter().rposition(|byte| !is_blank(*byte))?;
        let words = skip_blanks(&line[..=last])?;
        let end = words.iter().position(|byte| ends_word(*byte));
        let (interpreter, rest) = words.split_at(end.unwrap_or(words.len()));
        let argument = rest.first().filter(|byte| **byte != 0);
        let argument = argument.and_then(|_| skip_blanks(rest)).map(until_nul);
        Some(Head::Script {
            interpreter,
            argument,
        })
    }
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

const fn ends_word(byte: u8) -> bool {
    is_blank(byte) || byte == 0
}

/// What follows the blanks; `None`: nothing does.
fn skip_blanks(text: &[u8]) -> Option<&[u8]> {
    let start = text.iter().position(|byte| !is_blank(*byte));
    start.map(|start| &text[start..])
}

fn until_nul(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == 0);
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn script<'a>(interpreter: &'a str, argument: Option<&'a str>) -> Head<'a> {
        Head::Script {
            interpreter: interpreter.as_bytes(),
            argument: argument.map(str::as_bytes),
        }
    }

    fn parsed(text: &[u8], check: impl FnOnce(Head<'_>)) {
        let mut head = [0; HEAD_BYTES];
        let len = text.len().min(HEAD_BYTES);
        head[..len].copy_from_slice(&text[..len]);
        check(Head::parse(&head));
    }

    #[test]
    fn lines_are_read_as_linux_does() {
        let is = |text: &str, want: Head<'_>| {
            parsed(text.as_bytes(), |head| assert_eq!(head, want, "{text:?}"));
        };
        is("#!/bin/sh\necho", script("/bin/sh", None));
        is("#!/bin/sh", script("/bin/sh", None));
        is("#! \t/bin/sh \t\n", script("/bin/sh", None));
        is("#!/bin/sh -e\t -x \n", script("/bin/sh", Some("-e\t -x")));
        is("#!/bin/sh\0 -e\n", script("/bin/sh", None));
        is("#!sh\r\n", script("sh\r", None));
        // Without an end of line blanks count.
        is("#!/bin/sh ", script("/bin/sh", Some("")));
        is("#!/bin/sh -e ", script("/bin/sh", Some("-e ")));
        is("#!", script("", None));
        is("#!\n", Head::Broken);
        is("#! \t \n/bin/sh", Head::Broken);
        for other in ["", "#", "# !/bin/sh", " #!/bin/sh\n", "\x7fELF"] {
            is(other, Head::Other);
        }
    }

    /// A path must end within what is looked at; an argument is cut.
    #[test]
    fn long_lines_are_cut_behind_the_path() {
        let line = |path_bytes: usize, rest: &str| -> Vec<u8> {
            let path = std::iter::repeat_n(b'x', path_bytes);
            b"#!"
                .iter()
                .copied()
                .chain(path)
                .chain(rest.bytes())
                .collect()
        };
        let is_broken = |line: Vec<u8>, want: bool| {
            parsed(&line, |head| assert_eq!(head == Head::Broken, want));
        };
        is_broken(line(253, "\nmore"), false);
        is_broken(line(253, " and more"), false);
        is_broken(line(254, " and more"), true);
        is_broken(b"#!".iter().copied().chain([b' '; 254]).collect(), true);
        parsed(
            &line(100, &std::format!(" {}", "y".repeat(500))),
            |head| match head {
                Head::Script { argument, .. } => assert_eq!(argument.map(<[u8]>::len), Some(152)),
                head => panic!("{head:?}"),
            },
        );
    }
}
