//! When requests are meant to be sent.

use std::time::Duration;

use crate::plan::Arrivals;
use crate::random::Random;

/// The slots of one executor, as moments since the schedule's start, without end. Each is reckoned from the start,
/// so that no error adds up.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Between two slots, in s; on average when they are random.
    gap_s: f64,
    /// Of an even schedule.
    first_s: f64,
    next: u64,
    /// Of a random schedule: when the last slot was, in s.
    last_s: f64,
    random: Option<Random>,
}

impl Schedule {
    /// `rate` slots per second, which is this executor's part of the load. Executors' even schedules interleave.
    /// A rate of 0 has no slots.
    pub fn new(rate: f64, arrivals: Arrivals, executor: u16, executors: u16, seed: u64) -> Schedule {
        let gap_s = 1.0 / rate;
        Schedule {
            gap_s,
            first_s: gap_s * f64::from(executor) / f64::from(executors.max(1)),
            next: 0,
            last_s: 0.0,
            random: (arrivals == Arrivals::Poisson).then(|| Random::new(seed)),
        }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let at_s = match &mut self.random {
            None => self.first_s + self.next as f64 * self.gap_s,
            Some(random) => {
                self.last_s += -(1.0 - random.unit()).ln() * self.gap_s;
                self.last_s
            }
        };
        self.next += 1;
        Duration::try_from_secs_f64(at_s).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(schedule: Schedule, length: Duration) -> Vec<Duration> {
        schedule.take_while(|at| *at < length).collect()
    }

    #[test]
    fn an_even_schedule_has_its_rate_and_its_last_slot_where_arithmetic_has_it() {
        let mut schedule = Schedule::new(1_000.0, Arrivals::Constant, 0, 1, 0);
        assert_eq!(first(schedule.clone(), Duration::from_secs(3)).len(), 3_000);
        assert_eq!(schedule.nth(3_600_000 - 1), Some(Duration::from_millis(3_599_999)));
    }

    #[test]
    fn executors_slots_interleave_evenly() {
        let mut all: Vec<Duration> = (0..4)
            .flat_map(|executor| {
                first(Schedule::new(250.0, Arrivals::Constant, executor, 4, 0), Duration::from_secs(1))
            })
            .collect();
        all.sort();
        assert_eq!(all, first(Schedule::new(1_000.0, Arrivals::Constant, 0, 1, 0), Duration::from_secs(1)));
    }

    #[test]
    fn random_arrivals_have_the_rate_the_spread_of_a_poisson_process_and_are_decided_by_the_seed() {
        let schedule = |seed| first(Schedule::new(1_000.0, Arrivals::Poisson, 0, 1, seed), Duration::from_secs(100));
        let slots = schedule(5);
        assert!((98_000..102_000).contains(&slots.len()), "{}", slots.len());
        let gaps: Vec<f64> = slots.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let spread = variance.sqrt() / mean;
        assert!((0.97..1.03).contains(&spread), "exponential gaps spread as widely as their mean: {spread}");
        assert_eq!(slots, schedule(5));
        assert_ne!(slots, schedule(6));
    }

    #[test]
    fn a_rate_of_nothing_has_no_slot() {
        assert_eq!(Schedule::new(0.0, Arrivals::Constant, 1, 2, 0).next(), None);
        assert_eq!(Schedule::new(0.0, Arrivals::Poisson, 1, 2, 0).next(), None);
    }
}
