//! Setting offsets.

use serde_json::{Value, json};

use crate::common::gateway::Gateway;
use crate::common::group::{commit, committed};
use crate::common::raw::Raw;
use crate::{MODES, document, fields, gateway, refused, told, topic_with_records};

/// 2020-01-01T08:00:00Z.
const FIRST_MS: i64 = 1_577_865_600_000;

/// What group `billing` has committed of partitions 0 and 1 of `orders`; -1 where nothing is.
fn offsets(gateway: &Gateway) -> Vec<i64> {
    committed(&mut Raw::connect(gateway.bootstrap()), "billing", "orders", &[0, 1])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_are_set_every_way_and_a_dry_run_sets_nothing() {
    for mode in MODES {
        let gateway = gateway(mode);
        topic_with_records(&gateway, "orders", 2, 10, FIRST_MS).await;
        let mut raw = Raw::connect(gateway.bootstrap());
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "# offsets\norders,0,2\norders,1,99\n").expect("written");
        let from_file = format!("--from-file {}", file.path().display());
        for (asked, new) in [
            ("--topic orders --to-earliest", [0, 0]),
            ("--topic orders --to-latest", [10, 10]),
            ("--topic orders:1 --to-offset 3", [4, 3]),
            ("--topic orders --to-offset 3000", [10, 10]),
            ("--all-topics --shift-by -3", [1, 5]),
            ("--all-topics --shift-by 3", [7, 10]),
            ("--all-topics --to-current", [4, 8]),
            // The sixth record, and the one behind the moment between two.
            ("--topic orders --to-datetime 2020-01-01T08:00:05Z", [5, 5]),
            ("--topic orders --to-datetime 2020-01-01T09:00:05.500+01:00", [6, 6]),
            ("--topic orders --to-datetime 2020-01-01T09:00:00Z", [10, 10]),
            // Before all records, and behind them, whenever this runs.
            ("--topic orders --by-duration 20000d", [0, 0]),
            ("--topic orders --by-duration PT1H", [10, 10]),
            (&from_file, [2, 10]),
        ] {
            commit(&mut raw, "billing", "orders", &[(0, 4), (1, 8)]);
            let line = format!("groups reset billing {asked}");
            let dry = document(&gateway, &line).await;
            assert_eq!(dry["executed"], false, "{line}");
            assert_eq!(offsets(&gateway), [4, 8], "{line}: nothing is set");
            let set = document(&gateway, &format!("{line} --execute")).await;
            assert_eq!(offsets(&gateway), new, "{line}");
            assert_eq!(set["partitions"], dry["partitions"], "{line}: what was said is what was done");
            assert_eq!(fields(&set), ["blocked", "errors", "executed", "group", "partitions", "version"]);
            let row = set["partitions"].as_array().expect("rows").last().expect("a row");
            assert_eq!(
                fields(row),
                ["current", "delta", "end", "new", "note", "partition", "start", "topic"],
                "{line}"
            );
            assert_eq!((&row["current"], &row["new"], &row["delta"]), (&json!(8), &json!(new[1]), &json!(new[1] - 8)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_that_were_exported_are_taken_back() {
    let gateway = gateway(MODES[0]);
    topic_with_records(&gateway, "orders", 2, 10, FIRST_MS).await;
    commit(&mut Raw::connect(gateway.bootstrap()), "billing", "orders", &[(0, 4), (1, 8)]);
    let (exported, code) = told(&gateway, "groups reset billing --all-topics --to-current --export").await;
    assert_eq!((exported.as_str(), code), ("orders,0,4\norders,1,8\n", 0));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), exported).expect("written");
    let (_, code) = told(&gateway, "groups reset billing --all-topics --to-latest --execute").await;
    assert_eq!((code, offsets(&gateway)), (0, vec![10, 10]));
    let line = format!("groups reset billing --from-file {} --execute", file.path().display());
    let (text, code) = told(&gateway, &line).await;
    assert_eq!((code, offsets(&gateway)), (0, vec![4, 8]));
    assert!(text.contains("committed and read back: 2 of 2 offsets"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_not_there_is_made_by_its_first_offsets() {
    for mode in MODES {
        let gateway = gateway(mode);
        topic_with_records(&gateway, "orders", 2, 10, FIRST_MS).await;
        let set = document(&gateway, "groups reset billing --topic orders --to-latest --execute").await;
        assert_eq!(set["partitions"][0]["current"], Value::Null);
        assert_eq!(offsets(&gateway), [10, 10]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_set_is_refused_and_then_nothing_is() {
    let gateway = gateway(MODES[0]);
    topic_with_records(&gateway, "orders", 2, 10, FIRST_MS).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for (asked, says) in [
        ("--topic nowhere --to-latest", "nowhere"),
        ("--topic orders:7 --to-latest", "no partition 7"),
        ("--topic orders --shift-by 1", "nothing is committed that could be shifted"),
        ("--from-file /nonexistent/offsets.csv", "/nonexistent/offsets.csv"),
    ] {
        commit(&mut raw, "billing", "orders", &[(0, 4)]);
        let refusal = refused(&gateway, &format!("groups reset billing {asked} --execute")).await;
        assert!(refusal.contains(says), "{asked}: {refusal}");
        assert_eq!(offsets(&gateway), [4, -1], "{asked}");
    }
    let refusal = refused(&gateway, "groups reset another --all-topics --to-latest --execute").await;
    assert!(refusal.contains("no committed offsets"), "{refusal}");
}
