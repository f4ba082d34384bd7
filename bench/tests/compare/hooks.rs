//! Commands around the runs.

use std::net::TcpListener;
use std::time::Duration;

use crate::server::{Behaviour, Server};
use crate::{compare, comparison, metric, text};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn start_hooks_know_their_run_and_give_the_process_to_sample() {
    let server = Server::kafka(Behaviour::prompt().delay(Duration::from_millis(20)), 1);
    let out = tempfile::tempdir().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let hook = format!(
        "echo $RINGGATE_BENCH_SIDE $RINGGATE_BENCH_NAME $RINGGATE_BENCH_PURPOSE $RINGGATE_BENCH_PAIR $RINGGATE_BENCH_RUN \
         $RINGGATE_BENCH_BOOTSTRAP >> {}; echo pid={}",
        log.path().display(),
        std::process::id()
    );
    let targets = ["--a", &server.address, "--b", &server.address, "--a-name", "one", "--b-name", "two"];
    let runs = ["--a-start", &hook, "--b-start", &hook, "--noise-pairs", "1", "--pairs", "2", "--cooldown", "0s"];
    let load = ["--max-invalid", "20", "produce", "--closed", "--duration", "300ms", "--warmup", "0s"];
    let output = compare(&[&targets[..], &runs, &load].concat(), out.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let compared = comparison(out.path());
    if compared.runs.iter().all(|run| run.counts) {
        let at = &server.address;
        let expected = [
            format!("a one noise 1 1 {at}"),
            format!("a one noise 1 2 {at}"),
            format!("a one pair 1 3 {at}"),
            format!("b two pair 1 4 {at}"),
            format!("b two pair 2 5 {at}"),
            format!("a one pair 2 6 {at}"),
        ];
        assert_eq!(std::fs::read_to_string(log.path()).unwrap().lines().collect::<Vec<_>>(), expected);
    }
    assert!(metric(&compared, "server.rss_max").a_median > 0.0, "the process was sampled");
}

#[test]
fn a_target_is_started_and_stopped_around_each_of_its_runs() {
    let out = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let (pid, log) = (work.path().join("pid"), work.path().join("log"));
    let address = format!("127.0.0.1:{}", free_port());
    let start = format!(
        "{} floor --serve {address} & echo $! > {}; echo start >> {}; echo pid=$!",
        env!("CARGO_BIN_EXE_ringgate-bench"),
        pid.display(),
        log.display()
    );
    let stop = format!("kill $(cat {}); echo stop >> {}", pid.display(), log.display());
    let targets = ["--a", &address, "--b", &address, "--a-start", &start, "--b-start", &start];
    let stops = ["--a-stop", &stop, "--b-stop", &stop, "--noise-pairs", "1", "--pairs", "1", "--cooldown", "0s"];
    let load = ["floor", "--rate", "20", "--duration", "500ms", "--warmup", "0s"];
    let output = compare(&[&targets[..], &stops, &load].concat(), out.path());
    // On a busy machine runs may be invalid; the target is started and stopped all the same.
    assert!([Some(0), Some(5)].contains(&output.status.code()), "{}", text(&output));
    let log = std::fs::read_to_string(log).unwrap();
    let runs = comparison(out.path()).runs.len();
    assert_eq!(log, "start\nstop\n".repeat(runs.max(1)), "{}", text(&output));
    assert!(std::net::TcpStream::connect(&address).is_err(), "nothing is left running");
}

#[test]
fn a_hook_that_fails_ends_the_comparison_with_3_and_the_stop_hook_is_run() {
    let out = tempfile::tempdir().unwrap();
    let stopped = out.path().join("stopped");
    let address = format!("127.0.0.1:{}", free_port());
    let stop = format!("touch {}", stopped.display());
    let to = out.path().join("runs");
    let words = |start: &str| {
        compare(
            &[
                "--a",
                &address,
                "--b",
                &address,
                "--a-start",
                start,
                "--a-stop",
                &stop,
                "--ready-timeout",
                "300ms",
                "floor",
                "--closed",
            ],
            &to,
        )
    };
    let output = words("echo no room >&2; exit 9");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("--a-start 'echo no room >&2; exit 9': exit code 9: no room"), "{}", text(&output));
    assert!(stopped.exists());

    let output = words("true");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let said = text(&output);
    assert!(
        said.contains("after --a-start") && said.contains("not reachable within 0.3 s") && said.contains(&address),
        "{said}"
    );
}

#[test]
fn a_stop_hook_that_leaves_the_target_running_is_found_out() {
    let server = Server::echo(Behaviour::prompt().delay(Duration::from_millis(20)));
    let out = tempfile::tempdir().unwrap();
    let targets = ["--a", &server.address, "--b", &server.address, "--a-stop", "true", "--hook-timeout", "300ms"];
    let load = ["floor", "--closed", "--duration", "200ms", "--warmup", "0s"];
    let output = compare(&[&targets[..], &load].concat(), out.path());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(
        text(&output).contains("after --a-stop") && text(&output).contains("still takes connections"),
        "{}",
        text(&output)
    );
}
