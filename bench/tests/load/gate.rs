//! `--assert` and `--baseline`. Loops are closed, so that few runs are invalid for being late, and servers take tens of
//! milliseconds, so that a busy machine changes little; a run that it changed all the same is made again.

use std::time::Duration;

use crate::common::{Ran, undisturbed};
use crate::server::{Behaviour, Server};

fn slow(milliseconds: u64) -> Server {
    Server::echo(Behaviour::prompt().delay(Duration::from_millis(milliseconds)))
}

/// A run of a server that takes so long, most of whose requests took little longer, and of which there were enough for a
/// median.
fn usual(milliseconds: u64, arguments: &str) -> Ran {
    let is_usual = |ran: &Ran| {
        ran.is_valid() && {
            let found = &ran.result().latencies["floor.rt"];
            found.count >= 20 && found.percentiles_ns["50"] < milliseconds * 1_500_000
        }
    };
    undisturbed(|| Ran::to_end(arguments), is_usual)
}

fn load(server: &Server) -> String {
    format!("floor --bootstrap {} --closed --in-flight 4 --duration 1s --warmup 0s", server.address)
}

#[test]
fn what_is_asserted_decides_between_0_and_1() {
    let server = slow(30);
    let held = usual(30, &format!("{} --assert rt.p50>=20ms --assert errors==0 --assert rate>1", load(&server)));
    assert_eq!(held.exit, 0, "{}", held.stdout);
    assert!(held.stdout.contains("assert rt.p50>=20ms: ok, rt.p50 is "), "{}", held.stdout);

    let failed = usual(30, &format!("{} --assert rt.p50<20ms --assert errors==0", load(&server)));
    assert_eq!(failed.exit, 1, "{}", failed.stdout);
    assert!(failed.stdout.contains("assert rt.p50<20ms: FAILED, rt.p50 is "), "{}", failed.stdout);
    assert_eq!(failed.result().verdict.reasons, Vec::<String>::new(), "the run itself is fine, and is kept");

    let unknown = usual(30, &format!("{} --assert rt.p50.ms<1h", load(&server)));
    assert_eq!(unknown.exit, 1, "{}", unknown.stdout);
    assert!(unknown.stdout.contains("no metric rt.p50.ms in a floor run (did you mean rt.p50"), "{}", unknown.stdout);
}

#[test]
fn what_cannot_be_judged_is_refused_before_the_run() {
    let server = slow(0);
    for (flags, named) in [
        ("--assert rt.p99", &["--assert 'rt.p99'", "<="][..]),
        ("--assert rt.p99<5", &["--assert 'rt.p99<5'", "5ms"]),
        ("--baseline /no/such --max-regress 5%", &["--baseline /no/such"]),
        ("--baseline /no/such", &["--max-regress"]),
        ("--max-regress 5%", &["--baseline"]),
    ] {
        let ran = Ran::to_end(&format!("{} {flags}", load(&server)));
        assert_eq!(ran.exit, 2, "{flags}: {}", ran.stderr);
        for part in named {
            assert!(ran.stderr.contains(part), "{flags}: {part} in {}", ran.stderr);
        }
        assert!(ran.left_nothing());
    }
    assert_eq!(server.requests(), 0, "no server was bothered");
}

#[test]
fn a_run_is_held_against_an_earlier_one_of_the_same_load() {
    let (prompt, slower) = (slow(30), slow(90));
    let before = usual(30, &load(&prompt));
    assert_eq!(before.exit, 0, "{}", before.stdout);
    let against =
        |server: &Server, flags: &str| format!("{} --baseline {} {flags}", load(server), before.directory().display());
    let same = usual(30, &against(&prompt, "--max-regress rt.p50=100%"));
    assert_eq!(same.exit, 0, "{}", same.stdout);
    assert!(same.stdout.contains("no worse than the baseline"), "{}", same.stdout);

    let worse = usual(90, &against(&slower, "--max-regress 60%"));
    assert_eq!(worse.exit, 1, "{}", worse.stdout);
    assert!(worse.stdout.contains("REGRESSED against the baseline"), "{}", worse.stdout);
    let row = worse.stdout.lines().find(|line| line.trim_start().starts_with("rt.p50")).unwrap();
    assert!(row.contains("+60 %") && row.ends_with("REGRESSED"), "{row}");

    let other = usual(30, &against(&prompt, "--max-regress 1000% --connections 2"));
    assert_eq!(other.exit, 1, "{}", other.stdout);
    assert!(other.stdout.contains("--connections was 1, is 2"), "{}", other.stdout);
    let forced = usual(30, &against(&prompt, "--max-regress rt.p50=100% --connections 2 --baseline-force"));
    assert_eq!(forced.exit, 0, "{}", forced.stdout);
}
