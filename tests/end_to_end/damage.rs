//! Records that were damaged on disk: what is asked for is refused, everything else is served.

use std::path::{Path, PathBuf};

use crate::common::gateway::{Gateway, Options};
use crate::common::partition::create;
use crate::common::raw::{Raw, Writer, batch};

/// The segments of the only partition, the oldest first.
fn segments(data: &Path) -> Vec<PathBuf> {
    let only =
        |dir: PathBuf| std::fs::read_dir(dir).expect("a directory").next().expect("an entry").expect("it").path();
    let partition = only(only(data.join("topics")));
    let files = std::fs::read_dir(partition).expect("a partition").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect();
    segments.sort();
    segments
}

fn options() -> Options {
    Options::new(1).embedded("it damages a segment of the gateway's own")
}

#[test]
fn damaged_records_are_refused_with_56_and_the_log_says_so_once_however_often_they_are_asked_for() {
    let mut gateway = Gateway::start(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    let partition = create(&mut raw, "log", 1, &[("segment.bytes", "1048576")]).partition(0);
    let large = "x".repeat(700_000);
    for _ in 0..3 {
        partition.append(&mut raw, batch(Writer::NOBODY, 1_000, &[&large]));
    }
    drop(raw);
    assert!(gateway.sigterm().success());
    let oldest = segments(&gateway.data()).remove(0);
    let mut bytes = std::fs::read(&oldest).expect("a segment");
    bytes[200] ^= 0xff;
    std::fs::write(&oldest, bytes).expect("write");

    gateway.restart(options());
    let mut raw = Raw::connect(gateway.bootstrap());
    for _ in 0..50 {
        assert_eq!(partition.fetch(&mut raw, 12, 0).error_code, 56, "KAFKA_STORAGE_ERROR");
    }
    let last = partition.fetch(&mut raw, 12, 2);
    assert_eq!(last.error_code, 0, "what is not damaged is served");
    gateway.until_logged(&["records cannot be read", "topic=log"]);
    assert!(gateway.sigterm().success());
    assert_eq!(gateway.written().matches("records cannot be read").count(), 1);
}
