//! The binary's command line as a user meets it: what goes to stdout, what to stderr, and how it ends.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use ringgate_shards::store::embedded::files::DiskFiles;
use ringgate_shards::store::embedded::{Engine, EngineConfig, Opened};

/// Runs the binary to its end with nothing in the environment but `environment`.
fn ringgate(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringgate"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn assert_refused(output: &Output, parts: &[&str]) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(stdout(output), "");
    for part in parts {
        assert!(stderr(output).contains(part), "{part} in {}", stderr(output));
    }
}

fn setting(output: &Output, name: &str) -> (String, String) {
    let report: serde_json::Value = serde_json::from_str(&stdout(output)).unwrap();
    let settings = report["settings"].as_array().unwrap();
    let row = settings.iter().find(|row| row["name"] == name).unwrap();
    (row["value"].as_str().unwrap().to_owned(), row["from"].as_str().unwrap().to_owned())
}

fn toml(directory: &Path, text: &str) -> String {
    let path = directory.join("ringgate.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn config_shows_flag_before_environment_before_file_before_default() {
    let directory = tempfile::tempdir().unwrap();
    let file = toml(directory.path(), "fsync = '1s'\nspin = '20us'\noffset_linger = '3ms'\n");
    let environment = [("RINGGATE_CONFIG", file.as_str()), ("RINGGATE_FSYNC", "2s"), ("RINGGATE_SPIN", "30us")];
    let shown = ringgate(&["config", "--json", "--fsync", "never"], &environment);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert_eq!(setting(&shown, "fsync"), ("never".into(), "--fsync".into()));
    assert_eq!(setting(&shown, "spin"), ("30us".into(), "RINGGATE_SPIN".into()));
    assert_eq!(setting(&shown, "offset_linger"), ("3ms".into(), format!("offset_linger in {file}")));
    assert_eq!(setting(&shown, "listen"), ("127.0.0.1:9092".into(), "default".into()));
}

#[test]
fn config_for_people_lists_the_effective_store() {
    let shown = ringgate(&["config", "--data", "/d"], &[]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let text = stdout(&shown);
    let store = text.lines().find(|line| line.starts_with("store ")).unwrap();
    assert!(store.contains("embedded:/d") && store.contains("(data)"), "{store}");
}

#[test]
fn serve_refuses_a_bad_value_by_field_value_source_and_what_is_allowed() {
    let refused = ringgate(&["serve"], &[("RINGGATE_MAX_FRAME_SIZE", "huge")]);
    assert_refused(&refused, &["max_frame_size", "\"huge\"", "RINGGATE_MAX_FRAME_SIZE", "allowed: ", "64MiB"]);
    let refused = ringgate(&["serve", "--data", "/a", "--store", "embedded:/b"], &[]);
    assert_refused(&refused, &["--data", "--store"]);
    let refused = ringgate(&["serve", "--store", "iggy://user:secret@host:8090"], &[]);
    assert_refused(&refused, &["--store", "iggy_username and iggy_password"]);
    assert!(!stderr(&refused).contains("secret"));
}

#[test]
fn a_file_with_an_unknown_key_or_no_file_at_all_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = toml(directory.path(), "max_frame_sise = 1\n");
    let refused = ringgate(&["config", "--config", &file], &[]);
    assert_refused(&refused, &["max_frame_sise", "did you mean max_frame_size?", &file]);
    let refused = ringgate(&["serve", "--config", "/no/such/file.toml"], &[]);
    assert_refused(&refused, &["/no/such/file.toml"]);
}

#[test]
fn an_unknown_flag_or_subcommand_is_refused() {
    assert_refused(&ringgate(&["serve", "--max-frame-sise", "1"], &[]), &["--max-frame-size"]);
    assert_refused(&ringgate(&["sreve"], &[]), &["serve"]);
    assert_refused(&ringgate(&[], &[]), &["Usage"]);
}

#[test]
fn an_unknown_variable_is_a_warning_on_stderr_and_no_more() {
    let shown = ringgate(&["config"], &[("RINGGATE_PORT", "tcp://10.0.0.7:9092")]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert!(stderr(&shown).contains("RINGGATE_PORT"), "{shown:?}");
    assert!(stdout(&shown).starts_with("# Listening"), "{shown:?}");
}

/// Opens a data directory as a gateway of two shards does.
fn open_store(directory: &Path) -> Opened {
    Engine::open(Arc::new(DiskFiles), directory, EngineConfig::new(2, ringgate_shards::describe)).unwrap()
}

#[test]
fn verify_says_good_damaged_or_not_looked_at_by_its_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let path = data.to_str().unwrap();
    assert_refused(&ringgate(&["verify", path], &[]), &[path, "No such file"]);
    std::fs::create_dir(&data).unwrap();
    assert_refused(&ringgate(&["verify", path], &[]), &["no MANIFEST"]);

    let opened = open_store(&data);
    let holder = format!("process {}", std::process::id());
    assert_refused(&ringgate(&["verify", path], &[]), &["in use", &holder]);
    drop(opened);

    let good = ringgate(&["verify", path], &[]);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    let text = stdout(&good);
    assert!(text.contains("starts: 1, shards: 2") && text.ends_with(&format!("{path} is good\n")), "{text}");
    assert!(text.contains("groups of shard 1: "), "{text}");

    let snapshot = data.join("layout-1/shard-1/00000000000000000000.snapshot");
    let mut bytes = std::fs::read(&snapshot).unwrap();
    bytes[3] ^= 0x80;
    std::fs::write(&snapshot, &bytes).unwrap();
    let damaged = ringgate(&["verify", path], &[]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    let line = format!("damage: {} at byte 0: no whole frame", snapshot.display());
    assert!(stdout(&damaged).contains(&line), "{damaged:?}");
    assert!(stdout(&damaged).ends_with("is DAMAGED in 1 place\n"), "{damaged:?}");

    let damaged = ringgate(&["verify", "--json", path], &[]);
    assert_eq!(damaged.status.code(), Some(1), "{damaged:?}");
    let report: serde_json::Value = serde_json::from_str(&stdout(&damaged)).unwrap();
    assert_eq!((&report["clean"], &report["damage_count"]), (&false.into(), &1.into()));
    assert_eq!(report["damage"][0]["path"], snapshot.to_str().unwrap());
    assert_eq!(report["groups"][1]["damage"], 1);
}
