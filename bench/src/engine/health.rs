//! Whether the generator kept its schedule.
//!
//! A run is invalid, because its numbers describe the generator and not the target, when
//! - slots were begun late by the generator's own fault: lateness p99 over 10 % of the primary operation's median.
//!   A target that answers in microseconds cannot be held to that by any generator that sleeps, so lateness up to
//!   [`LATENESS_FLOOR`] is let pass; it is part of `rt` all the same, and a note says when it matters;
//! - an executor was busy, or ready to run and without a CPU, for over 80 % of the time, deliberate spinning left out;
//! - nothing was answered in the measured window.

use std::time::Duration;

use super::usage::Usage;
use crate::limits::{GENERATOR_CPU_MAX, LATENESS_FLOOR, LATENESS_SHARE_MAX};
use crate::measure::Latencies;
use crate::result::Health;

/// What is judged, all of the measured window.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// How late slots were begun; `None` without a schedule (closed loop).
    pub lateness: Option<&'a Latencies>,
    /// The primary operation's response times.
    pub primary: Option<&'a Latencies>,
    /// What each executor used.
    pub usages: &'a [Usage],
    /// How long the window was.
    pub length: Duration,
    /// Executors poll instead of sleeping.
    pub spin: bool,
    /// Slots, and those that found the most outstanding requests out.
    pub slots: u64,
    /// As above.
    pub overflow: u64,
}

/// The figures, why the run is invalid, and what the reader should mind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// Figures.
    pub health: Health,
    /// Empty for a valid run.
    pub reasons: Vec<String>,
    /// Sentences.
    pub notes: Vec<String>,
}

/// Judges.
pub fn judge(measured: &Measured<'_>) -> Judgement {
    let share = |time: Duration, usage: &Usage| time.as_secs_f64() / usage.wall.as_secs_f64().max(f64::MIN_POSITIVE);
    let busy = |usage: &Usage| share(if measured.spin { usage.in_tasks.min(usage.cpu) } else { usage.cpu }, usage);
    let waiting = |usage: &Usage| share(usage.run_delay, usage);
    let quantile = |quantile| measured.lateness.map_or(0, |lateness| lateness.histogram.value_at_quantile(quantile));
    let health = Health {
        slots: measured.slots,
        lateness_p50_ns: quantile(0.5),
        lateness_p99_ns: quantile(0.99),
        lateness_max_ns: quantile(1.0),
        cpu_max: measured.usages.iter().map(busy).fold(0.0, f64::max),
        run_delay_max: measured.usages.iter().map(waiting).fold(0.0, f64::max),
        overflow: measured.overflow,
    };
    let mut judgement = Judgement { health, ..Judgement::default() };
    let Judgement { health, reasons, notes } = &mut judgement;
    let p50_ns = measured.primary.map_or(0, |primary| primary.histogram.value_at_quantile(0.5));
    if measured.primary.is_none_or(|primary| primary.histogram.is_empty()) {
        reasons.push("no request of the measured window was answered".into());
    } else if health.lateness_p99_ns as f64 > LATENESS_SHARE_MAX * p50_ns as f64 {
        let late = format!(
            "the generator began slots late: lateness p99 {}, which is {:.0} % of the median {}",
            ms(health.lateness_p99_ns),
            100.0 * health.lateness_p99_ns as f64 / p50_ns as f64,
            ms(p50_ns),
        );
        if u128::from(health.lateness_p99_ns) > LATENESS_FLOOR.as_nanos() {
            reasons.push(format!(
                "{late} (at most 10 %, or {} for fast targets): lower --rate, add --threads, give the generator \
                 CPUs of its own (--cpus), or --pace spin",
                ms(LATENESS_FLOOR.as_nanos() as u64)
            ));
        } else {
            notes.push(format!("{late}; `st` leaves it out, --pace spin lowers it"));
        }
    }
    let wanted = measured.usages.iter().map(|usage| busy(usage) + waiting(usage)).fold(0.0, f64::max);
    if wanted > GENERATOR_CPU_MAX {
        reasons.push(format!(
            "the generator was saturated: an executor was busy or waiting for a CPU {:.0} % of the time (at most {:.0} \
             %; {:.0} % of a core used, {:.0} % waiting): lower --rate or --connections, add --threads, or give the \
             generator CPUs of its own",
            wanted * 100.0,
            GENERATOR_CPU_MAX * 100.0,
            health.cpu_max * 100.0,
            health.run_delay_max * 100.0
        ));
    }
    if measured.usages.is_empty() && measured.length > Duration::ZERO {
        notes.push("the kernel tells no CPU time of the generator's threads: its load was not judged".into());
    }
    judgement
}

/// Milliseconds with three digits behind the point: microseconds.
fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(us: u64) -> Latencies {
        let mut latencies = Latencies::new();
        (0..100).for_each(|_| latencies.record(Duration::from_micros(us)));
        latencies
    }

    fn judged(lateness_us: u64, p50_us: u64, cpu: f64) -> Judgement {
        let (lateness, primary) = (latencies(lateness_us), latencies(p50_us));
        let wall = Duration::from_secs(10);
        let usage = Usage { wall, cpu: wall.mul_f64(cpu), ..Usage::default() };
        judge(&Measured {
            lateness: Some(&lateness),
            primary: Some(&primary),
            usages: &[Usage { wall, ..Usage::default() }, usage],
            length: Duration::from_secs(10),
            spin: false,
            slots: 100,
            overflow: 0,
        })
    }

    #[test]
    fn lateness_over_a_tenth_of_the_median_makes_a_run_invalid() {
        assert_eq!(judged(900, 10_000, 0.1).reasons, Vec::<String>::new());
        let late = judged(1_100, 10_000, 0.1);
        assert_eq!(late.reasons.len(), 1);
        assert!(late.reasons[0].contains("11 % of the median 10.00"), "{}", late.reasons[0]);
        assert!(late.reasons[0].contains("--pace spin"));
    }

    #[test]
    fn lateness_of_a_wake_up_is_noted_and_does_not_make_a_fast_target_s_run_invalid() {
        let fast = judged(90, 60, 0.1);
        assert!(fast.reasons.is_empty());
        assert!(fast.notes[0].contains("0.090 ms"), "{:?}", fast.notes);
        assert_eq!(judged(300, 60, 0.1).reasons.len(), 1);
    }

    #[test]
    fn a_saturated_executor_makes_a_run_invalid_and_spinning_does_not_count() {
        assert!(judged(10, 10_000, 0.79).reasons.is_empty());
        let saturated = judged(10, 10_000, 0.95);
        assert!(saturated.reasons[0].contains("95 % of a core used"), "{:?}", saturated.reasons);
        let primary = latencies(1_000);
        let usage = Usage {
            wall: Duration::from_secs(10),
            cpu: Duration::from_secs(9),
            in_tasks: Duration::from_secs(2),
            run_delay: Duration::from_secs(1),
        };
        let spinning = judge(&Measured {
            lateness: None,
            primary: Some(&primary),
            usages: &[usage],
            length: Duration::from_secs(10),
            spin: true,
            slots: 0,
            overflow: 0,
        });
        assert!(spinning.reasons.is_empty());
        assert!((spinning.health.cpu_max - 0.2).abs() < 1e-9 && (spinning.health.run_delay_max - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_run_without_an_answer_is_invalid() {
        let nothing = judge(&Measured {
            lateness: None,
            primary: None,
            usages: &[],
            length: Duration::from_secs(1),
            spin: false,
            slots: 5,
            overflow: 0,
        });
        assert!(nothing.reasons[0].contains("no request"));
    }
}
