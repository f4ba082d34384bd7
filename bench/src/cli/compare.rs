//! `compare`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Exit;
use super::list::TOOLS;
use super::parse::duration;
use crate::compare::{self, ComparedRun, Order, Plan, Purpose, Sign, Target, Turn, Watcher};
use crate::engine::Interrupt;
use crate::host;
use crate::limits::PAIRS_MAX;
use crate::plan::UsageError;
use crate::quantity::{show, show_ns};
use crate::result::{self, RunResult, Unit, Value};
use crate::scrape::Url;
use crate::terminal::{ColorChoice, Paint, span};

/// Flags that every run gets from `compare` itself, and those that judge or show a single run.
const TAKEN: [&str; 15] = [
    "bootstrap",
    "name",
    "seed",
    "out",
    "server-pid",
    "server-metrics",
    "prefix",
    "quiet",
    "json-lines",
    "color",
    "assert",
    "baseline",
    "search",
    "check",
    "serve",
];

/// Flags of `compare`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    override_usage = "ringgate-bench compare --a HOST:PORT --b HOST:PORT [OPTIONS] SCENARIO [SCENARIO OPTIONS]\n       \
                      ringgate-bench compare RUN_DIR_A RUN_DIR_B",
    after_help = "A hook is run by `sh -c`, with RINGGATE_BENCH_SIDE (a or b), _NAME, _BOOTSTRAP, _PURPOSE (noise or pair), \
                  _PAIR, _RUN and _DIR in its environment. A start hook leaves the server in the background and ends; a \
                  line `pid=N`, or a JSON object with `pid`, gives --server-pid. A stop hook ends when the server has."
)]
pub struct CompareArgs {
    /// Bootstrap servers of A, which ratios are divided by
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', help_heading = "Targets")]
    pub a: Vec<String>,
    /// Bootstrap servers of B
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', help_heading = "Targets")]
    pub b: Vec<String>,
    /// A's name in tables and charts [default: its address]
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub a_name: Option<String>,
    /// B's name
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub b_name: Option<String>,
    /// Starts A before each of its runs
    #[arg(long, value_name = "COMMAND", help_heading = "Targets")]
    pub a_start: Option<String>,
    /// Starts B before each of its runs
    #[arg(long, value_name = "COMMAND", help_heading = "Targets")]
    pub b_start: Option<String>,
    /// Stops A after each of its runs
    #[arg(long, value_name = "COMMAND", help_heading = "Targets")]
    pub a_stop: Option<String>,
    /// Stops B after each of its runs
    #[arg(long, value_name = "COMMAND", help_heading = "Targets")]
    pub b_stop: Option<String>,
    /// A's process on this machine, to sample its CPU and memory
    #[arg(long, value_name = "PID", help_heading = "Targets")]
    pub a_server_pid: Option<u32>,
    /// B's process
    #[arg(long, value_name = "PID", help_heading = "Targets")]
    pub b_server_pid: Option<u32>,
    /// Where A serves its metrics: http://HOST:PORT/metrics
    #[arg(long, value_name = "URL", help_heading = "Targets")]
    pub a_server_metrics: Option<Url>,
    /// Where B serves its metrics
    #[arg(long, value_name = "URL", help_heading = "Targets")]
    pub b_server_metrics: Option<Url>,

    /// Pairs of a run on A and one on B; with fewer than 6 nobody is called better
    #[arg(long, default_value_t = 6, value_name = "N", help_heading = "Runs")]
    pub pairs: u32,
    /// Pairs of A and A before them, for the noise floor
    #[arg(long, default_value_t = 3, value_name = "N", help_heading = "Runs")]
    pub noise_pairs: u32,
    /// How the sides take turns: abba is A B, B A, A B; abab is A B, A B
    #[arg(long, value_enum, default_value = "abba", value_name = "ORDER", help_heading = "Runs")]
    pub order: Order,
    /// Pause before every run but the first
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "TIME", help_heading = "Runs")]
    pub cooldown: Duration,
    /// Invalid runs that are made again before the comparison ends without a winner, exit code 5
    #[arg(long, default_value_t = 2, value_name = "N", help_heading = "Runs")]
    pub max_invalid: u32,
    /// How long a hook may take
    #[arg(long, value_parser = duration, default_value = "2m", value_name = "TIME", help_heading = "Runs")]
    pub hook_timeout: Duration,
    /// How long a target may take to answer after its start hook
    #[arg(long, value_parser = duration, default_value = "1m", value_name = "TIME", help_heading = "Runs")]
    pub ready_timeout: Duration,
    /// Drop the kernel's page cache before each run; needs root
    #[arg(long, help_heading = "Runs")]
    pub drop_caches: bool,
    /// Decides every random choice [default: a fresh one, which the result names]
    #[arg(long, help_heading = "Runs")]
    pub seed: Option<u64>,

    /// Where the comparison's directory is made
    #[arg(long, default_value = ".", value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,
    /// Only the result
    #[arg(long, help_heading = "Output", conflicts_with = "json_lines")]
    pub quiet: bool,
    /// A JSON event per line on standard output, for programs
    #[arg(long, help_heading = "Output")]
    pub json_lines: bool,
    /// Colours
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Output")]
    pub color: ColorChoice,

    /// The scenario and its flags, or the directories of two finished runs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SCENARIO")]
    pub scenario: Vec<String>,
}

/// Compares two targets, or shows two runs side by side.
pub fn compare(args: &CompareArgs, command_line: &[String]) -> Exit {
    let done = match args.scenario.as_slice() {
        [a, b] if args.a.is_empty() && args.b.is_empty() => two_runs(Path::new(a), Path::new(b)),
        _ => args
            .plan(command_line)
            .map_err(|error| (Exit::Usage, error.to_string()))
            .and_then(|plan| targets(args, &plan)),
    };
    done.unwrap_or_else(|(exit, why)| {
        eprintln!("ringgate-bench: {why}");
        exit
    })
}

fn two_runs(a: &Path, b: &Path) -> Result<Exit, (Exit, String)> {
    let read = |path: &Path| result::read(path).map_err(|error| (Exit::Usage, error.to_string()));
    // A reader that has gone away wants no more.
    let _ = write!(std::io::stdout(), "{}", compare::side_by_side(&read(a)?, &read(b)?));
    Ok(Exit::Fine)
}

fn targets(args: &CompareArgs, plan: &Plan) -> Result<Exit, (Exit, String)> {
    let interrupt = Interrupt::by_signals().map_err(|error| (Exit::Setup, error.to_string()))?;
    let mut told = Told { plan, quiet: args.quiet, json_lines: args.json_lines, began: Instant::now() };
    let compared = compare::conduct(plan, &interrupt, &mut told).map_err(|failed| (failed.exit, failed.why))?;
    let directory = compared.directory.display().to_string();
    let mut out = std::io::stdout().lock();
    // As above.
    let _ = if args.json_lines {
        let compared = json!({ "event": "compared", "comparison": compared.comparison });
        writeln!(out, "{compared}\n{}", json!({ "event": "written", "directory": directory }))
    } else {
        let paint = Paint::of(args.color, &std::io::stdout());
        writeln!(out, "\n{}\n{directory}", compare::page(&compared.comparison, paint))
    };
    match compared.why {
        Some(why) => Err((compared.exit, why)),
        None => Ok(compared.exit),
    }
}

impl CompareArgs {
    /// Checks them, and the scenario's flags too, before anything is started.
    fn plan(&self, command_line: &[String]) -> Result<Plan, UsageError> {
        let refuse = |flag, value: &dyn ToString, allowed: &str| {
            Err(UsageError { flag, value: value.to_string(), allowed: allowed.to_owned() })
        };
        for (flag, addresses) in [("a", &self.a), ("b", &self.b)] {
            if addresses.is_empty() {
                return refuse(flag, &"", "HOST:PORT of at least one server of the target");
            }
        }
        for (flag, pairs) in [("pairs", self.pairs), ("noise-pairs", self.noise_pairs)] {
            if !(1..=PAIRS_MAX).contains(&pairs) {
                return refuse(flag, &pairs, &format!("from 1 to {PAIRS_MAX}"));
            }
        }
        let taken = self.scenario.iter().filter_map(|word| word.strip_prefix("--")).find_map(|word| {
            let name = word.split('=').next().unwrap_or(word);
            TAKEN.into_iter().find(|taken| *taken == name)
        });
        if let Some(flag) = taken {
            return refuse(
                flag,
                &"",
                "no flag of a scenario that is compared: `compare` has its own, before the scenario",
            );
        }
        let target = |addresses: &Vec<String>, name: &Option<String>| Target {
            name: name.clone().unwrap_or_else(|| addresses.join(",")),
            bootstrap: addresses.clone(),
            start: None,
            stop: None,
            server_pid: None,
            server_metrics: None,
        };
        let mut plan = Plan {
            a: target(&self.a, &self.a_name),
            b: target(&self.b, &self.b_name),
            scenario: self.scenario.clone(),
            pairs: self.pairs,
            noise_pairs: self.noise_pairs,
            order: self.order,
            cooldown: self.cooldown,
            hook_timeout: self.hook_timeout,
            ready_timeout: self.ready_timeout,
            sign: self.sign(),
            invalid_max: self.max_invalid,
            drop_caches: self.drop_caches,
            seed: self.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0),
            out: self.out.clone(),
            command: host::masked(command_line),
            show: self.show(),
        };
        (plan.a.start, plan.a.stop, plan.a.server_pid) = (self.a_start.clone(), self.a_stop.clone(), self.a_server_pid);
        (plan.b.start, plan.b.stop, plan.b.server_pid) = (self.b_start.clone(), self.b_stop.clone(), self.b_server_pid);
        plan.a.server_metrics = self.a_server_metrics.clone();
        plan.b.server_metrics = self.b_server_metrics.clone();
        self.check_scenario()?;
        Ok(plan)
    }

    /// That it is a scenario, and no tool.
    fn check_scenario(&self) -> Result<(), UsageError> {
        if TOOLS.contains(&self.scenario[0].as_str()) {
            return Err(UsageError {
                flag: "scenario",
                value: self.scenario[0].clone(),
                allowed: "one of those that `ringgate-bench list` names".into(),
            });
        }
        Ok(())
    }

    /// What of the target can be seen from here.
    fn sign(&self) -> Sign {
        let speaks_tls = self.scenario.iter().any(|word| word == "--tls" || word.starts_with("--tls="));
        let echoes = self.scenario.first().is_some_and(|scenario| scenario == "floor");
        if speaks_tls || echoes { Sign::Connects } else { Sign::Answers }
    }

    /// A run's own progress is for a terminal: elsewhere a line per run says enough.
    fn show(&self) -> Vec<String> {
        let mut show: Vec<String> = Vec::new();
        if self.quiet || self.json_lines || !std::io::stderr().is_terminal() {
            show.push("--quiet".into());
        }
        if let ColorChoice::Always | ColorChoice::Never = self.color {
            let when = if self.color == ColorChoice::Always { "always" } else { "never" };
            show.extend(["--color".into(), when.into()]);
        }
        show
    }
}

/// Says what goes on: on stderr, or as events.
struct Told<'a> {
    plan: &'a Plan,
    quiet: bool,
    json_lines: bool,
    began: Instant,
}

impl Watcher for Told<'_> {
    fn begins(&mut self, number: usize, of: usize, turn: &Turn) {
        if self.quiet || self.json_lines {
            return;
        }
        let letter = ["A", "B"][turn.side as usize];
        let name = &self.plan.target(turn.side).name;
        let what = match turn.purpose {
            Purpose::Noise => format!("noise pair {} of {}", turn.pair, self.plan.noise_pairs),
            Purpose::Pair => format!("pair {} of {}", turn.pair, self.plan.pairs),
        };
        // As long as those before, on the average; of the first nothing is known.
        let left = match u32::try_from(number - 1) {
            Ok(made) if made > 0 => {
                let each = self.began.elapsed() / made;
                format!(", {} left", span((each * (of - number + 1) as u32).as_secs()))
            }
            _ => String::new(),
        };
        eprintln!("run {number} of {of}, {what}: {letter} ({name}){left}");
    }

    fn ended(&mut self, run: &ComparedRun, result: &RunResult) {
        if self.json_lines {
            let _ = writeln!(std::io::stdout(), "{}", json!({ "event": "run", "run": run }));
        }
        if self.quiet || self.json_lines {
            return;
        }
        let rate = result.values.get("rate").copied().unwrap_or(Value { value: 0.0, unit: Unit::PerSecond });
        let latency = result.latencies.get(&format!("{}.rt", result.primary)).or(result.latencies.get(&result.primary));
        let at =
            |name: &str| latency.and_then(|latency| latency.percentile_ns(name)).map_or_else(|| "-".into(), show_ns);
        let errors: u64 = result.errors.iter().map(|error| error.count).sum();
        eprintln!("  {}   p50 {}   p99 {}   p99.9 {}   errors {errors}", show(rate), at("50"), at("99"), at("99.9"));
        if !result.verdict.valid {
            eprintln!("  INVALID, its pair is made again: {}", result.verdict.reasons.join("; "));
        }
    }
}
