//! The node's clock: parameters that turn the guest's TSC into the host's CLOCK_MONOTONIC and CLOCK_REALTIME. Pure.
//!
//! The guest's TSC runs at the rate of the host's but from another origin, that of the machine's start. How far apart they
//! are is found while the kernel boots: it notes its TSC before and after a look of the keeper's at the host's, a few times
//! (`wire::boot::Header::ping`), and [`Offset`] takes what agrees with all of them. That is exact to about a microsecond.
//! When the keeper does not get to run in time, all that is known is that the node came up before it noticed: then guest clocks
//! are ahead of the host's by that much at most.
//!
//! From then on the clock is continuous: a refresh begins where the old parameters stand and sets the rate so that host
//! and node agree again at the next refresh. Only a lag that cannot be caught up with (the host slept) is jumped over,
//! forwards.
//!
//! How far CLOCK_REALTIME is from CLOCK_MONOTONIC changes only when the host's time is set, but two readings after one
//! another give it no better than the time between them ([`Ahead`]).

mod offset;
mod sample;

use wire::clock::ClockParams;

pub use offset::Offset;
pub use sample::{Sample, tsc_hz};

/// Binary digits of the rate behind the point.
const SHIFT: u32 = 40;
/// A clock that lags by more jumps forwards.
const JUMP_NS: u64 = 20_000_000;
/// Most that a refresh changes the rate by, as a fraction: 1 / 2000, as adjtime(3) slews.
const SLEW_FRACTION: u64 = 2000;

/// CLOCK_REALTIME minus CLOCK_MONOTONIC in ns: what all samples allow. The node shows the least, which only grows until the host's
/// time is set, so that its CLOCK_REALTIME does not step back.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    least: i64,
    most: i64,
}

impl Ahead {
    fn of(sample: &Sample) -> Ahead {
        /// Linux rounds both readings.
        const ROUNDED_NS: i64 = 1;
        let ahead = sample.real_ns.wrapping_sub(sample.mono_ns) as i64;
        let error = i64::try_from(sample.error_ns)
            .unwrap_or(i64::MAX)
            .saturating_add(ROUNDED_NS);
        Ahead {
            least: ahead.saturating_sub(error),
            most: ahead.saturating_add(error),
        }
    }

    /// What is known with one more sample; from that alone if it contradicts.
    fn with(self, sample: &Sample) -> Ahead {
        let new = Ahead::of(sample);
        let (least, most) = (self.least.max(new.least), self.most.min(new.most));
        if least <= most {
            Ahead { least, most }
        } else {
            new
        }
    }

    const fn real_ns(self, mono_ns: u64) -> u64 {
        mono_ns.wrapping_add(self.least as u64)
    }
}

/// Keeps the parameters.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Guest TSC minus host TSC, wrapping.
    offset: u64,
    last: Sample,
    ahead: Ahead,
    params: ClockParams,
}

impl Clock {
    /// Starts the clock of a guest whose TSC is the host's plus `offset` (wrapping). `first` and `now` give the rate;
    /// `None` when they are too close.
    #[must_use]
    pub fn start(offset: u64, first: &Sample, now: &Sample) -> Option<Clock> {
        let mult = rate(
            now.mono_ns.checked_sub(first.mono_ns)?,
            now.tsc.checked_sub(first.tsc)?,
        )?;
        let ahead = Ahead::of(first).with(now);
        let params = ClockParams {
            tsc_base: now.tsc.wrapping_add(offset),
            mono_ns: now.mono_ns,
            real_ns: ahead.real_ns(now.mono_ns),
            mult,
            shift: SHIFT,
        };
        Some(Clock {
            offset,
            last: *now,
            ahead,
            params,
        })
    }

    /// What to publish.
    #[must_use]
    pub const fn params(&self) -> &ClockParams {
        &self.params
    }

    /// Goes on from `now`; the next refresh is due in `interval_ns`.
    pub fn refresh(&mut self, now: &Sample, interval_ns: u64) {
        let (Some(host_ns), Some(ticks)) = (
            now.mono_ns.checked_sub(self.last.mono_ns),
            now.tsc.checked_sub(self.last.tsc),
        ) else {
            return; // Clocks of the host went backwards: better keep going as we do.
        };
        let Some(true_rate) = rate(host_ns, ticks) else {
            return;
        };
        let tsc = now.tsc.wrapping_add(self.offset);
        let shown_ns = self.params.mono_ns + self.params.since_base_ns(tsc);
        let lag_ns = now.mono_ns.saturating_sub(shown_ns);
        let lead_ns = shown_ns.saturating_sub(now.mono_ns);
        let mono_ns = if lag_ns > JUMP_NS {
            now.mono_ns
        } else {
            shown_ns
        };
        let limit = true_rate / SLEW_FRACTION;
        let slew = |ns: u64| {
            let change = u128::from(true_rate) * u128::from(ns) / u128::from(interval_ns.max(1));
            change.min(u128::from(limit)) as u64
        };
        let mult = match (lag_ns, lead_ns) {
            (lag, _) if lag > JUMP_NS => true_rate,
            (lag, 0) => true_rate + slew(lag),
            (_, lead) => true_rate - slew(lead),
        };
        // The difference of the two clocks is the host's, so that setting the host's time sets the node's.
        self.ahead = self.ahead.with(now);
        self.params = ClockParams {
            tsc_base: tsc,
            mono_ns,
            real_ns: self.ahead.real_ns(mono_ns),
            mult,
            shift: SHIFT,
        };
        self.last = *now;
    }
}

/// ns per tick, times 2^SHIFT.
fn rate(ns: u64, ticks: u64) -> Option<u64> {
    let rate = (u128::from(ns) << SHIFT).checked_div(u128::from(ticks))?;
    u64::try_from(rate).ok().filter(|&rate| rate > 0)
}

#[cfg(test)]
mod tests;
