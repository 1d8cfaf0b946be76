//! Lists that may become long: where they grow, what they have is not moved with interrupts off all the time.

use crate::Point;
use abi::Errno;
use alloc::vec::Vec;

/// Work of moving a value, in instructions.
const MOVE_WORK: u32 = 30;

/// Makes room for `more` values behind those of a list.
///
/// # Errors
/// ENOMEM, with nothing changed.
pub fn reserve<T>(list: &mut Vec<T>, more: usize, point: Point) -> Result<(), Errno> {
    let wanted = list.len() + more;
    if wanted <= list.capacity() {
        return Ok(());
    }
    let mut longer = Vec::new();
    longer
        .try_reserve_exact(wanted.max(2 * list.capacity()))
        .map_err(|_| Errno::ENOMEM)?;
    for value in list.drain(..) {
        point(MOVE_WORK);
        longer.push(value);
    }
    *list = longer;
    Ok(())
}

/// Appends a value.
///
/// # Errors
/// As [`reserve`].
pub fn push<T>(list: &mut Vec<T>, value: T, point: Point) -> Result<(), Errno> {
    reserve(list, 1, point)?;
    list.push(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::thread_local;

    #[test]
    fn a_list_grows_a_value_after_the_other() {
        thread_local!(static TURNS: Cell<usize> = const { Cell::new(0) });
        let point = |_: u32| TURNS.set(TURNS.get() + 1);
        let mut list = Vec::new();
        for value in 0..1000 {
            push(&mut list, value, point).expect("memory");
        }
        assert!(list.iter().copied().eq(0..1000));
        // Each time it has grown twice as long, so all moves are no more than what it has in the end, about.
        let moves = TURNS.get();
        assert!((500..2000).contains(&moves), "{moves}");
        let room = list.capacity() - list.len();
        reserve(&mut list, room, point).expect("there is room");
        assert_eq!(TURNS.get(), moves);
    }
}
