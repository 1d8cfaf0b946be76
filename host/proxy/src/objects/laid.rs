//! Which frames of the node pool are pages of which file, as far as this rank maps them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::held::Content;

/// Frames that are pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent {
    /// First byte behind them.
    end: u64,
    content: Content,
    /// Offset in the file of the first byte.
    offset: u64,
}

/// Where a page of a file is found.
pub type Place = (Content, u64);

/// All such frames by guest-physical address; extents do not overlap.
#[derive(Default, Debug)]
pub struct Laid(BTreeMap<u64, Extent>);

impl Laid {
    /// Frames are a file's pages from `offset` on, whatever they were.
    pub fn lay(&mut self, frames: Range<u64>, (content, offset): Place) {
        self.clear(frames.clone());
        let end = frames.end;
        let extent = Extent {
            end,
            content,
            offset,
        };
        self.0.insert(frames.start, extent);
    }

    /// Frames are no file's pages.
    pub fn clear(&mut self, frames: Range<u64>) {
        while let Some((&start, &extent)) = self.0.range(..frames.end).next_back()
            && extent.end > frames.start
        {
            self.0.remove(&start);
            if extent.end > frames.end {
                let offset = extent.offset + (frames.end - start);
                self.0.insert(frames.end, Extent { offset, ..extent });
            }
            if start < frames.start {
                let end = frames.start;
                self.0.insert(start, Extent { end, ..extent });
            }
        }
    }

    /// The rank maps only this any more.
    pub fn retain(&mut self, is_kept: impl Fn(&Content) -> bool) {
        self.0.retain(|_, extent| is_kept(&extent.content));
    }

    /// What frames are, in their order: ranges, and which pages of a file; `None`: the pool's own memory.
    pub fn parts(&self, frames: Range<u64>) -> Vec<(Range<u64>, Option<Place>)> {
        let mut parts = Vec::new();
        let mut at = frames.start;
        let first = self
            .0
            .range(..=at)
            .next_back()
            .map_or(at, |(&start, _)| start);
        for (&start, extent) in self.0.range(first..frames.end) {
            let (from, to) = (start.max(at), extent.end.min(frames.end));
            if from >= to {
                continue;
            }
            if at < from {
                parts.push((at..from, None));
            }
            parts.push((
                from..to,
                Some((extent.content, extent.offset + (from - start))),
            ));
            at = to;
        }
        if at < frames.end {
            parts.push((at..frames.end, None));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAMES: u64 = 24;

    #[derive(Clone, Debug)]
    enum Step {
        Lay(Range<u64>, u64, u64),
        Clear(Range<u64>),
        Forget(u64),
    }

    /// Of two files, one of them in both ways.
    fn content(number: u64) -> Content {
        match number {
            0 => Content::Text([1, 1]),
            number => Content::Shared([1, number]),
        }
    }

    fn range() -> impl Strategy<Value = Range<u64>> {
        (0..FRAMES, 1..FRAMES).prop_map(|(start, len)| start..(start + len).min(FRAMES))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (range(), 0..3u64, 0..50u64).prop_map(|(at, file, from)| Step::Lay(at, file, from)),
            1 => range().prop_map(Step::Clear),
            1 => (0..3u64).prop_map(Step::Forget),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_model(steps in proptest::collection::vec(step(), 1..30), seen in range()) {
            let mut laid = Laid::default();
            let mut model: Vec<Option<(u64, u64)>> = vec![None; FRAMES as usize];
            for step in steps {
                match step {
                    Step::Lay(at, file, from) => {
                        laid.lay(at.clone(), (content(file), from));
                        for frame in at.clone() {
                            model[frame as usize] = Some((file, from + (frame - at.start)));
                        }
                    }
                    Step::Clear(at) => {
                        laid.clear(at.clone());
                        at.for_each(|frame| model[frame as usize] = None);
                    }
                    Step::Forget(file) => {
                        laid.retain(|other| *other != content(file));
                        for frame in &mut model {
                            *frame = frame.filter(|(other, _)| *other != file);
                        }
                    }
                }
            }
            let mut at = seen.start;
            for (part, place) in laid.parts(seen.clone()) {
                prop_assert_eq!(part.start, at);
                for frame in part.clone() {
                    let there = place.map(|(content, from)| (content, from + (frame - part.start)));
                    let want = model[frame as usize];
                    prop_assert_eq!(there, want.map(|(file, from)| (content(file), from)));
                }
                at = part.end;
            }
            prop_assert_eq!(at, seen.end);
        }
    }
}
