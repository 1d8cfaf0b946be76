//! The allocator against a model that keeps one byte per frame.

use super::*;
use abi::addr::Phys;
use proptest::prelude::*;
use std::vec::Vec;

const M2: u64 = CHUNK_BYTES;
const G1: u64 = GIB_BYTES;

#[test]
fn large_pages_come_low_first_and_recombine_from_parts() {
    let mut f = Frames::new(Phys(G1), 4 * M2, true, |_| ()).unwrap();
    let a = f.alloc(PageSize::Size2M).unwrap();
    assert_eq!(
        a,
        Frame {
            addr: Phys(G1),
            size: PageSize::Size2M,
            zero: true
        }
    );
    assert_eq!(f.alloc(PageSize::Size2M).unwrap().addr, Phys(G1 + M2));
    for i in (0..512).rev() {
        f.free(Phys(G1 + i * 4096), PageSize::Size4K, i % 2 == 0)
            .unwrap();
    }
    // Contents differ frame by frame, so the page as a whole is not known to be zero.
    assert_eq!(
        f.alloc(PageSize::Size2M).unwrap(),
        Frame {
            addr: Phys(G1),
            size: PageSize::Size2M,
            zero: false
        }
    );
    assert_eq!(f.peak_bytes(), 2 * M2);
}

/// A run of large pages goes on as long as they are free, and alike: what must be zeroed is not told apart within it.
#[test]
fn large_pages_are_continued_by_what_is_free_and_alike() {
    let mut f = Frames::new(Phys(G1), 4 * M2, true, |_| ()).unwrap();
    let [a, b] = [(); 2].map(|()| f.alloc(PageSize::Size2M).unwrap().addr);
    f.free(b, PageSize::Size2M, false).unwrap();
    assert!(!f.alloc_next(a, true), "in use");
    assert!(!f.alloc_next(b, true), "not known to hold zeros");
    assert!(f.alloc_next(b, false));
    assert!(f.alloc_next(b + M2, true) && f.alloc_next(b + 2 * M2, true));
    assert!(!f.alloc_next(b + 3 * M2, true), "behind the partition");
    assert_eq!((f.used_bytes(), f.alloc(PageSize::Size4K)), (4 * M2, None));
}

#[test]
fn small_pages_fill_a_broken_chunk_before_breaking_another() {
    let mut f = Frames::new(Phys(0), 4 * M2, true, |_| ()).unwrap();
    assert_eq!(
        f.alloc_prefer(PageSize::Size4K, Phys(2 * M2 + 8192))
            .unwrap()
            .addr,
        Phys(2 * M2 + 8192)
    );
    for _ in 0..511 {
        let page = f.alloc(PageSize::Size4K).unwrap();
        assert_eq!(page.addr.0 / M2, 2);
    }
    assert_eq!(f.alloc(PageSize::Size4K).unwrap().addr, Phys(0));
    assert_eq!(f.alloc(PageSize::Size2M).unwrap().addr, Phys(M2));
}

#[test]
fn gigabytes_need_their_alignment() {
    let mut f = Frames::new(Phys(G1 / 2), 2 * G1, false, |_| ()).unwrap();
    assert_eq!(
        f.alloc(PageSize::Size1G).unwrap(),
        Frame {
            addr: Phys(G1),
            size: PageSize::Size1G,
            zero: false
        }
    );
    assert_eq!(f.alloc(PageSize::Size1G), None);
    f.free_range(Phys(G1), G1, true).unwrap();
    assert!(f.alloc_prefer(PageSize::Size1G, Phys(G1)).unwrap().zero);
    f.free_range(Phys(G1 + 4096), 4096, true).unwrap();
    assert_eq!(f.free_bytes(), G1 + 4096);
}

#[test]
fn an_unaligned_partition_uses_its_edges() {
    let mut f = Frames::new(Phys(M2 - 4096), M2 + 3 * 4096, true, |_| ()).unwrap();
    assert_eq!(f.alloc(PageSize::Size4K).unwrap().addr, Phys(M2 - 4096));
    assert_eq!(f.alloc(PageSize::Size4K).unwrap().addr, Phys(2 * M2));
    assert_eq!(f.alloc(PageSize::Size2M).unwrap().addr, Phys(M2));
    assert_eq!(f.alloc(PageSize::Size4K).unwrap().addr, Phys(2 * M2 + 4096));
    assert_eq!((f.alloc(PageSize::Size4K), f.free_bytes()), (None, 0));
}

#[test]
fn an_empty_partition_has_nothing() {
    let mut f = Frames::new(Phys(M2 + 1), 4096, true, |_| ()).unwrap();
    assert_eq!((f.free_bytes(), f.alloc(PageSize::Size4K)), (0, None));
}

#[test]
fn wrong_frees_are_told_apart() {
    let mut f = Frames::new(Phys(M2), 2 * M2, true, |_| ()).unwrap();
    f.alloc(PageSize::Size2M).unwrap();
    assert_eq!(f.check_free(Phys(M2), 0), Err(FreeError::Misaligned));
    assert_eq!(f.check_free(Phys(M2 + 1), 4096), Err(FreeError::Misaligned));
    assert_eq!(f.check_free(Phys(0), M2), Err(FreeError::OutsidePartition));
    assert_eq!(
        f.check_free(Phys(u64::MAX - 4095), 4096),
        Err(FreeError::OutsidePartition)
    );
    assert_eq!(f.check_free(Phys(M2), 2 * M2), Err(FreeError::DoubleFree));
    f.free(Phys(M2), PageSize::Size4K, false).unwrap();
    assert_eq!(f.check_free(Phys(M2), M2), Err(FreeError::DoubleFree));
}

#[test]
#[should_panic(expected = "DoubleFree")]
#[cfg(debug_assertions)]
fn a_double_free_panics_in_debug_builds() {
    let _ =
        Frames::new(Phys(M2), M2, true, |_| ())
            .unwrap()
            .free(Phys(M2), PageSize::Size4K, false);
}

/// One byte per frame: what the allocator must record, written the slow way.
struct Model {
    base: Phys,
    used: Vec<bool>,
    zero: Vec<bool>,
}

impl Model {
    fn span(&self, addr: Phys, len: u64) -> core::ops::Range<usize> {
        let first = ((addr - self.base) / 4096) as usize;
        first..first + (len / 4096) as usize
    }

    fn take(&mut self, addr: Phys, len: u64, zero: bool) {
        for i in self.span(addr, len) {
            assert!(!self.used[i], "frame handed out twice");
            assert!(self.zero[i] || !zero, "dirty frame called zero");
            self.used[i] = true;
        }
    }

    /// Whether some aligned page of `size` is wholly free.
    fn has(&self, size: PageSize) -> bool {
        let end = self.base + self.used.len() as u64 * 4096;
        (self.base.align_up(size.bytes()).0..end.0)
            .step_by(size.bytes() as usize)
            .map(Phys)
            .any(|a| {
                a + size.bytes() <= end && !self.used[self.span(a, size.bytes())].contains(&true)
            })
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(usize),
    Run(usize, Option<u64>),
    Prefer(usize, u64),
    /// Which allocation, which part of it in 1/8ths, clean, retired first.
    Free(usize, u64, u64, bool, bool),
    Release,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0usize..3).prop_map(Op::Alloc),
        4 => (1usize..100, proptest::option::of(0u64..5000)).prop_map(|(n, p)| Op::Run(n, p)),
        2 => (0usize..3, 0u64..5000).prop_map(|(s, p)| Op::Prefer(s, p)),
        6 => (any::<usize>(), 0u64..8, 1u64..9, any::<bool>(), any::<bool>()).prop_map(|(i, a, b, c, r)| Op::Free(i, a, b, c, r)),
        1 => Just(Op::Release),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        base in (0u64..4, 0u64..3).prop_map(|(m, k)| Phys(G1 - 3 * M2 + m * M2 + k * 4096)),
        frames in prop_oneof![1u64..5000, 262_144u64..270_000],
        ops in proptest::collection::vec(op(), 1..120),
        zeroed in any::<bool>(),
    ) {
        let mut f = Frames::new(base, frames * 4096, zeroed, |_| ()).unwrap();
        let n = frames as usize;
        let mut model = Model { base, used: std::vec![false; n], zero: std::vec![zeroed; n] };
        let mut held: Vec<(Phys, u64)> = Vec::new();
        let mut retired: Vec<(Phys, u64, bool)> = Vec::new();
        let mut peak = 0;
        let sizes = [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G];
        for op in ops {
            let got = match op {
                Op::Alloc(s) | Op::Prefer(s, _) => {
                    let can = model.has(sizes[s]);
                    let frame = match op {
                        Op::Prefer(_, p) => f.alloc_prefer(sizes[s], base + p * 4096),
                        _ => f.alloc(sizes[s]),
                    };
                    prop_assert_eq!(frame.is_some(), can);
                    frame.map(|x| (x.addr, x.size.bytes(), x.zero))
                }
                Op::Run(max, p) => {
                    let can = model.has(PageSize::Size4K);
                    let run = f.alloc_run(max, p.map(|p| base + p * 4096));
                    prop_assert_eq!(run.is_some(), can);
                    run.map(|r| (r.addr, r.len_bytes, r.zero))
                }
                Op::Release => {
                    f.release_retired();
                    for (addr, bytes, clean) in retired.drain(..) {
                        for k in model.span(addr, bytes) {
                            model.used[k] = false;
                            model.zero[k] = clean;
                        }
                    }
                    None
                }
                Op::Free(i, from, len, clean, retire) => {
                    if !held.is_empty() {
                        let (addr, bytes) = held.swap_remove(i % held.len());
                        let part = |eighths: u64| (bytes / 4096 * eighths.min(8) / 8) * 4096;
                        let (lo, hi) = (part(from), part(from + len));
                        let (lo, hi) = if lo == hi { (0, bytes) } else { (lo, hi) };
                        if retire {
                            prop_assert_eq!(f.retire(addr + lo, hi - lo, clean), Ok(()));
                            retired.push((addr + lo, hi - lo, clean));
                        } else {
                            prop_assert_eq!(f.free_range(addr + lo, hi - lo, clean), Ok(()));
                            for k in model.span(addr + lo, hi - lo) {
                                model.used[k] = false;
                                model.zero[k] = clean;
                            }
                        }
                        prop_assert_eq!(f.check_free(addr + lo, hi - lo), Err(FreeError::DoubleFree));
                        held.extend([(addr, lo), (addr + hi, bytes - hi)].iter().filter(|(_, l)| *l > 0));
                    }
                    None
                }
            };
            if let Some((addr, len, zero)) = got {
                model.take(addr, len, zero);
                held.push((addr, len));
            }
            let not_free = 4096 * model.used.iter().filter(|u| **u).count() as u64;
            let waiting = retired.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
            let used = not_free - waiting;
            peak = peak.max(used);
            prop_assert_eq!((f.used_bytes(), f.peak_bytes()), (used, peak));
            prop_assert_eq!((f.retired_bytes(), f.free_bytes()), (waiting, frames * 4096 - not_free));
        }
    }
}

/// The kernel panicked where its heap had no room for the records of a partition.
#[test]
fn a_partition_whose_records_do_not_fit_is_refused() {
    assert!(Frames::new(Phys(0), 1 << 62, true, |_| ()).is_none());
}
