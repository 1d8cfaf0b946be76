// Rust's allocator and collections: growing vectors (realloc, mremap), boxes,
// hash and tree maps, strings, a failed reservation that is no abort.
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

fn main() {
    let mut v: Vec<u64> = Vec::new();
    for i in 0..3_000_000u64 {
        v.push(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    println!("vector: {} items, xor {:016x}", v.len(), v.iter().fold(0, |a, b| a ^ b));
    v.truncate(10);
    v.shrink_to_fit();
    println!("shrunk to capacity {}", v.capacity());

    let mut counts: HashMap<String, u32> = HashMap::new();
    for i in 0..100_000u32 {
        *counts.entry(format!("key{}", i % 1009)).or_insert(0) += i;
    }
    let total: u64 = counts.values().map(|&c| u64::from(c)).sum();
    println!("hash map: {} keys, total {total}", counts.len());

    let tree: BTreeMap<u32, Box<[u8]>> =
        (0..20_000u32).map(|i| (i * 7919 % 20_011, vec![i as u8; (i % 200) as usize].into())).collect();
    let bytes: usize = tree.values().map(|b| b.len()).sum();
    println!("tree map: {} keys, {bytes} bytes, first {:?}", tree.len(), tree.keys().next());

    let mut heap: BinaryHeap<u32> = (0..50_000u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let top: Vec<u32> = std::iter::from_fn(|| heap.pop()).take(3).collect();
    println!("heap: {top:?}");

    let mut queue = VecDeque::new();
    for i in 0..200_000u32 {
        queue.push_back(i);
        if i % 2 == 0 {
            queue.pop_front();
        }
    }
    println!("queue: {} items, front {:?}", queue.len(), queue.front());

    let mut text = String::new();
    while text.len() < 1 << 20 {
        text.push_str("größer ");
    }
    println!("text: {} bytes, {} characters", text.len(), text.chars().count());

    let mut huge: Vec<u8> = Vec::new();
    println!("2^62 bytes: {}", if huge.try_reserve(1 << 62).is_err() { "refused" } else { "granted" });
    let zeros = vec![0u8; 16 << 20];
    println!("16 MB of zeros: {}", zeros.iter().all(|&b| b == 0));
}
