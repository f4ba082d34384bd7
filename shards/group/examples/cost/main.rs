//! What a member costs the coordinator, in a group of ten and in one of a hundred thousand.
//!
//! `cargo run --release -p ringgate-group --example cost` counts the instructions of one member's operations: each
//! runs under `valgrind --tool=callgrind`, in a process of its own, in groups of different sizes. They are counted
//! and not timed, so that a machine with other work gives the same numbers. With `-- memory`: the bytes that a
//! member, an offset and a group take, at several sizes, each in a process of its own as well.

mod fleet;
mod instructions;
mod memory;

use std::process::ExitCode;

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        [] => instructions::table(),
        ["count", operation, members] => instructions::count(operation, number(members)?),
        ["memory"] => memory::table(),
        ["grow", kind, count] => memory::grow(kind, number(count)?),
        _ => Err("only nothing, or `memory`".to_owned()),
    }
}

fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("{word} is not a number"))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
