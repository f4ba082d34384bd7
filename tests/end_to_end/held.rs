//! What a gateway asks of the kernel for as long as it serves, and what it says where it may not.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::gateway::{Gateway, Options};
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A user without any right: most systems' `nobody`.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn holds_device(gateway: &Gateway) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", gateway.ready().pid)).expect("a live process");
    descriptors.flatten().any(|one| std::fs::read_link(one.path()).is_ok_and(|target| target == Path::new(DEVICE)))
}

/// What the doctor says of a check, looking at the gateway.
fn looked(gateway: &Gateway, id: &str) -> Value {
    let pid = gateway.ready().pid.to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_ringgate"))
        .args(["doctor", "--json", "--pid", &pid, "--only", id])
        .output()
        .expect("the doctor");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["checks"][0].clone()
}

/// Starts a gateway that must end at once, without the rights of root and under a limit of locked memory, in KiB.
fn start_without_rights(limit: &str, flag: &str) -> Output {
    let mut command = Command::new("sh");
    let script = r#"ulimit -l "$1" && shift && exec "$@""#;
    command.args(["-c", script, "sh", limit, env!("CARGO_BIN_EXE_ringgate"), "serve", "--listen=127.0.0.1:0", flag]);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    command.output().expect("a start")
}

#[test]
fn memory_that_a_gateway_used_is_locked_and_the_doctor_sees_it() {
    if !is_root() {
        eprintln!("skipped: only root may be sure to lock its memory");
        return;
    }
    let gateway = Gateway::start(Options::new(2).set("lock-memory", true));
    assert!(gateway.locked() > 0, "VmLck");
    let mut raw = Raw::connect(gateway.bootstrap());
    let topic = create(&mut raw, "log", 1, &[]);
    topic.partition(0).append(&mut raw, batch(Writer::NOBODY, 1, &["a"]));
    assert!(gateway.locked() > gateway.rss() / 2, "{} KiB locked, {} resident", gateway.locked(), gateway.rss());
    assert_eq!(looked(&gateway, "mlock")["severity"], "ok");

    let without = Gateway::start(Options::new(1));
    assert_eq!(without.locked(), 0);
    let found = looked(&without, "mlock");
    assert_eq!(found["severity"], "advice", "{found}");
    assert!(found["fixes"].to_string().contains("serve --lock-memory"), "{found}");
}

#[test]
fn cpus_are_kept_awake_while_a_gateway_serves() {
    if !is_root() || !Path::new(DEVICE).exists() {
        eprintln!("skipped: {DEVICE} is not there, or only root may write it");
        return;
    }
    let mut gateway = Gateway::start(Options::new(1).set("hold-cpu-latency", true));
    assert!(holds_device(&gateway));
    let bound = std::fs::File::open(DEVICE).and_then(|mut device| {
        let mut bytes = [0; 4];
        std::io::Read::read_exact(&mut device, &mut bytes).map(|()| i32::from_ne_bytes(bytes))
    });
    assert_eq!(bound.expect("root may read it"), 0);
    let found = looked(&gateway, "cstates");
    assert!(found["severity"] == "ok" || found["severity"] == "not_applicable", "{found}");
    gateway.sigterm();

    let without = Gateway::start(Options::new(1));
    assert!(!holds_device(&without));
}

#[test]
fn a_limit_of_locked_memory_under_which_a_gateway_would_fall_is_refused_with_the_fix() {
    let output = start_without_rights("8192", "--lock-memory");
    let wrote = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{wrote}");
    for part in ["lock_memory = true", "8388608 bytes", "LimitMEMLOCK=infinity", "--ulimit memlock=-1"] {
        assert!(wrote.contains(part), "{part} in {wrote}");
    }
}

#[test]
fn a_device_that_may_not_be_held_is_refused_with_the_fix() {
    let writable = std::fs::OpenOptions::new().write(true).open(DEVICE).is_ok();
    if writable && !is_root() {
        eprintln!("skipped: whoever runs this may write {DEVICE}");
        return;
    }
    let output = start_without_rights("8192", "--hold-cpu-latency");
    let wrote = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{wrote}");
    for part in ["hold_cpu_latency = true", DEVICE, "or hold_cpu_latency = false"] {
        assert!(wrote.contains(part), "{part} in {wrote}");
    }
}
