//! What a run shows, and where.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::{Ran, bench, undisturbed};
use crate::server::{Behaviour, Server};

fn server() -> Server {
    Server::echo(Behaviour::prompt().delay(Duration::from_millis(20)))
}

fn load(server: &Server) -> String {
    lasting(server, "2s", "1s")
}

fn lasting(server: &Server, duration: &str, warmup: &str) -> String {
    format!("floor --bootstrap {} --closed --in-flight 4 --duration {duration} --warmup {warmup}", server.address)
}

/// What a run shows on a terminal of 100 columns, as bytes were written, and on stdout.
fn on_a_terminal(load: &str, flags: &str, environment: &[(&str, &str)]) -> (String, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut child = bench(&format!("{load} {flags}"))
        .arg("--out")
        .arg(out.path())
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color")
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(slave)
        .spawn()
        .unwrap();
    // The other end is the child's alone; when it ends, the terminal does, with an error where a file has an end.
    let mut shown = Vec::new();
    let _ = File::from(master).read_to_end(&mut shown);
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert!([0, 5].contains(&child.wait().unwrap().code().unwrap()));
    (String::from_utf8_lossy(&shown).into_owned(), stdout)
}

#[test]
fn a_terminal_has_a_bar_with_stage_time_left_and_the_last_seconds_figures() {
    let server = server();
    let parts = ["connecting", "warming up", "measuring", "1 s of 3 s, 2 s left", "/s", "p50", "p99.9", "errors 0"];
    // What is over before it can be drawn is not.
    let has_all = |shown: &str| parts.iter().all(|part| shown.contains(part));
    let (shown, stdout) = undisturbed(|| on_a_terminal(&load(&server), "", &[]), |(shown, _)| has_all(shown));
    for part in parts {
        assert!(shown.contains(part), "{part} in {shown:?}");
    }
    assert!(shown.contains("\x1b[1m") && !shown.contains("errors 0  server"), "painted, and no lines: {shown:?}");
    assert!(stdout.contains("floor.rt") && !stdout.contains('\x1b'), "stdout is a pipe: {stdout}");
}

#[test]
fn no_color_and_color_decide_over_paint() {
    let is_painted = |text: &str| text.contains("\x1b[1m");
    let server = server();
    let short = lasting(&server, "200ms", "0s");
    let on_a_terminal = |flags: &str, environment: &[(&str, &str)]| on_a_terminal(&short, flags, environment);
    assert!(!is_painted(&on_a_terminal("", &[("NO_COLOR", "1")]).0));
    assert!(is_painted(&on_a_terminal("", &[("NO_COLOR", "")]).0), "an empty one is none");
    assert!(!is_painted(&on_a_terminal("--color never", &[]).0));
    let (shown, stdout) = on_a_terminal("--color always", &[("NO_COLOR", "1")]);
    assert!(is_painted(&shown) && is_painted(&stdout));
}

#[test]
fn elsewhere_there_is_a_line_per_interval_and_none_when_quiet() {
    let server = server();
    let ran = Ran::to_end(&load(&server));
    ran.was_carried_out();
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("p99.9")).collect();
    assert!(lines.len() >= 3 && lines[0].contains("1.0 s  warm-up"), "{}", ran.stderr);
    assert!(lines[1].contains("2.0 s  measured"), "{}", ran.stderr);

    let ran = Ran::to_end(&format!("{} --quiet", load(&server)));
    ran.was_carried_out();
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.contains("floor.rt") && ran.stdout.contains("errors"), "{}", ran.stdout);
    assert_eq!(ran.stdout.lines().last().unwrap(), ran.directory().to_str().unwrap());
}

#[test]
fn programs_have_an_event_per_line() {
    let server = server();
    let arguments = format!("{} --json-lines --assert rt.max<1h --assert rt.nothing<1h", load(&server));
    let ran = undisturbed(|| Ran::to_end(&arguments), Ran::is_valid);
    assert!([1, 5].contains(&ran.exit), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    let events: Vec<serde_json::Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let intervals = events.iter().filter(|event| event["event"] == "interval").count();
    assert!(intervals >= 3, "{names:?}");
    names.retain(|name| *name != "interval");
    names.dedup();
    assert_eq!(names, ["started", "stage", "finished", "judged", "written"]);
    let stages: Vec<&str> = events.iter().filter_map(|event| event["stage"].as_str()).collect();
    assert_eq!(stages[..4], ["found", "prepare", "warm_up", "measure"]);

    assert_eq!(events[0]["schema"], "ringgate-bench-events/1");
    assert_eq!((&events[0]["scenario"], &events[0]["offered_rate"]), (&"floor".into(), &serde_json::Value::Null));
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert!(of("interval")["latencies"]["floor.rt"]["p50_ns"].as_u64().unwrap() > 10_000_000);
    assert_eq!(of("finished")["result"]["id"], ran.result().id.as_str());
    assert_eq!((&of("judged")["held"], &events[events.len() - 2]["held"]), (&true.into(), &false.into()));
    assert_eq!(of("written")["directory"], ran.directory().to_str().unwrap());
}
