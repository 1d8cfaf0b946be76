//! The memory of the node and of its rank.

use wire::region_log::{Change, prot};

use super::{DATA, Node, PARTITION, RAM_BYTES};

impl Node {
    /// Appends a mapping to the region log.
    pub fn map(&self, addr: u64, len_bytes: u64, gpa: u64, read: bool, write: bool) {
        self.log
            .append(&Change::Map {
                addr,
                len_bytes,
                gpa,
                prot: [0, prot::READ][usize::from(read)] | [0, prot::WRITE][usize::from(write)],
            })
            .unwrap();
    }

    pub fn unmap(&self, addr: u64, len_bytes: u64) {
        self.log.append(&Change::Unmap { addr, len_bytes }).unwrap();
    }

    /// Writes rank memory in [`DATA`]; returns the address.
    pub fn put(&self, addr: u64, bytes: &[u8]) -> u64 {
        self.put_gpa(gpa(addr, bytes.len()), bytes);
        addr
    }

    /// Writes guest RAM.
    pub fn put_gpa(&self, gpa: u64, bytes: &[u8]) {
        assert!(gpa + bytes.len() as u64 <= RAM_BYTES);
        // SAFETY: 1. In the mapping (just checked); the proxy touches it only during calls.
        unsafe {
            self.ram
                .add(gpa as usize)
                .copy_from(bytes.as_ptr(), bytes.len())
        };
    }

    pub fn put_words(&self, addr: u64, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(addr, &bytes)
    }

    /// Reads rank memory in [`DATA`].
    pub fn get(&self, addr: u64, len: usize) -> Vec<u8> {
        self.get_gpa(gpa(addr, len), len)
    }

    pub fn get_gpa(&self, gpa: u64, len: usize) -> Vec<u8> {
        assert!(gpa + len as u64 <= RAM_BYTES);
        let mut bytes = vec![0; len];
        // SAFETY: 1. In the mapping (just checked).
        unsafe { self.ram.add(gpa as usize).copy_to(bytes.as_mut_ptr(), len) };
        bytes
    }

    pub fn get_i32(&self, addr: u64) -> i32 {
        i32::from_le_bytes(self.get(addr, 4).try_into().unwrap())
    }
}

fn gpa(addr: u64, len: usize) -> u64 {
    assert!(addr >= DATA.0 && addr + len as u64 <= DATA.0 + DATA.1);
    addr - DATA.0 + PARTITION.0
}
