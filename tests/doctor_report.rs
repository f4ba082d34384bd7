//! `ringgate doctor` looking at hosts and changing none: the trees that stand for them, and this machine, with a gateway
//! beside it and as a user without rights sees it.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const TREES: [&str; 4] = ["bare_metal", "vm", "container", "no_io_uring"];

fn tree(name: &str) -> String {
    format!("{}/tuning/tests/hosts/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringgate")).arg("doctor").args(arguments).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("no JSON: {output:?}"))
}

fn checks(report: &Value) -> &Vec<Value> {
    report["checks"].as_array().unwrap()
}

fn ids(report: &Value) -> Vec<&str> {
    checks(report).iter().map(|check| check["id"].as_str().unwrap()).collect()
}

/// The one check of a report that has only one.
fn only(report: &Value) -> &Value {
    let [check] = &checks(report)[..] else { panic!("not one check: {report}") };
    check
}

#[test]
fn every_host_is_told_in_json_and_by_the_exit_code() {
    let list = json(&doctor(&["--list", "--json"]));
    let mut codes = Vec::new();
    for (host, profile) in TREES.iter().flat_map(|host| ["latency", "throughput", "shared"].map(|one| (host, one))) {
        let output = doctor(&["--root", &tree(host), "--profile", profile, "--json"]);
        let report = json(&output);
        assert_eq!(ids(&report), ids(&list), "{host} {profile}");
        assert_eq!((&report["version"], report["profile"].as_str()), (&Value::from(1), Some(profile)));
        for check in checks(&report) {
            let severity = check["severity"].as_str().unwrap();
            let wrong = ["advice", "warning", "blocker"].contains(&severity);
            let unknown = ["not_applicable", "unread"].contains(&severity);
            assert!(wrong || unknown || severity == "ok", "{check}");
            assert_eq!(check["reason"].as_str().is_some_and(|reason| !reason.is_empty()), unknown, "{host} {check}");
            let fixes = check["fixes"].as_array().unwrap();
            assert_eq!(fixes.is_empty(), !wrong, "{host} {profile} {check}");
            for fix in fixes {
                let text = if fix["kind"] == "knob" { &fix["command"] } else { &fix["text"] };
                assert!(text.as_str().is_some_and(|text| !text.is_empty()), "{check}");
                let path = fix["path"].as_str().unwrap_or("/sys/");
                assert!(path.starts_with("/sys/") || path.starts_with("/proc/"), "{check}");
            }
        }
        let worst = match report["worst"].as_str().unwrap() {
            "blocker" => 2,
            "warning" => 1,
            _ => 0,
        };
        assert_eq!(output.status.code(), Some(worst), "{host} {profile}");
        codes.push((*host, worst));
    }
    assert!(codes.contains(&("no_io_uring", 2)), "{codes:?}");
}

#[test]
fn the_worst_finding_is_the_exit_code() {
    let root = tree("bare_metal");
    let code = |only: &str| doctor(&["--root", &root, "--only", only]).status.code();
    assert_eq!(code("congestion"), Some(0), "fine");
    assert_eq!(code("busy_poll"), Some(0), "advice");
    assert_eq!(code("slow_start_idle,congestion"), Some(1), "a warning");
    let root = tree("no_io_uring");
    let blocked = doctor(&["--root", &root, "--only", "uring_enabled,congestion"]);
    assert_eq!(blocked.status.code(), Some(2), "a blocker");
    assert!(!blocked.stdout.is_empty(), "which is told from a bad command line");
}

#[test]
fn only_the_checks_that_are_named_are_run() {
    let report = json(&doctor(&["--root", &tree("vm"), "--json", "--only", "mtu,somaxconn", "--only", "xps"]));
    assert_eq!(ids(&report), ["somaxconn", "xps", "mtu"], "in the order in which all are listed");

    let unknown = doctor(&["--root", &tree("vm"), "--only", "somaxcon"]);
    assert_eq!((unknown.status.code(), stdout(&unknown).as_str()), (Some(2), ""));
    assert!(stderr(&unknown).contains("somaxconn"), "what was meant: {}", stderr(&unknown));
}

#[test]
fn people_read_what_is_wrong_why_and_the_fix() {
    let table = stdout(&doctor(&["--root", &tree("bare_metal"), "--only", "slow_start_idle,congestion,eee"]));
    for part in ["net.ipv4.tcp_slow_start_after_idle = 1", "why: ", "sysctl -w net.ipv4.tcp_slow_start_after_idle=0"] {
        assert!(table.contains(part), "{part} in {table}");
    }
    assert!(table.contains("1 warning") && table.contains("1 fine"), "{table}");
    assert!(!table.contains('\u{1b}'), "no colours where there is no terminal");
}

/// As nobody, where the tests run as root.
fn as_nobody(binary: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary);
    command.arg("doctor").args(arguments).current_dir("/");
    if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65_534;
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().expect("the binary runs")
}

#[test]
fn whoever_is_not_root_gets_all_checks_and_is_told_what_was_not_read() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let binary = directory.path().join("ringgate");
    let built = env!("CARGO_BIN_EXE_ringgate");
    std::fs::hard_link(built, &binary).or_else(|_| std::fs::copy(built, &binary).map(|_| ())).unwrap();

    let output = as_nobody(&binary, &["--json"]);
    assert!(output.status.code().is_some_and(|code| code <= 2) && output.stderr.is_empty(), "{output:?}");
    assert_eq!(ids(&json(&output)), ids(&json(&doctor(&["--list", "--json"]))));

    // What the first process was started with is nobody else's to know.
    let output = as_nobody(&binary, &["--json", "--pid", "1", "--only", "env"]);
    let report = json(&output);
    assert_eq!(only(&report)["severity"], "unread", "{report}");
    assert!(only(&report)["reason"].as_str().unwrap().contains("root"), "{report}");
    assert_eq!(output.status.code(), Some(0));
}

/// A gateway in a process of its own, ended when it is dropped.
struct Gateway {
    process: Child,
    port: String,
    _data: tempfile::TempDir,
}

impl Gateway {
    fn with_two_shards() -> Gateway {
        const START_MAX: Duration = Duration::from_secs(120);
        let data = tempfile::tempdir().unwrap();
        let ready: PathBuf = data.path().join("ready.json");
        let mut process = Command::new(env!("CARGO_BIN_EXE_ringgate"))
            .args(["serve", "--listen", "127.0.0.1:0", "--shards", "2", "--cpus", "none", "--data"])
            .arg(data.path().join("data"))
            .arg("--ready-file")
            .arg(&ready)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let text = loop {
            // It is renamed into place, so it is whole once it is there.
            match std::fs::read_to_string(&ready) {
                Ok(text) => break text,
                Err(_) if began.elapsed() > START_MAX => panic!("no gateway within {START_MAX:?}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
            assert!(process.try_wait().unwrap().is_none(), "the gateway ended");
        };
        let ready: Value = serde_json::from_str(&text).unwrap();
        let bootstrap = ready["listeners"][0]["bootstrap"].as_str().unwrap();
        let port = bootstrap.rsplit_once(':').unwrap().1.to_owned();
        Gateway { process, port, _data: data }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_gateway_that_runs_is_found_by_its_port() {
    let gateway = Gateway::with_two_shards();
    let look = |check: &str| json(&doctor(&["--json", "--port", &gateway.port, "--only", check]));

    let spread = look("reuseport");
    assert_eq!(only(&spread)["severity"], "ok", "{spread}");
    assert!(only(&spread)["read"].as_str().unwrap().contains("has 2 sockets of 2 shards"), "{spread}");

    assert_eq!(only(&look("keepalive"))["severity"], "not_applicable", "without a connection");
    let connection = TcpStream::connect(format!("127.0.0.1:{}", gateway.port)).unwrap();
    let began = Instant::now();
    let kept = loop {
        // Accepted by a shard, which is a moment after it is established.
        let report = look("keepalive");
        if only(&report)["severity"] == "ok" || began.elapsed() > Duration::from_secs(60) {
            break report;
        }
    };
    assert!(only(&kept)["read"].as_str().unwrap().contains("1 connections, 1 with a keepalive timer"), "{kept}");
    drop(connection);

    let files = look("nofile");
    assert_eq!(files["pid"], gateway.process.id(), "all checks look at it: {files}");
    let whose = format!("open files of process {}: ", gateway.process.id());
    assert!(only(&files)["read"].as_str().unwrap().starts_with(&whose), "{files}");
    let table = stdout(&doctor(&["--port", &gateway.port, "--only", "nofile"]));
    let head = format!("2 shards, 10000 connections; the gateway that runs as process {}\n", gateway.process.id());
    assert!(table.lines().next().is_some_and(|line| line.ends_with(head.trim_end())), "{table}");

    let score = look("oom_score");
    assert!(only(&score)["read"].as_str().unwrap().ends_with("(the gateway)"), "{score}");
}
