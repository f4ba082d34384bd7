//! `floor`'s flags.

use std::net::SocketAddr;

use super::common::Cpus;
use super::parse::bytes;
use super::{Exit, Run, ScenarioArgs, run};
use crate::engine::Interrupt;
use crate::plan::{Common, UsageError};
use crate::scenario::floor::{Floor, Plan, serve};

/// See the module.
#[derive(Debug, Clone, clap::Args)]
pub struct FloorArgs {
    /// Size of a request's frame, its length field counted
    #[arg(long, value_parser = bytes, default_value_t = Plan::BYTES_DEFAULT, value_name = "BYTES")]
    pub request_bytes: usize,
    /// Size of an answer's frame; other than the request's only against `floor --serve`
    #[arg(long, value_parser = bytes, default_value_t = Plan::BYTES_DEFAULT, value_name = "BYTES")]
    pub response_bytes: usize,
    /// Be the other side: answer frames at this address, on --threads executors, until interrupted
    #[arg(long, value_name = "IP:PORT")]
    pub serve: Option<SocketAddr>,
}

impl ScenarioArgs for FloorArgs {
    type Scenario = Floor;

    fn plan(&self, _: &Common) -> Result<Plan, UsageError> {
        Plan::new(self.request_bytes, self.response_bytes)
    }
}

/// Runs the scenario, or the other side.
pub fn floor(args: &Run<FloorArgs>, command_line: Vec<String>) -> Exit {
    let Some(listen) = args.own.serve else { return run(args, command_line) };
    crate::rlimits::raise();
    let cpus = args.common.cpus.clone().map(|Cpus(cpus)| cpus);
    let served = Interrupt::by_signals().and_then(|interrupt| {
        serve(listen, args.common.threads.max(1), cpus, &interrupt, |address| println!("{address}"))
    });
    match served {
        Ok(()) => Exit::Fine,
        Err(error) => {
            eprintln!("ringgate-bench: cannot serve at {listen}: {error}");
            Exit::Setup
        }
    }
}
