//! Files that hold anything, or nothing: no check panics, takes long, or takes what it read for a number of gigabytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ringgate_tuning::{Host, Plan, Profile, report};

/// Far above what it takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// What takes the place of a file.
#[derive(Debug, Clone)]
enum Garbage {
    Nothing,
    Directory,
    Bytes(Vec<u8>),
    Numbers(String),
    Half,
    Twice,
    Untouched,
}

fn garbage() -> impl Strategy<Value = Garbage> {
    let numbers = prop::sample::select(vec![
        "18446744073709551615",
        "-1",
        "99999999999999999999999",
        "0-4294967295",
        "0 0 0",
        "18446744073709551615 18446744073709551615 18446744073709551615",
        "1e308 -1e308",
        "NaN inf",
        "ffffffff,ffffffff,ffffffff",
        "[[[]]]",
        "0::/../../../etc",
        "a:b\nc",
        "\u{fffd}\u{0}",
    ]);
    prop_oneof![
        Just(Garbage::Nothing),
        Just(Garbage::Directory),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Garbage::Bytes),
        numbers.prop_map(|numbers| Garbage::Numbers(numbers.into())),
        Just(Garbage::Half),
        Just(Garbage::Twice),
        Just(Garbage::Untouched),
    ]
}

fn put(path: &Path, text: &[u8], garbage: &Garbage) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match garbage {
        Garbage::Nothing => fs::write(path, b"").unwrap(),
        Garbage::Directory => fs::create_dir(path).unwrap(),
        Garbage::Bytes(bytes) => fs::write(path, bytes).unwrap(),
        Garbage::Numbers(numbers) => fs::write(path, numbers).unwrap(),
        Garbage::Half => fs::write(path, &text[..text.len() / 2]).unwrap(),
        Garbage::Twice => fs::write(path, [text, text].concat()).unwrap(),
        Garbage::Untouched => fs::write(path, text).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_check_minds_what_a_file_holds(
        tree in prop::sample::select(vec!["bare_metal", "vm", "container", "no_io_uring"]),
        kinds in prop::collection::vec(garbage(), 1..40),
        profile in prop::sample::select(Profile::ALL.to_vec()),
        pid in prop::option::of(Just(4711)),
    ) {
        let from: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "hosts", tree].iter().collect();
        let mut files = Vec::new();
        files_below(&from, &mut files);
        let to = tempfile::tempdir().unwrap();
        for (nth, file) in files.iter().enumerate() {
            // A step that shares no factor with most counts, so that neighbours differ.
            let kind = &kinds[nth * 7 % kinds.len()];
            put(&to.path().join(file.strip_prefix(&from).unwrap()), &fs::read(file).unwrap(), kind);
        }
        let plan = Plan { profile, pid, ..Plan::default() };
        let start = Instant::now();
        let findings = report::findings(&Host::below(to.path()), &plan, |_| true);
        prop_assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        for finding in findings {
            let length = finding.found.read.len() + finding.found.want.len() + finding.reason().map_or(0, str::len);
            prop_assert!(length < 10_000, "{}: {} bytes", finding.check.id, length);
        }
    }
}
