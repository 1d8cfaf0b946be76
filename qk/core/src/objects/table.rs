//! The objects, by number and by file.

use super::list::push;
use super::object::Object;
use super::piece::File;
use crate::Point;
use abi::Errno;
use alloc::vec::Vec;

/// Lists that objects are found by: of ten thousand objects each has ten.
const LISTS: usize = 1024;
/// Work of looking at an object, in instructions.
const LOOK_WORK: u32 = 25;
/// No entry.
const NONE: u32 = u32::MAX;

struct Entry {
    object: Option<Object>,
    /// The next of the same list, or the next without an object.
    next: u32,
}

/// All objects. Numbers are given again.
pub struct Table {
    entries: Vec<Entry>,
    /// The first entry of each list.
    first: Vec<u32>,
    /// The first without an object.
    vacant: u32,
    point: Point,
}

impl Table {
    /// Without objects; `None`: there is no memory.
    pub fn new(point: Point) -> Option<Table> {
        point(LISTS as u32);
        let mut first = Vec::new();
        first.try_reserve_exact(LISTS).ok()?;
        // BOUND: LISTS.
        first.resize(LISTS, NONE);
        Some(Table {
            entries: Vec::new(),
            first,
            vacant: NONE,
            point,
        })
    }

    /// The object of a file.
    pub fn number_of(&self, file: File) -> Option<u32> {
        let mut at = self.first[list_of(file)];
        while let Some(entry) = self.entries.get(at as usize) {
            (self.point)(LOOK_WORK);
            if entry.object.as_ref()?.file == file {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// Makes one, of a file that has none.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn make(&mut self, file: File) -> Result<u32, Errno> {
        let number = match self.vacant {
            NONE => {
                let entry = Entry {
                    object: None,
                    next: NONE,
                };
                push(&mut self.entries, entry, self.point)?;
                self.entries.len() as u32 - 1
            }
            vacant => {
                self.vacant = self.entries[vacant as usize].next;
                vacant
            }
        };
        let first = &mut self.first[list_of(file)];
        self.entries[number as usize] = Entry {
            object: Some(Object::new(file)),
            next: *first,
        };
        *first = number;
        Ok(number)
    }

    /// Takes one out.
    pub fn remove(&mut self, number: u32) -> Option<Object> {
        let entry = self.entries.get_mut(number as usize)?;
        let object = entry.object.take()?;
        let next = core::mem::replace(&mut entry.next, self.vacant);
        self.vacant = number;
        let first = &mut self.first[list_of(object.file)];
        if *first == number {
            *first = next;
            return Some(object);
        }
        let mut at = *first;
        loop {
            (self.point)(LOOK_WORK);
            let before = &mut self.entries[at as usize];
            if before.next == number {
                before.next = next;
                return Some(object);
            }
            at = before.next;
        }
    }

    /// One by its number.
    pub fn get(&self, number: u32) -> Option<&Object> {
        self.entries.get(number as usize)?.object.as_ref()
    }

    /// Likewise.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Object> {
        self.entries.get_mut(number as usize)?.object.as_mut()
    }
}

/// Inodes that follow each other, as those of files that were made together, are in lists that do.
fn list_of([device, inode]: File) -> usize {
    let mixed = inode.wrapping_add(device.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed ^ mixed >> 10 ^ mixed >> 20) as usize % LISTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::thread_local;

    proptest! {
        #[test]
        fn agrees_with_a_model(
            steps in proptest::collection::vec((0..3u64, 0..6u64, any::<bool>()), 1..80),
        ) {
            let mut table = Table::new(|_| ()).expect("memory");
            let mut model: BTreeMap<File, u32> = BTreeMap::new();
            for (device, inode, makes) in steps {
                // Some are in the same list.
                let file = [device, inode * LISTS as u64 / 2];
                prop_assert_eq!(table.number_of(file), model.get(&file).copied());
                match model.get(&file).copied() {
                    None if makes => {
                        let number = table.make(file).expect("memory");
                        prop_assert!(model.values().all(|other| *other != number));
                        model.insert(file, number);
                    }
                    Some(number) if !makes => {
                        prop_assert_eq!(table.remove(number).map(|object| object.file), Some(file));
                        prop_assert!(table.get(number).is_none());
                        model.remove(&file);
                    }
                    _ => {}
                }
                for (file, number) in &model {
                    prop_assert_eq!(table.number_of(*file), Some(*number));
                    prop_assert_eq!(table.get(*number).map(|object| object.file), Some(*file));
                }
            }
            prop_assert!(table.entries.len() <= 18);
        }
    }

    /// For each mapping of a file all objects were looked at, twice.
    #[test]
    fn one_of_ten_thousand_is_found_at_once() {
        thread_local!(static TURNS: Cell<u32> = const { Cell::new(0) });
        let mut table = Table::new(|_| TURNS.set(TURNS.get() + 1)).expect("memory");
        let files = || (0..10_000).map(|inode| [5, 700_000 + 3 * inode]);
        for file in files() {
            table.make(file).expect("memory");
        }
        TURNS.set(0);
        for (number, file) in files().enumerate() {
            assert_eq!(table.number_of(file), Some(number as u32));
        }
        assert!(TURNS.get() < 100_000, "{}", TURNS.get());
    }
}
