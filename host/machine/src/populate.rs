//! Gives the ranks' partitions memory of this host before they are touched, in the background.
//!
//! Without it the first touch of each page of the host is an exit of the node's machine, in which Linux finds, zeroes and maps it; no
//! counter of the node sees that. It is done by a thread of the keeper once the node is up and says where a rank's partition
//! lies, at low priority, and no further than there is memory for all that is yet to do: what the host lacks stays sparse, as all of it is
//! without this. A node that ends takes the thread with it.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::process::setpriority_process;
use wire::ram::Place;

use crate::comm::Comm;
use crate::memory::Memory;
use crate::pages::chunks;
use crate::plan::Plan;
use crate::resources::Resources;
use crate::shared::Shared;

/// The nicest.
const PRIORITY: i32 = 19;

/// The thread, and what it was told.
pub struct Populating {
    partitions: Sender<(u64, u64)>,
    /// Of each rank.
    known: Vec<bool>,
}

impl Populating {
    /// Starts the thread.
    ///
    /// # Errors
    /// No descriptor, memory or thread left.
    pub fn start(memory: &Memory, plan: &Plan) -> io::Result<Populating> {
        let memory = memory.try_clone()?;
        let plan = *plan;
        let (partitions, known) = channel();
        let run = move || {
            // What it could not do is not there in the count.
            let _ = populate(&memory, &plan, &known);
        };
        thread::Builder::new().name("populate".into()).spawn(run)?;
        Ok(Populating {
            partitions,
            known: vec![false; plan.ranks],
        })
    }

    /// Looks which ranks have their partitions by now.
    pub fn poll(&mut self, comm: &Comm) {
        for (rank, known) in self.known.iter_mut().enumerate() {
            let [base, bytes] = comm.rank(rank).node.partition.each_ref().map(|w| w.load());
            if !*known && bytes > 0 {
                *known = true;
                // It has given up when it does not listen any more.
                let _ = self.partitions.send((base, bytes));
            }
        }
    }
}

fn populate(memory: &Memory, plan: &Plan, partitions: &Receiver<(u64, u64)>) -> io::Result<()> {
    // Without an id it is the calling thread's.
    setpriority_process(None, PRIORITY)?;
    let comm = Comm::map(memory, plan)?;
    let all_bytes = plan.ranks as u64 * plan.partition_bytes;
    let mut done_bytes = 0;
    for (base, bytes) in partitions {
        let offset = match memory.ram.place(base, bytes) {
            Some(Place::Ram(offset)) if bytes <= plan.partition_bytes => offset,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        for chunk in chunks(offset..offset + bytes) {
            // The last of it is to take nobody else's.
            if Resources::of_host().memory_bytes < all_bytes - done_bytes {
                return Ok(());
            }
            let chunk_bytes = chunk.end - chunk.start;
            let file = memory.file.as_fd();
            Shared::map_large(file, chunk.start, chunk_bytes as usize)?.populate()?;
            done_bytes += chunk_bytes;
            comm.header().populated_bytes.store(done_bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use wire::ram::{Ram, RamRange};

    use super::*;
    use crate::machine::Machine;
    use crate::plan::tests::two_ranks;
    use crate::qemu::Q35;

    const MIB: u64 = 1 << 20;
    const RAM_BYTES: u64 = 256 * MIB;

    fn file(bytes: u64) -> OwnedFd {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&file, bytes).expect("grows");
        file
    }

    /// It is the node that says where partitions lie: it could have all memory of this host by that.
    #[test]
    fn what_is_no_partition_is_not_populated() {
        let plan = two_ranks(&Q35::LIMITS, 0);
        let all = RamRange {
            gpa: 0,
            len_bytes: RAM_BYTES,
            place: Place::Ram(0),
        };
        let memory = Memory {
            ram: Ram::new([all]).expect("RAM"),
            file: file(RAM_BYTES),
            pool: file(MIB),
        };
        for partition in [(64 * MIB, 4 * MIB), (RAM_BYTES - MIB, 2 * MIB)] {
            let (sender, partitions) = channel();
            sender.send(partition).expect("room");
            drop(sender);
            // By a thread of its own, whose priority it lowers.
            let ended = thread::scope(|scope| {
                let (memory, plan) = (&memory, &plan);
                let populating = scope.spawn(move || populate(memory, plan, &partitions));
                populating.join().expect("no panic")
            });
            let error = ended.expect_err("it is refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let comm = Comm::map(&memory, &plan).expect("maps");
        assert_eq!(comm.header().populated_bytes.load(), 0);
    }
}
