//! Days on which all must hold. The example `simulate` lives many more.

use crate::simulation::{Mutation, Options, Summary, run};

const PLAIN: Options = Options { mutation: Mutation::None, trace: 200 };

#[test]
fn all_holds_on_sixty_simulated_days() {
    let mut summary = Summary::default();
    for seed in 1..=60 {
        match run(seed, PLAIN) {
            Ok(day) => summary.add(&day),
            Err(failure) => panic!("{failure}"),
        }
    }
    // Days on which nothing happens prove nothing.
    assert!(summary.commits > 5_000 && summary.rebalances > 300 && summary.crashes > 20, "{summary}");
    assert!(summary.requests > 50_000 && summary.simulated_us > 5 * 3_600_000_000, "{summary}");
    assert!(summary.migrations > 10, "{summary}");
}

#[test]
fn a_seed_decides_everything() {
    for seed in 1..=8 {
        let days = [run(seed, PLAIN), run(seed, PLAIN)].map(|day| day.map_err(|failure| failure.to_string()));
        assert_eq!(days[0], days[1]);
    }
}
