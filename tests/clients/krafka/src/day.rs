//! Talking with `run`, and waiting for what must happen.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::io::BufRead;
use std::time::{Duration, Instant};

/// Proves liveness, never speed: everything waited for takes a second or two.
pub const WAIT: Duration = Duration::from_secs(60);

/// How long to let others run before a condition is looked at again.
const TURN: Duration = Duration::from_millis(20);

pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Ends a step unless something holds.
macro_rules! check {
    ($holds:expr, $($otherwise:tt)+) => {
        if !$holds {
            return Err(format!($($otherwise)+).into());
        }
    };
}
pub(crate) use check;

/// The lines of a day on standard output.
#[derive(Default)]
pub struct Day {
    pub failed: bool,
}

impl Day {
    /// Says how a step went; a failed one does not keep the later ones from being tried.
    pub fn step(&mut self, name: &str, outcome: Outcome<String>) {
        match outcome {
            Ok(detail) => say(name, "ok", &detail),
            Err(error) => {
                self.failed = true;
                eprintln!("step {name}: {error}");
                say(name, "fail", &error.to_string());
            }
        }
    }
}

fn say(name: &str, outcome: &str, detail: &str) {
    let words: Vec<&str> = ["step", name, outcome].into_iter().chain(detail.split_whitespace()).collect();
    println!("{}", words.join(" "));
}

/// Has the gateway killed with SIGKILL and started again; returns when it serves.
pub fn kill() -> Outcome {
    println!("kill");
    let mut answer = String::new();
    tokio::task::block_in_place(|| std::io::stdin().lock().read_line(&mut answer))?;
    check!(answer.trim() == "restarted", "run answered {answer:?}");
    Ok(())
}

/// What `run` tells a day.
pub fn told(name: &str) -> Outcome<String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}").into())
}

pub fn equal<T: PartialEq + Debug>(what: impl Display, found: T, expected: T) -> Outcome {
    check!(found == expected, "{what}: {found:?}, expected {expected:?}");
    Ok(())
}

/// The answer to a call, which must come.
pub async fn within<T, E>(what: &str, call: impl Future<Output = Result<T, E>>) -> Outcome<T>
where
    E: Error,
{
    match tokio::time::timeout(WAIT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{what}: {error}").into()),
        Err(_) => Err(format!("{what}: not after {WAIT:?}").into()),
    }
}

/// Looks at a condition until it holds.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> Outcome<bool>) -> Outcome {
    let began = Instant::now();
    while !holds().await? {
        check!(began.elapsed() < WAIT, "{what}: not after {WAIT:?}");
        tokio::time::sleep(TURN).await;
    }
    Ok(())
}
