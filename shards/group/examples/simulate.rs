//! Lives many simulated days, each decided by its seed, and says whether all held that must.
//!
//! `cargo run --release -p ringgate-group --example simulate -- --seeds 2000`; with `--seed S` one day. A day on
//! which something did not hold is lived again, and the last of what happened in it is shown (`--trace` lines). Exit code 1 where something did not hold.

#[path = "../simulation/mod.rs"]
mod simulation;

use std::process::ExitCode;

use simulation::{Mutation, Options, Summary, run};

struct Flags {
    first: u64,
    seeds: u64,
    trace: usize,
    mutation: Mutation,
}

fn flags() -> Result<Flags, String> {
    let mut flags = Flags { first: 1, seeds: 200, trace: 300, mutation: Mutation::None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|word| word.parse().ok());
            number.ok_or_else(|| format!("{word} takes a number"))
        };
        match word.as_str() {
            "--seeds" => flags.seeds = number()?,
            "--seed" => (flags.first, flags.seeds) = (number()?, 1),
            "--from" => flags.first = number()?,
            "--trace" => flags.trace = number()? as usize,
            "--mutation" => {
                let name = words.next().unwrap_or_default();
                let mutation = Mutation::ALL.into_iter().find(|mutation| format!("{mutation:?}") == name);
                flags.mutation = mutation.ok_or_else(|| format!("there is no mutation {name}"))?;
            }
            _ => return Err(format!("{word}: only --seeds N, --seed S, --from S, --trace N, --mutation M")),
        }
    }
    Ok(flags)
}

fn main() -> ExitCode {
    let flags = match flags() {
        Ok(flags) => flags,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut summary = Summary::default();
    let started = std::time::Instant::now();
    for seed in flags.first..flags.first + flags.seeds {
        match run(seed, Options { mutation: flags.mutation, trace: 0 }) {
            Ok(day) => summary.add(&day),
            Err(failure) => {
                // The same again, and this time with everything written down.
                let traced = run(seed, Options { mutation: flags.mutation, trace: flags.trace });
                println!("{}", traced.err().unwrap_or(failure));
                return ExitCode::FAILURE;
            }
        }
    }
    println!("all held in {summary}; {:.1} s", started.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
