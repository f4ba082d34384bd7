//! `ringgate doctor` changing hosts: copies of the trees that stand for them, and a network of this machine that nobody
//! else sees.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const TREES: [&str; 4] = ["bare_metal", "vm", "container", "no_io_uring"];

/// A copy of a host, and a place for what is not the host's.
struct World {
    root: tempfile::TempDir,
    elsewhere: tempfile::TempDir,
}

impl World {
    fn of(tree: &str) -> World {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tuning/tests/hosts").join(tree);
        let world = World { root: tempfile::tempdir().unwrap(), elsewhere: tempfile::tempdir().unwrap() };
        for (path, content) in files(&source) {
            let path = world.root.path().join(path.strip_prefix(&source).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn journal(&self) -> PathBuf {
        self.elsewhere.path().join("journal.json")
    }

    fn doctor(&self, arguments: &[&str]) -> Output {
        let (root, journal) = (self.root.path().to_str().unwrap(), self.journal());
        let own = ["doctor", "--root", root, "--journal", journal.to_str().unwrap()];
        ringgate(&[&own[..], arguments].concat())
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files(self.root.path())
    }

    /// What is in force, which is all that a shell's `>` leaves of `always [madvise] never`.
    fn in_force(&self) -> BTreeMap<PathBuf, String> {
        let value = |content: Vec<u8>| {
            let text = String::from_utf8_lossy(&content).trim().to_owned();
            let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
            chosen.unwrap_or(&text).to_owned()
        };
        let relative = |path: PathBuf| path.strip_prefix(self.root.path()).unwrap().to_owned();
        self.files().into_iter().map(|(path, content)| (relative(path), value(content))).collect()
    }
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

fn ringgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringgate")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("no JSON: {output:?}"))
}

/// Steps of a change with that outcome.
fn count(change: &Value, outcome: &str) -> usize {
    change["steps"].as_array().unwrap().iter().filter(|step| step["outcome"] == outcome).count()
}

#[test]
fn every_host_is_changed_once_and_given_back_byte_for_byte() {
    for tree in TREES {
        for profile in ["latency", "throughput", "shared"] {
            let world = World::of(tree);
            let before = world.files();
            let first = world.doctor(&["--apply", "--json", "--profile", profile]);
            assert_eq!(first.status.code(), Some(0), "{tree} {profile}: {first:?}");
            let first = json(&first);
            let changed = before.iter().filter(|(path, content)| world.files()[*path] != **content).count();
            assert_eq!(changed, count(&first, "changed"), "{tree} {profile}");
            assert_eq!(world.journal().exists(), changed > 0);
            if (tree, profile) == ("bare_metal", "latency") {
                assert!(changed >= 5, "{first}");
            }

            let after = world.files();
            let second = json(&world.doctor(&["--apply", "--json", "--profile", profile]));
            assert_eq!(count(&second, "changed"), 0, "{tree} {profile}: {second}");
            assert_eq!(world.files(), after);

            let back = world.doctor(&["--revert", "--json"]);
            assert_eq!(back.status.code(), Some(0), "{tree} {profile}: {back:?}");
            assert_eq!(world.files(), before, "{tree} {profile}");
            assert!(!world.journal().exists());
        }
    }
}

#[test]
fn what_is_applied_is_no_finding_any_more() {
    let world = World::of("bare_metal");
    let knobs = |world: &World| {
        let report = json(&world.doctor(&["--json"]));
        let checks = report["checks"].as_array().unwrap().clone();
        let fixes = checks.iter().flat_map(|check| check["fixes"].as_array().unwrap().clone());
        fixes.filter(|fix| fix["kind"] == "knob").map(|fix| fix["path"].to_string()).collect::<Vec<_>>()
    };
    assert!(!knobs(&world).is_empty());
    world.doctor(&["--apply"]);
    assert_eq!(knobs(&world), [""; 0]);
}

#[test]
fn only_what_is_selected_is_changed() {
    let world = World::of("bare_metal");
    let change = json(&world.doctor(&["--apply", "--json", "--only", "swap"]));
    let paths: Vec<&str> =
        change["steps"].as_array().unwrap().iter().map(|step| step["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/proc/sys/vm/swappiness"]);
}

#[test]
fn a_dry_run_is_a_script_that_does_the_same() {
    for tree in TREES {
        let (scripted, applied) = (World::of(tree), World::of(tree));
        let before = scripted.files();
        let dry = scripted.doctor(&["--dry-run"]);
        assert_eq!(dry.status.code(), Some(0), "{dry:?}");
        assert_eq!(scripted.files(), before, "a dry run changes nothing");
        let script = scripted.elsewhere.path().join("tune.sh");
        fs::write(&script, stdout(&dry)).unwrap();
        let run = Command::new("sh").arg(&script).env("ROOT", scripted.root.path()).output().unwrap();
        assert!(run.status.success(), "{run:?}");

        applied.doctor(&["--apply"]);
        assert_eq!(scripted.in_force(), applied.in_force(), "{tree}");

        let undo = applied.doctor(&["--revert", "--dry-run"]);
        fs::write(&script, stdout(&undo)).unwrap();
        assert!(Command::new("sh").arg(&script).env("ROOT", applied.root.path()).status().unwrap().success());
        assert_eq!(applied.in_force(), World::of(tree).in_force(), "{tree}");
    }
}

#[test]
fn one_that_was_killed_in_between_is_reverted() {
    let world = World::of("bare_metal");
    let before = world.files();
    world.doctor(&["--apply", "--only", "swap"]);
    let journal = fs::read(world.journal()).unwrap();
    // Killed after the journal was on disk and before the value was written.
    let swappiness = world.at("proc/sys/vm/swappiness");
    fs::write(&swappiness, &before[&swappiness]).unwrap();
    assert_eq!(world.doctor(&["--revert"]).status.code(), Some(0));
    assert_eq!(world.files(), before);
    // Killed right after it was written.
    fs::write(world.journal(), journal).unwrap();
    fs::write(&swappiness, "1\n").unwrap();
    assert_eq!(world.doctor(&["--revert"]).status.code(), Some(0));
    assert_eq!(world.files(), before);
}

/// How it ends, when it does: one that waits for a FIFO never would.
fn ends(mut child: std::process::Child) -> Option<i32> {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::time::Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_tree_that_leads_out_of_itself_or_has_fifos_in_it_harms_nobody_and_holds_nobody_up() {
    let world = World::of("bare_metal");
    let (swappiness, cmdline) = (world.at("proc/sys/vm/swappiness"), world.at("proc/cmdline"));
    let mine = world.elsewhere.path().join("mine");
    fs::write(&mine, "60\n").unwrap();
    fs::remove_file(&swappiness).unwrap();
    std::os::unix::fs::symlink(&mine, &swappiness).unwrap();
    fs::remove_file(&cmdline).unwrap();
    assert!(Command::new("mkfifo").arg(&cmdline).status().unwrap().success());
    let out = world.elsewhere.path().join("out");
    fs::create_dir(&out).unwrap();
    std::os::unix::fs::symlink(&out, world.at("var")).unwrap();
    let doctor = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringgate"));
        command.args(["doctor", "--root", world.root.path().to_str().unwrap()]).args(arguments);
        ends(command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap())
    };
    let journal = format!("--journal={}", world.journal().display());
    assert_eq!(doctor(&["--apply", &journal]), Some(0), "what is not there is no finding");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "60\n");
    assert_eq!(doctor(&["--apply"]), Some(2), "its journal would be elsewhere");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    fs::remove_file(world.journal()).unwrap();
    assert!(Command::new("mkfifo").arg(world.journal()).status().unwrap().success());
    assert_eq!(doctor(&["--revert", &journal]), Some(2), "no journal");
}

#[test]
fn a_revert_that_leaves_something_says_so_and_fails() {
    let world = World::of("bare_metal");
    let before = world.files();
    world.doctor(&["--apply", "--only", "swap"]);
    fs::write(world.at("proc/sys/vm/swappiness"), "33\n").unwrap();
    let left = world.doctor(&["--revert"]);
    assert_eq!(left.status.code(), Some(1));
    assert!(stdout(&left).contains("left     /proc/sys/vm/swappiness: somebody else"), "{left:?}");
    assert_eq!(world.doctor(&["--revert", "--force"]).status.code(), Some(0));
    assert_eq!(world.files(), before);
}

#[test]
fn what_holds_after_a_boot_is_written_only_when_asked_for() {
    let world = World::of("bare_metal");
    world.doctor(&["--apply"]);
    assert!(!world.at("etc/sysctl.d/61-ringgate-doctor.conf").exists());
    let persisted = world.doctor(&["--persist"]);
    assert_eq!(persisted.status.code(), Some(0), "{persisted:?}");
    let sysctls = fs::read_to_string(world.at("etc/sysctl.d/61-ringgate-doctor.conf")).unwrap();
    assert!(sysctls.contains("\nvm.swappiness = 1\n"), "{sysctls}");
    let elsewhere = world.elsewhere.path().join("etc");
    world.doctor(&[&format!("--persist={}", elsewhere.display())]);
    assert_eq!(fs::read_to_string(elsewhere.join("sysctl.d/61-ringgate-doctor.conf")).unwrap(), sysctls);
}

#[test]
fn interrupts_and_queues_are_left_to_the_service_that_looks_at_each_boot() {
    let world = World::of("bare_metal");
    let persisted = world.doctor(&["--persist"]);
    assert_eq!(persisted.status.code(), Some(0), "{persisted:?}");
    let lines = fs::read_to_string(world.at("etc/tmpfiles.d/61-ringgate-doctor.conf")).unwrap();
    assert!(lines.contains("w /sys/kernel/mm/") && !lines.contains("/proc/irq") && !lines.contains("/net/"), "{lines}");
    let told = stdout(&persisted);
    let report = json(&world.doctor(&["--persist", "--json"]));
    let left: Vec<&str> =
        report["not_persisted"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(left.contains(&"/proc/irq/132/smp_affinity_list"), "{left:?}");
    assert!(left.iter().any(|path| path.starts_with("/sys/class/net/eth0/queues/")), "{left:?}");
    assert!(told.contains(&format!("Not written down: {} values", left.len())), "{told}");
    assert!(told.contains("ringgate-doctor.service"), "{told}");
}

#[test]
fn what_holds_after_a_boot_is_never_written_out_of_the_root() {
    for directory in ["etc/sysctl.d", "etc/tmpfiles.d"] {
        let world = World::of("bare_metal");
        let before = world.files();
        let out = world.elsewhere.path().join("out");
        fs::create_dir(&out).unwrap();
        fs::create_dir_all(world.at("etc")).unwrap();
        std::os::unix::fs::symlink(&out, world.at(directory)).unwrap();
        let refused = world.doctor(&["--apply", "--persist"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains(directory) && told.contains("leads out of"), "{told}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        assert_eq!(world.files(), before, "nothing was changed");
    }
}

#[test]
fn what_is_written_for_any_host_and_what_is_persisted_lie_side_by_side() {
    let world = World::of("bare_metal");
    let root = world.root.path().to_str().unwrap();
    assert_eq!(ringgate(&["doctor", "files", "--write", root]).status.code(), Some(0));
    let given = fs::read_to_string(world.at("etc/sysctl.d/60-ringgate.conf")).unwrap();
    let applied = world.doctor(&["--apply", "--persist"]);
    assert_eq!(applied.status.code(), Some(0), "{applied:?}");
    assert_eq!(fs::read_to_string(world.at("etc/sysctl.d/60-ringgate.conf")).unwrap(), given);
    let again = ringgate(&["doctor", "files", "--write", root]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
}

#[test]
fn a_file_of_somebody_else_is_told_before_anything_is_changed() {
    for path in ["etc/sysctl.d/61-ringgate-doctor.conf", "etc/tmpfiles.d/61-ringgate-doctor.conf"] {
        let world = World::of("bare_metal");
        fs::create_dir_all(world.at(path).parent().unwrap()).unwrap();
        fs::write(world.at(path), "mine\n").unwrap();
        let before = world.files();
        let refused = world.doctor(&["--apply", "--persist"]);
        assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(path), "{refused:?}");
        assert_eq!(world.files(), before);
        assert!(!world.journal().exists());
    }
}

#[test]
fn what_was_changed_is_told_also_where_it_could_not_be_written_down() {
    let world = World::of("bare_metal");
    let path = "etc/sysctl.d/61-ringgate-doctor.conf";
    // Nothing can be written there, which only writing shows.
    fs::create_dir_all(world.at(&format!("{path}.next"))).unwrap();
    let applied = world.doctor(&["--apply", "--persist"]);
    assert_eq!(applied.status.code(), Some(1), "{applied:?}");
    let told = stdout(&applied);
    assert!(told.contains("changed  /proc/sys/vm/swappiness: 60 -> 1\n"), "{told}");
    assert!(told.contains(&format!("failed   {}: ", world.at(path).display())), "{told}");
    assert!(told.contains(&format!("written  {}", world.at("etc/tmpfiles.d").display())), "{told}");
    let again = json(&world.doctor(&["--persist", "--json"]));
    assert_eq!(again["files_failed"][0]["path"], world.at(path).to_str().unwrap(), "{again}");
}

#[test]
fn a_journal_that_is_no_journal_is_refused() {
    let world = World::of("bare_metal");
    let before = world.files();
    fs::write(world.journal(), "not one").unwrap();
    for task in ["--apply", "--revert"] {
        let refused = world.doctor(&[task]);
        assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("journal.json is not what a doctor wrote"));
    }
    assert_eq!(world.files(), before);
}

/// Values of a network of its own are values of a running kernel, and nobody else's.
#[test]
fn the_running_kernel_is_changed_and_changed_back() {
    if !Command::new("unshare").args(["--net", "true"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no network of its own can be had here");
        return;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let script = r#"
        file=/proc/sys/net/core/somaxconn
        echo 128 >$file
        "$1" doctor --apply --only somaxconn --journal "$2" >&2 || exit 1
        cat $file
        "$1" doctor --revert --journal "$2" >&2 || exit 1
        cat $file"#;
    let journal = elsewhere.path().join("journal.json");
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_ringgate")])
        .arg(&journal)
        .output()
        .unwrap();
    let shown: Vec<u64> = stdout(&output).lines().map(|line| line.parse().unwrap()).collect();
    assert!(matches!(shown[..], [applied, 128] if applied >= 4096), "{output:?}");
    assert!(!journal.exists());
}

#[test]
fn the_cpus_of_every_host_are_a_list_that_serve_takes() {
    for tree in TREES {
        let world = World::of(tree);
        let root = world.root.path().to_str().unwrap();
        let chosen = ringgate(&["doctor", "cpus", "--root", root]);
        assert_eq!(chosen.status.code(), Some(0), "{tree}: {chosen:?}");
        let list = stdout(&chosen);
        assert_eq!(list.lines().count(), 1);
        let cpus: Vec<usize> = list.trim().split(',').map(|cpu| cpu.parse().unwrap()).collect();
        assert!(!cpus.is_empty());
        let report = json(&ringgate(&["doctor", "cpus", "--json", "--shards", "1", "--root", root]));
        assert_eq!(report["argument"], cpus[0].to_string(), "{tree}: the first shard stays where it is");
        assert_eq!(stdout(&ringgate(&["doctor", "cpus", "--profile", "shared", "--root", root])), "none\n");
    }
    let mine = stdout(&ringgate(&["doctor", "cpus"]));
    let config = ringgate(&["config", "--cpus", mine.trim()]);
    assert_eq!(config.status.code(), Some(0), "{config:?}");
    let too_many = ringgate(&["doctor", "cpus", "--shards", "1000"]);
    assert_eq!((too_many.status.code(), stdout(&too_many).as_str()), (Some(2), ""));
}

#[test]
fn the_host_files_are_printed_or_written() {
    let printed = stdout(&ringgate(&["doctor", "files", "--profile", "latency"]));
    let root = tempfile::tempdir().unwrap();
    let written = ringgate(&["doctor", "files", "--profile", "latency", "--write", root.path().to_str().unwrap()]);
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    let latency = "etc/systemd/system/ringgate.service.d/latency.conf";
    for path in [
        "etc/systemd/system/ringgate.service",
        latency,
        "etc/sysctl.d/60-ringgate.conf",
        "usr/local/sbin/ringgate-irqs",
    ] {
        let content = fs::read_to_string(root.path().join(path)).unwrap();
        assert!(printed.contains(&format!("### {path}\n{content}")), "{path}");
    }
    for others in [&["doctor", "files"][..], &["doctor", "files", "--profile", "shared"]] {
        assert!(!stdout(&ringgate(others)).contains(latency), "the drop-in is for those who ask for the least delay");
    }
}

#[test]
fn a_selftest_measures_everything_and_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let output = ringgate(&["doctor", "--selftest", "--json", "--data", data.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = json(&output);
    let rows = report["measurements"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["wake_pair", "cross_core", "loopback", "fdatasync", "clock", "sleep"]);
    for row in rows {
        let of = |name: &str| row[name].as_u64();
        if row["id"] == "cross_core" && row["count"] == 0 {
            assert!(row["verdict"].as_str().unwrap().contains("one CPU"), "{row}");
            continue;
        }
        assert!(of("count") > Some(0) && of("p50_ns") > Some(0), "{row}");
        assert!(of("p50_ns") <= of("p99_ns") && of("p99_ns") <= of("max_ns"), "{row}");
    }
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
    let elsewhere = ringgate(&["doctor", "--selftest", "--root", data.path().to_str().unwrap()]);
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
}
