//! Every row is read and refused by name; what does not go together is refused by both names.

use super::*;
use crate::config::sources::{Flags, gather};
use crate::config::table::SETTINGS;

fn host() -> Host {
    Host { allowed_cpus: vec![0, 1, 4, 5], open_files: 20_000 }
}

fn checked(flags: &[(&'static str, &str)]) -> Result<(Config, Vec<String>), ConfigError> {
    let flags: Flags = flags.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    let mut given = gather(&flags, &[], None).unwrap().given;
    check(&mut given, &host())
}

fn config(flags: &[(&'static str, &str)]) -> Config {
    checked(flags).unwrap_or_else(|error| panic!("{flags:?}: {error}")).0
}

/// The refusal, which is checked to name all of `names` and to say what is allowed.
fn refusal(flags: &[(&'static str, &str)], names: &[&str]) -> String {
    let error = checked(flags).map(|_| ()).expect_err(&format!("{flags:?} must be refused"));
    let text = error.problems.join("\n");
    assert_eq!(error.problems.len(), 1, "{text}");
    assert!(text.contains("allowed: "), "{text}");
    for name in names {
        assert!(text.contains(name), "{name} in {text}");
    }
    text
}

#[test]
fn without_a_word_from_anybody_the_defaults_hold() {
    let c = config(&[]);
    assert_eq!(c.listen, ["127.0.0.1:9092".parse().unwrap()]);
    assert_eq!((c.advertise, c.gateway_id, c.shards), (Advertise::Shards, 1, 4));
    assert_eq!(c.placement, Placement::Cpus(vec![0, 1, 4, 5]));
    assert_eq!((c.data, c.fsync), (PathBuf::from("./ringgate-data"), Fsync::Always));
    assert_eq!((c.spin, c.offset_linger), (Duration::ZERO, Duration::ZERO));
    assert_eq!((c.incoming_cpu, c.lock_memory, c.hold_cpu_latency), (false, false, false));
    assert_eq!((c.max_frame_size, c.max_decoded_bytes, c.max_decompressed_bytes), (100 << 20, 64 << 20, 256 << 20));
    assert_eq!((c.max_requests_in_flight, c.max_in_flight_bytes, c.mailbox_capacity), (16, 256 << 20, 1024));
    assert_eq!((c.max_connections, c.max_connections_per_ip, c.max_fetch_sessions), (20_000 - 512, 0, 1000));
    assert_eq!((c.idle_timeout, c.frame_timeout), (Duration::from_secs(600), Duration::from_secs(30)));
    assert_eq!((c.send_timeout, c.shutdown_timeout), (Duration::from_secs(30), Duration::from_secs(10)));
    assert_eq!((c.auto_create_topics, c.num_partitions, c.accept_any_replication_factor), (true, 1, false));
    assert_eq!((c.message_max_bytes, c.segment_bytes, c.tail_cache_bytes), (1_048_588, 1 << 30, 64 << 20));
    assert_eq!((c.min_session_timeout, c.max_session_timeout), (Duration::from_secs(6), Duration::from_secs(1800)));
    assert_eq!(c.max_rebalance_timeout, Duration::from_secs(1800));
    assert_eq!(c.initial_rebalance_delay, Duration::from_secs(3));
    assert_eq!((c.max_members_per_group, c.max_member_blob_bytes), (20_000, 1 << 20));
    assert_eq!((c.max_groups, c.max_total_members, c.max_group_memory), (100_000, 200_000, 1 << 30));
    assert_eq!((c.offset_metadata_max_bytes, c.offsets_retention), (4096, Duration::from_secs(7 * 86_400)));
    assert_eq!(c.offsets_retention_check_interval, Duration::from_secs(600));
    assert_eq!((c.log_retention, c.log_retention_bytes), (Duration::from_secs(7 * 86_400), 0));
    assert_eq!(c.retention_check_interval, Duration::from_secs(300));
    assert_eq!((c.producer_id_expiration, c.max_producers_per_partition), (Duration::from_secs(86_400), 4096));
    assert_eq!((c.admin_hosts, c.census_interval), (None, Duration::from_secs(5)));
    assert_eq!((c.metrics_group_series_max, c.metrics_partition_lag), (1_000, false));
    assert_eq!((c.admin_listen, c.log_format, c.log_level), (None, LogFormat::Text, tracing::Level::INFO));
}

#[test]
fn every_row_is_read_and_no_field_is_read_without_one() {
    let mut given = gather(&Flags::new(), &[], None).unwrap().given;
    let mut values = Values { given: &mut given, problems: Vec::new(), read: HashSet::new() };
    // A name without a row, or with a row of another kind, would panic here.
    read(&mut values, &host());
    assert_eq!(values.problems, Vec::<String>::new());
    for setting in SETTINGS {
        assert!(values.read.contains(setting.name), "{} is never read", setting.name);
    }
}

#[test]
fn a_bad_value_of_any_row_is_refused_with_field_value_source_and_what_is_allowed() {
    for setting in SETTINGS {
        let bad = match setting.kind {
            Kind::Path | Kind::Text => "",
            Kind::Password => "!!",
            _ => "no such thing!",
        };
        let shown = format!("{:?}", setting.shown(bad));
        let text = refusal(&[(setting.name, bad)], &[setting.name, &setting.flag(), &shown]);
        assert!(!setting.secret || !text.contains(bad), "{text}");
        assert!(text.contains(&setting.allowed()) || setting.name == "listen", "{text}");
    }
}

#[test]
fn numbers_sizes_and_durations_are_held_to_their_range() {
    for setting in SETTINGS {
        let (below, above, ends) = match setting.kind {
            Kind::Count { min, max, .. } => {
                (min.checked_sub(1).map(|n| n.to_string()), (max + 1).to_string(), [min.to_string(), max.to_string()])
            }
            Kind::Size { min, max } => {
                (min.checked_sub(1).map(|n| n.to_string()), (max + 1).to_string(), [min.to_string(), max.to_string()])
            }
            Kind::Time { min, max, zero } => {
                let text = |d: Duration| format!("{}us", d.as_micros());
                let below = if zero.is_some() { None } else { Some("0".into()) };
                (below, text(max + Duration::from_micros(1)), [text(min), text(max)])
            }
            _ => continue,
        };
        for bad in below.iter().chain([&above]) {
            refusal(&[(setting.name, bad.as_str())], &[setting.name, bad.as_str(), &setting.flag()]);
        }
        for good in ends {
            // Other rows may not go with it, which is another refusal.
            if let Err(error) = checked(&[(setting.name, good.as_str())]) {
                assert!(!error.to_string().contains("is refused"), "{error}");
            }
        }
    }
}

#[test]
fn zero_where_it_means_something_is_taken() {
    let c = config(&[("offsets_retention", "0"), ("initial_rebalance_delay", "0"), ("offset_linger", "0ms")]);
    assert_eq!((c.offsets_retention, c.initial_rebalance_delay), (Duration::ZERO, Duration::ZERO));
    assert_eq!(config(&[("tail_cache_bytes", "0")]).tail_cache_bytes, 0);
}

#[test]
fn all_bad_values_are_told_at_once() {
    let error = checked(&[("fsync", "maybe"), ("shards", "0"), ("log_level", "loud")]).unwrap_err();
    assert_eq!(error.problems.len(), 3, "{error}");
}

#[test]
fn data_is_short_for_an_embedded_store_and_both_are_an_error() {
    assert_eq!(config(&[("data", "/d")]).data, PathBuf::from("/d"));
    assert_eq!(config(&[("store", "embedded:/s")]).data, PathBuf::from("/s"));
    refusal(&[("data", "/d"), ("store", "embedded:/s")], &["--data", "--store", "\"/d\"", "embedded:/s"]);
    refusal(&[("data", "/d"), ("store", "embedded:/d")], &["--data", "--store"]);
    refusal(&[("store", "embedded:")], &["--store", "embedded:DIR"]);
}

#[test]
fn an_iggy_store_needs_a_password_that_is_not_in_its_address_and_is_not_shown() {
    let store = ("store", "iggy://one,two:1234");
    let text = refusal(&[("store", "iggy://iggy:secret@host:8090")], &["iggy_password", "host:8090"]);
    assert!(!text.contains("secret"), "{text}");
    refusal(&[store], &["RINGGATE_IGGY_PASSWORD", "iggy_credentials"]);
    refusal(&[("store", "iggy://a b"), ("iggy_password", "pass")], &["--store", "iggy://HOST[:PORT]"]);
    let iggy = config(&[store, ("iggy_password", "secret"), ("iggy_unknown_messages", "skip")]).iggy.unwrap();
    assert_eq!(iggy.servers, ["one:8090", "two:1234"]);
    assert_eq!((iggy.credentials.username.as_str(), iggy.credentials.password.as_str()), ("iggy", "secret"));
    assert_eq!((iggy.send_clients, iggy.offset_clients, iggy.topics.len()), (2, 4, 0));
    assert_eq!((iggy.timeout, iggy.metadata_refresh), (Duration::from_secs(10), Duration::from_secs(1)));
    let both = [store, ("iggy_password", "secret"), ("iggy_listen", "127.0.0.1:0")];
    refusal(&both, &["iggy_listen", "store = iggy://"]);
    assert!(config(&[("iggy_password", "secret")]).iggy.is_none(), "an embedded store has no use for it");
}

#[test]
fn fsync_is_always_never_or_an_interval() {
    assert_eq!(config(&[("fsync", "never")]).fsync, Fsync::Never);
    assert_eq!(config(&[("fsync", "500ms")]).fsync, Fsync::Interval(Duration::from_millis(500)));
    refusal(&[("fsync", "0")], &["--fsync", "never"]);
    refusal(&[("fsync", "2h")], &["--fsync", "1h"]);
}

#[test]
fn listeners_are_several_addresses_and_names_are_looked_up() {
    let c = config(&[("listen", "127.0.0.1:1000, [::1]:1000,localhost:2000")]);
    let texts: Vec<_> = c.listen.iter().map(ToString::to_string).collect();
    assert_eq!(texts[..2], ["127.0.0.1:1000", "[::1]:1000"]);
    assert!(c.listen[2].ip().is_loopback() && c.listen[2].port() == 2000);
    for bad in ["127.0.0.1", "127.0.0.1:kafka", ":9092", "127.0.0.1:99999", "127.0.0.1:1,", ""] {
        refusal(&[("listen", bad)], &["--listen", "HOST:PORT"]);
    }
    refusal(&[("listen", "localhost:99999")], &["a port from 0 to 65535"]);
    assert_eq!(config(&[("admin_listen", "127.0.0.1:0")]).admin_listen, "127.0.0.1:0".parse().ok());
    assert_eq!(config(&[("admin_listen", "none")]).admin_listen, None);
}

#[test]
fn shards_default_to_the_cpus_and_more_of_them_need_cpus_none() {
    let c = config(&[("cpus", "4,1")]);
    assert_eq!((c.shards, c.placement), (2, Placement::Cpus(vec![4, 1])));
    let c = config(&[("shards", "2")]);
    assert_eq!((c.shards, c.placement), (2, Placement::Cpus(vec![0, 1])));
    let c = config(&[("shards", "9"), ("cpus", "none")]);
    assert_eq!((c.shards, c.placement), (9, Placement::Unpinned));
    assert_eq!(config(&[("cpus", "none")]).shards, 4);
    assert!(config(&[("incoming_cpu", "true")]).incoming_cpu);
    refusal(
        &[("incoming_cpu", "true"), ("cpus", "none")],
        &["incoming_cpu = \"true\"", "cpus = \"none\"", "--incoming-cpu"],
    );
    refusal(&[("shards", "5")], &["shards = \"5\"", "cpus = none", "--shards"]);
    refusal(&[("shards", "2"), ("cpus", "1")], &["shards = \"2\"", "--cpus"]);
    refusal(&[("cpus", "0,2")], &["CPU 2", "--cpus"]);
    refusal(&[("cpus", "0,0")], &["--cpus"]);
}

#[test]
fn an_advertised_port_needs_gateway_mode_and_one_listener() {
    let c = config(&[("advertised_host", "kafka.example.com")]);
    assert_eq!((c.advertised_host.as_deref(), c.advertised_port), (Some("kafka.example.com"), None));
    let c = config(&[("advertised_host", "[2001:db8::1]:19092"), ("advertise", "gateway")]);
    assert_eq!((c.advertised_host.as_deref(), c.advertised_port), (Some("2001:db8::1"), Some(19092)));
    assert_eq!(config(&[("advertised_host", "2001:db8::1")]).advertised_host.as_deref(), Some("2001:db8::1"));
    refusal(&[("advertised_host", "h:1")], &["advertised_host = \"h:1\"", "advertise = \"shards\"", "gateway"]);
    let two = ("listen", "127.0.0.1:1000,127.0.0.1:2000");
    refusal(&[("advertised_host", "h:1"), ("advertise", "gateway"), two], &["advertised_host", "2 listeners"]);
    for bad in ["", "h:", "h:0", "h:99999", "a b", "[::1", "http://h", "[h]:1"] {
        refusal(&[("advertised_host", bad)], &["--advertised-host"]);
    }
}

#[test]
fn ports_of_shards_must_not_overlap_other_listeners_or_pass_the_last_port() {
    let four = "listen";
    refusal(&[(four, "127.0.0.1:9092,127.0.0.1:9096")], &["9092 to 9096", "9096 to 9100"]);
    config(&[(four, "127.0.0.1:9092,127.0.0.1:9097")]);
    config(&[(four, "127.0.0.1:9092,127.0.0.2:9092")]);
    config(&[(four, "127.0.0.1:9092,127.0.0.1:9093"), ("advertise", "gateway")]);
    refusal(&[(four, "0.0.0.0:9092,127.0.0.1:9093")], &["0.0.0.0:9092", "127.0.0.1:9093"]);
    refusal(&[(four, "[::]:9092,127.0.0.1:9093")], &["[::]:9092"]);
    config(&[(four, "0.0.0.0:9092,[::1]:9092")]);
    config(&[(four, "127.0.0.1:0,127.0.0.1:0"), ("admin_listen", "127.0.0.1:0")]);
    refusal(&[("admin_listen", "127.0.0.1:9094")], &["admin_listen 127.0.0.1:9094", "9092 to 9096"]);
    refusal(&[(four, "127.0.0.1:65533")], &["--listen", "65531"]);
    config(&[(four, "127.0.0.1:65531")]);
    config(&[(four, "127.0.0.1:65535"), ("advertise", "gateway")]);
}

#[test]
fn bounds_that_do_not_go_together_are_refused_by_both_names() {
    type Given<'a> = &'a [(&'static str, &'a str)];
    let cases: &[(Given<'_>, [&str; 2])] = &[
        (&[("min_session_timeout", "31min")], ["min_session_timeout", "max_session_timeout"]),
        (&[("initial_rebalance_delay", "31min")], ["initial_rebalance_delay", "max_rebalance_timeout"]),
        (&[("max_in_flight_bytes", "100MiB")], ["max_in_flight_bytes", "max_frame_size"]),
        (&[("message_max_bytes", "101MiB")], ["message_max_bytes", "max_frame_size"]),
        (&[("message_max_bytes", "2MiB"), ("segment_bytes", "1MiB")], ["message_max_bytes", "segment_bytes"]),
        (&[("max_member_blob_bytes", "101MiB")], ["max_member_blob_bytes", "max_frame_size"]),
        (
            &[("max_member_blob_bytes", "2MiB"), ("max_group_memory", "1MiB")],
            ["max_member_blob_bytes", "max_group_memory"],
        ),
        (&[("num_partitions", "1001")], ["num_partitions", "max_partitions_per_topic"]),
        (&[("max_partitions_per_topic", "10001")], ["max_partitions_per_topic", "max_partitions"]),
        (&[("max_connections", "19489")], ["max_connections", "19488"]),
        (&[("max_partitions", "19489")], ["max_partitions", "19488"]),
        (&[("max_partitions", "999")], ["max_partitions_per_topic", "max_partitions"]),
    ];
    for (flags, names) in cases {
        refusal(flags, names);
    }
}

#[test]
fn partitions_never_take_every_open_file_unless_asked_to() {
    let most = |open_files, flags: &[(&'static str, &str)]| {
        let flags: Flags = flags.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        let mut given = gather(&flags, &[], None).unwrap().given;
        check(&mut given, &Host { open_files, ..host() }).unwrap().0.max_partitions
    };
    assert_eq!(most(20_000, &[]), 9744);
    assert_eq!(most(1_048_576, &[]), 10_000);
    assert_eq!(most(1024, &[]), 256, "fewer than max_partitions_per_topic, which nobody asked for");
    assert_eq!(most(20_000, &[("max_partitions", "19488")]), 19_488);
}

#[test]
fn a_group_larger_than_the_connections_is_warned_about_when_it_was_asked_for() {
    assert_eq!(checked(&[]).unwrap().1, Vec::<String>::new());
    let warnings = checked(&[("max_members_per_group", "30000")]).unwrap().1;
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("max_members_per_group") && warnings[0].contains("max_connections"));
}

#[test]
fn the_file_in_the_manual_is_taken_whole() {
    let manual = include_str!("../../docs/configuration.md");
    let toml = manual.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut given = gather(&Flags::new(), &[], Some((std::path::Path::new("manual.toml"), toml))).unwrap().given;
    let host = Host { allowed_cpus: (0..8).collect(), open_files: 20_000 };
    let (config, warnings) = check(&mut given, &host).unwrap();
    assert_eq!((config.shards, config.placement), (4, Placement::Cpus(vec![2, 3, 4, 5])));
    assert_eq!((config.listen.len(), warnings.len()), (2, 0));
    assert_eq!(config.max_frame_size, 64 << 20);
}

#[test]
fn the_iggy_listener_needs_a_port_of_its_own_and_its_password_is_not_shown() {
    refusal(&[("iggy_listen", "127.0.0.1:9093"), ("shards", "1")], &["iggy_listen 127.0.0.1:9093", "overlap"]);
    let config = config(&[("iggy_listen", "127.0.0.1:8090"), ("iggy_root_password", "hunter2")]);
    assert_eq!(config.iggy_root_password.as_ref().map(|password| password.0.as_str()), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
}
