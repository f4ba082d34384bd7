//! `ringgate-bench`: read the flags, run a scenario, say what came of it.

use std::process::ExitCode;

use ringgate_bench::cli::{self, Cli, Command};

#[global_allocator]
static ALLOCATOR: ringgate_runtime::Allocator = ringgate_runtime::Allocator;

fn main() -> ExitCode {
    let command_line: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let cli = match Cli::parse_from(&command_line) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let exit = match cli.command {
        Command::List => cli::list(),
        Command::Report(args) => cli::report(&args),
        Command::Merge(args) => cli::merge(&args),
        Command::Produce(args) => cli::run(&args, command_line),
        Command::Consume(args) => cli::run(&args, command_line),
        Command::E2e(args) => cli::run(&args, command_line),
        Command::Compare(args) => cli::compare(&args, &command_line),
        Command::Floor(args) => cli::floor(&args, command_line),
        Command::CommitStorm(args) => cli::run(&args, command_line),
        Command::Churn(args) => cli::run(&args, command_line),
        Command::Idle(args) => cli::run(&args, command_line),
        Command::Fleet(args) => cli::run(&args, command_line),
        Command::RebalanceStorm(args) => cli::run(&args, command_line),
    };
    exit.into()
}
