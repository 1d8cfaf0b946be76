//! Tasks as the CPU sees them: a kernel stack, the FPU state, the segment bases and an address space.
//!
//! A [`Context`] is running on at most one CPU; its `running` flag is the lock on everything in it. [`switch`] takes the flag of the context it
//! enters and drops the flag of the one it leaves only after it is off that stack, so another CPU that is faster than
//! the switch waits for those few instructions and cannot run on a stack in use.

mod bases;
mod context;
mod fpu;
mod fpu_error;
pub(crate) mod kstack;

pub use bases::{NotCanonical, fs_base, gs_base, set_fs_base, set_gs_base};
pub use context::{Arrived, Context, adopt, switch};
pub use fpu::{fpu_state_size, load_fpu_from_user, reset_fpu, save_fpu_to_user, with_fpu_image};
pub use fpu_error::{fpu_error_code, mxcsr};
pub use kstack::KSTACK_BYTES;
