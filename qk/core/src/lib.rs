//! The kernel's pure logic: what can be decided without touching hardware.
//!
//! Everything here is `no_std`, free of `unsafe`, and tested on the host in milliseconds against
//! simple models. Memory is allocated only by constructors (boxed slices of a fixed size); an
//! operation never allocates, so none can fail for want of kernel heap.
//!
//! | module | decides |
//! |---|---|
//! | [`page`] | the three page sizes and which of them fits |
//! | [`frames`] | which physical frames of a rank's share are free |
//! | [`regions`] | what is mapped where in a rank's memory |
//! | [`mman`] | what mmap and its kin may do, and which errors they give |
//! | [`paging`] | what page-table entries are to be, over table memory that the kernel supplies |
//! | [`signals`] | dispositions, masks, what is pending and what is delivered next |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bits;
pub mod frames;
pub mod mman;
pub mod page;
pub mod paging;
pub mod regions;
pub mod signals;
