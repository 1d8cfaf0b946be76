//! The waiters for the same thing, in order of arrival. The list runs through the waiters themselves, so that entering it needs
//! no memory and cannot fail.

/// A waiter, as a handle. It is in one list at a time.
pub trait Linked: Copy {
    /// `next` comes behind it.
    fn set_next(self, next: Self);

    /// The waiter behind it, if there is one; from now on none.
    fn take_next(self) -> Option<Self>;
}

/// The list.
#[derive(Debug)]
pub struct Fifo<T> {
    /// The first and the last.
    ends: Option<[T; 2]>,
}

impl<T: Linked> Fifo<T> {
    /// No waiters.
    #[must_use]
    pub const fn new() -> Fifo<T> {
        Fifo { ends: None }
    }

    /// Whether there are no waiters.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// `waiter`, which is in no list, comes last.
    pub fn push(&mut self, waiter: T) {
        self.ends = match self.ends {
            None => Some([waiter; 2]),
            Some([first, last]) => {
                last.set_next(waiter);
                Some([first, waiter])
            }
        };
    }

    /// Takes out the first.
    pub fn pop(&mut self) -> Option<T> {
        let [first, last] = self.ends?;
        self.ends = first.take_next().map(|second| [second, last]);
        Some(first)
    }
}

impl<T: Linked> Default for Fifo<T> {
    fn default() -> Fifo<T> {
        Fifo::new()
    }
}

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::cell::Cell;
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Task {
        next: Cell<Option<&'static Task>>,
    }

    impl Linked for &'static Task {
        fn set_next(self, next: Self) {
            let before = self.next.replace(Some(next));
            assert!(before.is_none(), "it was the last");
        }

        fn take_next(self) -> Option<Self> {
            self.next.take()
        }
    }

    proptest! {
        /// Against the queue that was here before, which grew under a spin lock: with the kernel's heap used up, a thread that
        /// waited for its address space ended the node. Tasks go from one list to another.
        #[test]
        fn two_lists_through_the_same_tasks(ops in prop::collection::vec((0..2usize, any::<bool>()), 1..100)) {
            let mut idle: VecDeque<&'static Task> =
                (0..4).map(|_| &*Box::leak(Box::default())).collect();
            let mut lists = [Fifo::new(), Fifo::new()];
            let mut models = [VecDeque::new(), VecDeque::new()];
            for (list, comes) in ops {
                if !comes {
                    let task = lists[list].pop();
                    prop_assert_eq!(
                        task.map(core::ptr::from_ref),
                        models[list].pop_front().map(core::ptr::from_ref::<Task>)
                    );
                    idle.extend(task);
                } else if let Some(task) = idle.pop_front() {
                    lists[list].push(task);
                    models[list].push_back(task);
                }
                prop_assert_eq!(lists[list].is_empty(), models[list].is_empty());
            }
        }
    }
}
