//! Requests of ioctl and fcntl.

use abi::Errno;
use abi::syscall::Call as Row;
use abi::syscall::request::{self, Argument};

use super::super::{MAX_BYTES, is_remote, words};
use super::{Back, Plan, Value, back};

/// sizeof(struct ifconf), and of its length, an int (uapi/linux/if.h).
const IFCONF_BYTES: u64 = 16;
const LENGTH_BYTES: u64 = 4;

/// Whether a request's argument leads to memory in windows, by itself or by a list of interfaces.
pub fn is_remote_request(row: &Row, request: u64, at: u64) -> bool {
    match request::argument(row, request) {
        Some(Argument::Ifconf) => {
            is_remote(at) || words(at).is_some_and(|[_, list]| is_remote(list))
        }
        Some(argument) => is_remote(at) && argument.memory().is_some(),
        None => false,
    }
}

impl Plan {
    /// Argument `i`, what a request at `at` leads to.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn request(
        &mut self,
        row: &Row,
        request: u64,
        at: u64,
        i: usize,
    ) -> Result<(), Errno> {
        if !is_remote_request(row, request, at) {
            return Ok(());
        }
        self.args[i] = match request::argument(row, request) {
            Some(Argument::Ifconf) => self.interfaces(at)?,
            argument => match argument.and_then(Argument::memory) {
                Some((dir, bytes)) => self.piece(at, bytes.into(), back(dir, false))?,
                None => None,
            },
        }
        .map(Value::At);
        Ok(())
    }

    /// A struct ifconf: where its copy is. `None`: it cannot be read.
    fn interfaces(&mut self, at: u64) -> Result<Option<u64>, Errno> {
        let Some([length, list]) = words(at) else {
            return Ok(None);
        };
        let place = self.room(IFCONF_BYTES);
        let room = MAX_BYTES - self.len_bytes.min(MAX_BYTES);
        let bytes = u64::try_from(length as i32).unwrap_or(0).min(room);
        let copy = match is_remote(list) {
            true => self.piece(list, bytes, Back::All)?,
            false => None,
        };
        let length = if copy.is_some() { bytes } else { length };
        self.word(place, length, false)?;
        self.word(place + 8, copy.unwrap_or(list), copy.is_some())?;
        // Linux says there how long the list is.
        self.add(Some(at), place, LENGTH_BYTES, Back::All)?;
        Ok(Some(place))
    }
}
