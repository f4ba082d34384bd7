//! What a gateway asks of the kernel for as long as it serves, and what it says where it may not.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use serde_json::Value;

use crate::common::LIVENESS;
use crate::common::gateway::{Gateway, Options};
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A user without any right: most systems' `nobody`.
const NOBODY: u32 = 65_534;

/// The limit of locked memory that a gateway without rights starts under, where no lower one holds already, in KiB.
const LOCKED_KIB: u64 = 8_192;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a process of this one's rights locks whatever it likes: the root of a container often may not.
fn may_lock_all() -> bool {
    capabilities(None).expect("own capabilities").effective.contains(CapabilitySet::IPC_LOCK)
}

fn may_hold_device() -> bool {
    OpenOptions::new().read(true).write(true).open(DEVICE).is_ok()
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

/// What runs without the rights of root: as it is, where the tests are run by somebody else.
fn without_rights(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    command
}

/// Whether root may become somebody else here, which not every container allows.
fn can_do_without_rights() -> bool {
    without_rights("true").status().is_ok_and(|status| status.success())
}

/// The limit of locked memory that such a process can be given, in KiB.
fn locked_kib() -> u64 {
    getrlimit(Resource::Memlock).maximum.map_or(LOCKED_KIB, |hard| LOCKED_KIB.min(hard >> 10))
}

/// Starts a gateway that must end at once, without the rights of root and under that limit.
fn start_without_rights(flag: &str) -> Output {
    /// What a shell ends with where a program is there and may not be executed.
    const NOT_EXECUTED: i32 = 126;
    let deadline = Instant::now() + LIVENESS;
    loop {
        let output = try_to_start_without_rights(flag);
        // A copy is open for writing in whatever another test has just forked, until that executes something else.
        if output.status.code() != Some(NOT_EXECUTED) || Instant::now() > deadline {
            return output;
        }
    }
}

fn try_to_start_without_rights(flag: &str) -> Output {
    // The directories above the one that was built may be closed to others.
    let open = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(open.path(), Permissions::from_mode(0o755)).expect("its mode");
    let (binary, data) = (open.path().join("ringgate"), open.path().join("data"));
    let built = env!("CARGO_BIN_EXE_ringgate");
    std::fs::hard_link(built, &binary).or_else(|_| std::fs::copy(built, &binary).map(|_| ())).expect("the binary");

    let mut command = without_rights("sh");
    let script = r#"ulimit -l "$1" && shift && exec "$@""#;
    command.args(["-c", script, "sh", &locked_kib().to_string()]).arg(binary);
    command.args(["serve", "--listen=127.0.0.1:0", flag, "--data"]).arg(data);
    let mut started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
    let deadline = Instant::now() + LIVENESS;
    // It writes less than a pipe holds.
    while started.try_wait().expect("wait").is_none() {
        if Instant::now() > deadline {
            let _ = started.kill();
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    started.wait_with_output().expect("what it wrote")
}

#[test]
fn memory_that_a_gateway_used_is_locked_and_the_doctor_sees_it() {
    if !may_lock_all() && getrlimit(Resource::Memlock).maximum.is_some() {
        eprintln!("skipped: no CAP_IPC_LOCK, and a limit of locked memory");
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
    if !may_hold_device() {
        eprintln!("skipped: {DEVICE} is not there, or may not be written");
        return;
    }
    let mut gateway = Gateway::start(Options::new(1).set("hold-cpu-latency", true));
    assert!(holds_device(&gateway));
    let bound = std::fs::File::open(DEVICE).and_then(|mut device| {
        let mut bytes = [0; 4];
        std::io::Read::read_exact(&mut device, &mut bytes).map(|()| i32::from_ne_bytes(bytes))
    });
    assert_eq!(bound.expect("it is read"), 0);
    let found = looked(&gateway, "cstates");
    assert!(found["severity"] == "ok" || found["severity"] == "not_applicable", "{found}");
    gateway.sigterm();

    let without = Gateway::start(Options::new(1));
    assert!(!holds_device(&without));
}

#[test]
fn a_limit_of_locked_memory_under_which_a_gateway_would_fall_is_refused_with_the_fix() {
    if !can_do_without_rights() || !is_root() && may_lock_all() {
        eprintln!("skipped: nobody without CAP_IPC_LOCK can be had here");
        return;
    }
    let output = start_without_rights("--lock-memory");
    let wrote = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{wrote}");
    let limit = format!("{} bytes", locked_kib() << 10);
    for part in ["lock_memory = true", &limit, "LimitMEMLOCK=infinity", "--ulimit memlock=-1"] {
        assert!(wrote.contains(part), "{part} in {wrote}");
    }
}

#[test]
fn a_device_that_may_not_be_held_is_refused_with_the_fix() {
    if !can_do_without_rights() || without_rights("test").args(["-w", DEVICE]).status().is_ok_and(|may| may.success()) {
        eprintln!("skipped: nobody who may not write {DEVICE} can be had here");
        return;
    }
    let output = start_without_rights("--hold-cpu-latency");
    let wrote = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{wrote}");
    for part in ["hold_cpu_latency = true", DEVICE, "or hold_cpu_latency = false"] {
        assert!(wrote.contains(part), "{part} in {wrote}");
    }
}
