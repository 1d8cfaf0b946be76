//! Margay beside other systems: the same binaries on the same emulated machine.
//!
//! [`catalogue`] lists the programs, how each is measured and what is read from its output. [`system`] says what it takes to be
//! a column; [`margay`] and [`linux`] are the columns there are. [`runner`] runs what is missing, all systems in turn, and keeps
//! it in the [`journal`]; [`summary`] makes figures out of it, and [`report`] shows them.

pub mod catalogue;
pub mod console;
mod executed;
pub mod journal;
pub mod linux;
pub mod machine;
pub mod margay;
pub mod memory;
pub mod report;
pub mod runner;
pub mod summary;
pub mod system;
