//! Merging the output of several ranks by whole lines. Pure.

/// A line that gets longer is passed on as it comes: other ranks' lines may then end up inside.
const LONGEST_BYTES: usize = 64 << 10;

/// One stream of one rank.
#[derive(Debug, Default)]
pub struct Lines {
    label: String,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// A part of the current line is out already.
    inside: bool,
}

impl Lines {
    /// With `label` each line begins with it.
    pub fn new(label: String) -> Lines {
        Lines {
            label,
            ..Lines::default()
        }
    }

    /// Takes what came and appends all finished lines to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let (whole, rest) = bytes.split_at(whole);
        if self.label.is_empty() {
            if !whole.is_empty() {
                out.append(&mut self.partial);
                out.extend_from_slice(whole);
            }
        } else {
            for line in whole.split_inclusive(|&byte| byte == b'\n') {
                self.begin(out);
                out.append(&mut self.partial);
                out.extend_from_slice(line);
                self.inside = false;
            }
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LONGEST_BYTES {
            self.begin(out);
            out.append(&mut self.partial);
            self.inside = true;
        }
    }

    /// The stream has ended: what is left of it goes out. A labelled line is ended, so that the next label begins one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.begin(out);
            out.append(&mut self.partial);
            self.inside = true;
        }
        if self.inside && !self.label.is_empty() {
            out.push(b'\n');
        }
        self.inside = false;
    }

    fn begin(&self, out: &mut Vec<u8>) {
        if !self.inside {
            out.extend_from_slice(self.label.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(label: &str, chunks: &[&[u8]]) -> Vec<u8> {
        let (mut lines, mut out) = (Lines::new(label.into()), Vec::new());
        for chunk in chunks {
            lines.feed(chunk, &mut out);
        }
        lines.finish(&mut out);
        out
    }

    #[test]
    fn lines_come_out_whole() {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        lines.feed(b"one\ntw", &mut out);
        assert_eq!(out, b"one\n");
        lines.feed(b"o", &mut out);
        assert_eq!(out, b"one\n");
        lines.feed(b"\n", &mut out);
        assert_eq!(out, b"one\ntwo\n");
    }

    #[test]
    fn labels_begin_lines() {
        assert_eq!(
            through("[1] ", &[b"a\nb", b"c\n\nd"]),
            b"[1] a\n[1] bc\n[1] \n[1] d\n"
        );
        assert_eq!(through("[1] ", &[]), b"");
    }

    #[test]
    fn a_very_long_line_has_one_label() {
        let long = vec![b'x'; LONGEST_BYTES];
        let out = through("[1] ", &[&long, &long, b"\nnext\n"]);
        assert_eq!(out.len(), 2 * LONGEST_BYTES + "[1] \n[1] next\n".len());
        assert!(out.ends_with(b"x\n[1] next\n"));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_moved(chunks in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..50), 0..20)) {
            let slices: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(through("", &slices), chunks.concat());
        }

        #[test]
        fn every_line_is_labelled_once(text in "[a-z\n]{0,200}", at in 0usize..200) {
            let at = at.min(text.len());
            let out = through("> ", &[&text.as_bytes()[..at], &text.as_bytes()[at..]]);
            let expected: String = text.split_inclusive('\n').map(|l| format!("> {}\n", l.trim_end_matches('\n'))).collect();
            prop_assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }
}
