//! One executor's recorder.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::limits::{LATENCY_DIGITS, LATENCY_MAX};

/// The measured window: what was meant to be sent inside it counts.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// The schedule begins: warm-up.
    pub start: Instant,
    /// Warm-up is over.
    pub measure_from: Instant,
    /// The schedule ends; what is outstanding then is still waited for.
    pub end: Instant,
}

impl Window {
    /// Which phase a request belongs to that was meant to be sent then.
    pub fn phase(&self, intended: Instant) -> Phase {
        if intended < self.measure_from { Phase::WarmUp } else { Phase::Measured }
    }
}

/// Part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before the measured window: shown while it runs, in no result.
    WarmUp,
    /// What the result is made of.
    Measured,
}

/// A series of one recorder: an index, so that recording looks up no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesId(usize);

/// The series that [`Recorder::of`] makes.
const PRIMARY: SeriesId = SeriesId(0);

/// A series' latencies, in ns, and how many were longer than [`LATENCY_MAX`].
#[derive(Debug, Clone)]
pub struct Latencies {
    /// In ns.
    pub histogram: Histogram<u64>,
    /// Recorded as [`LATENCY_MAX`].
    pub clipped: u64,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, LATENCY_DIGITS)
            .expect("bounds are constants that fit");
        Latencies { histogram, clipped: 0 }
    }

    /// Records one.
    pub fn record(&mut self, latency: Duration) {
        self.record_n(latency, 1);
    }

    /// Records `count` that took equally long, such as the records of a batch that had one moment.
    pub fn record_n(&mut self, latency: Duration, count: u64) {
        if latency > LATENCY_MAX {
            self.clipped += count;
        }
        self.histogram.saturating_record_n(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1), count);
    }

    /// Adds another part's: percentiles come from merged histograms only.
    pub fn merge(&mut self, other: &Latencies) {
        self.clipped += other.clipped;
        self.histogram.add(&other.histogram).expect("the same bounds");
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

/// Counters of a phase: requests, records, bytes, errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// By name: `<operation>.requests`, `records`, `bytes`, `overflow`, ...
    pub counters: BTreeMap<&'static str, u64>,
    /// By operation and Kafka error code; -1,001 and below are the generator's own (see
    /// [`crate::result::errors`]).
    pub errors: BTreeMap<(&'static str, i16), u64>,
    /// Answers of the primary operation that came in the measured window, whenever they were meant to be asked for: what
    /// throughput is made of.
    pub answered: u64,
    /// The same of what answers moved, by the counter's name: `records`, `bytes`.
    pub moved: BTreeMap<&'static str, u64>,
}

/// What one executor recorded since the last take.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Latencies by phase and series name; only series with at least one value.
    pub latencies: BTreeMap<(Phase, &'static str), Latencies>,
    /// Counters by phase.
    pub counted: BTreeMap<Phase, Counted>,
}

impl Interval {
    /// Adds another part's.
    pub fn merge(&mut self, other: &Interval) {
        for (key, latencies) in &other.latencies {
            self.latencies.entry(*key).or_default().merge(latencies);
        }
        for (phase, counted) in &other.counted {
            let mine = self.counted.entry(*phase).or_default();
            for (name, count) in &counted.counters {
                *mine.counters.entry(name).or_default() += count;
            }
            for (key, count) in &counted.errors {
                *mine.errors.entry(*key).or_default() += count;
            }
            mine.answered += counted.answered;
            for (name, by) in &counted.moved {
                *mine.moved.entry(name).or_default() += by;
            }
        }
    }
}

/// See the [module](super).
#[derive(Debug, Clone)]
pub struct Recorder(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    window: Option<Window>,
    /// The first series is the `rt` of the primary operation.
    has_primary: bool,
    names: Vec<&'static str>,
    /// Per series, per phase; made when first used.
    latencies: Vec<[Option<Latencies>; 2]>,
    counted: [Counted; 2],
}

impl Recorder {
    /// Nothing recorded; until [`Recorder::begin`] everything is warm-up.
    pub fn new() -> Recorder {
        Recorder(Rc::new(RefCell::new(Inner {
            window: None,
            has_primary: false,
            names: Vec::new(),
            latencies: Vec::new(),
            counted: Default::default(),
        })))
    }

    /// Nothing recorded, and the series of the primary operation's response times.
    pub fn of(rt: &'static str) -> (Recorder, SeriesId) {
        let recorder = Recorder::new();
        recorder.0.borrow_mut().has_primary = true;
        let rt = recorder.series(rt);
        (recorder, rt)
    }

    /// From now on phases are told by this window.
    pub fn begin(&self, window: Window) {
        self.0.borrow_mut().window = Some(window);
    }

    /// The measured window ends now, if it has not ended before: the run was told to stop. What is still answered is none of
    /// its throughput.
    pub fn end(&self, now: Instant) {
        if let Some(window) = &mut self.0.borrow_mut().window {
            window.end = window.end.min(now);
        }
    }

    /// When the measured window ends, as far as that is known.
    pub fn ends(&self) -> Option<Instant> {
        self.0.borrow().window.map(|window| window.end)
    }

    /// The series with this name, made if there is none.
    pub fn series(&self, name: &'static str) -> SeriesId {
        let mut inner = self.0.borrow_mut();
        if let Some(at) = inner.names.iter().position(|known| *known == name) {
            return SeriesId(at);
        }
        inner.names.push(name);
        inner.latencies.push([None, None]);
        SeriesId(inner.names.len() - 1)
    }

    /// Records a latency of something that was meant to begin at `intended` and was answered.
    pub fn record(&self, series: SeriesId, intended: Instant, latency: Duration) {
        self.record_n(series, intended, latency, 1);
    }

    /// Records the latency of `count` that were meant to begin at `intended` and took equally long.
    pub fn record_n(&self, series: SeriesId, intended: Instant, latency: Duration, count: u64) {
        let mut inner = self.0.borrow_mut();
        if series == PRIMARY && inner.has_primary && inner.is_measured(intended + latency) {
            inner.counted[Phase::Measured as usize].answered += count;
        }
        inner.record(series, intended, latency, count);
    }

    /// Records how long something waited that has no answer: it was never sent, or waited for to the end of its time.
    pub fn record_unanswered(&self, series: SeriesId, intended: Instant, waited: Duration) {
        self.record_unanswered_n(series, intended, waited, 1);
    }

    /// The same of `count` that were meant to begin at `intended`.
    pub fn record_unanswered_n(&self, series: SeriesId, intended: Instant, waited: Duration, count: u64) {
        self.0.borrow_mut().record(series, intended, waited, count);
    }

    /// Adds to a counter, for something that was meant to begin at `intended`.
    pub fn count(&self, name: &'static str, intended: Instant, by: u64) {
        let mut inner = self.0.borrow_mut();
        let phase = inner.phase(intended);
        *inner.counted[phase as usize].counters.entry(name).or_default() += by;
    }

    /// Adds to a counter of what an answer moved: it was meant to be asked for at `intended` and came at `at`. What comes
    /// in the measured window makes the counter's rate, whenever it was meant.
    pub fn count_moved(&self, name: &'static str, intended: Instant, at: Instant, by: u64) {
        self.count(name, intended, by);
        let mut inner = self.0.borrow_mut();
        if inner.is_measured(at) {
            *inner.counted[Phase::Measured as usize].moved.entry(name).or_default() += by;
        }
    }

    /// Counts an error of an operation by Kafka's code, or one of the generator's own.
    pub fn error(&self, operation: &'static str, code: i16, intended: Instant) {
        self.errors(operation, code, intended, 1);
    }

    /// Counts an error that several met together, such as the records of a batch.
    pub fn errors(&self, operation: &'static str, code: i16, intended: Instant, by: u64) {
        let mut inner = self.0.borrow_mut();
        let phase = inner.phase(intended);
        *inner.counted[phase as usize].errors.entry((operation, code)).or_default() += by;
    }

    /// Which phase something counts in that was meant to begin at `intended`.
    pub fn phase(&self, intended: Instant) -> Phase {
        self.0.borrow().phase(intended)
    }

    /// What was recorded since the last call; the recorder begins anew.
    pub fn take(&self) -> Interval {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        let mut interval = Interval::default();
        for (name, phases) in inner.names.iter().zip(&mut inner.latencies) {
            for (phase, slot) in [Phase::WarmUp, Phase::Measured].into_iter().zip(phases) {
                if let Some(latencies) = slot.take() {
                    interval.latencies.insert((phase, name), latencies);
                }
            }
        }
        for (phase, slot) in [Phase::WarmUp, Phase::Measured].into_iter().zip(&mut inner.counted) {
            interval.counted.insert(phase, std::mem::take(slot));
        }
        interval
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Inner {
    fn record(&mut self, series: SeriesId, intended: Instant, latency: Duration, count: u64) {
        let phase = self.phase(intended);
        self.latencies[series.0][phase as usize].get_or_insert_default().record_n(latency, count);
    }

    fn is_measured(&self, moment: Instant) -> bool {
        self.window.is_some_and(|window| (window.measure_from..=window.end).contains(&moment))
    }

    fn phase(&self, intended: Instant) -> Phase {
        self.window.map_or(Phase::WarmUp, |window| window.phase(intended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_before_the_window_is_warm_up_whenever_it_is_answered() {
        let start = Instant::now();
        let window =
            Window { start, measure_from: start + Duration::from_secs(1), end: start + Duration::from_secs(2) };
        let recorder = Recorder::new();
        recorder.begin(window);
        let rt = recorder.series("produce.rt");
        assert_eq!(recorder.series("produce.rt"), rt);
        recorder.record(rt, start, Duration::from_millis(1_500));
        recorder.record(rt, window.measure_from, Duration::from_millis(2));
        recorder.count("records", start, 5);
        recorder.error("produce", 6, window.measure_from);
        let interval = recorder.take();
        let measured = &interval.latencies[&(Phase::Measured, "produce.rt")];
        assert_eq!((measured.histogram.len(), measured.histogram.max() / 10_000), (1, 200));
        assert_eq!(interval.latencies[&(Phase::WarmUp, "produce.rt")].histogram.len(), 1);
        assert_eq!(interval.counted[&Phase::WarmUp].counters["records"], 5);
        assert_eq!(interval.counted[&Phase::Measured].errors[&("produce", 6)], 1);
        assert!(recorder.take().latencies.is_empty());
    }

    #[test]
    fn an_answer_counts_for_throughput_in_the_window_in_which_it_comes() {
        let measure_from = Instant::now();
        let ms = Duration::from_millis;
        let window = Window { start: measure_from - ms(10_000), measure_from, end: measure_from + ms(60_000) };
        let (recorder, rt) = Recorder::of("produce.rt");
        recorder.begin(window);
        recorder.record(rt, measure_from - ms(1), ms(2));
        recorder.record(rt, measure_from - ms(2), ms(1));
        recorder.record_n(rt, measure_from, ms(1), 10);
        recorder.record(rt, window.end - ms(1), ms(2));
        recorder.record(recorder.series("produce.st"), measure_from, ms(1));
        recorder.record_unanswered(rt, measure_from, ms(1));
        let interval = recorder.take();
        assert_eq!(interval.counted[&Phase::Measured].answered, 11, "one that was meant in the warm-up, and ten");
        assert_eq!(interval.latencies[&(Phase::Measured, "produce.rt")].histogram.len(), 12);
    }

    #[test]
    fn answers_to_a_run_that_was_told_to_stop_are_no_throughput() {
        let measure_from = Instant::now();
        let ms = Duration::from_millis;
        let window = Window { start: measure_from, measure_from, end: measure_from + ms(60_000) };
        let (recorder, rt) = Recorder::of("produce.rt");
        recorder.begin(window);
        recorder.record(rt, measure_from, ms(1));
        recorder.end(measure_from + ms(1_000));
        // It was received before, and looked at behind it.
        recorder.record(rt, measure_from, ms(999));
        recorder.record(rt, measure_from, ms(1_001));
        recorder.count_moved("records", measure_from, measure_from + ms(1_001), 1);
        recorder.end(measure_from + ms(2_000));
        assert_eq!(recorder.ends(), Some(measure_from + ms(1_000)), "it ends once");
        let counted = &recorder.take().counted[&Phase::Measured];
        assert_eq!((counted.answered, counted.moved.len()), (2, 0));
    }

    #[test]
    fn what_an_answer_moves_makes_a_rate_in_the_window_in_which_it_comes() {
        let measure_from = Instant::now();
        let ms = Duration::from_millis;
        let window = Window { start: measure_from - ms(10_000), measure_from, end: measure_from + ms(60_000) };
        let recorder = Recorder::new();
        recorder.begin(window);
        recorder.count_moved("records", measure_from - ms(2), measure_from - ms(1), 1);
        recorder.count_moved("records", measure_from - ms(2), measure_from + ms(1), 10);
        recorder.count_moved("records", measure_from, window.end, 100);
        recorder.count_moved("records", measure_from, window.end + ms(1), 1_000);
        let interval = recorder.take();
        let counted = &interval.counted[&Phase::Measured];
        assert_eq!((counted.counters["records"], counted.moved["records"]), (1_100, 110));
        assert_eq!(interval.counted[&Phase::WarmUp].counters["records"], 11);
    }

    #[test]
    fn latencies_over_the_longest_are_kept_and_counted_as_clipped() {
        let mut latencies = Latencies::new();
        latencies.record(LATENCY_MAX + Duration::from_secs(1));
        latencies.record(Duration::from_micros(3));
        latencies.record_n(LATENCY_MAX * 2, 5);
        assert_eq!((latencies.histogram.len(), latencies.clipped), (7, 6));
    }
}
