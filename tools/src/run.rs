//! A tool from its flags to its end.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

use ringgate_client::Options;
use ringgate_runtime::{Config, Executors, Placement};

use crate::cli::{Connect, Groups, Tool, Topics};
use crate::cluster::Cluster;
use crate::output::{Failure, Output};
use crate::{groups, topics};

/// How a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All was told and done.
    Well,
    /// Something is missing or was refused; it was told on stderr.
    Failed,
    /// The flags cannot be, together.
    Usage,
}

impl Tool {
    fn connect(&self) -> &Connect {
        match self {
            Tool::Groups(Groups::List(args)) => &args.connect,
            Tool::Groups(Groups::Describe(args)) => &args.connect,
            Tool::Groups(Groups::Reset(args)) => &args.connect,
            Tool::Groups(Groups::Delete(args)) => &args.connect,
            Tool::Groups(Groups::DeleteOffsets(args)) => &args.connect,
            Tool::Topics(Topics::List(args)) => &args.connect,
            Tool::Topics(Topics::Describe(args)) => &args.connect,
        }
    }
}

/// Carries out a tool, on an executor of its own.
pub fn run(tool: &Tool) -> Ended {
    let options = match tool.connect().options() {
        Ok(options) => options,
        Err(refused) => {
            eprintln!("ringgate: {refused}");
            return Ended::Usage;
        }
    };
    match on_an_executor(tool, options) {
        Ok(ended) => ended,
        Err(why) => {
            eprintln!("ringgate: {why}");
            Ended::Failed
        }
    }
}

fn on_an_executor(tool: &Tool, options: Options) -> io::Result<Ended> {
    let config = Config { shards: 1, placement: Placement::Unpinned, spin: Duration::ZERO };
    let mut executors = Executors::start(&config)?;
    let (tell, told) = mpsc::channel();
    let mut work = Some((tool.clone(), options));
    executors.run(move |_| {
        let (work, tell) = (work.take(), tell.clone());
        move || async move {
            // There is one executor.
            let Some((tool, options)) = work else { return };
            let mut out = Output::new(io::stdout(), tool.connect().json);
            let ended = match carry_out(&tool, &options, &mut out).await {
                Ok(()) if out.has_errors() => Ended::Failed,
                Ok(()) | Err(Failure::NobodyReads) => Ended::Well,
                Err(why) => {
                    eprintln!("ringgate: {}", crate::output::printable(&why.to_string()));
                    Ended::Failed
                }
            };
            // Whoever would be told waits below.
            let _ = tell.send(ended);
        }
    });
    executors.join();
    told.recv().map_err(io::Error::other)
}

/// Does it; a document that was begun is ended also when something went wrong on the way.
async fn carry_out<W: Write>(tool: &Tool, options: &Options, out: &mut Output<W>) -> Result<(), Failure> {
    match ask(tool, options, out).await {
        Err(Failure::Why(why)) if out.is_json() => {
            out.fail(&why)?;
            out.end()
        }
        Err(why) => {
            // What was shown before it is shown.
            out.flush()?;
            Err(why)
        }
        Ok(()) => out.end(),
    }
}

async fn ask<W: Write>(tool: &Tool, options: &Options, out: &mut Output<W>) -> Result<(), Failure> {
    let reached = Cluster::reach(options, options.request_timeout).await;
    let cluster = reached.map_err(|error| Failure::Why(error.to_string()))?;
    match tool {
        Tool::Groups(Groups::List(args)) => groups::list(args, &cluster, out).await,
        Tool::Groups(Groups::Describe(args)) => groups::describe(args, &cluster, out).await,
        Tool::Groups(Groups::Reset(args)) => groups::reset(args, &cluster, out).await,
        Tool::Groups(Groups::Delete(args)) => groups::delete(args, &cluster, out).await,
        Tool::Groups(Groups::DeleteOffsets(args)) => groups::delete_offsets(args, &cluster, out).await,
        Tool::Topics(Topics::List(args)) => topics::list(args, &cluster, out).await,
        Tool::Topics(Topics::Describe(args)) => topics::describe(args, &cluster, out).await,
    }
}
