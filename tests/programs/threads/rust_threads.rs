// Rust's std::thread and std::sync: spawn, scope, channels, park, barriers,
// locks, condition variables, thread-locals, a panic that stays in its thread.
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 4;

thread_local!(static OWN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) });

fn scopes() {
    let mut values: Vec<u64> = (1..=1000).collect();
    let sums: Vec<u64> = thread::scope(|scope| {
        let parts = values.chunks_mut(250);
        let threads: Vec<_> = parts
            .map(|part| {
                scope.spawn(move || {
                    part.iter_mut().for_each(|value| *value *= 2);
                    part.iter().sum()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("scope: {sums:?}, all {}", values.iter().sum::<u64>());
}

fn channels() {
    let (sender, receiver) = mpsc::channel();
    for index in 0..THREADS {
        let sender = sender.clone();
        thread::spawn(move || (0..100).for_each(|value| sender.send((index, value)).unwrap()));
    }
    drop(sender);
    let mut next = [0; THREADS];
    for (index, value) in receiver {
        assert_eq!(next[index], value, "in the order of each sender");
        next[index] += 1;
    }
    println!("channel: {next:?}");
    let (sender, receiver) = mpsc::sync_channel(0);
    let thread = thread::spawn(move || receiver.iter().sum::<i32>());
    (1..=50).for_each(|value| sender.send(value).unwrap());
    drop(sender);
    println!("rendezvous: {}", thread.join().unwrap());
    let (_sender, receiver) = mpsc::channel::<()>();
    let since = Instant::now();
    let result = receiver.recv_timeout(Duration::from_millis(10));
    println!("timeout: {result:?}, {}", since.elapsed() >= Duration::from_millis(10));
}

fn parking() {
    let turn = Arc::new(AtomicUsize::new(0));
    let main = thread::current();
    let other = {
        let turn = Arc::clone(&turn);
        thread::spawn(move || {
            for _ in 0..100 {
                while turn.load(Ordering::Acquire) % 2 == 0 {
                    thread::park();
                }
                turn.fetch_add(1, Ordering::Release);
                main.unpark();
            }
        })
    };
    for _ in 0..100 {
        turn.fetch_add(1, Ordering::Release);
        other.thread().unpark();
        while turn.load(Ordering::Acquire) % 2 == 1 {
            thread::park();
        }
    }
    other.join().unwrap();
    println!("park: {}", turn.load(Ordering::Relaxed));
}

fn locks() {
    let sum = Mutex::new(0);
    let pair = RwLock::new((0, 0));
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    let barrier = Barrier::new(THREADS);
    let (once, leaders, torn) = (Once::new(), AtomicUsize::new(0), AtomicUsize::new(0));
    let cell = OnceLock::new();
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (sum, pair, turn, changed, barrier) = (&sum, &pair, &turn, &changed, &barrier);
            let (once, leaders, torn, cell) = (&once, &leaders, &torn, &cell);
            scope.spawn(move || {
                once.call_once(|| *sum.lock().unwrap() += 1000);
                cell.get_or_init(|| 5);
                for _ in 0..200 {
                    *sum.lock().unwrap() += 1;
                    if index == 0 {
                        let mut pair = pair.write().unwrap();
                        *pair = (pair.0 + 1, pair.1 + 1);
                    } else {
                        let pair = pair.read().unwrap();
                        torn.fetch_add(usize::from(pair.0 != pair.1), Ordering::Relaxed);
                    }
                }
                if barrier.wait().is_leader() {
                    leaders.fetch_add(1, Ordering::Relaxed);
                }
                for _ in 0..20 {
                    let mut now = changed.wait_while(turn.lock().unwrap(), |now| *now % THREADS != index).unwrap();
                    *now += 1;
                    changed.notify_all();
                }
            });
        }
    });
    println!("locks: {} {:?} {}", sum.into_inner().unwrap(), pair.into_inner().unwrap(), turn.into_inner().unwrap());
    println!("leaders: {leaders:?}, torn: {torn:?}, cell: {cell:?}");
}

fn own_values() {
    let lengths: Vec<usize> = (0..THREADS)
        .map(|index| {
            thread::spawn(move || {
                (0..=index).for_each(|value| OWN.with_borrow_mut(|own| own.push(value)));
                OWN.with_borrow(Vec::len)
            })
        })
        .map(|thread| thread.join().unwrap())
        .collect();
    println!("own: {lengths:?}, main {}", OWN.with_borrow(Vec::len));
}

fn panics() {
    std::panic::set_hook(Box::new(|_| {}));
    let lock = Arc::new(Mutex::new(1));
    let other = Arc::clone(&lock);
    let named = thread::Builder::new().name("named".into()).stack_size(256 << 10);
    let thread = named
        .spawn(move || {
            let _guard = other.lock().unwrap();
            panic!("in {}", thread::current().name().unwrap());
        })
        .unwrap();
    let payload = thread.join().unwrap_err();
    println!("panic: {:?}, poisoned {}", payload.downcast_ref::<String>(), lock.is_poisoned());
}

fn main() {
    scopes();
    channels();
    parking();
    locks();
    own_values();
    panics();
}
