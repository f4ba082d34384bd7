//! What is refused before a run begins.

use crate::common::Ran;

#[test]
fn wrong_usage_names_flag_value_and_what_is_allowed_and_exits_2() {
    for (arguments, named) in [
        ("floor --bootstrap h:1", &["--rate", "--closed"][..]),
        ("floor --bootstrap h:1 --rate fast", &["--rate fast", "10k"]),
        ("floor --bootstrap h:1 --rate 0", &["--rate 0", "over 0"]),
        ("floor --bootstrap h:1 --rate 1 --closed", &["--rate", "--closed"]),
        ("floor --rate 1", &["--bootstrap", "HOST:PORT"]),
        ("floor --rate 1 --bootstrap nowhere", &["--bootstrap nowhere", "HOST:PORT"]),
        ("floor --rate 1 --bootstrap h:1 --duration 5", &["--duration", "'5'", "30s"]),
        ("floor --rate 1 --bootstrap h:1 --duration 0s", &["--duration 0s", "more than 0"]),
        ("floor --rate 1 --bootstrap h:1 --threads 0", &["--threads 0", "at least 1"]),
        ("floor --rate 1 --bootstrap h:1 --threads 2", &["--connections 1", "--threads 2"]),
        ("floor --rate 1 --bootstrap h:1 --cpus 0,1", &["--cpus 0,1", "--threads 1"]),
        ("floor --rate 1 --bootstrap h:1 --cpus 60000", &["--cpus 60000", "may use"]),
        ("floor --rate 1 --bootstrap h:1 --connections 9999999999", &["--connections 9999999999", "ulimit -Hn"]),
        ("floor --rate 1 --bootstrap h:1 --cpus x", &["--cpus", "'x'", "4-7"]),
        ("floor --rate 1 --bootstrap h:1 --request-bytes 3", &["--request-bytes 3", "16"]),
        ("floor --rate 1 --bootstrap h:1 --error-limit 2", &["--error-limit", "'2'", "100%"]),
        ("floor --rate 1 --bootstrap h:1 --arrivals bursts", &["--arrivals", "bursts", "poisson"]),
        ("floor --rate 1 --bootstrap h:1 --sasl PLAIN", &["--username"]),
        ("floor --bootstrap h:1 --search fast", &["--search", "fast", "rt.p99<5ms"]),
        ("floor --bootstrap h:1 --search rt.p99<5ms --rate 10", &["--search", "--rate"]),
        ("floor --bootstrap h:1 --search rt.p99<5ms --search-to 10", &["--search-to 10", "--search-from"]),
        ("floor --bootstrap h:1 --rate 1 --search-window 1s", &["--search"]),
        ("fleet --bootstrap h:1 --groups 1 --threads 2", &["--groups 1", "--threads 2"]),
        ("rebalance-storm --bootstrap h:1 --groups 1 --threads 2", &["--groups 1", "--threads 2"]),
        ("fleet --bootstrap h:1 --shared-conn 4000000000", &["--shared-conn 4000000000", "ulimit -Hn"]),
        ("flor", &["flor", "floor"]),
    ] {
        let ran = Ran::of(
            crate::common::bench(arguments).env_remove("RINGGATE_BENCH_PASSWORD").output().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        assert_eq!(ran.exit, 2, "{arguments}: {}", ran.stderr);
        for part in named {
            assert!(ran.stderr.contains(part), "{arguments}: {part} in {}", ran.stderr);
        }
    }
}

#[test]
fn scenarios_that_make_connections_by_their_own_flags_want_no_connections_for_each_thread() {
    for arguments in
        ["fleet", "fleet --shared-conn 2", "rebalance-storm --storm kill", "commit-storm --rate 1", "churn --rate 1"]
    {
        let ran = Ran::to_end(&format!("{arguments} --bootstrap h:1 --threads 2 --check"));
        assert_eq!(ran.exit, 0, "{arguments}: {}", ran.stderr);
    }
}

#[test]
fn a_target_that_cannot_be_reached_exits_3_with_its_address_and_leaves_nothing() {
    // Nobody listens on a port that was just given up.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = Ran::to_end(&format!("floor --bootstrap 127.0.0.1:{port} --rate 10"));
    assert_eq!(ran.exit, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("127.0.0.1:{port}")) && ran.stderr.contains("refused"), "{}", ran.stderr);
    assert!(ran.left_nothing());
}

#[test]
fn list_names_the_scenarios_and_only_them() {
    let output = crate::common::bench("list").output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.lines().any(|line| line.starts_with("floor")), "{listed}");
    assert!(!listed.lines().any(|line| line.starts_with("list")), "{listed}");
}
