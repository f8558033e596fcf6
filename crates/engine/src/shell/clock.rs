//! The only place in the engine that reads clocks.

use provost_core::time::Moment;
use provost_sys::clock::mono_ms;
pub(super) use provost_sys::clock::wall_ms;

/// Reads the wall clock, and a monotonic clock that pauses while the machine sleeps and never goes
/// backwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Added to the kernel's clock, which restarts at each boot.
    offset_ms: u64,
}

impl Clock {
    /// Returns a clock that continues from the last recorded time.
    pub fn after(last_mono_ms: u64) -> Clock {
        Clock { offset_ms: last_mono_ms.saturating_sub(mono_ms()) }
    }

    pub fn now(&self) -> Moment {
        let wall_ms = i64::try_from(wall_ms()).unwrap_or(i64::MAX);
        Moment { wall_ms, mono_ms: self.ours(mono_ms()) }
    }

    /// Converts a time on the kernel's monotonic clock, as recorded by holders, to this clock.
    pub fn ours(&self, kernel_ms: u64) -> u64 {
        kernel_ms.saturating_add(self.offset_ms)
    }

    /// Returns the wall-clock time at a past time on this clock.
    pub fn wall_of(&self, mono_ms: u64) -> u64 {
        let ago = self.now().mono_ms.saturating_sub(mono_ms);
        wall_ms().saturating_sub(ago)
    }
}
