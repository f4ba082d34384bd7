//! The open loop: hands out the slots of a schedule when they are due.

use std::future::poll_fn;
use std::iter::Peekable;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use ringgate_runtime::{Budget, sleep_until};

use crate::engine::{Outstanding, Permit, Schedule, unless_told};
use crate::limits::{LATE_SENDS, PACER_REST};
use crate::measure::{Recorder, SeriesId, Window};
use crate::plan::Arrivals;
use crate::scenario::Seat;
use crate::stop::Stop;

/// Series of how late slots were handed out, by the generator's own fault.
pub const LATENESS: &str = "schedule.lateness";
/// Counts the slots of the schedule.
pub const SLOTS: &str = "schedule.slots";
/// The same of operations whose answers are not in `rate`, so that they are not in `offered_rate` either.
pub const OTHER_SLOTS: &str = "other.slots";
/// Counts slots of the primary operation that were due and never sent, because the target was too far behind at the
/// window's end.
pub const UNSENT: &str = "unsent";
/// The same of other operations.
pub const OTHER_UNSENT: &str = "other.unsent";
/// Counts slots that had to wait for the target: the most requests allowed were out.
pub const OVERFLOW: &str = "overflow";

/// One executor's schedule. A late slot is handed out at once with the moment it was meant for, none is skipped.
///
/// What makes slots late is told apart, since only one of the two makes a run invalid: waits for the target
/// (for room among the outstanding, for an in-flight slot of a connection) go through [`Pacer::admit`] or
/// [`Pacer::wait_for`]; all other lateness is the generator's.
pub struct Pacer {
    window: Window,
    schedule: Peekable<Schedule>,
    recorder: Recorder,
    stop: Stop,
    lateness: SeriesId,
    /// Where the latencies of unsent slots go, and what counts them.
    unsent: (SeriesId, &'static str),
    /// What counts the slots.
    slots: &'static str,
    /// Requests of a slot.
    weight: u64,
    /// Of those of the slot that was handed out last, the ones that were not begun yet.
    left: u64,
    /// How far apart two wake-ups are at least; nothing for an executor that polls.
    rest: Duration,
    /// When it last woke.
    woke: Instant,
    /// Until when the target kept slots waiting.
    excused: Option<Instant>,
    /// The slot that was handed out last has been counted as overflow.
    overflowed: bool,
    budget: Budget,
    ended: bool,
}

impl Pacer {
    /// A schedule of `rate` slots per second on this executor from the window's start to its end, for the primary
    /// operation. Slots that are still not sent [`LATE_SENDS`] after the window's end never are; they are recorded in
    /// the operation's `rt` with the time that they waited until then: a lower bound, where nothing at all would
    /// flatter the target.
    pub fn new(seat: &Seat, window: Window, rate: f64, arrivals: Arrivals, seed: u64) -> Pacer {
        let schedule = Schedule::new(rate, arrivals, seat.executor, seat.executors, seed);
        Pacer {
            window,
            schedule: schedule.peekable(),
            recorder: seat.recorder.clone(),
            stop: seat.stop.clone(),
            lateness: seat.recorder.series(LATENESS),
            unsent: (seat.primary_rt, UNSENT),
            slots: SLOTS,
            weight: 1,
            left: 1,
            rest: if seat.polls { Duration::ZERO } else { PACER_REST },
            woke: window.start,
            excused: None,
            overflowed: false,
            budget: Budget::new(),
            ended: false,
        }
    }

    /// For the schedule of an operation that is not the primary one: `rt` is its series.
    pub fn of_operation(mut self, rt: SeriesId) -> Pacer {
        self.unsent = (rt, OTHER_UNSENT);
        self
    }

    /// For an operation beside the primary one, with a rate of its own: its slots are no part of `offered_rate`.
    pub fn beside_primary(mut self, rt: SeriesId) -> Pacer {
        self.slots = OTHER_SLOTS;
        self.of_operation(rt)
    }

    /// For slots of so many requests each, all meant for one moment: each of them is counted, and [`Pacer::begins`] is told of
    /// each that begins.
    pub fn of_bursts(mut self, weight: u64) -> Pacer {
        self.weight = weight;
        self
    }

    /// One of the requests of the slot that was handed out last begins.
    pub fn begins(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Waits until the next slot is due and gives the moment it was meant for. `None` when the window has ended or
    /// the run was stopped; slots that were due by then and not handed out count as unsent.
    pub async fn next(&mut self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let end = self.window.end;
        let due = self.schedule.peek().and_then(|at| self.window.start.checked_add(*at)).filter(|due| *due < end);
        let now = Instant::now();
        if due.is_none_or(|due| due > now) {
            // A wait lets others run.
            let until = due.map_or(end, |due| due.max(self.woke + self.rest).min(end));
            if unless_told(&self.stop, sleep_until(until)).await.is_none() {
                self.close(None);
                return None;
            }
            self.budget.renew();
            self.woke = Instant::now();
        } else {
            self.budget.turn().await;
        }
        let now = Instant::now();
        let Some(due) = due.filter(|_| now < self.last_send() && !self.stop.is_told()) else {
            self.close(None);
            return None;
        };
        self.schedule.next();
        let expected = self.excused.map_or(due, |excused| due.max(excused));
        self.recorder.record(self.lateness, due, now.saturating_duration_since(expected));
        self.recorder.count(self.slots, due, self.weight);
        self.left = self.weight;
        self.overflowed = false;
        if expected > due {
            self.count_overflow(due);
        }
        Some(due)
    }

    /// Waits for room for the request of a slot. `None` when the run ends first; the slot is then unsent.
    pub async fn admit(&mut self, outstanding: &Outstanding, intended: Instant) -> Option<Permit> {
        match outstanding.try_enter() {
            Some(permit) => Some(permit),
            None => self.wait_for(intended, outstanding.enter()).await,
        }
    }

    /// Waits for something that the target has to do before the request of a slot can be sent; what it makes late is not
    /// the generator's lateness, and `overflow` counts slots that were due meanwhile. `None` when the run ends first;
    /// the slot is then unsent.
    pub async fn wait_for<F: Future>(&mut self, intended: Instant, waiting: F) -> Option<F::Output> {
        let mut over = pin!(sleep_until(self.last_send()));
        let mut waiting = pin!(waiting);
        let mut waited = false;
        let done = poll_fn(|cx| match waiting.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                waited = true;
                over.as_mut().poll(cx).map(|()| None)
            }
        });
        let output = unless_told(&self.stop, done).await.flatten();
        if waited {
            self.count_overflow(intended);
            self.excused = Some(Instant::now());
        }
        if output.is_none() {
            self.close(Some(intended));
        }
        output
    }

    fn count_overflow(&mut self, slot: Instant) {
        if !std::mem::replace(&mut self.overflowed, true) {
            self.recorder.count(OVERFLOW, slot, self.left);
        }
    }

    /// Until when slots that were due in the window are still sent.
    fn last_send(&self) -> Instant {
        self.window.end + LATE_SENDS
    }

    /// Ends the schedule: what was due by now (or by the window's end), and a slot that was handed out and not
    /// sent, are unsent.
    fn close(&mut self, handed_out: Option<Instant>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let until = self.last_send().min(Instant::now());
        let Window { start, end, .. } = self.window;
        let left = self.schedule.by_ref().map(|at| start + at).take_while(|due| *due < until.min(end));
        let handed_out = handed_out.into_iter().map(|due| (due, self.left, 0));
        for (due, requests, slots) in handed_out.chain(left.map(|due| (due, self.weight, self.weight))) {
            let (series, counter) = self.unsent;
            self.recorder.count(counter, due, requests);
            self.recorder.record_unanswered_n(series, due, until.saturating_duration_since(due), requests);
            if slots > 0 {
                self.recorder.count(self.slots, due, slots);
            }
        }
    }
}
