//! `--search`: the highest rate at which a target keeps bounds.

use std::time::Duration;

use crate::common::{Echo, Ran, undisturbed};
use crate::server::{Behaviour, Server};

#[test]
fn the_highest_rate_under_a_bound_is_found_confirmed_and_every_probe_is_in_the_result() {
    // 40 requests at a time of 200 ms each: 200 per second, above which the queue grows by the second. The delay is so
    // long that a busy machine's own lateness is small against it.
    let server = Server::echo(Behaviour::prompt().delay(Duration::from_millis(200)));
    let run = || {
        Ran::to_end(&format!(
            "floor --bootstrap {} --connections 40 --in-flight 1 --search rt.p99<350ms --search-from 50 \
             --search-window 1s --search-warmup 0s --search-precision 25% --warmup 0s --duration 1s",
            server.address
        ))
    };
    // A machine that stands still in one of the probes makes the search end too low, as a target would.
    let is_high = |ran: &Ran| ran.result().search.unwrap().confirmed_rate.is_some_and(|rate| rate >= 80.0);
    let ran = undisturbed(run, |ran| !ran.is_valid() || is_high(ran));
    ran.was_carried_out();
    let result = ran.result();
    let search = result.search.as_ref().unwrap();
    assert!(search.probes.len() >= 2, "{search:?}");
    assert_eq!(search.probes[0].rate, 50.0);
    for probe in &search.probes {
        assert!(probe.found[0].contains("rt.p99 is"), "{probe:?}");
        assert!(probe.rate < 260.0 || !probe.kept, "over what the server can do: {probe:?}");
    }
    if ran.exit == 5 {
        // A machine too busy for its own schedule says that, and not that the target can do no more.
        assert!(search.ended.contains("the generator") && search.confirmed_rate.is_none(), "{search:?}");
        return;
    }
    assert!(search.probes.iter().any(|probe| !probe.kept), "{search:?}");
    let confirmed = search.confirmed_rate.unwrap();
    assert!((80.0..260.0).contains(&confirmed), "{search:?}");
    let last = search.probes.last().unwrap();
    assert!(last.confirms && last.kept && last.rate == confirmed, "{last:?}");
    assert_eq!(result.values["search_rate"].value, confirmed);
    assert_eq!(result.latencies["floor.rt"].count as f64, confirmed.ceil(), "the result is the confirming run's");
}

#[test]
fn a_generator_at_its_limit_ends_the_search_and_is_not_taken_for_the_target() {
    let echo = Echo::start();
    let ran = Ran::to_end(&format!(
        "floor --bootstrap {} --in-flight 10000000 --max-outstanding 10000000 --search rt.p99<1h --search-from 2M \
         --search-to 100M --search-window 500ms --search-warmup 0s",
        echo.address
    ));
    assert_eq!(ran.exit, 5, "{}\n{}", ran.stdout, ran.stderr);
    let search = ran.result().search.unwrap();
    assert!(search.ended.contains("the generator, not the target"), "{}", search.ended);
    assert_eq!((search.confirmed_rate, search.missed_rate), (None, None));
    assert!(!search.probes.last().unwrap().reasons.is_empty());
}

#[test]
fn a_bound_that_no_rate_keeps_exits_1() {
    let server = Server::echo(Behaviour::prompt().delay(Duration::from_millis(500)));
    let run = || {
        Ran::to_end(&format!(
            "floor --bootstrap {} --search rt.max<100ms --search-from 3 --search-window 1s --search-warmup 0s",
            server.address
        ))
    };
    let ran = undisturbed(run, Ran::is_valid);
    assert_eq!(ran.exit, 1, "{}\n{}", ran.stdout, ran.stderr);
    let search = ran.result().search.unwrap();
    assert_eq!((search.confirmed_rate, search.missed_rate), (None, Some(1.0)));
    let mut rates: Vec<f64> = search.probes.iter().map(|probe| probe.rate).collect();
    rates.dedup();
    assert_eq!(rates, [3.0, 1.5, 1.0]);
}
