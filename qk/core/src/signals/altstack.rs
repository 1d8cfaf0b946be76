//! The alternate signal stack of a thread (sigaltstack(2); Linux: do_sigaltstack).

use abi::Errno;
use abi::addr::Va;

/// ss_flags: the thread runs on the alternate stack.
pub const SS_ONSTACK: u32 = 1;
/// ss_flags: there is none.
pub const SS_DISABLE: u32 = 2;
/// ss_flags: forget it when a handler is entered, so that the handler may switch away.
pub const SS_AUTODISARM: u32 = 1 << 31;

/// Bytes that an alternate stack has at least (arch/x86/include/uapi/asm/signal.h).
pub const MINSIGSTKSZ: u64 = 2048;

/// Bytes below the stack pointer that belong to the running function (System V ABI, x86-64 §3.2.2).
const RED_ZONE_BYTES: u64 = 128;

/// stack_t. All zero but the flags: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltStack {
    /// ss_sp: lowest address.
    pub base: Va,
    /// ss_flags
    pub flags: u32,
    /// ss_size in bytes; 0 = none.
    pub size_bytes: u64,
}

impl AltStack {
    /// No alternate stack.
    pub const NONE: Self = Self {
        base: Va(0),
        flags: SS_DISABLE,
        size_bytes: 0,
    };

    /// What sigaltstack reports to a thread whose stack pointer is `sp`.
    pub fn report(&self, sp: Va) -> Self {
        Self {
            flags: self.state(sp) | self.flags & SS_AUTODISARM,
            ..*self
        }
    }

    /// Installs `new` as sigaltstack does. `min_bytes`: MINSIGSTKSZ or AT_MINSIGSTKSZ.
    ///
    /// # Errors
    /// EPERM on the stack itself, EINVAL for unknown flags, ENOMEM when too small.
    pub fn set(&mut self, new: Self, sp: Va, min_bytes: u64) -> Result<(), Errno> {
        if self.holds(sp) {
            return Err(Errno::EPERM);
        }
        match new.flags & !SS_AUTODISARM {
            SS_DISABLE => {
                *self = Self {
                    base: Va(0),
                    size_bytes: 0,
                    flags: new.flags,
                }
            }
            0 | SS_ONSTACK if new.size_bytes < min_bytes => return Err(Errno::ENOMEM),
            0 | SS_ONSTACK => *self = new,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Where a handler's frame is to be placed below, for a thread interrupted at `sp`: the top of
    /// the alternate stack when the action requests it (`onstack`), there is one, and it is not in
    /// use; else below the red zone.
    pub fn frame_top(&self, sp: Va, onstack: bool) -> Va {
        if onstack && self.state(sp) == 0 {
            Va(self.base.0.wrapping_add(self.size_bytes))
        } else {
            Va(sp.0.wrapping_sub(RED_ZONE_BYTES))
        }
    }

    /// Whether a frame at `frame` would run out of the alternate stack the thread is on at `sp`, or
    /// is about to enter: the thread gets SIGSEGV then (Linux: get_sigframe).
    pub fn overflows(&self, sp: Va, frame: Va, onstack: bool) -> bool {
        let entering = onstack && self.state(sp) == 0;
        (entering || self.holds(sp)) && !self.spans(frame)
    }

    /// Called once a frame that holds the old state is in place.
    pub fn enter_handler(&mut self) {
        if self.flags & SS_AUTODISARM != 0 {
            *self = Self::NONE;
        }
    }

    /// SS_DISABLE, SS_ONSTACK or 0 (Linux: sas_ss_flags).
    fn state(&self, sp: Va) -> u32 {
        match () {
            () if self.size_bytes == 0 => SS_DISABLE,
            () if self.holds(sp) => SS_ONSTACK,
            () => 0,
        }
    }

    /// Whether `sp` counts as being on it. Under AUTODISARM it never does: it would be gone.
    fn holds(&self, sp: Va) -> bool {
        self.spans(sp) && self.flags & SS_AUTODISARM == 0
    }

    fn spans(&self, sp: Va) -> bool {
        // Above its lowest address, up to its end.
        sp.0.wrapping_sub(self.base.0).wrapping_sub(1) < self.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SP: Va = Va(0x7fff_0000);

    #[test]
    fn the_alternate_stack_follows_sigaltstack_2() {
        let mut a = AltStack::NONE;
        let stack = |flags, size_bytes| AltStack {
            base: Va(0x10000),
            flags,
            size_bytes,
        };
        assert_eq!(a.report(SP), AltStack::NONE);
        assert_eq!(a.set(stack(0, 2047), SP, 2048), Err(Errno::ENOMEM));
        assert_eq!(a.set(stack(4, 8192), SP, 2048), Err(Errno::EINVAL));
        assert_eq!(a.frame_top(SP, true), SP.before(128));
        a.set(stack(SS_ONSTACK, 8192), SP, 2048).unwrap();
        assert_eq!(a.report(SP).flags, 0);
        assert_eq!(
            (a.frame_top(SP, true), a.frame_top(SP, false)),
            (Va(0x12000), SP.before(128))
        );
        // On the stack: it is in use, may not be changed, and may overflow.
        let on = Va(0x11000);
        assert_eq!(a.report(on).flags, SS_ONSTACK);
        assert_eq!(a.set(stack(SS_DISABLE, 0), on, 2048), Err(Errno::EPERM));
        assert_eq!(a.frame_top(on, true), on.before(128));
        assert!(a.overflows(on, Va(0xfff0), true) && !a.overflows(on, Va(0x10ff0), true));
        assert!(a.overflows(SP, Va(0xff00), true) && !a.overflows(SP, SP.before(4096), false));
        a.set(stack(SS_DISABLE, 8192), SP, 2048).unwrap();
        assert_eq!(a, AltStack::NONE);
        // AUTODISARM: forgotten on entry, may be set again from the handler.
        a.set(stack(SS_AUTODISARM, 8192), SP, 2048).unwrap();
        assert_eq!(
            (a.report(SP).flags, a.report(on).flags),
            (SS_AUTODISARM, SS_AUTODISARM)
        );
        a.enter_handler();
        assert_eq!(a, AltStack::NONE);
    }
}
