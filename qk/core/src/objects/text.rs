//! Text: what ranks of the node have mapped of files without write access, in frames of the node pool that are never written to.
//!
//! The files' own pages are laid over them, to be read.
//!
//! It is known by the file and the time of its last change, so a file that has changed is another one: its pages show the change, but an
//! emulator does not notice that code has changed which it has translated. It stays when it is not
//! mapped any more, for the next program that does, until the pool runs short ([`Objects::retire_idle_text`]); and it never takes more
//! than half of the pool, which files that ranks write to need. There is no object: each piece counts its own mappings.

use abi::Errno;
use abi::addr::Phys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use super::list::{push, reserve};
use super::{File, Laid, Objects, Piece, TextLease};

/// What a file's text is told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextKey {
    /// The file.
    pub file: File,
    /// When it was last changed (st_ctime), in nanoseconds.
    pub changed_ns: u64,
}

impl TextKey {
    /// One that no mapping has: another change of the file would not show.
    pub fn unlike_others(file: File) -> TextKey {
        /// No times, which the host counts in 63 bits.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
        let changed_ns = NEXT.fetch_add(1, Ordering::Relaxed);
        TextKey { file, changed_ns }
    }
}

/// Text that is lent to a mapping that is about to be made.
#[must_use = "the text stays until it is given back"]
#[derive(Debug)]
pub struct AttachedText {
    /// By offset, without gaps.
    pieces: Vec<Piece>,
}

impl AttachedText {
    /// As if these were text.
    #[cfg(test)]
    pub(crate) fn of(pieces: Vec<Piece>) -> AttachedText {
        AttachedText { pieces }
    }

    /// The frames, by offset and without gaps.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// A region takes it over.
    pub(crate) fn pass_on(mut self) {
        self.pieces.clear();
    }

    /// It is not mapped after all.
    pub fn into_leases(mut self) -> impl Iterator<Item = TextLease> {
        let pieces = core::mem::take(&mut self.pieces);
        pieces.into_iter().map(|piece| TextLease::of(piece.run()))
    }
}

impl Drop for AttachedText {
    fn drop(&mut self) {
        debug_assert!(self.pieces.is_empty(), "text was not given back");
    }
}

/// A piece, and how much of it is mapped.
pub(super) struct Text {
    key: TextKey,
    piece: Piece,
    /// Bytes of all mappings of it, in all ranks.
    mapped_bytes: u64,
}

impl Text {
    /// Bytes of it from `pa` on; 0: that is not in it.
    fn bytes_from(&self, pa: Phys) -> u64 {
        match pa.0.checked_sub(self.piece.pa.0) {
            Some(skip) => self.piece.len_bytes.saturating_sub(skip),
            None => 0,
        }
    }

    fn touches(&self, from: u64, to: u64) -> bool {
        self.piece.offset < to && from < self.piece.end()
    }
}

/// Work of looking at a piece, in instructions.
const LOOK_WORK: u32 = 30;

impl Objects {
    /// Frames for what the pool does not have of `from .. to` of a text, by offset. No other rank finds them before
    /// [`Self::enter_text`].
    ///
    /// # Errors
    /// ENOMEM, with nothing changed: the pool has not so many frames left for text.
    pub fn extend_text(&mut self, key: TextKey, from: u64, to: u64) -> Result<Vec<Piece>, Errno> {
        let mut holes = Vec::new();
        let mut at = from;
        // POINT: find_text
        while at < to {
            let known = self.text_at(key, at);
            let end = known.map_or_else(|| self.text_behind(key, at, to), |piece| piece.end());
            if known.is_none() {
                push(&mut holes, (at, end), self.point)?;
            }
            at = end;
        }
        let bytes_of = |(start, end): &(u64, u64)| {
            (self.point)(LOOK_WORK);
            end - start
        };
        // POINT: extend_text
        let wanted: u64 = holes.iter().map(bytes_of).sum();
        let most = (self.frames.end() - self.frames.base()) / 2;
        if wanted > self.frames.free_bytes() || wanted > most.saturating_sub(self.text_bytes) {
            return Err(Errno::ENOMEM);
        }
        let mut fresh = Vec::new();
        // POINT: objects::fill::fill
        let filled = holes
            .iter()
            .try_for_each(|&(start, end)| self.fill(start, end, &mut fresh));
        self.text_bytes += self.bytes(&fresh);
        if let Err(errno) = filled {
            self.free_text(&fresh);
            return Err(errno);
        }
        Ok(fresh)
    }

    /// Enters pieces of [`Self::extend_text`], over which the file is laid now.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed: the pieces are to be given to [`Self::free_text`].
    pub fn enter_text(&mut self, key: TextKey, fresh: &[Piece]) -> Result<(), Errno> {
        reserve(&mut self.texts, fresh.len(), self.point)?;
        for piece in fresh {
            (self.point)(LOOK_WORK);
            let piece = Piece {
                laid: Laid::ToRead,
                ..*piece
            };
            self.texts.push(Text {
                key,
                piece,
                mapped_bytes: 0,
            });
        }
        Ok(())
    }

    /// Lends the frames of `from .. to`, which are mapped once more from now on.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed: also when the pool does not have all of it.
    pub fn attach_text(&mut self, key: TextKey, from: u64, to: u64) -> Result<AttachedText, Errno> {
        let mut found = Vec::new();
        let mut at = from;
        // POINT: find_text
        while at < to {
            let piece = self.text_at(key, at).ok_or(Errno::ENOMEM)?;
            push(&mut found, piece.clip(from, to), self.point)?;
            at = piece.end();
        }
        // POINT: find_text
        for piece in &found {
            self.count_text(piece.pa, piece.len_bytes, |mapped, bytes| mapped + bytes);
        }
        Ok(AttachedText { pieces: found })
    }

    /// Takes back what was lent to a mapping that is gone: no core of its rank reaches the frames by it, and its proxy neither.
    pub fn detach_text(&mut self, lease: TextLease) {
        let (pa, len_bytes) = lease.end();
        self.count_text(pa, len_bytes, u64::saturating_sub);
    }

    /// Sets what is mapped of each piece that has some of these frames to `count(mapped_bytes, bytes)`.
    fn count_text(&mut self, pa: Phys, len_bytes: u64, count: fn(u64, u64) -> u64) {
        let (mut at, end) = (pa, pa + len_bytes);
        // POINT: find_text
        while at < end
            && let Some(text) = self.find_text(|text| text.bytes_from(at) > 0)
        {
            let bytes = text.bytes_from(at).min(end - at);
            text.mapped_bytes = count(text.mapped_bytes, bytes);
            at = at + bytes;
        }
    }

    /// Retires what is not mapped ([`Self::retired`]), as far as there is room for that: windows may still reach it, and its file is
    /// laid over it.
    pub fn retire_idle_text(&mut self) {
        let Objects {
            texts,
            retired,
            live,
            text_bytes,
            point,
            ..
        } = self;
        texts.retain(|text| {
            point(LOOK_WORK);
            // All pieces of objects have room besides.
            let is_idle = text.mapped_bytes == 0 && reserve(retired, *live + 1, *point).is_ok();
            if is_idle {
                retired.push(text.piece);
                *text_bytes -= text.piece.len_bytes;
            }
            !is_idle
        });
    }

    /// A frame's file does not have its page any more: no mapping that is made from now on finds the piece. `false`: the frame is no
    /// text.
    pub fn lose_text(&mut self, frame: Phys) -> bool {
        // POINT: find_text
        match self.find_text(|text| text.bytes_from(frame) > 0) {
            Some(text) => {
                text.key.changed_ns = u64::MAX;
                true
            }
            None => false,
        }
    }

    /// Makes frames free that [`Self::extend_text`] has returned, over which no file is laid.
    pub fn free_text(&mut self, pieces: &[Piece]) {
        self.text_bytes -= self.bytes(pieces);
        self.free(pieces);
    }

    /// The piece of a text that has the byte at `at`.
    fn text_at(&mut self, key: TextKey, at: u64) -> Option<Piece> {
        let found = self.find_text(|text| text.key == key && text.touches(at, at + 1));
        found.map(|text| text.piece)
    }

    /// Finds one from where the last was found: those that follow each other in a file were entered one after the other.
    fn find_text(&mut self, is_wanted: impl Fn(&Text) -> bool) -> Option<&mut Text> {
        let last = self.last_text.min(self.texts.len());
        let found = (last..self.texts.len()).chain(0..last).find(|&index| {
            (self.point)(LOOK_WORK);
            is_wanted(&self.texts[index])
        })?;
        self.last_text = found;
        self.texts.get_mut(found)
    }

    /// Where the next piece of a text behind `at` begins, or `to`.
    fn text_behind(&self, key: TextKey, at: u64, to: u64) -> u64 {
        let mut next = to;
        for text in &self.texts {
            (self.point)(LOOK_WORK);
            let start = text.piece.offset;
            if text.key == key && start > at {
                next = next.min(start);
            }
        }
        next
    }

    fn bytes(&self, pieces: &[Piece]) -> u64 {
        let len_bytes = |piece: &Piece| {
            (self.point)(LOOK_WORK);
            piece.len_bytes
        };
        // POINT: bytes
        pieces.iter().map(len_bytes).sum()
    }
}
