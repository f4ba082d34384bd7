//! The sockets of a host: those of `/proc/net/tcp`, and the listeners that `ss` knows more of.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::check::Look;
use crate::host::Reading;

use super::gateway;

/// A TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
    pub(super) established: bool,
    pub(super) listening: bool,
    /// Of a listening one: connections that wait to be accepted.
    pub(super) waiting: u64,
    /// Whether nothing but its keepalive timer runs.
    pub(super) keepalive: bool,
    /// Whether no timer runs at all.
    pub(super) idle: bool,
    /// What its owner's descriptor is called by.
    inode: u64,
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listener {
    /// `0.0.0.0`, `*`, `[::1]`.
    pub(super) address: String,
    pub(super) port: u16,
    /// Connections that wait to be accepted.
    pub(super) waiting: u64,
    /// How many may; `/proc` does not tell.
    pub(super) backlog: Option<u64>,
    /// The process that holds it: its name and its number; nobody's when this user may not know.
    pub(super) owner: Option<(String, u32)>,
}

/// All TCP sockets of the network namespace; none where that cannot be read.
pub(super) fn all(look: Look<'_>) -> Vec<Socket> {
    let files = ["net/tcp", "net/tcp6"].map(|file| look.process_file(file));
    files.iter().filter_map(Reading::text).flat_map(str::lines).filter_map(socket).collect()
}

/// A line of `/proc/net/tcp` or `tcp6`.
fn socket(line: &str) -> Option<Socket> {
    let mut words = line.split_whitespace();
    let (ip, port) = words.nth(1)?.rsplit_once(':')?;
    let state = words.nth(1)?;
    let (_, waiting) = words.next()?.split_once(':')?;
    let (timer, _) = words.next()?.split_once(':')?;
    Some(Socket {
        ip: address(ip)?,
        port: u16::from_str_radix(port, 16).ok()?,
        established: state == "01",
        listening: state == "0A",
        waiting: u64::from_str_radix(waiting, 16).ok()?,
        keepalive: timer == "02",
        idle: timer == "00",
        inode: words.nth(3)?.parse().ok()?,
    })
}

/// Words of 32 bits in hexadecimal, each with its bytes in the order of this machine.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?))
        }
        _ => None,
    }
}

/// The listeners on a port.
///
/// # Errors
/// What [`all_listeners`] says.
pub(super) fn listeners(look: Look<'_>, port: u16) -> Result<Vec<Listener>, Reading> {
    let listeners = all_listeners(look)?;
    Ok(listeners.into_iter().filter(|one| one.port == port).collect())
}

/// All listeners, from `ss -ltnp`; where that is not installed from `/proc`, which knows less.
///
/// # Errors
/// It is installed, and told nothing.
pub(super) fn all_listeners(look: Look<'_>) -> Result<Vec<Listener>, Reading> {
    match look.host.command_once(&["ss", "-ltnp"]) {
        Reading::Text(text) => Ok(text.lines().filter_map(listener).collect()),
        Reading::Absent => {
            let listening = all(look).into_iter().filter(|socket| socket.listening);
            let owners = of_gateways(look);
            let listener = |socket: Socket| Listener {
                address: socket.ip.to_string(),
                port: socket.port,
                waiting: socket.waiting,
                backlog: None,
                owner: owners.get(&socket.inode).cloned(),
            };
            Ok(listening.map(listener).collect())
        }
        reading => Err(reading),
    }
}

/// The sockets of each gateway that runs, by inode: its name and its process. None of other users' for whoever is not root.
fn of_gateways(look: Look<'_>) -> BTreeMap<u64, (String, u32)> {
    let processes = look.host.list("/proc").unwrap_or_default();
    let mut owners = BTreeMap::new();
    for pid in processes.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let name = look.host.read(format!("/proc/{pid}/comm"));
        let Some(name) = name.text().filter(|name| gateway::is_gateway(name)) else { continue };
        for descriptor in look.host.list(format!("/proc/{pid}/fd")).unwrap_or_default() {
            let target = look.host.link(format!("/proc/{pid}/fd/{descriptor}"));
            let inode = target.text().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            owners.extend(inode.map(|inode: u64| (inode, (name.to_owned(), pid))));
        }
    }
    owners
}

/// A line of `ss -ltnp`.
fn listener(line: &str) -> Option<Listener> {
    let mut words = line.split_whitespace();
    if words.next()? != "LISTEN" {
        return None;
    }
    let waiting = words.next()?.parse().ok()?;
    let backlog = Some(words.next()?.parse().ok()?);
    let (address, port) = words.next()?.rsplit_once(':')?;
    let owner = line.split_once("users:((\"").and_then(|(_, users)| {
        let (name, rest) = users.split_once('"')?;
        let pid = rest.split_once("pid=")?.1.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((name.to_owned(), pid.parse().ok()?))
    });
    Some(Listener { address: address.to_owned(), port: port.parse().ok()?, waiting, backlog, owner })
}

/// The listeners by their address.
pub(super) fn by_address(listeners: &[Listener]) -> BTreeMap<&str, Vec<&Listener>> {
    let mut addresses: BTreeMap<&str, Vec<&Listener>> = BTreeMap::new();
    for listener in listeners {
        addresses.entry(&listener.address).or_default().push(listener);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_net_tcp_tells_port_state_and_timer() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        assert_eq!(socket(head), None);
        let line = "   1: 0100007F:2384 0100007F:D431 01 00000000:00000000 02:000003E8 00000000  1000        0 4711 2";
        let ip = IpAddr::from([127, 0, 0, 1]);
        let want = Socket {
            ip,
            port: 9092,
            established: true,
            listening: false,
            waiting: 0,
            keepalive: true,
            idle: false,
            inode: 4711,
        };
        assert_eq!(socket(line), Some(want));
        let six = "   0: 00000000000000000000000001000000:2384 00000000000000000000000000000000:0000 0A 00000000:00000003 \
                   00:00000000 00000000     0        0 17 1";
        let ip = "::1".parse().unwrap();
        let want = Socket {
            ip,
            port: 9092,
            established: false,
            listening: true,
            waiting: 3,
            keepalive: false,
            idle: true,
            inode: 17,
        };
        assert_eq!(socket(six), Some(want));
        assert_eq!(socket("0: 0100:2384 00:00 01 0:0 00:0"), None);
    }

    #[test]
    fn a_line_of_ss_tells_backlog_and_owner() {
        assert_eq!(listener("State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess"), None);
        let line = "LISTEN 3 4096 0.0.0.0:9092 0.0.0.0:* users:((\"ringgate\",pid=4711,fd=30),(\"x\",pid=1,fd=2))";
        let want = Listener {
            address: "0.0.0.0".into(),
            port: 9092,
            waiting: 3,
            backlog: Some(4096),
            owner: Some(("ringgate".into(), 4711)),
        };
        assert_eq!(listener(line), Some(want));
        let other = listener("LISTEN 0      128                [::1]:631             [::]:*").unwrap();
        assert_eq!((other.address.as_str(), other.port, other.owner), ("[::1]", 631, None));
        for line in ["LISTEN", "LISTEN 0 x *:1 *:*", "LISTEN 0 1 nothing", "LISTEN 0 1 *:99999 *:*"] {
            assert_eq!(listener(line), None, "{line}");
        }
    }
}
