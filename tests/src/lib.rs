//! What the tests of the whole system share: running a program natively and under yod in fresh directories, and comparing
//! everything that can be seen of the two runs.
//!
//! There are no golden files: what a program does on Linux is found out in the same run. The programs and the manifests
//! that list them are in `programs/`. Nothing here depends on how yod works inside; it is started as a user starts it.

#![forbid(unsafe_code)]

pub mod bench;
pub mod capture;
pub mod clean;
pub mod compare;
pub mod guest;
pub mod limit;
pub mod manifest;
pub mod process;
pub mod random;
pub mod report;
pub mod run;
pub mod scratch;
pub mod stream;
pub mod tree;
pub mod trial;
