//! Runs in turn, each in a process of its own, with the hooks around them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use super::child::{self, Children};
use super::hook::{self, Hook, Started};
use super::judge::{CONFIDENCE, PAIRS_MIN, judge};
use super::model::{ComparedRun, Comparison, Purpose, SCHEMA, Side, Which};
use super::plan::{Plan, Target};
use super::reach::{until_gone, until_there};
use crate::cli::Exit;
use crate::engine::Interrupt;
use crate::host;
use crate::limits::HOOK_LOOK;
use crate::random::derive;
use crate::report;
use crate::result::{self, Parameter, RunResult};

/// Parameters that are each run's own.
const OWN: [&str; 5] = ["bootstrap", "name", "prefix", "seed", "server-metrics"];

/// A comparison could not begin or be written. Says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Failed {
    /// How the process ends.
    pub exit: Exit,
    /// Why.
    pub why: String,
}

/// A comparison with what it came to.
#[derive(Debug, Clone)]
pub struct Compared {
    /// Everything.
    pub comparison: Comparison,
    /// Where it was written.
    pub directory: PathBuf,
    /// How the process ends, whatever was found.
    pub exit: Exit,
    /// Why it ended early, if it did.
    pub why: Option<String>,
}

/// Is told of runs as they come.
pub trait Watcher {
    /// A run is about to be made: the how-manieth of how many.
    fn begins(&mut self, number: usize, of: usize, run: &Turn);
    /// It was made.
    fn ended(&mut self, run: &ComparedRun, result: &RunResult);
}

/// One run that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// What it is for.
    pub purpose: Purpose,
    /// Its pair among those of its purpose, from 1.
    pub pair: u32,
    /// Which target.
    pub side: Which,
}

/// Makes all runs, judges them, and writes `compare.json` and `report.html`. What there is of a comparison that ends early
/// is written too.
pub fn conduct(plan: &Plan, interrupt: &Interrupt, watcher: &mut dyn Watcher) -> Result<Compared, Failed> {
    let setup = |why: String| Failed { exit: Exit::Setup, why };
    check(plan)?;
    let now = SystemTime::now();
    let scenario = plan.scenario.first().cloned().unwrap_or_default();
    let short = &uuid::Uuid::new_v4().simple().to_string()[..8];
    let id = format!("{}-{scenario}-{short}", crate::cli::stamp(now));
    let directory = plan.out.join(format!("compare-{id}"));
    let logs = hook::logs(&directory).map_err(|error| Failed {
        exit: Exit::Usage,
        why: format!("--out {}: a directory that can be written to: {error}", plan.out.display()),
    })?;
    let mut conductor = Conductor {
        plan,
        interrupt,
        children: Children::heed(interrupt),
        directory: &directory,
        logs,
        made: Vec::new(),
        results: Vec::new(),
        invalid: 0,
    };
    let noise: Vec<_> = (1..=plan.noise_pairs).map(|pair| (Purpose::Noise, pair, [Which::A; 2])).collect();
    let pairs: Vec<_> = (1..=plan.pairs).map(|pair| (Purpose::Pair, pair, plan.order.turns(pair))).collect();
    let mut ended: Result<(), Failed> = Ok(());
    let (mut noise_had, mut pairs_had) = (Vec::new(), Vec::new());
    for (purpose, pair, turns) in noise.into_iter().chain(pairs) {
        match conductor.pair(purpose, pair, turns, watcher) {
            Ok(had) if purpose == Purpose::Noise => noise_had.push(had),
            Ok(had) => pairs_had.push(had),
            Err(failed) => {
                ended = Err(failed);
                break;
            }
        }
    }
    let Conductor { made: runs, results, .. } = conductor;
    if let (Err(failed), true) = (&ended, results.is_empty()) {
        // Nothing was measured: the logs of hooks alone are kept, for they say why.
        let _ = fs::remove_dir(directory.join("hooks"));
        let _ = fs::remove_dir(&directory);
        return Err(failed.clone());
    }
    let complete = ended.is_ok();
    let comparison = Comparison {
        schema: SCHEMA.into(),
        id,
        scenario,
        started_at: humantime::format_rfc3339_millis(now).to_string(),
        command: plan.command.clone(),
        seed: plan.seed,
        order: plan.order.name().into(),
        cooldown_s: plan.cooldown.as_secs_f64(),
        pairs: plan.pairs,
        noise_pairs: plan.noise_pairs,
        confidence: CONFIDENCE,
        a: side(&plan.a),
        b: side(&plan.b),
        parameters: parameters(&results),
        notes: notes(plan, &runs, &results, ended.as_ref().err()),
        runs,
        metrics: judge(&pairs_had, &noise_had, complete, plan.seed),
        complete,
    };
    write(&directory, &comparison, &results)
        .map_err(|error| setup(format!("cannot write {}: {error}", directory.display())))?;
    let (exit, why) = match ended {
        Ok(()) => (Exit::Fine, None),
        Err(Failed { exit, why }) => (exit, Some(why)),
    };
    Ok(Compared { comparison, directory, exit, why })
}

/// A scenario's wrong flag, or an address that is none, is found before anything is started: by the program that will
/// read it.
fn check(plan: &Plan) -> Result<(), Failed> {
    for target in [&plan.a, &plan.b] {
        let mut arguments: Vec<OsString> = plan.scenario.iter().map(OsString::from).collect();
        arguments.extend(["--check".into(), "--bootstrap".into(), target.bootstrap.join(",").into()]);
        arguments
            .extend(target.server_metrics.iter().flat_map(|url| ["--server-metrics".into(), url.to_string().into()]));
        let ended = child::run(&arguments, &Children::default())
            .map_err(|error| Failed { exit: Exit::Setup, why: format!("cannot run this program again: {error}") })?;
        if ended.code != Some(0) {
            let why = format!("these flags were refused: {}", host::masked(&plan.scenario).join(" "));
            return Err(Failed { exit: Exit::Usage, why });
        }
    }
    Ok(())
}

struct Conductor<'a> {
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    children: Children,
    directory: &'a Path,
    logs: PathBuf,
    made: Vec<ComparedRun>,
    results: Vec<RunResult>,
    invalid: u32,
}

impl Conductor<'_> {
    /// A pair of valid runs, made again for as long as invalid ones are borne: in the order A, B (or first, second).
    fn pair(
        &mut self,
        purpose: Purpose,
        pair: u32,
        turns: [Which; 2],
        watcher: &mut dyn Watcher,
    ) -> Result<(RunResult, RunResult), Failed> {
        loop {
            let from = self.made.len();
            let mut valid = Vec::new();
            for side in turns {
                let result = self.run(Turn { purpose, pair, side }, watcher);
                if let Ok(result) = &result
                    && result.verdict.valid
                {
                    valid.push(result.clone());
                    continue;
                }
                // Without its other half a run says nothing: both are left out.
                self.made[from..].iter_mut().for_each(|run| run.counts = false);
                let result = result?;
                self.invalid += 1;
                if self.invalid > self.plan.invalid_max {
                    return Err(Failed {
                        exit: Exit::Invalid,
                        why: format!(
                            "{} runs were INVALID, --max-invalid bears {}; the last: {}",
                            self.invalid,
                            self.plan.invalid_max,
                            result.verdict.reasons.join("; ")
                        ),
                    });
                }
                break;
            }
            if let Ok([first, second]) = <[RunResult; 2]>::try_from(valid) {
                return Ok(if turns[0] == Which::B { (second, first) } else { (first, second) });
            }
        }
    }

    /// One run with all that goes before and after it.
    fn run(&mut self, turn: Turn, watcher: &mut dyn Watcher) -> Result<RunResult, Failed> {
        if !self.made.is_empty() {
            self.cool_down()?;
        }
        let of = 2 * (self.plan.pairs + self.plan.noise_pairs) as usize;
        let number = self.made.iter().filter(|run| run.counts).count() + 1;
        watcher.begins(number, of, &turn);
        if self.plan.drop_caches {
            drop_caches()?;
        }
        let started = self.start(turn);
        let ended = started.and_then(|started| self.measure(turn, started));
        let stopped = self.stop(turn, ended.is_ok());
        let (directory, result) = ended?;
        stopped?;
        let run = ComparedRun {
            purpose: turn.purpose,
            pair: turn.pair,
            side: turn.side,
            id: result.id.clone(),
            directory,
            counts: result.verdict.valid,
            reasons: result.verdict.reasons.clone(),
        };
        watcher.ended(&run, &result);
        self.made.push(run);
        self.results.push(result.clone());
        Ok(result)
    }

    fn start(&self, turn: Turn) -> Result<Started, Failed> {
        let target = self.plan.target(turn.side);
        let flag = ["a-start", "b-start"][turn.side as usize];
        let Some(command) = &target.start else { return Ok(Started { pid: target.server_pid }) };
        let started = self.hook(turn, flag, command)?;
        until_there(&target.bootstrap, self.plan.sign, self.plan.ready_timeout, self.interrupt)
            .map_err(|why| self.failed(format!("after --{flag}, {} is {why} (--ready-timeout)", target.name)))?;
        Ok(Started { pid: started.pid.or(target.server_pid) })
    }

    /// Stops the target, also when its start or run failed; of what it says itself then only `careful` is told.
    fn stop(&self, turn: Turn, careful: bool) -> Result<(), Failed> {
        let target = self.plan.target(turn.side);
        let Some(command) = &target.stop else { return Ok(()) };
        let flag = ["a-stop", "b-stop"][turn.side as usize];
        // An interrupted comparison too leaves nothing running.
        let patient = Interrupt::new();
        let stopped = self.hook_by(turn, flag, command, &patient).and_then(|_| {
            until_gone(&target.bootstrap, self.plan.hook_timeout)
                .map_err(|why| self.failed(format!("after --{flag}, {why}")))
        });
        if careful { stopped } else { Ok(()) }
    }

    fn hook(&self, turn: Turn, flag: &'static str, command: &str) -> Result<Started, Failed> {
        self.hook_by(turn, flag, command, self.interrupt)
    }

    fn hook_by(&self, turn: Turn, flag: &'static str, command: &str, interrupt: &Interrupt) -> Result<Started, Failed> {
        let target = self.plan.target(turn.side);
        let number = self.made.len() + 1;
        let purpose = match turn.purpose {
            Purpose::Noise => "noise",
            Purpose::Pair => "pair",
        };
        let environment = vec![
            ("SIDE", ["a", "b"][turn.side as usize].to_owned()),
            ("NAME", target.name.clone()),
            ("BOOTSTRAP", target.bootstrap.join(",")),
            ("PURPOSE", purpose.to_owned()),
            ("PAIR", turn.pair.to_string()),
            ("RUN", number.to_string()),
            ("DIR", self.directory.display().to_string()),
        ];
        let log = self.logs.join(format!("{number:03}-{flag}"));
        Hook { flag, command, environment, timeout: self.plan.hook_timeout, log }
            .run(interrupt)
            .map_err(|error| self.failed(error.0))
    }

    /// The run itself.
    fn measure(&self, turn: Turn, started: Started) -> Result<(String, RunResult), Failed> {
        let target = self.plan.target(turn.side);
        let offset = match turn.purpose {
            Purpose::Noise => 0,
            Purpose::Pair => u64::from(self.plan.noise_pairs),
        };
        // Both runs of a pair make the same choices.
        let seed = derive(self.plan.seed, offset + u64::from(turn.pair));
        let mut arguments: Vec<OsString> = self.plan.scenario.iter().map(OsString::from).collect();
        let mut give = |flag: &str, value: String| arguments.extend([flag.into(), value.into()]);
        give("--bootstrap", target.bootstrap.join(","));
        give("--name", target.name.clone());
        give("--seed", seed.to_string());
        give("--out", self.directory.display().to_string());
        if let Some(pid) = started.pid {
            give("--server-pid", pid.to_string());
        }
        if let Some(url) = &target.server_metrics {
            give("--server-metrics", url.to_string());
        }
        arguments.extend(self.plan.show.iter().map(OsString::from));
        let ended = child::run(&arguments, &self.children)
            .map_err(|error| self.failed(format!("cannot run this program again: {error}")))?;
        let failed = |exit: Exit, why: &str| Failed { exit, why: format!("the run on {} {why}", target.name) };
        match ended.code {
            Some(code) if code == i32::from(Exit::Usage.code()) => {
                return Err(failed(Exit::Usage, "refused its flags"));
            }
            Some(code) if code == i32::from(Exit::Setup.code()) => {
                return Err(failed(Exit::Setup, "could not begin"));
            }
            Some(code) if code == i32::from(Exit::Aborted.code()) => {
                return Err(failed(Exit::Aborted, "was aborted"));
            }
            _ if self.interrupt.is_told() => return Err(failed(Exit::Interrupted, "was interrupted")),
            Some(code) if code == i32::from(Exit::Interrupted.code()) => {
                return Err(failed(Exit::Interrupted, "was interrupted"));
            }
            Some(code) if code == i32::from(Exit::Fine.code()) || code == i32::from(Exit::Invalid.code()) => {}
            Some(code) => return Err(failed(Exit::Aborted, &format!("ended with code {code}"))),
            None => return Err(failed(Exit::Aborted, "was killed by a signal")),
        }
        let Some(directory) = ended.directory else {
            return Err(failed(Exit::Setup, "named no directory"));
        };
        let result =
            result::read(&directory).map_err(|error| failed(Exit::Setup, &format!("left no result: {error}")))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, result))
    }

    /// A failure, or the interrupt that caused it.
    fn failed(&self, why: String) -> Failed {
        let exit = if self.interrupt.is_told() { Exit::Interrupted } else { Exit::Setup };
        Failed { exit, why }
    }

    fn cool_down(&self) -> Result<(), Failed> {
        let until = Instant::now() + self.plan.cooldown;
        loop {
            if self.interrupt.is_told() {
                return Err(Failed { exit: Exit::Interrupted, why: "interrupted between two runs".into() });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(HOOK_LOOK));
        }
    }
}

/// So that what a run reads comes from the disk.
fn drop_caches() -> Result<(), Failed> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3\n").map_err(|error| Failed {
        exit: Exit::Setup,
        why: format!("--drop-caches: cannot write /proc/sys/vm/drop_caches: {error}; it needs root"),
    })
}

fn side(target: &Target) -> Side {
    Side {
        name: target.name.clone(),
        bootstrap: target.bootstrap.join(","),
        start: target.start.clone(),
        stop: target.stop.clone(),
    }
}

/// What all runs had.
fn parameters(results: &[RunResult]) -> Vec<Parameter> {
    let first = results.first().map(|result| result.parameters.as_slice()).unwrap_or_default();
    first.iter().filter(|parameter| !OWN.contains(&parameter.name.as_str())).cloned().collect()
}

fn notes(plan: &Plan, runs: &[ComparedRun], results: &[RunResult], failed: Option<&Failed>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(Failed { why, .. }) = failed {
        notes.push(format!("ended early: {why}"));
    }
    let left_out = runs.iter().filter(|run| !run.counts).count();
    if left_out > 0 {
        notes.push(format!("{left_out} runs are left out, since they or the other run of their pair were invalid"));
    }
    if (plan.pairs as usize) < PAIRS_MIN {
        notes.push(format!("with fewer than {PAIRS_MIN} pairs nobody is named"));
    }
    for which in [Which::A, Which::B] {
        let of_side = || runs.iter().zip(results).filter(move |(run, _)| run.counts && run.side == which);
        let name = &plan.target(which).name;
        let errors: u64 = of_side().flat_map(|(_, result)| &result.errors).map(|error| error.count).sum();
        if errors > 0 {
            notes.push(format!("{name} answered with {errors} errors: latencies count those answers too"));
        }
        let wrong: u64 = of_side().flat_map(|(_, result)| result.checks.violations.values()).sum();
        if wrong > 0 {
            notes.push(format!("{name} failed {wrong} checks of what it moved: see its runs"));
        }
    }
    notes.push("each metric is judged by itself: of twenty that are alike, one may seem not to be".into());
    notes
}

fn write(directory: &Path, comparison: &Comparison, results: &[RunResult]) -> io::Result<()> {
    result::whole(&directory.join("compare.json"), |out| {
        serde_json::to_writer_pretty(&mut *out, comparison)?;
        io::Write::write_all(out, b"\n")
    })?;
    // What the ratios are made of; what went before it, or was left out, would hide it.
    let counted = |run: &ComparedRun| run.counts && run.purpose == Purpose::Pair;
    let shown: Vec<_> = comparison
        .runs
        .iter()
        .zip(results)
        .filter(|(run, _)| counted(run))
        .take(report::RUNS_MAX)
        .map(|(run, result)| (result, result::read_environment(&directory.join(&run.directory)).ok().flatten()))
        .collect();
    if shown.is_empty() {
        return Ok(());
    }
    let runs: Vec<_> =
        shown.iter().map(|(result, environment)| report::Run { result, environment: environment.as_ref() }).collect();
    let page = report::html(&runs, Some(comparison)).map_err(io::Error::other)?;
    result::whole(&directory.join("report.html"), |out| io::Write::write_all(out, page.as_bytes()))
}
