//! From a scenario's flags to its run.

use std::time::SystemTime;

use super::common::{CommonArgs, Cpus};
use super::gate::GateArgs;
use super::show::ShowArgs;
use super::{Exit, output, parse};
use crate::engine::{self, Interrupt, RunError, RunOptions};
use crate::host;
use crate::plan::{Common, Load, UsageError};
use crate::scenario::Scenario;
use crate::search::{self, SearchError};
use crate::terminal::{About, Terminal};

/// Flags of one scenario.
pub trait ScenarioArgs: clap::Args {
    /// What they are flags of.
    type Scenario: Scenario;
    /// Whether `--rate` or `--closed` must say how much load; otherwise the scenario's own flags do.
    const PACED: bool = true;
    /// Whether executors share `--connections`, so that there must be one for each.
    const SHARES_CONNECTIONS: bool = true;

    /// What `--rate` comes to, in slots per second.
    ///
    /// # Errors
    /// It is no rate.
    fn rate(&self, text: &str) -> Result<f64, UsageError> {
        parse::rate(text).map_err(|allowed| UsageError { flag: "rate", value: text.to_string(), allowed })
    }

    /// Checks them, with what all scenarios have.
    ///
    /// # Errors
    /// The first that cannot be.
    fn plan(&self, common: &Common) -> Result<<Self::Scenario as Scenario>::Plan, UsageError>;

    /// Checks that each of `threads` executors has its part of the load, and that this process can hold the connections. By
    /// default these are `--connections`.
    ///
    /// # Errors
    /// What does not fit.
    fn fits(_plan: &<Self::Scenario as Scenario>::Plan, common: &Common, threads: u16) -> Result<(), UsageError> {
        if Self::SHARES_CONNECTIONS {
            one_for_each("connections", common.connections as u64, threads)?;
        }
        enough_descriptors("connections", common.connections as u64, common.connections as u64)
    }
}

/// A scenario's command.
#[derive(Debug, Clone, clap::Args)]
pub struct Run<A: clap::Args> {
    /// Those of the scenario.
    #[command(flatten)]
    pub own: A,
    /// Those that all have.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Those by which it is judged.
    #[command(flatten)]
    pub gate: GateArgs,
    /// Those for what it shows.
    #[command(flatten)]
    pub show: ShowArgs,
}

impl<A: ScenarioArgs> Run<A> {
    /// How much load.
    fn load(&self, search: Option<&search::Plan>) -> Result<Load, UsageError> {
        if let Some(search) = search {
            return Ok(Load::Open { rate: search.from, arrivals: self.common.arrivals() });
        }
        match &self.common.rate {
            Some(rate) => Ok(Load::Open { rate: self.own.rate(rate)?, arrivals: self.common.arrivals() }),
            None if self.common.closed => Ok(Load::Closed),
            None if !A::PACED => Ok(Load::Own),
            None => Err(UsageError {
                flag: "rate",
                value: String::new(),
                allowed: "say how many requests per second are sent, whatever the target does (--rate 10k), or that \
                          each waits for an earlier answer (--closed)"
                    .into(),
            }),
        }
    }
}

/// Runs a scenario as the flags say; its result is written and said.
pub fn run<A: ScenarioArgs>(args: &Run<A>, command_line: Vec<String>) -> Exit {
    match carry_out(args, command_line) {
        Ok(exit) => exit,
        Err((exit, why)) => {
            eprintln!("ringgate-bench: {why}");
            exit
        }
    }
}

fn carry_out<A: ScenarioArgs>(args: &Run<A>, command_line: Vec<String>) -> Result<Exit, (Exit, String)> {
    let usage = |error: UsageError| (Exit::Usage, error.to_string());
    let setup = |error: std::io::Error| (Exit::Setup, error.to_string());
    let short = uuid::Uuid::new_v4().simple().to_string()[..8].to_string();
    let search = args.common.search.plan(|text| args.own.rate(text)).map_err(usage)?;
    let common = args.common.common(args.load(search.as_ref()).map_err(usage)?, &short).map_err(usage)?;
    let plan = args.own.plan(&common).map_err(usage)?;
    A::fits(&plan, &common, args.common.threads).map_err(usage)?;
    let gate = args.gate.gate().map_err(usage)?;
    if args.show.check {
        return Ok(Exit::Fine);
    }
    let id = format!("{}-{}-{short}", output::stamp(SystemTime::now()), A::Scenario::NAME);
    output::make_directory(&args.common.out).map_err(usage)?;
    let environment = host::environment(&command_line);
    crate::rlimits::raise();
    let options = RunOptions {
        id,
        executors: args.common.threads,
        cpus: args.common.cpus.clone().map(|Cpus(cpus)| cpus),
        pace: args.common.pace(),
        server_pid: args.common.server_pid,
        server_metrics: args.common.scraping(),
        command: host::masked(&command_line),
        interrupt: Interrupt::by_signals().map_err(setup)?,
        error_limit: args.common.error_limit,
    };
    let mut about = About::new(A::Scenario::NAME, A::Scenario::PRIMARY, &common);
    if let Some(search) = &search {
        (about.warmup, about.duration, about.offered_rate) = (search.warmup, search.window, None);
    }
    let mut terminal = Terminal::new(args.show.mode(), args.show.color, &about);
    let finished = match &search {
        None => engine::run::<A::Scenario>(&common, &plan, &options, &mut terminal).map_err(SearchError::Run),
        Some(search) => {
            search::run::<A::Scenario>(&common, &|common| args.own.plan(common), &options, search, &mut terminal)
        }
    };
    let finished = finished.map_err(|error| {
        let exit = match error {
            SearchError::Usage(_) => Exit::Usage,
            SearchError::Run(RunError::Setup(_) | RunError::Host(_)) => Exit::Setup,
            SearchError::Run(RunError::Interrupted) => Exit::Interrupted,
        };
        (exit, error.to_string())
    })?;
    let directory =
        crate::result::write(&args.common.out, &finished.result, &finished.log, &environment).map_err(setup)?;
    if args.show.show_server_metrics {
        terminal.server_metrics(&finished.result);
    }
    let sentence = gate.judge(&finished.result);
    terminal.judged(&sentence);
    terminal.written(&directory);
    Ok(match Exit::of(&finished.result) {
        Exit::Fine if !sentence.held() => Exit::Failed,
        exit => exit,
    })
}

/// Checks that there is one of what a flag gives for each executor.
pub(super) fn one_for_each(flag: &'static str, value: u64, threads: u16) -> Result<(), UsageError> {
    if value >= u64::from(threads) {
        return Ok(());
    }
    let allowed = format!("at least one for each of --threads {threads}");
    Err(UsageError { flag, value: value.to_string(), allowed })
}

/// Checks that this process can hold the connections that a flag's value comes to.
pub(super) fn enough_descriptors(flag: &'static str, value: u64, connections: u64) -> Result<(), UsageError> {
    let most = host::connections_max();
    if connections <= most {
        return Ok(());
    }
    let allowed = format!(
        "at most {most} connections, for the hard limit of open files keeps this process from holding more: raise it \
         (ulimit -Hn as root, LimitNOFILE= in a unit, nofile in limits.conf)"
    );
    Err(UsageError { flag, value: value.to_string(), allowed })
}
