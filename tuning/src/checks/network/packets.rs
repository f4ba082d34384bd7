//! Packets on their way to a socket, and the socket's memory.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::plan::Profile;

use super::counters::Counts;
use super::settings::{number, numbers, set, settled};

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "netdev",
        area: Area::Network,
        why: "a burst that is longer than a CPU's queue is lost and sent again 200 ms later; the queue holds what RPS, \
              containers' interfaces and loopback hand over",
        run: |look| settled(netdev(look)),
    },
    Check {
        id: "softnet",
        area: Area::Network,
        why: "proof of the former: packets dropped for want of room, and turns that ended with packets left over",
        run: |look| settled(softnet(look)),
    },
    Check {
        id: "rmem",
        area: Area::Network,
        why: "what a connection may have on its way to the gateway: too little caps a producer's throughput at memory over \
              round trip; a large start costs memory for each idle connection",
        run: |look| settled(memory(look, "net.ipv4.tcp_rmem", RMEM_START_MAX)),
    },
    Check {
        id: "wmem",
        area: Area::Network,
        why: "what a connection may have on its way to a consumer: too little caps its throughput at memory over round trip",
        run: |look| settled(memory(look, "net.ipv4.tcp_wmem", WMEM_START_MAX)),
    },
];

/// Packets of one CPU's queue: at 1,500 bytes 20 ms of 10 Gbit/s.
const BACKLOG: u64 = 16_384;

/// Packets of one turn of the network's soft interrupt, and its microseconds.
const BUDGET: u64 = 600;
const BUDGET_US: u64 = 4000;

/// One packet in so many may be dropped before it counts: a burst once in a while is no news.
const DROPPED_PER: u64 = 100_000;

/// One turn in so many may be cut short before it counts: each leaves packets to wait for the next.
const SQUEEZED_PER: u64 = 10_000;

fn netdev(look: Look<'_>) -> Result<Found, Found> {
    let want = format!(
        "net.core.netdev_max_backlog >= {BACKLOG}; where turns are cut short, netdev_budget >= {BUDGET} and \
         netdev_budget_usecs >= {BUDGET_US}"
    );
    let backlog = number(look, "net.core.netdev_max_backlog", &want)?;
    let budget = number(look, "net.core.netdev_budget", &want)?;
    let budget_us = number(look, "net.core.netdev_budget_usecs", &want)?;
    let read =
        format!("net.core.netdev_max_backlog = {backlog}, netdev_budget = {budget}, netdev_budget_usecs = {budget_us}");
    let cpus = look.process_file("net/softnet_stat");
    let cpus = cpus.text().map(softnet_stat).unwrap_or_default();
    let mut verdict = Verdict::Fine;
    let mut fixes = Vec::new();
    if backlog < BACKLOG {
        fixes.extend(set(look, "net.core.netdev_max_backlog", BACKLOG));
        verdict = if cpus.iter().any(|cpu| cpu.dropped.saturating_mul(DROPPED_PER) > cpu.processed) {
            Verdict::Warning
        } else {
            Verdict::Advice
        };
    }
    // Longer turns keep the same CPU's shard waiting, so they are wanted only where short ones do not suffice.
    if squeezed(&cpus) {
        let knobs =
            [("net.core.netdev_budget", budget, BUDGET), ("net.core.netdev_budget_usecs", budget_us, BUDGET_US)];
        for (name, value, wanted) in knobs {
            if value < wanted {
                fixes.extend(set(look, name, wanted));
                verdict = Verdict::Warning;
            }
        }
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

fn softnet(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("nothing dropped, and at most one turn cut short for {SQUEEZED_PER} packets");
    let read = |look: Look<'_>| {
        let text = look.process_file("net/softnet_stat");
        match text.text().map(softnet_stat) {
            Some(cpus) if !cpus.is_empty() => Ok(cpus),
            Some(_) => Err(Found::unread("/proc/net/softnet_stat holds no counts", &want)),
            None => Err(Found::without(&text, "this kernel counts no packets by CPU", &want)),
        }
    };
    let counts = Counts::of(look, &|look| {
        Ok(vec![("packets dropped".into(), read(look)?.iter().map(|cpu| cpu.dropped).sum())])
    })?;
    let cpus = read(look)?;
    let (packets, cut): (u64, u64) =
        cpus.iter().fold((0, 0), |(packets, cut), cpu| (packets + cpu.processed, cut + cpu.squeezed));
    let mut found = counts.found(&want, Verdict::Advice, Vec::new());
    found.read.push_str(&format!("; {cut} turns cut short for {packets} packets"));
    if let Some(most) = cpus.iter().max_by_key(|cpu| cpu.dropped).filter(|cpu| cpu.dropped > 0) {
        found.read.push_str(&format!("; CPU {} dropped {} of them", most.cpu, most.dropped));
    }
    if squeezed(&cpus) && found.verdict == Verdict::Fine {
        found.verdict = Verdict::Advice;
    }
    if found.verdict != Verdict::Fine {
        let text = "see the fixes of netdev, and spread the card's queues over more CPUs: nic_irq, rps";
        found.fixes.push(Fix::Advice(text.into()));
    }
    Ok(found)
}

/// A CPU's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Softnet {
    cpu: u64,
    processed: u64,
    dropped: u64,
    squeezed: u64,
}

/// The lines of `/proc/net/softnet_stat`: hexadecimal, one for each CPU that is online, its number in the 13th column
/// (since 5.10; before, the lines were those of CPU 0, 1, ...).
fn softnet_stat(text: &str) -> Vec<Softnet> {
    let line = |(nth, line): (usize, &str)| {
        let columns: Option<Vec<u64>> =
            line.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok().map(u64::from)).collect();
        let columns = columns?;
        let [processed, dropped, squeezed, ..] = columns[..] else { return None };
        let cpu = columns.get(12).copied().unwrap_or(nth as u64);
        Some(Softnet { cpu, processed, dropped, squeezed })
    };
    text.lines().enumerate().filter_map(line).collect()
}

fn squeezed(cpus: &[Softnet]) -> bool {
    cpus.iter().any(|cpu| cpu.squeezed.saturating_mul(SQUEEZED_PER) > cpu.processed)
}

/// The most that a connection's window grows to: 10 Gbit/s over 13 ms.
const MEMORY_MAX: u64 = 16 << 20;

/// A connection's buffers at its start: above, idle ones are expensive.
const RMEM_START_MAX: u64 = 256 << 10;
const WMEM_START_MAX: u64 = 128 << 10;

fn memory(look: Look<'_>, name: &str, start_max: u64) -> Result<Found, Found> {
    let want = format!("{name}: the last at least {MEMORY_MAX}, the middle one at most {start_max}");
    // Not net.core.rmem_max: it bounds what a program asks for, and the gateway leaves it to the kernel.
    let [least, start, most] = numbers(look, name, &want)?;
    let read = format!("{name} = {least} {start} {most}");
    if most >= MEMORY_MAX && start <= start_max {
        return Ok(Found::fine(read, want));
    }
    let verdict = match look.plan.profile {
        Profile::Throughput if most < MEMORY_MAX => Verdict::Warning,
        _ => Verdict::Advice,
    };
    let start = if start > start_max { start_max / 2 } else { start };
    let value = format!("{least} {start} {}", most.max(MEMORY_MAX));
    Ok(Found::wrong(verdict, read, want, set(look, name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_counts_are_hexadecimal_and_name_their_cpu() {
        let text = "02cbb52c 00000006 0000000f 00000000 0 0 0 0 0 0 0 0 00000002 0 0\n000000ff 00000000 00000001";
        let want = [
            Softnet { cpu: 2, processed: 0x02cb_b52c, dropped: 6, squeezed: 15 },
            Softnet { cpu: 1, processed: 255, dropped: 0, squeezed: 1 },
        ];
        assert_eq!(softnet_stat(text), want);
        assert!(squeezed(&want));
        assert!(!squeezed(&want[..1]));
        assert_eq!(softnet_stat("nothing here\n12 34"), []);
    }
}
