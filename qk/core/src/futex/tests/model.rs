//! The table against one list of all waiters, in order of arrival.

use proptest::prelude::*;

use super::*;

const THREADS: usize = 6;
const KEYS: u64 = 3;

#[derive(Clone, Debug)]
enum Op {
    /// Thread, word, bits, whether the word is what it expects.
    Wait(usize, u64, u32, bool),
    /// Thread, words (each once or more).
    WaitMany(usize, Vec<u64>),
    /// A thread's time is over.
    GiveUp(usize),
    Wake(u64, i32, u32),
    Requeue([u64; 2], [i32; 2]),
}

fn op() -> impl Strategy<Value = Op> {
    let (thread, at, bits) = (0..THREADS, 0..KEYS, 1..4u32);
    let count = || -1..4i32;
    prop_oneof![
        4 => (thread.clone(), at.clone(), bits.clone(), prop::bool::weighted(0.9))
            .prop_map(|(t, at, bits, same)| Op::Wait(t, at, bits, same)),
        1 => (thread.clone(), prop::collection::vec(at.clone(), 1..4))
            .prop_map(|(t, words)| Op::WaitMany(t, words)),
        1 => thread.prop_map(Op::GiveUp),
        2 => (at.clone(), count(), bits).prop_map(|(at, n, bits)| Op::Wake(at, n, bits)),
        2 => ([at.clone(), at], [count(), count()]).prop_map(|(keys, n)| Op::Requeue(keys, n)),
    ]
}

/// What a thread does. One that was woken waits until it looks.
#[derive(Default)]
enum State {
    #[default]
    Runs,
    Waits,
    WaitsForMany(Box<Many>),
}

struct Entry {
    at: u64,
    bits: u32,
    thread: usize,
    /// Which of many words.
    index: Option<usize>,
}

/// The list, and what each thread was woken for.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    woken: [Option<usize>; THREADS],
    order: Vec<u32>,
}

impl Model {
    fn wake(&mut self, number: usize) {
        let entry = self.entries.remove(number);
        let last = &mut self.woken[entry.thread];
        *last = (*last).max(Some(entry.index.unwrap_or(0)));
        self.order.push(entry.thread as u32);
    }

    fn find(&self, at: u64, bits: u32) -> Option<usize> {
        let found = |entry: &Entry| entry.at == at && entry.bits & bits != 0;
        self.entries.iter().position(found)
    }

    fn wake_some(&mut self, at: u64, count: i32, bits: u32) -> usize {
        let mut woken = 0;
        while woken < count.max(1) as usize
            && let Some(number) = self.find(at, bits)
        {
            self.wake(number);
            woken += 1;
        }
        woken
    }

    fn requeue(&mut self, [from, to]: [u64; 2], [wake, moves]: [usize; 2]) -> Requeued {
        let mut done = Requeued::default();
        while done.woken < wake
            && let Some(number) = self.find(from, ANY)
        {
            self.wake(number);
            done.woken += 1;
        }
        if from == to {
            let there = self.entries.iter().filter(|entry| entry.at == from);
            done.moved = moves.min(there.count());
            return done;
        }
        for _ in 0..moves {
            let Some(number) = self.find(from, ANY) else {
                break;
            };
            if self.entries[number].index.is_some() {
                self.wake(number);
                done.woken += 1;
            } else {
                let entry = self.entries.remove(number);
                self.entries.push(Entry { at: to, ..entry });
                done.moved += 1;
            }
        }
        done
    }
}

struct World {
    table: Table,
    threads: [Handle; THREADS],
    states: [State; THREADS],
    model: Model,
}

impl World {
    fn new(buckets: usize) -> World {
        ORDER.take();
        World {
            table: table(buckets),
            threads: core::array::from_fn(|n| thread(n as u32)),
            states: Default::default(),
            model: Model::default(),
        }
    }

    fn enter(&mut self, thread: usize, at: u64, bits: u32, index: Option<usize>) {
        self.model.entries.push(Entry {
            at,
            bits,
            thread,
            index,
        });
    }

    /// What waiting returns once the thread looks, in table and model.
    fn leave(&mut self, thread: usize) -> [Option<usize>; 2] {
        let handle = self.threads[thread];
        let result = match core::mem::take(&mut self.states[thread]) {
            State::Runs => None,
            State::Waits => (!self.table.cancel(handle)).then_some(0),
            State::WaitsForMany(many) => self.table.finish(*many, handle, |_| ()),
        };
        self.model.entries.retain(|entry| entry.thread != thread);
        [result, self.model.woken[thread].take()]
    }

    fn run(&mut self, op: Op) -> Result<(), TestCaseError> {
        let runs = |world: &World, t: usize| matches!(world.states[t], State::Runs);
        match op {
            Op::Wait(t, at, bits, same) if runs(self, t) => {
                let word = Memory::of(u32::from(!same));
                let result = self
                    .table
                    .wait(key(at * 4), bits, &word, 0, self.threads[t]);
                prop_assert_eq!(result, if same { Ok(()) } else { Err(Errno::EAGAIN) });
                if same {
                    self.states[t] = State::Waits;
                    self.enter(t, at, bits, None);
                }
            }
            Op::WaitMany(t, all) if runs(self, t) => {
                let word = Memory::of(0);
                let one = |at: &u64| One {
                    key: key(at * 4),
                    word: &word,
                    expected: 0,
                };
                let many = self
                    .table
                    .wait_many(all.iter().map(one), self.threads[t], |_| ());
                self.states[t] = State::WaitsForMany(Box::new(many.unwrap()));
                for (index, at) in all.into_iter().enumerate() {
                    self.enter(t, at, ANY, Some(index));
                }
            }
            Op::Wait(t, ..) | Op::WaitMany(t, _) | Op::GiveUp(t) => {
                let [result, expected] = self.leave(t);
                prop_assert_eq!(result, expected);
            }
            Op::Wake(at, count, bits) => {
                let woken = self.table.wake(key(at * 4), count, bits, point);
                prop_assert_eq!(woken, Ok(self.model.wake_some(at, count, bits)));
            }
            Op::Requeue(keys, counts) => {
                let done = self
                    .table
                    .requeue(keys.map(|at| key(at * 4)), counts, None, point);
                let expected = match counts.map(usize::try_from) {
                    [Ok(wake), Ok(moves)] => Ok(self.model.requeue(keys, [wake, moves])),
                    _ => Err(Errno::EINVAL),
                };
                prop_assert_eq!(done, expected);
            }
        }
        Ok(())
    }
}

proptest! {
    /// Each wake-up reaches the right waiters, in order, is counted once, and is seen by the thread.
    #[test]
    fn as_the_model_says(buckets in 0..3u32, ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new(1 << buckets);
        for op in ops {
            world.run(op)?;
            for t in 0..THREADS {
                let waits = !matches!(world.states[t], State::Runs);
                let woken = world.model.woken[t].is_some();
                prop_assert_eq!(waits && world.table.is_woken(world.threads[t]), woken);
            }
        }
        prop_assert_eq!(ORDER.take(), world.model.order);
    }
}
