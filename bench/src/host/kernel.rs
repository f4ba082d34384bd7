//! The network's counters, from `/proc/<pid>/net` and `/proc/net`.

use std::collections::BTreeMap;
use std::io;

use super::root::{Root, unexpected};

/// Counters that tell of connections turned away and of segments sent again, by file and group.
const WATCHED: [(&str, &str, &[&str]); 2] = [
    (
        "netstat",
        "TcpExt",
        &[
            "ListenOverflows",
            "ListenDrops",
            "TCPReqQFullDrop",
            "TCPReqQFullDoCookies",
            "TCPBacklogDrop",
            "TCPTimeouts",
            "TCPAbortOnMemory",
            "TCPAbortOnTimeout",
            "TCPMemoryPressures",
            "TCPRcvQDrop",
        ],
    ),
    ("snmp", "Tcp", &["RetransSegs", "AttemptFails", "EstabResets", "OutRsts"]),
];

/// Those that stand in a result also when they did not move.
pub(super) const ALWAYS: [&str; 3] = ["ListenOverflows", "ListenDrops", "RetransSegs"];

/// The watched counters of a process's network namespace: shared with everything else in it.
pub(super) fn counters(root: &Root, pid: u32) -> io::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for (file, group, names) in WATCHED {
        let text = root.text(format!("proc/{pid}/net/{file}"))?;
        let table = table(&text, group).ok_or_else(|| unexpected(file, &text))?;
        for name in names {
            if let Some(value) = table.get(name) {
                found.insert((*name).to_owned(), *value);
            }
        }
    }
    Ok(found)
}

/// A group's names and values: one line of names, one of values, both begin with the group.
fn table<'a>(text: &'a str, group: &str) -> Option<BTreeMap<&'a str, u64>> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let names = lines.next()?.split_ascii_whitespace();
    let values = lines.next()?.split_ascii_whitespace();
    // A value may be -1 ("no limit"); it is none that is watched.
    Some(names.zip(values).filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect())
}

/// What the kernel holds for TCP sockets, in this process's network namespace but for the memory, which is the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMemory {
    /// Connections in use.
    pub in_use: u64,
    /// Connections in TIME_WAIT: each holds its port for a minute.
    pub time_wait: u64,
    /// Memory of queued data and of what is reserved for it, in bytes. Not the sockets' own structures, some 3.5 KiB
    /// each.
    pub bytes: u64,
}

/// As `/proc/net/sockstat` has it.
///
/// # Errors
/// It cannot be read or reads otherwise.
pub fn socket_memory(root: &Root) -> io::Result<SocketMemory> {
    let text = root.text("proc/net/sockstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"));
    let words: Vec<&str> = line.unwrap_or_default().split_ascii_whitespace().collect();
    let number = |name| {
        let pair = words.chunks_exact(2).find(|pair| pair[0] == name);
        pair.and_then(|pair| pair[1].parse::<u64>().ok()).ok_or_else(|| unexpected("proc/net/sockstat", &text))
    };
    Ok(SocketMemory {
        in_use: number("inuse")?,
        time_wait: number("tw")?,
        bytes: number("mem")? * rustix::param::page_size() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_told_from_one_whose_name_it_begins() {
        let text = "TcpExt: A ListenDrops\nTcpExt: 1 2\nTcp: MaxConn RetransSegs\nTcp: -1 9\n";
        assert_eq!(table(text, "Tcp").unwrap(), BTreeMap::from([("RetransSegs", 9)]));
        assert_eq!(table(text, "TcpExt").unwrap()["ListenDrops"], 2);
        assert_eq!(table(text, "IpExt"), None);
    }

    #[test]
    fn this_hosts_sockets_can_be_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(socket_memory(&Root::default()).unwrap().in_use >= 2);
    }
}
