//! `--ready-file`: all addresses as JSON, once the gateway serves.
//!
//! `{"version":1,"pid":N,"listeners":[{"bootstrap":"h:p","nodes":[{"id":1000,"shard":0,"addr":"h:p"}]}]}`
//!
//! With an Iggy listener the last of `listeners` is `{"iggy":"h:p"}`.
//!
//! The addresses are those that a client on this machine connects to: a wildcard stands as loopback. The
//! file appears whole, by a rename, so that whoever waits for it never reads half of it.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::net::advertise::{Advertised, Node};

/// Writes the file: for each Kafka listener its bootstrap address and what it advertises, and the address of the
/// Iggy listener.
///
/// # Errors
/// The directory cannot be written, by the file's name.
pub fn write(path: &Path, listeners: &[(SocketAddr, Advertised)], iggy: Option<SocketAddr>) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("ready_file {}: {error}", path.display()));
    let temporary = temporary(path).map_err(named)?;
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(content(std::process::id(), listeners, iggy).to_string().as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The error to report is the first one.
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(named)
}

/// A name beside `path`, that of no other process.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    let mut name = name.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(name))
}

fn content(pid: u32, listeners: &[(SocketAddr, Advertised)], iggy: Option<SocketAddr>) -> Value {
    let iggy = iggy.map(|address| json!({"iggy": reachable(address).to_string()}));
    let listeners: Vec<Value> = listeners
        .iter()
        .map(|(bootstrap, advertised)| {
            let local = reachable(*bootstrap);
            let nodes: Vec<Value> = advertised
                .nodes(local)
                .iter()
                .enumerate()
                .map(|(shard, node)| json!({"id": node.id, "shard": shard, "addr": host_port(node)}))
                .collect();
            json!({"bootstrap": local.to_string(), "nodes": nodes})
        })
        .chain(iggy)
        .collect();
    json!({"version": 1, "pid": pid, "listeners": listeners})
}

/// Where a client on this machine reaches a listener: a wildcard address by loopback.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// `host:port`, an IPv6 address in brackets.
pub fn host_port(node: &Node) -> String {
    match node.host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]:{}", node.port),
        Err(_) => format!("{}:{}", node.host, node.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::advertise::Advertise;

    fn listener(bootstrap: &str, mode: Advertise, host: Option<&str>) -> (SocketAddr, Advertised) {
        let bootstrap: SocketAddr = bootstrap.parse().unwrap();
        let advertised = Advertised {
            mode,
            gateway_id: 1,
            host: host.map(str::to_owned),
            gateway_port: None,
            bootstrap_port: bootstrap.port(),
            shard_ports: if mode == Advertise::Shards { vec![9093, 9094] } else { Vec::new() },
        };
        (bootstrap, advertised)
    }

    #[test]
    fn the_file_has_exactly_the_documented_shape() {
        let content = content(7, &[listener("127.0.0.1:9092", Advertise::Shards, None)], "0.0.0.0:8090".parse().ok());
        let expected = json!({"version": 1, "pid": 7, "listeners": [{"bootstrap": "127.0.0.1:9092", "nodes": [
            {"id": 1000, "shard": 0, "addr": "127.0.0.1:9093"},
            {"id": 1001, "shard": 1, "addr": "127.0.0.1:9094"},
        ]}, {"iggy": "127.0.0.1:8090"}]});
        assert_eq!(content, expected);
    }

    #[test]
    fn gateway_mode_has_one_node_and_a_wildcard_is_reached_by_loopback() {
        let listeners = [
            listener("0.0.0.0:9092", Advertise::Gateway, None),
            listener("[::]:9192", Advertise::Gateway, None),
            listener("[::1]:9292", Advertise::Gateway, Some("2001:db8::1")),
        ];
        let content = content(1, &listeners, None);
        let addresses: Vec<_> = content["listeners"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| (l["bootstrap"].as_str().unwrap(), l["nodes"][0]["addr"].as_str().unwrap()))
            .collect();
        let expected =
            [("127.0.0.1:9092", "127.0.0.1:9092"), ("[::1]:9192", "[::1]:9192"), ("[::1]:9292", "[2001:db8::1]:9292")];
        assert_eq!(addresses, expected);
        assert_eq!(content["listeners"][0]["nodes"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn it_replaces_an_older_file_and_leaves_nothing_else_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        std::fs::write(&path, "old").unwrap();
        write(&path, &[listener("127.0.0.1:9092", Advertise::Shards, None)], None).unwrap();
        let read: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read["pid"], std::process::id());
        let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["ready.json"]);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_by_name() {
        let error = write(Path::new("/no/such/place/ready.json"), &[], None).unwrap_err();
        assert!(error.to_string().contains("ready_file /no/such/place/ready.json"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        assert!(write(directory.path(), &[], None).is_err());
        assert_eq!(
            std::fs::read_dir(directory.path().parent().unwrap())
                .unwrap()
                .filter(|e| {
                    e.as_ref().is_ok_and(|e| {
                        e.file_name().to_string_lossy().ends_with(&format!(".{}.tmp", std::process::id()))
                    })
                })
                .count(),
            0
        );
    }
}
