//! What all sockets together may hold.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{settled, shown, text};
use crate::fix::{Fix, Knob};
use crate::host::field;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "tcp_mem",
    area: Area::Memory,
    why: "above the second number the kernel shrinks every connection's window, above the third it drops what comes",
    run: |look| settled(tcp_mem(look)),
}];

/// What a connection holds while a request comes in and an answer goes out, in bytes.
const BYTES_PER_CONNECTION: u64 = 32 << 10;

/// The kernel counts in pages of this size; where they are larger, more is allowed than is reckoned with here.
const PAGE_BYTES: u64 = 4 << 10;

/// Of the memory, the most that sockets should be able to take.
const SHARE_MAX: u64 = 4;

fn tcp_mem(look: Look<'_>) -> Result<Found, Found> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_mem";
    let connections = look.plan.connections;
    let needed = connections.saturating_mul(BYTES_PER_CONNECTION) / PAGE_BYTES;
    let want = format!(
        "the second of the three >= {needed} pages, {} KiB for each of {connections} connections",
        BYTES_PER_CONNECTION >> 10
    );
    let absent = "it is a setting of the host, which this container does not see";
    let text = text(look, FILE, absent, &want)?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some(&[_, pressure, _]) = numbers.as_deref() else {
        return Err(Found::unread(format!("{FILE} holds {}", shown(&text)), want));
    };
    let read = format!("net.ipv4.tcp_mem = {}", text.split_whitespace().collect::<Vec<_>>().join(" "));
    if pressure >= needed {
        return Ok(Found::fine(read, want));
    }
    let meminfo = look.host.read("/proc/meminfo");
    let total = meminfo.text().and_then(|text| field(text, "MemTotal")?.split_whitespace().next()?.parse::<u64>().ok());
    let most = total.map(|kib| (kib << 10) / PAGE_BYTES / SHARE_MAX);
    let highest = needed.saturating_add(needed / 2);
    let fix = match most {
        Some(most) if highest > most => Fix::Advice(format!(
            "more memory, or fewer connections: {connections} at work take a quarter of this machine's and more"
        )),
        _ => Fix::Knob(Knob::sysctl("net.ipv4.tcp_mem", format!("{} {needed} {highest}", needed / 4 * 3))),
    };
    Ok(Found::wrong(Verdict::Warning, read, want, vec![fix]))
}
