//! futex(2) and futex_waitv: their arguments.

use super::{Call, SysResult};
use crate::futex;

pub fn futex(call: &mut Call<'_>) -> SysResult {
    futex::operate(call.thread, call.args())
}

pub fn futex_waitv(call: &mut Call<'_>) -> SysResult {
    futex::wait_many(call.thread, call.args())
}
