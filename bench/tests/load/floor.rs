//! `floor` against the other side of its own.

use crate::common::{Echo, Ran, undisturbed};

#[test]
fn an_open_loop_sends_every_slot_of_its_schedule_and_leaves_warm_up_out() {
    let echo = Echo::start();
    let run = || {
        Ran::to_end(&format!(
            "floor --bootstrap {} --rate 500 --duration 2s --warmup 500ms --threads 2 --connections 4 --in-flight 64",
            echo.address
        ))
    };
    let ran = undisturbed(run, Ran::sent_all);
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.health.slots, 1_000);
    assert_eq!(result.values["offered_rate"].value, 500.0);
    assert_eq!((result.latencies["floor.rt"].count, result.latencies["floor.st"].count), (1_000, 1_000));
    assert_eq!(result.errors, []);
    assert!(result.intervals.iter().any(|row| row.warmup) || result.warmup_s < 1.0);
    let all: u64 = result.intervals.iter().filter_map(|row| row.latencies.get("floor.rt")).map(|row| row.count).sum();
    assert_eq!(all, 1_250, "the series has the warm-up, too");
    assert!(ran.stdout.trim_end().ends_with(ran.directory().to_str().unwrap()), "{}", ran.stdout);
}

#[test]
fn a_closed_loop_has_what_the_connections_hold_and_no_schedule() {
    let echo = Echo::start();
    let ran = Ran::to_end(&format!(
        "floor --bootstrap {} --closed --duration 1s --warmup 0s --connections 2 --in-flight 3 --response-bytes 4096",
        echo.address
    ));
    ran.was_carried_out();
    let result = ran.result();
    assert_eq!(result.health.slots, 0);
    assert!(!result.values.contains_key("offered_rate"));
    let count = result.latencies["floor.rt"].count;
    assert!(count > 6, "{count}");
    assert_eq!(result.values["bytes"].value, (count * (64 + 4096)) as f64);
    assert_eq!(result.errors, []);
}
