//! Mappings that are shared: files mapped with MAP_SHARED, by ranks and children, and memory without a file, by a rank and its
//! children. `qk_core::objects` says which frames hold what of them;
//! docs/shared-memory.md describes the whole.
//!
//! An object's frames are its file's own pages, for every rank of the node: the host lays the file over them when they are first
//! mapped, and takes it away when none is mapped any more.
//!
//! # Locks
//! docs/concurrency.md has their order. A gate ([`pool::Node::gate`]) is held while its file is laid, so
//! others that map its pages wait until they are there; the table only for as long as an entry takes. The shipped operations
//! under a gate depend on nothing but the caller's own proxy and the file.

mod again;
mod anonymous;
pub mod children;
mod ends;
mod files;
mod keys;
mod mappings;
mod pool;
mod receipt;
mod segments;
mod sharing;
pub mod text;

pub use again::{grow_mapping, pages_to_remap, remap_pages};
pub use anonymous::map as map_anonymous;
pub use ends::{cut, grow, lost, rung};
pub use keys::{futex_key, is_shared};
pub use mappings::{let_go_objects, map, write_back};
pub use pool::{init, pool};
pub use receipt::complete;
pub use segments::{attach as attach_segment, attachments, detach as detach_segment};
pub use sharing::note_code;
