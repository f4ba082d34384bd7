//! What `ringgate serve` prints on stdout once it serves.

use std::fmt::Write;
use std::net::SocketAddr;

use ringgate_runtime::Placement;

use crate::config::{Config, Fsync, duration_text, size_text};
use crate::net::advertise::{Advertise, Advertised};
use crate::ready_file::{host_port, reachable};

/// Where else than to Kafka clients the gateway listens.
#[derive(Default)]
pub struct OtherPorts<'a> {
    /// For Iggy clients.
    pub iggy: Option<SocketAddr>,
    /// The password that was made for them.
    pub made_password: Option<&'a str>,
    /// For metrics.
    pub admin: Option<SocketAddr>,
}

/// The banner: listeners as they were bound, shards, store, durability, and lines to copy.
pub fn banner(
    config: &Config,
    listeners: &[(SocketAddr, Advertised)],
    others: &OtherPorts<'_>,
    cluster_id: &str,
) -> String {
    let mut out = format!("ringgate {} serves cluster {cluster_id}\n\n", env!("CARGO_PKG_VERSION"));
    for (bootstrap, advertised) in listeners {
        line(&mut out, "kafka", &format!("{bootstrap} (bootstrap, {})", nodes(*bootstrap, advertised)));
    }
    if let Some(address) = others.iggy {
        line(&mut out, "iggy", &format!("{address} (tcp, user iggy)"));
    }
    if let Some(password) = others.made_password {
        line(
            &mut out,
            "",
            &format!("password {password}: made now, and not shown again (RINGGATE_IGGY_ROOT_PASSWORD sets one)"),
        );
    }
    line(&mut out, "shards", &shards(config));
    let tail_cache = size_text(config.tail_cache_bytes as u64);
    match &config.iggy {
        Some(iggy) => {
            let (servers, user) = (iggy.servers.join(", "), &iggy.credentials.username);
            line(&mut out, "store", &format!("Iggy at {servers} as {user}, tail cache {tail_cache} per shard"));
            line(&mut out, "durability", "Iggy's: records are answered when Iggy says that they are written");
        }
        None => {
            let data = config.data.display();
            line(&mut out, "store", &format!("embedded in {data}, tail cache {tail_cache} per shard"));
            line(&mut out, "durability", &durability(config.fsync));
        }
    }
    match others.admin {
        Some(address) => line(&mut out, "admin", &format!("http://{address}/ for people, /metrics, /healthz, /readyz")),
        None => line(&mut out, "admin", "off (--admin-listen HOST:PORT)"),
    }
    if let Some((bootstrap, _)) = listeners.first() {
        let at = reachable(*bootstrap);
        let _ = write!(
            out,
            "\nTry it:\n  \
             echo hello | kcat -b {at} -P -t greetings\n  \
             kcat -b {at} -G greeters -X auto.offset.reset=earliest greetings\n\
             or\n  \
             kafka-console-producer.sh --bootstrap-server {at} --topic greetings\n  \
             kafka-console-consumer.sh --bootstrap-server {at} --topic greetings --group greeters --from-beginning\n\n"
        );
    }
    out
}

fn line(out: &mut String, what: &str, text: &str) {
    let _ = writeln!(out, "  {what:<12}{text}");
}

/// What clients are told to connect to.
fn nodes(bootstrap: SocketAddr, advertised: &Advertised) -> String {
    let nodes = advertised.nodes(bootstrap);
    let told = |host_port: String| {
        // Without a name of its own, a wildcard listener tells each client the address that it reached.
        if advertised.host.is_none() && bootstrap.ip().is_unspecified() {
            let port = host_port.rsplit(':').next().unwrap_or_default().to_owned();
            return format!("port {port} of the address reached");
        }
        host_port
    };
    match (advertised.mode, nodes.as_slice()) {
        (Advertise::Shards, [first, .., last]) => format!(
            "{} nodes: shard 0 at {} to shard {} at {}",
            nodes.len(),
            told(host_port(first)),
            nodes.len() - 1,
            told(host_port(last))
        ),
        (Advertise::Shards, [only]) => format!("1 node: shard 0 at {}", told(host_port(only))),
        (Advertise::Gateway, [node, ..]) => format!("1 node: the gateway at {}", told(host_port(node))),
        (_, []) => "no node".into(),
    }
}

fn shards(config: &Config) -> String {
    let where_ = match &config.placement {
        Placement::Cpus(cpus) => {
            let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
            format!("pinned to CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, cpus.join(","))
        }
        Placement::Unpinned => "not pinned".into(),
    };
    let spin = if config.spin.is_zero() { String::new() } else { format!(", spinning {}", duration_text(config.spin)) };
    format!("{}, {where_}{spin}", config.shards)
}

fn durability(fsync: Fsync) -> String {
    match fsync {
        Fsync::Always => "fsync always: acks=all, commits and admin changes are on disk when they are answered".into(),
        Fsync::Interval(every) => format!(
            "WARNING: fsync every {}: what was answered since the last one is lost in a power cut",
            duration_text(every)
        ),
        Fsync::Never => {
            "WARNING: fsync never: what was answered may be lost in a power cut, however long ago it was".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Flags, Host, load};

    fn config(flags: &[(&'static str, &str)]) -> Config {
        let flags: Flags = flags.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        load(&flags, None, &[], &Host { allowed_cpus: vec![0, 3], open_files: 4096 }).unwrap().config
    }

    fn advertised(mode: Advertise, host: Option<&str>, shard_ports: &[u16]) -> Advertised {
        Advertised {
            mode,
            gateway_id: 1,
            host: host.map(str::to_owned),
            gateway_port: None,
            bootstrap_port: 9092,
            shard_ports: shard_ports.to_vec(),
        }
    }

    #[test]
    fn it_shows_listeners_shards_store_durability_and_lines_to_copy() {
        let bound =
            ("127.0.0.1:9092".parse().unwrap(), advertised(Advertise::Shards, Some("127.0.0.1"), &[9093, 9094]));
        let text = banner(
            &config(&[]),
            &[bound],
            &OtherPorts { admin: "127.0.0.1:9644".parse().ok(), ..OtherPorts::default() },
            "the-cluster",
        );
        for part in [
            "the-cluster",
            "127.0.0.1:9092 (bootstrap, 2 nodes: shard 0 at 127.0.0.1:9093 to shard 1 at 127.0.0.1:9094)",
            "2, pinned to CPUs 0,3",
            "embedded in ./ringgate-data",
            "fsync always",
            "http://127.0.0.1:9644/ for people",
            "kcat -b 127.0.0.1:9092 -P",
            "kcat -b 127.0.0.1:9092 -G greeters",
            "kafka-console-producer.sh --bootstrap-server 127.0.0.1:9092",
            "kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9092",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("WARNING"), "{text}");
    }

    #[test]
    fn an_iggy_listener_is_shown_and_a_password_only_when_it_was_made() {
        let mut others = OtherPorts { iggy: "127.0.0.1:8090".parse().ok(), ..OtherPorts::default() };
        let text = banner(&config(&[("iggy_root_password", "hunter2")]), &[], &others, "c");
        assert!(text.contains("iggy        127.0.0.1:8090 (tcp, user iggy)"), "{text}");
        assert!(!text.contains("password") && !text.contains("hunter2"), "{text}");
        others.made_password = Some("a2b3c4");
        assert!(banner(&config(&[]), &[], &others, "c").contains("password a2b3c4"));
    }

    #[test]
    fn weaker_durability_is_a_plain_warning() {
        for (fsync, part) in [("never", "WARNING: fsync never"), ("500ms", "WARNING: fsync every 500ms")] {
            let text = banner(&config(&[("fsync", fsync)]), &[], &OtherPorts::default(), "c");
            assert!(text.contains(part) && text.contains("power cut"), "{text}");
        }
        assert_eq!(config(&[("fsync", "500ms")]).fsync, Fsync::Interval(Duration::from_millis(500)));
    }

    #[test]
    fn a_wildcard_listener_is_tried_by_loopback_and_tells_what_was_reached() {
        let bound = ("0.0.0.0:9092".parse().unwrap(), advertised(Advertise::Gateway, None, &[]));
        let text = banner(&config(&[("cpus", "none"), ("spin", "50us")]), &[bound], &OtherPorts::default(), "c");
        assert!(
            text.contains("0.0.0.0:9092 (bootstrap, 1 node: the gateway at port 9092 of the address reached)"),
            "{text}"
        );
        assert!(text.contains("kcat -b 127.0.0.1:9092 -P"), "{text}");
        assert!(text.contains("2, not pinned, spinning 50us") && text.contains("admin       off"), "{text}");
    }
}
