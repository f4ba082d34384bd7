//! How TCP sends.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::plan::Profile;

use super::settings::{number, set, settled, text};
use super::sockets;

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "slow_start_idle",
        area: Area::Network,
        why: "a consumer's connection is idle between two fetches: a window that shrinks meanwhile makes each answer take \
              more round trips",
        run: |look| settled(slow_start_idle(look)),
    },
    Check {
        id: "notsent_lowat",
        area: Area::Network,
        why: "without a bound megabytes of a fetch wait in the kernel, and a later answer on the connection behind them",
        run: |look| settled(notsent_lowat(look)),
    },
    Check {
        id: "autocork",
        area: Area::Network,
        why: "small answers that are written while the card is busy leave in one packet; an idle card is not waited for",
        run: |look| settled(autocork(look)),
    },
    Check {
        id: "nodelay",
        area: Area::Network,
        why: "without TCP_NODELAY a small answer waits for the acknowledgement of the one before: 40 ms",
        run: |_| {
            Found::not_applicable(
                "no setting of the host: the gateway sets TCP_NODELAY on every connection that it accepts or makes",
            )
        },
    },
    Check {
        id: "keepalive",
        area: Area::Network,
        why: "a peer that vanished is found out, and NAT keeps a quiet connection (some forget it after 4 minutes)",
        run: keepalive,
    },
    Check {
        id: "fastopen",
        area: Area::Network,
        why: "would save a round trip of a connection's start, but no Kafka client uses it",
        run: |look| settled(fastopen(look)),
    },
    Check {
        id: "congestion",
        area: Area::Network,
        why: "decides how fast a connection gets to its bandwidth and what a lost packet costs",
        run: |look| settled(congestion(look)),
    },
];

fn slow_start_idle(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_slow_start_after_idle";
    let want = format!("{name} = 0");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value == 0 {
        return Ok(Found::fine(read, want));
    }
    let verdict = if look.plan.profile == Profile::Shared { Verdict::Advice } else { Verdict::Warning };
    Ok(Found::wrong(verdict, read, want, set(look, name, 0)))
}

/// Bytes that wait in the kernel unsent: enough for the card to go on while the shard fetches more.
const NOTSENT: u64 = 128 << 10;

/// Above, the bound does not do what it is for.
const NOTSENT_MAX: u64 = 1 << 20;

fn notsent_lowat(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_notsent_lowat";
    let want = format!("{name} = {NOTSENT}, at most {NOTSENT_MAX}");
    let value = number(look, name, &want)?;
    let read = match value {
        0xffff_ffff => format!("{name} = {value}, no bound"),
        _ => format!("{name} = {value}"),
    };
    if value <= NOTSENT_MAX {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, NOTSENT)))
}

fn autocork(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_autocorking";
    let want = format!("{name} = 1");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value == 1 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, 1)))
}

fn keepalive(look: Look<'_>) -> Found {
    let want = "a keepalive timer on every quiet connection, which the gateway sets on its sockets";
    let port = look.plan.port;
    let sockets = sockets::all(look);
    let own: Vec<_> = sockets.iter().filter(|socket| socket.port == port && socket.established).collect();
    let (kept, idle) =
        (own.iter().filter(|socket| socket.keepalive).count(), own.iter().filter(|socket| socket.idle).count());
    let read = format!("port {port}: {} connections, {kept} with a keepalive timer, {idle} with none", own.len());
    match (kept, idle) {
        (0, 0) => Found::not_applicable(format!(
            "the gateway sets it on its sockets, whatever the host's settings are, and port {port} has no quiet \
             connection to see it at"
        )),
        (_, 0) => Found::fine(read, want),
        _ => {
            let fix = format!("see whose they are: ss -tnop 'sport = :{port}'");
            Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice(fix)])
        }
    }
}

fn fastopen(look: Look<'_>) -> Result<Found, Found> {
    let want = "whatever it is: Kafka's clients do not use it";
    let value = number(look, "net.ipv4.tcp_fastopen", want)?;
    Ok(Found::fine(format!("net.ipv4.tcp_fastopen = {value}"), want))
}

/// Those that do well; the first that is there is what to change to.
const CONGESTION: [&str; 3] = ["cubic", "bbr", "dctcp"];

fn congestion(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_congestion_control";
    let want = "cubic or bbr (dctcp where every switch marks)";
    let value = text(look, name, want)?;
    let read = format!("{name} = {value}");
    if CONGESTION.contains(&value.as_str()) {
        return Ok(Found::fine(read, want));
    }
    let available = text(look, "net.ipv4.tcp_available_congestion_control", want).unwrap_or_default();
    let fixes = match CONGESTION.into_iter().take(2).find(|one| available.split_whitespace().any(|word| word == *one)) {
        Some(one) => set(look, name, one),
        None => vec![Fix::Advice(format!("modprobe tcp_cubic && sysctl -w {name}=cubic"))],
    };
    Ok(Found::wrong(Verdict::Advice, read, want, fixes))
}
