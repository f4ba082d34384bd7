//! The parts of pages that are written from the code, between `<!-- generated: NAME -->` and `<!-- /generated -->`.

use std::fmt::Write as _;

use ringgate::config::table::SETTINGS;
use ringgate::config::{Flags, Host, kafka_names, load};
use ringgate::scrape::catalogue;
use ringgate_shards::store::embedded::limits as store;
use ringgate_shards::topic_config::TOPIC_SETTINGS;
use ringgate_wire::versions::SERVED;

use crate::pages::{read, root};

/// A part of a page.
struct Part {
    page: &'static str,
    /// As its mark has it.
    name: &'static str,
    text: fn() -> String,
}

const PARTS: [Part; 6] = [
    Part { page: "docs/configuration.md", name: "settings", text: settings },
    Part { page: "docs/configuration.md", name: "bounds", text: bounds },
    Part { page: "docs/topics.md", name: "topic settings", text: topic_settings },
    Part { page: "docs/compatibility.md", name: "apis", text: apis },
    Part { page: "docs/metrics.md", name: "metrics", text: metrics },
    Part { page: "docs/metrics.md", name: "limits", text: limits },
];

fn settings() -> String {
    let (mut text, mut section) = (String::new(), "");
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = write!(text, "\n## {section}\n");
        }
        let default = match setting.default {
            Some(default) => format!("`{default}`"),
            None => "unset".into(),
        };
        let names: Vec<String> = kafka_names::names_of(setting.name).map(|name| format!("`{name}`")).collect();
        let kafka = if names.is_empty() { String::new() } else { format!("- In Kafka: {}\n", names.join(", ")) };
        let _ = write!(
            text,
            "\n### `{}`\n\n{}\n\n- `{}`, `{}`\n- Default: {default}\n- Allowed: {}\n{kafka}",
            setting.name,
            setting.help,
            setting.flag(),
            setting.variable(),
            setting.allowed()
        );
    }
    text
}

/// Bounds that users meet and do not set: what is bounded, the bound, what is beyond it.
fn bounds() -> String {
    use ringgate::iggy::limits as iggy;
    use ringgate::limits as front;
    use ringgate_group::limits as group;
    use ringgate_shards::limits as shards;
    let rows: Vec<(&str, String, &str)> = vec![
        ("Bytes of a group's id", whole(group::GROUP_ID_BYTES_MAX), "INVALID_GROUP_ID(24)"),
        ("Bytes of an instance id", whole(group::MEMBER_ID_BYTES_MAX), "INVALID_REQUEST(42)"),
        ("Assignors of a member", whole(group::PROTOCOLS_PER_MEMBER_MAX), "INVALID_REQUEST(42)"),
        (
            "Bytes of a protocol type or an assignor's name",
            whole(group::PROTOCOL_NAME_BYTES_MAX),
            "INVALID_REQUEST(42)",
        ),
        ("Patterns of topics in a group", whole(group::PATTERNS_PER_GROUP_MAX), "INVALID_REQUEST(42)"),
        ("Bytes of a pattern", whole(group::REGEX_BYTES_MAX), "INVALID_REGULAR_EXPRESSION(128)"),
        ("Bytes of a compiled pattern", whole(group::REGEX_COMPILED_BYTES_MAX), "INVALID_REGULAR_EXPRESSION(128)"),
        (
            "How far a record's timestamp may be ahead, ms",
            whole(shards::TIMESTAMP_AFTER_MAX_MS),
            "INVALID_TIMESTAMP(32) for its batch",
        ),
        ("Batches that an idempotent producer is remembered by", whole(store::PRODUCER_WINDOW), "as in Kafka"),
        (
            "Partitions in one answer to DescribeTopicPartitions",
            whole(front::DESCRIBED_PARTITIONS_MAX),
            "the client goes on with a cursor",
        ),
        ("Settings in a change of one topic", whole(front::ALTERED_SETTINGS_MAX), "INVALID_REQUEST(42)"),
        (
            "Fetch sessions of a connection",
            whole(front::FETCH_SESSIONS_PER_CONNECTION_MAX),
            "the one least recently used ends",
        ),
        (
            "Partitions of a fetch session",
            whole(front::FETCH_SESSION_PARTITIONS_MAX),
            "Fetch goes on without a session",
        ),
        (
            "Bytes of all fetch sessions of a shard",
            whole(front::FETCH_SESSION_BYTES_MAX),
            "Fetch goes on without a session",
        ),
        ("Bytes of a configuration file", whole(front::CONFIG_FILE_BYTES_MAX), "the start is refused"),
        ("Open files that a start needs", whole(front::OPEN_FILES_MIN), "the start is refused"),
        ("Open files kept apart from client connections", whole(front::DESCRIPTORS_RESERVED), "see `max_connections`"),
        (
            "Connections to the admin port",
            whole(front::ADMIN_CONNECTIONS_MAX),
            "for the next, the one that has waited longest for its client is closed",
        ),
        (
            "Requests of `/metrics` and `/api` that are answered at a time",
            whole(front::ADMIN_QUESTIONS_MAX),
            "503; `/healthz` and `/readyz` are answered",
        ),
        (
            "How long a connection to the admin port may take to send a request's head, or be idle, s",
            whole(front::ADMIN_HEADER_TIMEOUT.as_secs()),
            "it is closed",
        ),
        ("Log lines that wait for stderr", whole(front::LOG_LINES_QUEUED), "lines are dropped"),
        (
            "Log lines of a shard about closed, and about refused connections, a second",
            whole(front::CONNECTION_LINES_MAX),
            "left out, and how many were is said",
        ),
        ("Streams (Iggy)", whole(shards::STREAMS_MAX), "TooManyStreams(1020)"),
        ("Topics of a stream other than `kafka` (Iggy)", whole(shards::TOPICS_PER_STREAM_MAX), "TooManyTopics(2021)"),
        ("Consumer groups of a topic (Iggy)", whole(shards::GROUPS_PER_TOPIC_MAX), "TooManyConsumerGroups(5010)"),
        ("Consumer groups of all topics (Iggy)", whole(shards::CONSUMER_GROUPS_MAX), "TooManyConsumerGroups(5010)"),
        (
            "Consumers of each kind whose offsets a partition keeps (Iggy)",
            whole(store::CONSUMER_OFFSETS_MAX),
            "TooManyConsumerOffsets(3024)",
        ),
        ("Sessions (Iggy)", whole(iggy::SESSIONS_MAX), "signing in is refused"),
        ("Requests of a link that are read ahead (Iggy)", whole(iggy::REQUESTS_PER_LINK_MAX), "reading pauses"),
    ];
    let mut text = String::from("\n| What | Bound | Beyond it |\n| --- | ---: | --- |\n");
    for (what, bound, beyond) in rows {
        let _ = writeln!(text, "| {what} | {bound} | {beyond} |");
    }
    text
}

/// A whole number, its digits in threes.
fn whole(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_else(|_| panic!("a bound below zero")).to_string();
    let threes = digits.as_bytes().rchunks(3).rev().map(|three| String::from_utf8_lossy(three).into_owned());
    threes.collect::<Vec<_>>().join(",")
}

fn topic_settings() -> String {
    // A gateway that nobody gave a word to.
    let host = Host { allowed_cpus: vec![0], open_files: 20_000 };
    let defaults = load(&Flags::new(), None, &[], &host).expect("the defaults").config.shard_settings().topic_defaults;
    let mut text = String::new();
    for (head, read_only) in [("May be set:", false), ("Read-only:", true)] {
        let _ = write!(text, "\n{head}\n\n| Setting | Default | |\n| --- | --- | --- |\n");
        for setting in TOPIC_SETTINGS.iter().filter(|setting| setting.read_only() == read_only) {
            let default = setting.default(defaults);
            let default = if default.is_empty() { "(empty)".into() } else { format!("`{default}`") };
            let _ = writeln!(text, "| `{}` | {default} | {} |", setting.name, setting.documentation);
        }
    }
    text
}

fn apis() -> String {
    let mut text = String::from("\n| API | Kafka's number | Versions |\n| --- | ---: | --- |\n");
    for api in &SERVED {
        let (first, last) = (api.versions.start(), api.versions.end());
        let versions = if first == last { first.to_string() } else { format!("{first} to {last}") };
        let _ = writeln!(text, "| {} | {} | {versions} |", api.name, api.api_key);
    }
    text
}

/// Every family of `/metrics`.
fn metrics() -> String {
    let mut text = String::from("\n| Metric | Kind | Labels | |\n| --- | --- | --- | --- |\n");
    for family in catalogue::families() {
        let labels: Vec<String> = family.labels().map(|label| format!("`{label}`")).collect();
        let (name, kind) = (family.name(), family.kind().name());
        let _ = writeln!(text, "| `{name}` | {kind} | {} | {} |", labels.join(", "), family.help());
    }
    text
}

/// What `ringgate_limit_hit_total` may say in `limit`.
fn limits() -> String {
    let families = catalogue::families();
    let hits = families.iter().find(|family| family.name() == "ringgate_limit_hit_total").expect("the family");
    let constant = |limit: &&str| SETTINGS.iter().all(|setting| setting.name != *limit);
    let (constants, settings): (Vec<&str>, Vec<&str>) = hits.values_of("limit").partition(constant);
    let listed = |limits: Vec<&str>| limits.iter().map(|limit| format!("`{limit}`")).collect::<Vec<_>>().join(", ");
    format!("\nSettings: {}.\n\nBounds of the gateway's own: {}.\n", listed(settings), listed(constants))
}

/// A page with a part put in, when it has a place for it.
fn with_part(page: &str, name: &str, part: &str) -> Option<String> {
    let opening = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page.split_once(&opening)?;
    let (_, after) = rest.split_once("<!-- /generated -->")?;
    Some(format!("{before}{opening}{part}\n<!-- /generated -->{after}"))
}

#[test]
fn what_is_generated_is_what_the_code_says() {
    let mut stale = Vec::new();
    for Part { page, name, text } in PARTS {
        let written = read(&root().join(page));
        let expected = with_part(&written, name, &text()).unwrap_or_else(|| panic!("{page} has no place for {name}"));
        if std::env::var_os("BOOK_WRITE").is_some() {
            std::fs::write(root().join(page), &expected).expect("a writable page");
        } else if written != expected {
            let lines: Vec<&str> = expected.lines().filter(|line| !written.lines().any(|had| had == *line)).collect();
            stale.push(format!("{page}, {name}: missing {lines:#?}"));
        }
    }
    assert!(stale.is_empty(), "BOOK_WRITE=1 cargo test --test book writes these parts anew:\n{}", stale.join("\n"));
}

#[test]
fn a_part_is_put_between_its_marks() {
    let page = "a\n<!-- generated: x -->\nold\n<!-- /generated -->\nb\n";
    assert_eq!(
        with_part(page, "x", "\nnew\n").as_deref(),
        Some("a\n<!-- generated: x -->\n\nnew\n\n<!-- /generated -->\nb\n")
    );
    assert_eq!(with_part(page, "y", "new"), None);
}

#[test]
fn numbers_are_written_in_threes() {
    assert_eq!([whole(7u32), whole(1024), whole(1_000_000u64)], ["7", "1,024", "1,000,000"]);
}
