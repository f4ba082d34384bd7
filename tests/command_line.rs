//! The binary's command line as a user meets it: what goes to stdout, what to stderr, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

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
    assert_refused(&refused, &["not in this build yet"]);
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
