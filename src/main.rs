//! The Kafka gateway: read the settings, check them, serve; or look through what it stored, or at a
//! host, or ask a cluster.

use std::path::Path;
use std::process::ExitCode;

use ringgate::cli::{self, Exit, Invocation, Settings, Tool};
use ringgate::config::{self, Host, Loaded};
use ringgate::serve::{self, ServeError};
use ringgate::{logging, rlimits};
use ringgate_shards::store::embedded::{files::DiskFiles, verify};

#[global_allocator]
static ALLOCATOR: ringgate_runtime::Allocator = ringgate_runtime::Allocator;

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => error.exit(),
    };
    match invocation {
        Invocation::Config { settings, json } => match load(&settings) {
            Ok(loaded) => print_config(&loaded, json).into(),
            Err(exit) => exit.into(),
        },
        Invocation::Doctor(asked) => asked.run().into(),
        Invocation::Tool(tool) => run_tool(*tool).into(),
        Invocation::Verify { directory, json } => verify_directory(&directory, json).into(),
        Invocation::Serve(settings) => match load(&settings) {
            Ok(loaded) => run(loaded).into(),
            Err(exit) => exit.into(),
        },
    }
}

/// Raises the process's limits, which settings depend on, and reads the settings.
fn load(settings: &Settings) -> Result<Loaded, Exit> {
    let failed = |exit: Exit, why: &dyn std::fmt::Display| {
        eprintln!("ringgate: {why}");
        exit
    };
    let open_files = rlimits::raise().map_err(|why| failed(Exit::Failure, &why))?;
    let allowed_cpus = ringgate_runtime::allowed_cpus().map_err(|why| failed(Exit::Failure, &why))?;
    let environment: Vec<_> = std::env::vars_os().collect();
    config::load(&settings.flags, settings.config.as_deref(), &environment, &Host { allowed_cpus, open_files })
        .map_err(|refused| failed(Exit::BadConfiguration, &refused))
}

fn print_config(loaded: &Loaded, json: bool) -> Exit {
    for warning in &loaded.warnings {
        eprintln!("ringgate: {warning}");
    }
    let text = if json { format!("{:#}\n", loaded.report.to_json()) } else { loaded.report.to_string() };
    match cli::print(&text) {
        Ok(()) => Exit::Success,
        Err(_) => Exit::Failure,
    }
}

fn verify_directory(directory: &Path, json: bool) -> Exit {
    let report = match verify::verify(&DiskFiles, directory, ringgate_shards::describe) {
        Ok(report) => report,
        Err(why) => {
            eprintln!("ringgate: {why}");
            return Exit::BadConfiguration;
        }
    };
    let text = if json {
        format!("{:#}\n", cli::verify_json(directory, &report))
    } else {
        cli::verify_text(directory, &report)
    };
    match cli::print(&text) {
        Ok(()) if report.is_clean() => Exit::Success,
        _ => Exit::Failure,
    }
}

fn run_tool(tool: Tool) -> Exit {
    // What there is of locked memory and open files carries a client; whether io_uring works is found out by its start.
    let _ = rlimits::raise();
    ringgate_tools::run(&tool).into()
}

fn run(loaded: Loaded) -> Exit {
    let _logs = logging::start(loaded.config.log_format, loaded.config.log_level);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    match serve::run(loaded.config) {
        Ok(()) => Exit::Success,
        Err(why) => {
            eprintln!("ringgate: {why}");
            match why {
                ServeError::LeaseHeld(_) => Exit::LeaseHeld,
                ServeError::Refused(_) => Exit::BadConfiguration,
                ServeError::Failed(_) => Exit::Failure,
            }
        }
    }
}
