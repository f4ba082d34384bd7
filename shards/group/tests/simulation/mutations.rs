//! What the checks are worth: each fault that is put in on purpose is found, within a bounded number of days on
//! all of which everything holds without it.

use crate::simulation::{Mutation, Options, run};

/// Days within which each is found.
const DAYS: u64 = 300;

/// The first day on which something does not hold, and what.
fn found(mutation: Mutation) -> Option<(u64, String)> {
    (1..=DAYS).find_map(|seed| Some((seed, run(seed, Options { mutation, trace: 0 }).err()?.invariant)))
}

#[test]
fn every_fault_that_is_put_in_is_found() {
    let hidden: Vec<Mutation> = Mutation::ALL.into_iter().filter(|mutation| found(*mutation).is_none()).collect();
    assert!(hidden.is_empty(), "not found within {DAYS} days: {hidden:?}");
}
