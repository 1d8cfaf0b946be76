//! mremap.

use super::{Aspace, Machine, Unfinished};
use crate::mman::RemapPlan;
use crate::paging;
use crate::regions::Region;
use abi::Errno;
use abi::addr::{Va, VaRange};

/// A mapping that goes elsewhere.
struct Move {
    to: Va,
    from: VaRange,
    /// What it grows by, behind the new place.
    more: Option<VaRange>,
    keep_old: bool,
}

impl<M: Machine> Aspace<M> {
    /// Carries out an mremap; returns the address of the mapping.
    ///
    /// # Errors
    /// [`Unfinished::Owes`]: text that moves or grows becomes the rank's own. ENOMEM, with the old mapping as it was; what lay at a
    /// fixed destination is gone then, as on Linux; objects do not grow so.
    pub fn remap(&mut self, plan: &RemapPlan) -> Result<Va, Unfinished> {
        // BOUND: where it goes, and what it loses.
        for gone in plan.unmaps() {
            self.evict(gone)?;
        }
        match *plan {
            RemapPlan::Stay { addr, trim } => {
                self.remove_part(trim)?;
                Ok(addr)
            }
            RemapPlan::Grow { addr, more } => {
                self.own(addr.until(more.start))?;
                let old = self.regions.lookup(more.start.before(1));
                let old = *old.ok_or(Errno::EFAULT)?;
                may_grow(&old)?;
                self.map_new(old.elsewhere(more, more.start))?;
                Ok(addr)
            }
            RemapPlan::Move {
                to,
                from,
                more,
                replace,
                trim,
                keep_old,
            } => {
                self.own(from)?;
                self.remove_part(trim)?;
                if let Some(replace) = replace {
                    self.vacate(replace)?;
                }
                let moved = self.relocate(&Move {
                    to,
                    from,
                    more,
                    keep_old,
                });
                self.end_replacing();
                Ok(moved.map(|()| to)?)
            }
        }
    }

    fn remove_part(&mut self, part: Option<VaRange>) -> Result<(), Errno> {
        part.map_or(Ok(()), |part| self.remove(part))
    }

    /// First what may fail: frames for what is new, then tables for what moves.
    fn relocate(&mut self, change: &Move) -> Result<(), Errno> {
        let Move { to, from, more, .. } = *change;
        // What moves is cut out at two places, and lies between two holes where it goes.
        self.add_pieces(4)?;
        let len_bytes = from.len_bytes();
        self.reserve_tables(from)?;
        // Room in the region map as well: pages that have moved do not move back.
        let region = self
            .regions
            .prepare_move(from, to)
            .map_err(|_| Errno::ENOMEM)?;
        if more.is_some() {
            may_grow(&region)?;
        }
        let backs = region.is_backed();
        if change.keep_old && backs {
            self.check_free(len_bytes)?;
            self.check_tables_for_two(len_bytes)?;
        }
        let max = self.max_page(&region);
        // Over something, all is logged at the end: what it grows by was before what comes in front of it, and is gone from the log
        // where frames were so short that the proxy got to know of a hole.
        let is_over = !self.replaced.is_empty();
        if let Some(more) = more.filter(|_| backs) {
            self.back_new(more, region.prot, max)?;
        }
        if let Err(error) = self.move_pages(from, to) {
            if let Some(more) = more {
                self.take_back(more);
            }
            return Err(error);
        }
        let to_end = more.map_or(to + len_bytes, |more| more.end);
        self.regions
            .move_range(from, to.until(to_end))
            .map_err(|_| Errno::ENOMEM)?;
        self.publish_hole(from);
        let shown_to = if is_over { to_end } else { to + len_bytes };
        self.publish_over(to.until(shown_to));
        self.publish_reservation(&region, to.until(to_end));
        if change.keep_old {
            self.map_new(region)?;
        }
        Ok(())
    }

    /// Moves what is mapped; all or nothing.
    fn move_pages(&mut self, from: VaRange, to: Va) -> Result<(), Errno> {
        let len_bytes = from.len_bytes();
        let there = VaRange::new(to, len_bytes);
        self.renew(there);
        let moved = self.or_sync(|aspace| {
            let (mut tables, root) = aspace.tables();
            let moved = paging::move_range(&mut tables, root, from.start, to, len_bytes);
            if moved.is_err() {
                // Some of it was mapped there until a table was missing, and another thread or a peer may have used that.
                aspace.flush(there);
            }
            aspace.flush(from);
            moved.ok()
        });
        Ok(moved?)
    }
}

/// Who has what an object holds maps more of it; here there are only zeros.
fn may_grow(region: &Region) -> Result<(), Errno> {
    match region.is_object() {
        true => Err(Errno::ENOMEM),
        false => Ok(()),
    }
}
