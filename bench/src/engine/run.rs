//! The main thread's part of a run.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use ringgate_runtime::{Config, Executors, Placement};

use super::collector::Collector;
use super::executor::{Driven, Part, Told, work};
use super::interrupt::Interrupt;
use super::observer::{Observer, Stage};
use super::orders::{Give, order};
use super::outcome::{self, Ended};
use super::usage::Usage;
use crate::host::ServerSampler;
use crate::limits::{LEAD, SLEEP_PRECISION, SPIN};
use crate::measure::{Interval, Latencies, Window};
use crate::plan::{Common, Load, defaults};
use crate::result::{Hlog, IntervalRow, Parameter, RunResult, Target};
use crate::scenario::{Findings, Scenario, SetupError};
use crate::scrape::{Scraper, Scraping};

/// How executors wait for the next slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// They spin when slots are closer than what sleep can do and each has a CPU of its own (`cpus`); otherwise they
    /// sleep, since a spinning generator would take the CPU from a target on the same machine.
    #[default]
    Auto,
    /// They sleep: slots begin as late as a wake-up takes.
    Sleep,
    /// They poll, which takes a whole core each.
    Spin,
}

/// How a run is carried out.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// `<utc>-<scenario>-<random>`.
    pub id: String,
    /// How many, at least one.
    pub executors: u16,
    /// One for each executor, or wherever the kernel puts them.
    pub cpus: Option<Vec<usize>>,
    /// How they wait.
    pub pace: Pace,
    /// The server's process, to sample.
    pub server_pid: Option<u32>,
    /// Its metrics, to scrape.
    pub server_metrics: Option<Scraping>,
    /// As it was called.
    pub command: Vec<String>,
    /// Ends it early.
    pub interrupt: Interrupt,
    /// Share of errors over which a run is aborted; 1 for never.
    pub error_limit: f64,
}

/// A run with what it came to, whether or not it may be believed.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Everything.
    pub result: RunResult,
    /// Merged, of the measured window, by series.
    pub latencies: BTreeMap<&'static str, Latencies>,
    /// The same by interval.
    pub log: Hlog,
}

/// A run that never began.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Exit code 3.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// This machine cannot run executors: exit code 3.
    #[error("cannot start the generator: {0}")]
    Host(#[from] io::Error),
    /// It was told to end before load was driven: exit code 130.
    #[error("interrupted before the schedule began: nothing was measured")]
    Interrupted,
}

impl RunOptions {
    /// As a reader would write them, by flag name.
    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name: &str, value: String, default: bool| Parameter { name: name.into(), value, default };
        let pace = match self.pace {
            Pace::Auto => "auto",
            Pace::Sleep => "sleep",
            Pace::Spin => "spin",
        };
        let mut parameters = vec![
            parameter("threads", self.executors.to_string(), self.executors == 1),
            parameter("pace", pace.into(), self.pace == Pace::Auto),
            parameter(
                "error-limit",
                format!("{}%", self.error_limit * 100.0),
                self.error_limit == defaults::ERROR_LIMIT,
            ),
        ];
        if let Some(cpus) = &self.cpus {
            let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
            parameters.push(parameter("cpus", cpus.join(","), false));
        }
        if let Some(pid) = self.server_pid {
            parameters.push(parameter("server-pid", pid.to_string(), false));
        }
        if let Some(Scraping { url, choice }) = &self.server_metrics {
            parameters.push(parameter("server-metrics", url.to_string(), false));
            let chosen = choice.prefixes.iter().map(|prefix| parameter("server-metric", prefix.0.clone(), false));
            parameters.extend(chosen);
        }
        parameters
    }

    /// Whether executors poll instead of sleeping.
    fn spin(&self, load: &Load) -> bool {
        match self.pace {
            Pace::Spin => true,
            Pace::Sleep => false,
            Pace::Auto => match load {
                Load::Open { rate, .. } => {
                    let gap_s = f64::from(self.executors) / rate;
                    self.cpus.is_some() && gap_s < SLEEP_PRECISION.as_secs_f64()
                }
                Load::Closed | Load::Own => false,
            },
        }
    }
}

/// Runs a scenario to its end; blocks.
///
/// # Errors
/// The run never began. One that began ends as a result, however it went.
pub fn run<S: Scenario>(
    common: &Common,
    plan: &S::Plan,
    how: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Finished, RunError> {
    let spin = how.spin(&common.load);
    let mut executors = Executors::start(&Config {
        shards: how.executors,
        placement: how.cpus.clone().map_or(Placement::Unpinned, Placement::Cpus),
        spin: if spin { SPIN } else { Duration::ZERO },
    })?;
    // Once a run; series are named by constants everywhere else.
    let primary_rt: &'static str = format!("{}.rt", S::PRIMARY).leak();
    let (tell, told) = mpsc::channel();
    let (mut shared_to, mut window_to, mut stop_to) = (Vec::new(), Vec::new(), Vec::new());
    executors.run(|executor| {
        let (shared_give, shared) = order();
        let (window_give, window) = order();
        let (stop_give, stop) = order();
        shared_to.push(shared_give);
        window_to.push(window_give);
        stop_to.push(stop_give);
        let (executors, server_pid, tell) = (how.executors, how.server_pid, tell.clone());
        let (common, plan) = (common.clone(), plan.clone());
        move || {
            work::<S>(Part {
                executor,
                executors,
                polls: spin,
                common,
                plan,
                server_pid,
                primary_rt,
                tell,
                shared,
                window,
                stop,
            })
        }
    });
    how.interrupt.listen(move || {
        // Nobody hears it when the run is over.
        let _ = tell.send(Told::Interrupted);
    });
    let mut desk = Desk {
        told,
        stop_to,
        executors: usize::from(how.executors),
        server: None,
        measuring: false,
        scraper: None,
        interrupted: false,
        aborted: None,
    };
    let window = desk.set_up(&shared_to, &window_to, common, how, observer);
    let driven = window.map(|(window, began)| {
        let mut collected = Collector::new(desk.executors, common.warmup, primary_rt);
        let parts = desk.drive(window, &mut collected, common, how.error_limit, observer);
        (window, began, collected, parts)
    });
    desk.stop();
    executors.join();
    let (window, began, collected, parts) = driven?;

    let measured_until = parts.sent_until.min(window.end);
    let mut findings = parts.findings;
    findings.notes.dedup();
    let mut parameters = common.parameters();
    parameters.extend(how.parameters());
    parameters.extend(S::parameters(plan));
    let result = outcome::result(
        Ended {
            id: how.id.clone(),
            scenario: S::NAME,
            primary: S::PRIMARY,
            primary_rt,
            started_at: humantime::format_rfc3339_millis(began).to_string(),
            command: how.command.clone(),
            seed: common.seed,
            target: Target { bootstrap: common.bootstrap.join(","), name: common.name.clone(), about: BTreeMap::new() },
            parameters,
            warmup: common.warmup,
            measured: measured_until.saturating_duration_since(window.measure_from),
            spin,
            usages: parts.usages,
            interrupted: desk.interrupted,
            aborted: desk.aborted,
            findings,
            server: desk.server.map(ServerSampler::finish),
            server_metrics: desk.scraper.map(|scraper| scraper.finish(&collected.rows)),
        },
        &collected,
    );
    observer.finished(&result);
    Ok(Finished { result, latencies: collected.latencies, log: parts.log })
}

/// Where the main thread hears and tells.
struct Desk<T> {
    told: Receiver<Told<T>>,
    stop_to: Vec<Give<()>>,
    executors: usize,
    server: Option<ServerSampler>,
    /// The measured window has begun for the server's sampler.
    measuring: bool,
    scraper: Option<Scraper>,
    interrupted: bool,
    aborted: Option<String>,
}

/// What executors came to.
struct Parts {
    findings: Findings,
    usages: Vec<Usage>,
    /// When the last executor sent no more.
    sent_until: Instant,
    log: Hlog,
}

impl Parts {
    fn interval(&mut self, row: &IntervalRow, merged: &Interval, observer: &mut dyn Observer) {
        self.log.interval(
            Duration::from_secs_f64(row.at_s - row.length_s),
            Duration::from_secs_f64(row.length_s),
            merged,
        );
        observer.interval(row, merged);
    }
}

impl<T: Clone> Desk<T> {
    fn stop(&mut self) {
        self.stop_to.iter().for_each(|stop| stop.give(()));
        self.end_of_servers_window();
        if let Some(scraper) = &self.scraper {
            scraper.window_end();
        }
    }

    /// The measured window ends for the server's sampler, unless it has.
    fn end_of_servers_window(&mut self) {
        // A run that ends in its warm-up has a window with nothing in it.
        self.measure();
        if let Some(server) = &mut self.server {
            server.window_end();
        }
    }

    /// The measured window begins for the server's sampler, unless it has.
    fn measure(&mut self) {
        if !std::mem::replace(&mut self.measuring, true)
            && let Some(server) = &mut self.server
        {
            server.window_begin();
        }
    }

    /// Until all executors know the window.
    fn set_up(
        &mut self,
        shared_to: &[Give<T>],
        window_to: &[Give<Window>],
        common: &Common,
        how: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<(Window, SystemTime), RunError> {
        observer.stage(Stage::Found);
        let shared = loop {
            match self.hear()? {
                Told::Founded(founded) => break founded?,
                Told::Interrupted => return Err(RunError::Interrupted),
                _ => {}
            }
        };
        observer.stage(Stage::Prepare);
        shared_to.iter().for_each(|give| give.give(shared.clone()));
        let mut prepared = 0;
        while prepared < self.executors {
            match self.hear()? {
                Told::Prepared(ready) => {
                    ready?;
                    prepared += 1;
                }
                Told::Interrupted => return Err(RunError::Interrupted),
                _ => {}
            }
        }
        self.server = how
            .server_pid
            .map(ServerSampler::start)
            .transpose()
            .map_err(|error| SetupError(format!("--server-pid {}: {error}", how.server_pid.unwrap_or_default())))?;
        let start = Instant::now() + LEAD;
        let began = SystemTime::now() + LEAD;
        let measure_from = start + common.warmup;
        let window = Window { start, measure_from, end: measure_from + common.duration };
        window_to.iter().for_each(|give| give.give(window));
        self.scraper = how.server_metrics.as_ref().map(|scraping| Scraper::start(scraping, window)).transpose()?;
        Ok((window, began))
    }

    fn hear(&self) -> io::Result<Told<T>> {
        self.told.recv().map_err(|_| io::Error::other("the executors have ended"))
    }

    /// Until all executors have finished.
    fn drive(
        &mut self,
        window: Window,
        collected: &mut Collector,
        common: &Common,
        error_limit: f64,
        observer: &mut dyn Observer,
    ) -> Parts {
        let mut stages = vec![
            (window.end, Stage::Finish),
            (window.measure_from, Stage::Measure { length: common.duration }),
            (window.start, Stage::WarmUp { length: common.warmup }),
        ];
        if common.warmup.is_zero() {
            stages.pop();
        }
        let mut parts =
            Parts { findings: Findings::default(), usages: Vec::new(), sent_until: window.start, log: Hlog::new() };
        let (mut driven, mut finished, mut ended_at) = (0, 0, window.start);
        while finished < self.executors {
            let wait = stages.last().map_or(Duration::MAX, |(at, _)| at.saturating_duration_since(Instant::now()));
            let told = match self.told.recv_timeout(wait) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((_, stage)) = stages.pop() {
                        match (&mut self.server, stage) {
                            (_, Stage::Measure { .. }) => self.measure(),
                            (Some(server), Stage::Finish) => server.window_end(),
                            _ => {}
                        }
                        observer.stage(stage);
                    }
                    continue;
                }
                // They hold a sender until they have finished.
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match told {
                Told::Interval(number, part) => {
                    if let Some((mut row, merged)) = collected.add(number, part) {
                        row.server = self.server.as_mut().and_then(ServerSampler::interval);
                        collected.rows.push(row.clone());
                        parts.interval(&row, &merged, observer);
                        if let Some(why) = collected.too_many_errors(error_limit) {
                            self.abort(why);
                        }
                    }
                }
                Told::Driven(Driven { ended, at, usage }) => {
                    parts.sent_until = parts.sent_until.max(at);
                    parts.usages.extend(usage);
                    if let Err(aborted) = ended {
                        self.abort(aborted.to_string());
                    }
                    driven += 1;
                    // They may be done before the window's end, as with a backlog that is read.
                    if driven == self.executors {
                        self.end_of_servers_window();
                    }
                }
                Told::Finished(found, number, rest, at) => {
                    finished += 1;
                    parts.findings.merge(found);
                    collected.add_rest(number, rest);
                    ended_at = ended_at.max(at);
                }
                Told::Interrupted => {
                    self.interrupted = true;
                    self.stop();
                }
                Told::Founded(_) | Told::Prepared(_) => {}
            }
        }
        for (row, merged) in collected.close(ended_at.saturating_duration_since(window.start)) {
            collected.rows.push(row.clone());
            parts.interval(&row, &merged, observer);
        }
        parts
    }

    fn abort(&mut self, why: String) {
        if self.aborted.is_none() {
            self.aborted = Some(why);
            self.stop();
        }
    }
}
