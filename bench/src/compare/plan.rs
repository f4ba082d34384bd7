//! What a comparison is to do, checked.

use std::path::PathBuf;
use std::time::Duration;

use super::model::Which;
use super::reach::Sign;
use crate::scrape::Url;

/// How the sides take turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// A B, B A, A B, ...: what drifts (heat, a filling disk) falls on both alike.
    #[default]
    Abba,
    /// A B, A B, A B, ...
    Abab,
}

impl Order {
    /// As a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Abba => "abba",
            Order::Abab => "abab",
        }
    }

    /// Who goes first and second in a pair, counted from 1.
    pub fn turns(self, pair: u32) -> [Which; 2] {
        match self {
            Order::Abba if pair.is_multiple_of(2) => [Which::B, Which::A],
            _ => [Which::A, Which::B],
        }
    }
}

/// A target and how it is started and stopped.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name in tables and charts.
    pub name: String,
    /// `host:port` of its bootstrap servers, at least one.
    pub bootstrap: Vec<String>,
    /// Starts it before each of its runs.
    pub start: Option<String>,
    /// Stops it after each of its runs.
    pub stop: Option<String>,
    /// Its process, where the start hook tells none.
    pub server_pid: Option<u32>,
    /// Where its metrics are.
    pub server_metrics: Option<Url>,
}

/// What is compared and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What ratios are divided by.
    pub a: Target,
    /// The other.
    pub b: Target,
    /// The scenario's name and flags, which both get.
    pub scenario: Vec<String>,
    /// Pairs of A and B.
    pub pairs: u32,
    /// Pairs of A and A.
    pub noise_pairs: u32,
    /// Who goes first.
    pub order: Order,
    /// Pause before every run but the first.
    pub cooldown: Duration,
    /// How long a hook may take, and a target to be gone after its stop hook.
    pub hook_timeout: Duration,
    /// How long a target may take to be reachable after its start hook.
    pub ready_timeout: Duration,
    /// What counts as reachable.
    pub sign: Sign,
    /// Invalid runs before the comparison ends without a winner.
    pub invalid_max: u32,
    /// Whether the kernel's page cache is dropped before each run.
    pub drop_caches: bool,
    /// Decides every random choice.
    pub seed: u64,
    /// Where the comparison's directory is made.
    pub out: PathBuf,
    /// The exact command, secrets masked.
    pub command: Vec<String>,
    /// Flags for each run's own output: `--quiet`, `--color never`.
    pub show: Vec<String>,
}

impl Plan {
    /// A target.
    pub fn target(&self, which: Which) -> &Target {
        match which {
            Which::A => &self.a,
            Which::B => &self.b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abba_gives_each_side_the_first_turn_as_often() {
        let first = |order: Order| (1..=6).map(|pair| order.turns(pair)[0]).collect::<Vec<_>>();
        let (a, b) = (Which::A, Which::B);
        assert_eq!(first(Order::Abba), [a, b, a, b, a, b]);
        assert_eq!(first(Order::Abab), [a; 6]);
    }
}
