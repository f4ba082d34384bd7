//! How long tasks keep their shard at a time.
//!
//! A slice is one poll of a task: whatever else is ready on the shard waits for its end, another group's
//! heartbeat included. Each is timed and counted on its own thread; a scrape reads the counts there.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::limits::SLICE_BOUNDS;

/// What slices are timed by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SliceClock {
    /// The time of day: some 50 ns a slice. It also runs while the kernel lets others have the CPU, so that on a
    /// busy machine it shows what clients wait for, not what the task did.
    #[default]
    Wall,
    /// `CLOCK_THREAD_CPUTIME_ID`: what the task itself took, for a microsecond or so a slice.
    Cpu,
}

/// Slices of one shard, from its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceReport {
    /// Upper bounds, growing, each with the number of slices that took at most that long.
    pub at_most: Vec<(Duration, u64)>,
    /// Slices in all.
    pub count: u64,
    /// What they took together.
    pub total: Duration,
    /// The longest of each kind of task. Kinds that never took longer than the first bound are left out.
    pub longest: Vec<(&'static str, Duration)>,
}

const BUCKETS: usize = SLICE_BOUNDS.len() + 1;

struct Slices {
    clock: Cell<SliceClock>,
    counts: [Cell<u64>; BUCKETS],
    total_ns: Cell<u64>,
    longest: RefCell<Vec<(&'static str, u64)>>,
}

thread_local! {
    static SLICES: Slices = const {
        Slices {
            clock: Cell::new(SliceClock::Wall),
            counts: [const { Cell::new(0) }; BUCKETS],
            total_ns: Cell::new(0),
            longest: RefCell::new(Vec::new()),
        }
    };
}

/// Times this shard's slices by this clock from now on.
///
/// On a thread that is no shard it does nothing that matters.
pub fn time_slices_by(clock: SliceClock) {
    SLICES.with(|slices| slices.clock.set(clock));
}

/// This shard's slices so far.
pub fn slices() -> SliceReport {
    SLICES.with(Slices::report)
}

/// The beginning of a slice.
pub(crate) enum Began {
    Wall(Instant),
    Cpu(Duration),
}

impl Began {
    pub(crate) fn now() -> Began {
        match SLICES.with(|slices| slices.clock.get()) {
            SliceClock::Wall => Began::Wall(Instant::now()),
            SliceClock::Cpu => Began::Cpu(thread_cpu_time()),
        }
    }

    /// The slice is over.
    pub(crate) fn end(self, kind: &'static str) {
        let took = match self {
            Began::Wall(began) => began.elapsed(),
            Began::Cpu(began) => thread_cpu_time().saturating_sub(began),
        };
        SLICES.with(|slices| slices.count(kind, took));
    }
}

impl Slices {
    fn count(&self, kind: &'static str, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = SLICE_BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(BUCKETS - 1);
        self.counts[bucket].set(self.counts[bucket].get() + 1);
        self.total_ns.set(self.total_ns.get().saturating_add(ns));
        if bucket > 0 {
            let mut longest = self.longest.borrow_mut();
            match longest.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, most)) => *most = ns.max(*most),
                None => longest.push((kind, ns)),
            }
        }
    }

    fn report(&self) -> SliceReport {
        let mut count = 0;
        let mut at_most = Vec::with_capacity(SLICE_BOUNDS.len());
        for (bound, in_bucket) in SLICE_BOUNDS.iter().zip(&self.counts) {
            count += in_bucket.get();
            at_most.push((*bound, count));
        }
        let longest = self.longest.borrow().iter().map(|(kind, ns)| (*kind, Duration::from_nanos(*ns))).collect();
        SliceReport {
            at_most,
            count: count + self.counts[BUCKETS - 1].get(),
            total: Duration::from_nanos(self.total_ns.get()),
            longest,
        }
    }
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    cpu_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that all threads of the process have used.
pub fn process_cpu_time() -> Duration {
    cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu_time(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, which lives on this stack for the length of the call.
    let done = unsafe { libc::clock_gettime(clock, &mut now) };
    // Every Linux has had these clocks for as long as io_uring exists.
    debug_assert_eq!(done, 0);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Slices {
        Slices {
            clock: Cell::default(),
            counts: [const { Cell::new(0) }; BUCKETS],
            total_ns: Cell::new(0),
            longest: RefCell::default(),
        }
    }

    #[test]
    fn slices_are_counted_by_how_long_they_took_and_the_longest_of_each_kind_is_known() {
        let slices = fresh();
        let [first, .., last] = SLICE_BOUNDS;
        slices.count("a", first);
        slices.count("b", first + Duration::from_nanos(1));
        slices.count("c", last * 3);
        slices.count("c", last * 2);
        let report = slices.report();
        assert_eq!(report.count, 4);
        assert_eq!(report.total, first * 2 + Duration::from_nanos(1) + last * 5);
        assert_eq!(report.at_most.len(), SLICE_BOUNDS.len());
        assert_eq!((report.at_most[0], report.at_most[1].1), ((first, 1), 2));
        assert_eq!(report.at_most.last(), Some(&(last, 2)), "two are beyond the last bound");
        assert_eq!(report.longest, [("b", first + Duration::from_nanos(1)), ("c", last * 3)]);
    }

    #[test]
    fn the_clock_of_the_thread_runs_with_its_work_and_not_with_its_sleep() {
        let began = thread_cpu_time();
        let mut steps = 0u64;
        while thread_cpu_time() - began < Duration::from_millis(2) {
            steps += 1;
        }
        assert!(steps > 0);
        let began = (thread_cpu_time(), Instant::now());
        std::thread::sleep(Duration::from_millis(200));
        assert!(thread_cpu_time() - began.0 < began.1.elapsed() / 2);
    }

    #[test]
    fn every_poll_is_a_slice_of_the_thread_that_makes_it() {
        for clock in [SliceClock::Wall, SliceClock::Cpu] {
            time_slices_by(clock);
            let before = slices().count;
            Began::now().end("a test");
            assert_eq!(slices().count, before + 1);
        }
        std::thread::spawn(|| assert_eq!(slices().count, 0)).join().expect("no slices there");
    }
}
