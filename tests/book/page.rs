//! The examples of a page: commands after `$ ` in indented blocks, and what is shown below each.

use std::iter::Peekable;

/// What indents an example, and what begins a command in it.
const INDENT: &str = "    ";
const PROMPT: &str = "$ ";
/// Stands for any text; alone on a line for any lines.
const ANY: &str = "...";

/// A command as it is typed, and the lines that follow it on the page.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// Counted from 1, for people.
    pub line: usize,
    /// Without its prompt.
    pub command: String,
    /// Without their indentation.
    pub shown: Vec<String>,
}

/// All examples of a page, in their order. An indented block that does not begin with a command is none.
pub fn examples(text: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let command = line.strip_prefix(INDENT);
        if let Some(command) = command.and_then(|line| line.strip_prefix(PROMPT)) {
            found.push(Example {
                line: at + 1,
                command: command.to_owned(),
                shown: shown(&mut lines),
            });
        }
    }
    found
}

/// The indented lines up to the next command; empty ones belong to it only within.
fn shown<'a>(lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>) -> Vec<String> {
    let mut shown = Vec::new();
    while let Some(line) = lines.peek().and_then(|(_, line)| line.strip_prefix(INDENT)) {
        if line.starts_with(PROMPT) {
            break;
        }
        shown.push(line.to_owned());
        lines.next();
    }
    shown
}

/// Whether lines were printed as they are shown.
pub fn same(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [first, rest @ ..] if first.trim() == ANY => {
            (0..=printed.len()).any(|skipped| same(rest, &printed[skipped..]))
        }
        [first, rest @ ..] => {
            printed.first().is_some_and(|line| same_line(first, line)) && same(rest, &printed[1..])
        }
    }
}

fn same_line(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once(ANY) else {
        return shown == printed;
    };
    let rest = printed.strip_prefix(before);
    rest.is_some_and(|rest| {
        let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        ends.any(|at| same_line(after, &rest[at..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_what_they_print_are_found() {
        let text = "Text\n\n    $ a b\n    one\n    two\n    $ c\n\nmore\n\n    no example\n";
        let found = examples(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, &*found[0].command), (3, "a b"));
        assert_eq!(found[0].shown, ["one", "two"]);
        assert_eq!(
            (&*found[1].command, found[1].shown.len(), found[1].line),
            ("c", 0, 6)
        );
    }

    #[test]
    fn dots_stand_for_any_text_and_any_lines() {
        let good: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["a"], &["a"]),
            (&["a ... c"], &["a b b c"]),
            (&["a ... c ..."], &["a b c d"]),
            (&["  ...", "z"], &["x", "y", "z"]),
            (&["a", "..."], &["a"]),
        ];
        for (shown, printed) in good {
            assert!(same(shown, printed), "{shown:?} {printed:?}");
        }
        let wrong: &[(&[&str], &[&str])] = &[
            (&[], &["a"]),
            (&["a"], &[]),
            (&["a"], &["ab"]),
            (&["a ... c"], &["a b"]),
            (&["...", "z"], &["x", "y"]),
            (&["a", "..."], &["b"]),
        ];
        for (shown, printed) in wrong {
            assert!(!same(shown, printed), "{shown:?} {printed:?}");
        }
    }
}
