//! What this machine takes for what a gateway does all the time: a few seconds of measuring.
//!
//! Each measurement takes a bounded time, leaves nothing behind, and is set beside what such machines usually take.
//! A slow one is a reason to look at the checks, not a failure.

mod clock;
mod cross_core;
mod fdatasync;
mod loopback;
mod sleep;
pub mod typical;

use std::fmt::Write;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use typical::{Machine, Typical, Usual};

/// What was measured, or why it was not.
pub type Outcome = Result<Taken, String>;

/// Times that one thing took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Each time, in ns, the shortest first; at least one.
    sorted_ns: Vec<u64>,
    /// What is to be known beside the numbers: which CPUs, which directory.
    pub about: String,
}

impl Taken {
    /// Of times in any order.
    ///
    /// # Errors
    /// There is none.
    pub fn new(mut times_ns: Vec<u64>, about: impl Into<String>) -> Outcome {
        if times_ns.is_empty() {
            return Err("it did not happen once in the time that it was given".into());
        }
        times_ns.sort_unstable();
        Ok(Taken { sorted_ns: times_ns, about: about.into() })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.sorted_ns.len()
    }

    /// What a share of them, in thousandths, did not exceed, in ns.
    pub fn at(&self, thousandths: usize) -> u64 {
        self.sorted_ns[(self.sorted_ns.len() - 1) * thousandths.min(1_000) / 1_000]
    }
}

/// One thing that is measured.
pub struct Measurement {
    /// Its name.
    pub id: &'static str,
    /// What is timed.
    pub what: &'static str,
    /// Measures it.
    run: Run,
}

type Run = Box<dyn FnOnce(&Setting<'_>) -> Outcome>;

/// Where it is measured.
pub struct Setting<'a> {
    /// CPUs of shards, the first ones first; none: wherever the kernel puts a thread.
    pub cpus: &'a [usize],
    /// `serve --data`.
    pub data: &'a Path,
    /// How long each may take, as a share of what it takes otherwise: 1.0 comes to under 10 s in all.
    pub share: f64,
}

impl Setting<'_> {
    fn budget(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.share)
    }
}

/// A measurement and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The measurement's name.
    pub id: &'static str,
    /// What was timed.
    pub what: &'static str,
    /// The times.
    pub outcome: Outcome,
    /// What is usual, where that is known.
    pub typical: Option<&'static Typical>,
}

/// Measures everything, one after the other. `wake_pair` is measured by who has the gateway's own runtime: within the
/// time given, on the CPUs given.
pub fn run(setting: &Setting<'_>, wake_pair: impl FnOnce(&[usize], Duration) -> Outcome + 'static) -> Vec<Row> {
    let measurements = [
        Measurement {
            id: "wake_pair",
            what: "waking another shard and being woken by it: what a request that crosses shards costs at the least",
            run: Box::new(move |setting| wake_pair(setting.cpus, setting.budget(1.5))),
        },
        Measurement {
            id: "cross_core",
            what: "a cache line's way to another core and back, both at work",
            run: Box::new(cross_core::measure),
        },
        Measurement {
            id: "loopback",
            what: "64 bytes to another thread over TCP and back",
            run: Box::new(loopback::measure),
        },
        Measurement {
            id: "fdatasync",
            what: "4 KiB appended and on disk: the least that an acknowledged commit waits",
            run: Box::new(fdatasync::measure),
        },
        Measurement { id: "clock", what: "reading the clock once", run: Box::new(clock::measure) },
        Measurement {
            id: "sleep",
            what: "how much later than asked a sleep of 1 ms ends",
            run: Box::new(sleep::measure),
        },
    ];
    let row = |measurement: Measurement| Row {
        id: measurement.id,
        what: measurement.what,
        outcome: (measurement.run)(setting),
        typical: typical::of(measurement.id),
    };
    measurements.into_iter().map(row).collect()
}

/// How a measurement compares with what is usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Less than half as much again.
    Usual,
    /// More, but not three times as much.
    Slower,
    /// At least three times as much.
    Slow,
    /// Not measured, or nothing is known to compare with.
    Unknown,
}

impl Comparison {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Comparison::Usual => "usual",
            Comparison::Slower => "slower",
            Comparison::Slow => "slow",
            Comparison::Unknown => "unknown",
        }
    }
}

impl Row {
    /// Half of the times, compared with what is usual on such a machine.
    pub fn comparison(&self, machine: Machine) -> Comparison {
        let (Ok(taken), Some(typical)) = (&self.outcome, self.typical) else { return Comparison::Unknown };
        let most = typical.on(machine).p50_ns;
        match taken.at(500) {
            p50 if p50 < most + most / 2 => Comparison::Usual,
            p50 if p50 < 3 * most => Comparison::Slower,
            _ => Comparison::Slow,
        }
    }

    /// In a sentence.
    pub fn verdict(&self, machine: Machine) -> String {
        let (taken, typical) = match (&self.outcome, self.typical) {
            (Err(why), _) => return format!("not measured: {why}"),
            (Ok(_), None) => return String::new(),
            (Ok(taken), Some(typical)) => (taken, typical),
        };
        let usual = typical.on(machine);
        match self.comparison(machine) {
            Comparison::Usual => format!("as usual on {}", machine.name()),
            _ => {
                let times = taken.at(500) as f64 / usual.p50_ns.max(1) as f64;
                format!("{times:.1} times what is usual on {}: {}", machine.name(), typical.when_slow)
            }
        }
    }
}

/// As JSON.
pub fn json(rows: &[Row], machine: Machine) -> serde_json::Value {
    let row = |row: &Row| {
        let taken = row.outcome.as_ref().ok();
        let usual = |machine| {
            row.typical.map(|typical| {
                let Usual { p50_ns, source } = typical.on(machine);
                serde_json::json!({"p50_ns": p50_ns, "source": source.name()})
            })
        };
        serde_json::json!({
            "id": row.id,
            "what": row.what,
            "about": taken.map(|taken| &taken.about),
            "count": taken.map_or(0, Taken::count),
            "p50_ns": taken.map(|taken| taken.at(500)),
            "p99_ns": taken.map(|taken| taken.at(990)),
            "max_ns": taken.map(|taken| taken.at(1_000)),
            "typical": {"bare_metal": usual(Machine::BareMetal), "vm": usual(Machine::Virtual)},
            "comparison": row.comparison(machine).name(),
            "verdict": row.verdict(machine),
        })
    };
    serde_json::json!({
        "version": 1,
        "machine": machine.name(),
        "measurements": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// As a table for people.
pub fn text(rows: &[Row], machine: Machine) -> String {
    let mut text =
        format!("{:<11} {:>9} {:>9} {:>9}   {:>13} {:>13}\n", "", "p50", "p99", "max", "bare metal p50", "VM p50");
    for row in rows {
        let taken = row.outcome.as_ref().ok();
        let at = |thousandths| taken.map_or("-".to_owned(), |taken| time(taken.at(thousandths)));
        let usual = |machine| row.typical.map_or("-".to_owned(), |typical| typical.on(machine).words());
        let _ = writeln!(
            text,
            "{:<11} {:>9} {:>9} {:>9}   {:>13} {:>13}\n            {}{}\n            {}",
            row.id,
            at(500),
            at(990),
            at(1_000),
            usual(Machine::BareMetal),
            usual(Machine::Virtual),
            row.what,
            taken.map_or(String::new(), |taken| format!(" ({})", taken.about)),
            row.verdict(machine),
        );
    }
    text.push_str("\n= measured on a machine of ours, ~ expected of such hardware, not measured by us\n");
    text
}

/// Pins this thread to a CPU, where there is one to pin it to.
fn pin(cpu: Option<usize>) -> io::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("CPU {cpu} is more than can be pinned to here")));
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// The CPUs that this process may run on.
fn allowed() -> Result<Vec<usize>, String> {
    let cpus = sched_getaffinity(None).map_err(|error| error.to_string())?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect())
}

/// What a thread ended with; its panic goes on here.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// In a unit that leaves one to three digits before the point.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(times_ns: impl IntoIterator<Item = u64>) -> Taken {
        Taken::new(times_ns.into_iter().collect(), "made up").unwrap()
    }

    fn row(p50_ns: u64) -> Row {
        Row { id: "sleep", what: "a test", outcome: Ok(taken([p50_ns])), typical: typical::of("sleep") }
    }

    #[test]
    fn percentiles_are_of_times_that_happened() {
        let taken = taken((1..=1_000).rev());
        assert_eq!((taken.at(500), taken.at(990), taken.at(1_000), taken.at(0)), (500, 990, 1_000, 1));
        assert_eq!((taken.count(), taken.at(9_999)), (1_000, 1_000));
        assert!(Taken::new(Vec::new(), "").is_err());
    }

    #[test]
    fn a_time_is_compared_with_what_is_usual_on_such_a_machine() {
        let machine = Machine::Virtual;
        let usual = typical::of("sleep").unwrap().on(machine).p50_ns;
        assert_eq!(row(usual).comparison(machine), Comparison::Usual);
        assert_eq!(row(2 * usual).comparison(machine), Comparison::Slower);
        assert_eq!(row(3 * usual).comparison(machine), Comparison::Slow);
        assert!(row(3 * usual).verdict(machine).starts_with("3.0 times what is usual on a virtual machine"));
        let failed = Row { outcome: Err("no such thing".into()), ..row(1) };
        assert_eq!(failed.comparison(machine), Comparison::Unknown);
        assert_eq!(failed.verdict(machine), "not measured: no such thing");
    }

    #[test]
    fn json_has_null_for_what_was_not_measured() {
        let failed = Row { outcome: Err("no such thing".into()), ..row(1) };
        let json = json(&[row(7), failed], Machine::BareMetal);
        let rows = json["measurements"].as_array().unwrap();
        assert_eq!((rows[0]["p50_ns"].as_u64(), rows[0]["count"].as_u64()), (Some(7), Some(1)));
        assert!(rows[1]["p50_ns"].is_null() && rows[1]["max_ns"].is_null());
        assert_eq!(rows[1]["comparison"], "unknown");
    }

    #[test]
    fn everything_is_measured_within_its_time_and_leaves_nothing_behind() {
        let data = tempfile::tempdir().unwrap();
        let setting = Setting { cpus: &[], data: data.path(), share: 0.02 };
        let rows = run(&setting, |cpus, budget| {
            assert_eq!((cpus.len(), budget), (0, Duration::from_millis(30)));
            Err("not here".into())
        });
        for row in rows.iter().filter(|row| row.id != "wake_pair") {
            // One CPU has no other core.
            if row.id == "cross_core" && std::thread::available_parallelism().unwrap().get() == 1 {
                continue;
            }
            assert!(row.outcome.as_ref().is_ok_and(|taken| taken.at(500) > 0), "{row:?}");
            assert!(row.typical.is_some(), "{}", row.id);
        }
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
        assert!(text(&rows, Machine::Virtual).contains("not measured: not here"));
    }
}
