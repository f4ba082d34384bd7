//! Runs a scenario: executors, phases, the schedule, and what comes back.
//!
//! [`run()`] is called on an ordinary thread. It starts executors, has the scenario founded on the first and
//! prepared on all, hands all the same [`Window`](crate::measure::Window), merges what they record once a second,
//! and judges at the end whether the generator kept its schedule ([`health`]). An [`Interrupt`] ends a run early
//! and keeps what there is. What must stay true: a slot of the schedule is never skipped, and its intended moment
//! is kept however late it is sent ([`Pacer`]); a slot that the target's slowness kept from being sent at all
//! still counts, with the time it waited.

mod collector;
mod executor;
pub mod health;
mod interrupt;
mod observer;
mod orders;
mod outcome;
mod outstanding;
mod pacer;
mod race;
mod run;
mod schedule;
mod usage;

pub use interrupt::Interrupt;
pub use observer::{Observer, Stage};
pub use outstanding::{Outstanding, Permit};
pub use pacer::{LATENESS, OTHER_SLOTS, OTHER_UNSENT, Pacer, SLOTS, UNSENT};
pub use race::unless_told;
pub use run::{Finished, Pace, RunError, RunOptions, run};
pub use schedule::Schedule;
