//! ioctl's requests of /dev/xpmem, which Linux has by a module (github.com/hpc/xpmem, include/xpmem_internal.h). The QK serves
//! them; they are no requests that Linux is given.

/// What [`Request::Version`] returns: the module's 2.7.
pub const VERSION: u64 = 0x2_7004;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Request {
    /// The version of the interface. The QK also finds out by it whether a descriptor is the device.
    Version = 0x7800,
    /// Offers a range of addresses (struct xpmem_cmd_make).
    Make,
    /// Takes an offer back (segid).
    Remove,
    /// Gets a permit for what another offers (struct xpmem_cmd_get).
    Get,
    /// Gives a permit back (apid).
    Release,
    /// Attaches a part by a permit (struct xpmem_cmd_attach).
    Attach,
    /// Detaches it (its address).
    Detach,
    /// A fork begins.
    ForkBegin,
    /// A fork ends.
    ForkEnd,
}

impl Request {
    /// The request in ioctl's second argument, if it is one of these.
    #[must_use]
    pub const fn of(request: u64) -> Option<Request> {
        use Request::{Attach, Detach, ForkBegin, ForkEnd, Get, Make, Release, Remove, Version};
        const ALL: [Request; 9] = [
            Version, Make, Remove, Get, Release, Attach, Detach, ForkBegin, ForkEnd,
        ];
        let index = (request as u32).wrapping_sub(Version.nr() as u32) as usize; // an unsigned int
        if index < ALL.len() {
            Some(ALL[index])
        } else {
            None
        }
    }

    /// Its number: _IO('x', n).
    #[must_use]
    pub const fn nr(self) -> u64 {
        self as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn requests_are_found_by_their_numbers() {
        assert_eq!(Request::of(0x7800), Some(Request::Version));
        assert_eq!(Request::of(0x1_0000_7805), Some(Request::Attach));
        assert_eq!(Request::of(0x7808), Some(Request::ForkEnd));
        assert_eq!((Request::of(0x77ff), Request::of(0x7809)), (None, None));
    }
}
