//! Text of programs, for terminals.

/// Text out of the program's file or memory, as a terminal may be shown it.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}
