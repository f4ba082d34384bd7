//! Connections that come faster than they are accepted.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;

use super::counters::Counts;
use super::settings::{number, set, settled, sysctl_path};
use super::{gateway, sockets};
use crate::checks::settings::number as number_of;

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "somaxconn",
        area: Area::Network,
        why: "when all clients come back at once, a connection that finds the listener's queue full is dropped, and its \
              client tries again only after a second",
        run: |look| settled(somaxconn(look)),
    },
    Check {
        id: "syn_backlog",
        area: Area::Network,
        why: "bounds half-open connections where SYN cookies are off; with cookies on the listener's backlog does",
        run: |look| settled(syn_backlog(look)),
    },
    Check {
        id: "syncookies",
        area: Area::Network,
        why: "without cookies a burst of connections is dropped when the queue is full; with 2 every connection pays for \
              them",
        run: |look| settled(syncookies(look)),
    },
    Check {
        id: "abort_on_overflow",
        area: Area::Network,
        why: "a full queue answered by a reset fails clients that would have got through by trying again",
        run: |look| settled(abort_on_overflow(look)),
    },
    Check {
        id: "migrate_req",
        area: Area::Network,
        why: "when one of the sockets on a shared port is closed, connections that wait on it are reset, or go to another one",
        run: |look| settled(migrate_req(look)),
    },
    Check {
        id: "listen_drops",
        area: Area::Network,
        why: "proof that connections came faster than they were accepted: each one dropped cost its client a second",
        run: |look| settled(listen_drops(look)),
    },
    Check {
        id: "reuseport",
        area: Area::Network,
        why: "each shard accepts on a socket of its own; the kernel spreads connections over them by a hash, and few \
              long-lived clients may clump on one",
        run: |look| settled(reuseport(look)),
    },
];

/// The kernel's own default since 5.4; less is a relic.
const BACKLOG_MIN: u64 = 4096;

/// What the gateway asks for (`LISTEN_BACKLOG` of the runtime), and the most that is of use.
const BACKLOG_MAX: u64 = 65_535;

fn somaxconn(look: Look<'_>) -> Result<Found, Found> {
    // Whoever comes back in the same moment waits in some shard's queue; the hash fills them about evenly, but an
    // uneven moment must not drop.
    let wanted = look.plan.connections.clamp(BACKLOG_MIN, BACKLOG_MAX);
    let want =
        format!("net.core.somaxconn >= {wanted} for {} connections that come back at once", look.plan.connections);
    let value = number(look, "net.core.somaxconn", &want)?;
    let mut read = format!("net.core.somaxconn = {value}");
    let mut fixes = Vec::new();
    let mut verdict = match value {
        _ if value >= wanted => Verdict::Fine,
        BACKLOG_MIN.. => Verdict::Advice,
        _ => Verdict::Warning,
    };
    if verdict != Verdict::Fine {
        fixes.extend(set(look, "net.core.somaxconn", BACKLOG_MAX));
    }
    // A socket keeps the bound that was in force when it began to listen.
    let listeners = sockets::listeners(look, look.plan.port).unwrap_or_default();
    let own = listeners.iter().filter(|one| one.owner.as_ref().is_none_or(|(name, _)| gateway::is_gateway(name)));
    if let Some(least) = own.filter_map(|listener| listener.backlog).min() {
        read.push_str(&format!("; port {} listens with a backlog of {least}", look.plan.port));
        if least < wanted {
            if verdict == Verdict::Fine {
                verdict = if least < BACKLOG_MIN { Verdict::Warning } else { Verdict::Advice };
            }
            fixes.push(Fix::Advice("restart the gateway: a socket keeps the backlog that it began with".into()));
        }
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

fn syn_backlog(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("net.ipv4.tcp_max_syn_backlog >= {BACKLOG_MIN}, or tcp_syncookies on");
    let value = number(look, "net.ipv4.tcp_max_syn_backlog", &want)?;
    let cookies = number(look, "net.ipv4.tcp_syncookies", &want).unwrap_or(0);
    let read = format!("net.ipv4.tcp_max_syn_backlog = {value}, tcp_syncookies = {cookies}");
    if value >= BACKLOG_MIN || cookies > 0 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Warning, read, want, set(look, "net.ipv4.tcp_max_syn_backlog", BACKLOG_MIN)))
}

fn syncookies(look: Look<'_>) -> Result<Found, Found> {
    let want = "net.ipv4.tcp_syncookies = 1";
    let value = number(look, "net.ipv4.tcp_syncookies", want)?;
    let read = format!("net.ipv4.tcp_syncookies = {value}");
    if value == 1 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Warning, read, want, set(look, "net.ipv4.tcp_syncookies", 1)))
}

fn abort_on_overflow(look: Look<'_>) -> Result<Found, Found> {
    let want = "net.ipv4.tcp_abort_on_overflow = 0";
    let value = number(look, "net.ipv4.tcp_abort_on_overflow", want)?;
    let read = format!("net.ipv4.tcp_abort_on_overflow = {value}");
    if value == 0 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Warning, read, want, set(look, "net.ipv4.tcp_abort_on_overflow", 0)))
}

fn migrate_req(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_migrate_req";
    let want = format!("{name} = 1");
    let value = number_of(
        look,
        &sysctl_path(name),
        "this kernel resets them always: net.ipv4.tcp_migrate_req came with Linux 5.14",
        &want,
    )?;
    let read = format!("{name} = {value}");
    if value == 1 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, 1)))
}

fn listen_drops(look: Look<'_>) -> Result<Found, Found> {
    let want = "none, and none more while it runs";
    let counts = Counts::of(look, &|look| {
        let text = look.process_file("net/netstat");
        let text = text.text().ok_or_else(|| Found::without(&text, "this kernel counts no TCP events", want))?;
        let names = ["ListenOverflows", "ListenDrops", "TCPReqQFullDrop"];
        Ok(names.into_iter().map(|name| (name.to_owned(), tcp_ext(text, name).unwrap_or(0))).collect())
    })?;
    let fix = "raise net.core.somaxconn, restart the gateway, and look whether the count still rises; more shards accept \
               faster";
    Ok(counts.found(want, Verdict::Advice, vec![Fix::Advice(fix.into())]))
}

/// A count of `/proc/net/netstat`, where a line of names comes before the line of their numbers.
fn tcp_ext(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|one| one == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// Waiting connections from which an uneven spread means something.
const WAITING_MIN: u64 = 64;

/// Connections of each shard, on average, from which an uneven spread means something.
const SPREAD_MIN: usize = 8;

fn reuseport(look: Look<'_>) -> Result<Found, Found> {
    let port = look.plan.port;
    let want = "one socket for each shard on the shared port, and no shard with twice the connections of another";
    let listeners = match sockets::listeners(look, port) {
        Ok(listeners) => listeners,
        Err(reading) => return Err(Found::without(&reading, "", want)),
    };
    let Some(first) = listeners.first() else {
        let why = format!("nothing listens on port {port}: look beside a gateway that runs, or say its --port");
        return Err(Found::not_applicable(why));
    };
    if let Some((name, pid)) = first.owner.as_ref().filter(|(name, _)| !gateway::is_gateway(name)) {
        return Err(Found::not_applicable(format!("port {port} is not a gateway's: {name}, process {pid}, has it")));
    }
    let shards = gateway::shard_count(look);
    let mut verdict = Verdict::Fine;
    let mut read = Vec::new();
    let mut fixes = Vec::new();
    for (address, sockets) in sockets::by_address(&listeners) {
        let of_shards = shards.map_or(String::new(), |shards| format!(" of {shards} shards"));
        read.push(format!("{address}:{port} has {} sockets{of_shards}", sockets.len()));
        if shards.is_some_and(|shards| sockets.len() != shards) {
            verdict = Verdict::Warning;
            fixes.push(Fix::Advice(format!("see who else listens there: ss -ltnp 'sport = :{port}'")));
        }
        let waiting: Vec<u64> = sockets.iter().map(|socket| socket.waiting).collect();
        let (most, total) = (
            waiting.iter().max().copied().unwrap_or(0),
            waiting.iter().fold(0, |total: u64, one| total.saturating_add(*one)),
        );
        if total >= WAITING_MIN && most.saturating_mul(waiting.len() as u64) > total.saturating_mul(2) {
            verdict = Verdict::Warning;
            read.push(format!("{most} of {total} waiting connections are on one of them"));
            fixes.push(Fix::Advice("see what that shard does: /metrics has loop lag and stalls by shard".into()));
        }
    }
    if let Some(shards) = shards {
        let own = connections_of_own_ports(look, shards);
        let (most, total) = (own.iter().max().copied().unwrap_or(0), own.iter().sum::<usize>());
        if total > 0 {
            read.push(format!("connections on the shards' own ports: {own:?}"));
        }
        if total >= SPREAD_MIN * shards && most * shards > 2 * total {
            if verdict == Verdict::Fine {
                verdict = Verdict::Advice;
            }
            let text = "clients that use few partitions or groups meet on their shards: more partitions spread them";
            fixes.push(Fix::Advice(text.into()));
        }
    }
    Ok(Found::wrong(verdict, read.join("; "), want, fixes))
}

/// Connections of each shard's own port, which follow the shared one.
fn connections_of_own_ports(look: Look<'_>, shards: usize) -> Vec<usize> {
    let sockets = sockets::all(look);
    let of_port = |port: usize, listening: bool| {
        sockets.iter().filter(move |socket| usize::from(socket.port) == port && socket.listening == listening)
    };
    let first = usize::from(look.plan.port) + 1;
    let ports = first..first + shards;
    if ports.clone().any(|port| of_port(port, true).next().is_none()) {
        // `--advertise gateway`, or ports that the kernel chose.
        return Vec::new();
    }
    ports.map(|port| of_port(port, false).filter(|socket| socket.established).count()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_netstat_are_found_by_the_names_above_them() {
        let text =
            "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 26550 26551\nIpExt: InNoRoutes\nIpExt: 7";
        assert_eq!(tcp_ext(text, "ListenDrops"), Some(26551));
        assert_eq!(tcp_ext(text, "InNoRoutes"), None);
        assert_eq!(tcp_ext("TcpExt: ListenDrops\nTcpExt:", "ListenDrops"), None);
    }
}
