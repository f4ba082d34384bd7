//! How many connections this process can hold and make.

use std::io;

use super::kernel::{SocketMemory, socket_memory};
use super::root::{Root, unexpected};

/// Descriptors that a generator needs beside its connections: standard streams, rings, control connections, results.
const OTHER_DESCRIPTORS: u64 = 256;

/// Connections that may be open at a time: by this process's hard limit of open files, which is what is in force once a
/// run has begun.
pub fn connections_max() -> u64 {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    files.saturating_sub(OTHER_DESCRIPTORS)
}

/// Local ports of this host's, and how far they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// Ports towards one address of a peer from one of this host's own: `net.ipv4.ip_local_port_range`.
    pub per_address_pair: u64,
    /// First and last of them.
    pub range: (u16, u16),
    /// What the kernel holds for sockets.
    pub sockets: SocketMemory,
}

impl Ports {
    /// Now.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn now(root: &Root) -> io::Result<Ports> {
        let text = root.text("proc/sys/net/ipv4/ip_local_port_range")?;
        let mut ends = text.split_ascii_whitespace().map(|end| end.parse::<u16>().ok());
        let (Some(Some(first)), Some(Some(last))) = (ends.next(), ends.next()) else {
            return Err(unexpected("ip_local_port_range", &text));
        };
        let per_address_pair = (u64::from(last) + 1).saturating_sub(u64::from(first));
        Ok(Ports { per_address_pair, range: (first, last), sockets: socket_memory(root)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_this_host_are_counted() {
        let ports = Ports::now(&Root::default()).unwrap();
        assert_eq!(ports.per_address_pair, u64::from(ports.range.1 - ports.range.0) + 1);
        assert!(connections_max() > 0);
    }
}
