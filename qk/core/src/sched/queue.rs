//! The tasks that wait for a core.

use abi::Errno;
use alloc::collections::VecDeque;

/// Tasks that are ready to run, in the order in which they became so.
#[derive(Debug)]
pub struct RunQueue<T> {
    tasks: VecDeque<T>,
}

impl<T: Copy + Eq> RunQueue<T> {
    /// Empty, and room for none.
    #[must_use]
    pub const fn new() -> RunQueue<T> {
        RunQueue {
            tasks: VecDeque::new(),
        }
    }

    /// Makes room for `tasks` tasks in all.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn try_reserve(&mut self, tasks: usize) -> Result<(), Errno> {
        self.tasks
            .try_reserve(tasks.saturating_sub(self.tasks.len()))
            .map_err(|_| Errno::ENOMEM)
    }

    /// Adds a task that runs after all others.
    ///
    /// # Panics
    /// When there are more tasks than room was made for.
    pub fn push(&mut self, task: T) {
        self.assert_room();
        self.tasks.push_back(task);
    }

    /// Adds a task that runs before all others.
    ///
    /// # Panics
    /// When there are more tasks than room was made for.
    pub fn push_front(&mut self, task: T) {
        self.assert_room();
        self.tasks.push_front(task);
    }

    /// Takes out the first task that is `allowed`.
    #[inline]
    pub fn pop(&mut self, mut allowed: impl FnMut(&T) -> bool) -> Option<T> {
        if allowed(self.tasks.front()?) {
            return self.tasks.pop_front();
        }
        // BOUND: the tasks of a core, three instructions each: one is sought by its identity, or those before it have just been
        // forbidden this core.
        let i = self.tasks.iter().position(allowed)?;
        self.tasks.remove(i)
    }

    /// Takes out the first task that is `allowed`, if it is among the first `looks`.
    pub fn pop_among(&mut self, looks: usize, allowed: impl FnMut(&T) -> bool) -> Option<T> {
        // BOUND: `looks`.
        let i = self.tasks.iter().take(looks).position(allowed)?;
        self.tasks.remove(i)
    }

    /// Takes `task` out. False: it was not there.
    pub fn remove(&mut self, task: &T) -> bool {
        self.pop(|t| t == task).is_some()
    }

    /// How many tasks wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether no task waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn assert_room(&self) {
        assert!(
            self.tasks.len() < self.tasks.capacity(),
            "room for every task is reserved"
        );
    }
}

impl<T: Copy + Eq> Default for RunQueue<T> {
    fn default() -> RunQueue<T> {
        RunQueue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const TASKS: usize = 12;

    proptest! {
        #[test]
        fn behaves_as_a_list(ops in proptest::collection::vec((0..5u8, 0..TASKS), 1..200)) {
            let mut queue = RunQueue::new();
            queue.try_reserve(TASKS).unwrap();
            let room = queue.tasks.capacity();
            let mut model = Vec::new();
            for (op, task) in ops {
                let place = model.iter().position(|t| *t == task);
                match op {
                    0 | 1 if place.is_none() => {
                        queue.push(task);
                        model.push(task);
                    }
                    2 if place.is_none() => {
                        queue.push_front(task);
                        model.insert(0, task);
                    }
                    3 => {
                        let allowed = |t: &usize| t % 3 == task % 3;
                        let place = model.iter().position(allowed);
                        prop_assert_eq!(queue.pop(allowed), place.map(|i| model.remove(i)));
                    }
                    _ => prop_assert_eq!(queue.remove(&task), place.map(|i| model.remove(i)).is_some()),
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
            prop_assert_eq!(queue.tasks.capacity(), room, "nothing is allocated");
            while let Some(task) = queue.pop(|_| true) {
                prop_assert_eq!(task, model.remove(0));
            }
            prop_assert!(model.is_empty());
        }
    }

    #[test]
    fn first_come_first_served_but_for_those_who_may_not() {
        let mut queue = RunQueue::new();
        queue.try_reserve(5).unwrap();
        (1..=4).for_each(|task| queue.push(task));
        queue.push_front(0);
        assert_eq!((queue.len(), queue.pop(|_| true)), (5, Some(0)));
        assert_eq!(queue.pop(|task| task % 2 == 0), Some(2));
        assert!(queue.remove(&3) && !queue.remove(&3));
        assert_eq!(queue.pop(|task| *task > 4), None);
        assert_eq!(
            (queue.pop(|_| true), queue.pop(|_| true)),
            (Some(1), Some(4))
        );
        assert!(queue.is_empty() && queue.pop(|_| true).is_none());
    }

    /// An idle core looked at every task of all others, which may be thousands that it may not run, with interrupts off.
    #[test]
    fn few_are_looked_at_for_another_core() {
        let mut queue = RunQueue::new();
        queue.try_reserve(9).unwrap();
        (1..=9).for_each(|task| queue.push(task));
        assert_eq!(queue.pop_among(8, |task| *task == 3), Some(3));
        let mut looked = 0;
        let found = queue.pop_among(5, |task| {
            looked += 1;
            *task == 9
        });
        assert_eq!((found, looked, queue.len()), (None, 5, 8));
        assert_eq!(queue.pop_among(8, |task| *task == 9), Some(9));
    }

    #[test]
    #[should_panic(expected = "reserved")]
    fn without_room_nothing_is_allocated() {
        RunQueue::new().push(0);
    }
}
