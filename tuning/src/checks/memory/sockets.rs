//! What all sockets together may hold.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{settled, shown, sysctl_path, text};
use crate::fix::{Fix, Knob};
use crate::host::field;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "tcp_mem",
    area: Area::Memory,
    why: "above the second number the kernel shrinks every connection's window, above the third it drops what comes",
    run: |look| settled(tcp_mem(look)),
}];

/// What a connection holds at least while a request comes in and an answer goes out, in bytes.
const BYTES_AT_WORK: u64 = 32 << 10;

/// The kernel counts in pages of this size; where they are larger, more is allowed than is reckoned with here.
const PAGE_BYTES: u64 = 4 << 10;

/// Of the memory, the most that sockets should be able to take: a tenth. The kernel's own choice is just below.
const SHARE_MAX: u64 = 10;

fn tcp_mem(look: Look<'_>) -> Result<Found, Found> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_mem";
    let connections = look.plan.connections;
    let pages = |bytes: u64| connections.saturating_mul(bytes) / PAGE_BYTES;
    let buffers = bytes_of_buffers(look);
    let (at_work, wanted) = (pages(BYTES_AT_WORK), pages(buffers));
    let tenth = memory_bytes(look).map(|bytes| bytes / PAGE_BYTES / SHARE_MAX);
    let of_memory = tenth.map_or(String::new(), |tenth| format!(", and <= {tenth}, a tenth of the memory"));
    let want = format!(
        "pages: the third >= {wanted}, {} KiB of buffers for each of {connections} connections{of_memory}; the second >= \
         {at_work}, {} KiB for each at work",
        buffers >> 10,
        BYTES_AT_WORK >> 10
    );
    let absent = "it is a setting of the host, which this container does not see";
    let text = text(look, FILE, absent, &want)?;
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some(&[_, pressure, most]) = numbers.as_deref() else {
        return Err(Found::unread(format!("{FILE} holds {}", shown(&text)), want));
    };
    let mut read = format!("net.ipv4.tcp_mem = {}", text.split_whitespace().collect::<Vec<_>>().join(" "));
    let in_use = pages_in_use(look);
    if let Some(in_use) = in_use {
        read.push_str(&format!(", {in_use} pages in use"));
    }
    let verdict = if pressure < at_work || in_use.is_some_and(|in_use| in_use >= pressure) {
        Verdict::Warning
    } else if most < wanted || tenth.is_some_and(|tenth| most > tenth) {
        Verdict::Advice
    } else {
        return Ok(Found::fine(read, want));
    };
    let needed = wanted.max(pages(BYTES_AT_WORK * 3 / 2));
    let target = tenth.unwrap_or(needed);
    // In the proportions that the kernel itself chooses.
    let (low, high) = (target / 2, target / 3 * 2);
    let mut fixes = Vec::new();
    if most > target || most < needed.min(target) || pressure < at_work.min(high) {
        fixes.push(Fix::Knob(Knob::sysctl("net.ipv4.tcp_mem", format!("{low} {high} {target}"))));
    }
    if needed > target {
        fixes.push(Fix::Advice(format!(
            "more memory, fewer connections than {connections}, or less than {} KiB of buffers at a connection's start (the \
             middle numbers of net.ipv4.tcp_rmem and tcp_wmem): a tenth of this machine's memory does not hold all",
            buffers >> 10
        )));
    } else if fixes.is_empty() {
        // All that was planned for fits: what is there is something else.
        let in_use = in_use.unwrap_or_default();
        fixes.push(Fix::Advice(format!(
            "sockets hold {in_use} pages: slow readers, or more connections than the {connections} that are planned"
        )));
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

/// What a connection's two buffers may hold at its start, as this host has it.
fn bytes_of_buffers(look: Look<'_>) -> u64 {
    let start = |name: &str, kernels_own: u64| {
        let text = look.host.read(sysctl_path(name));
        text.text().and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(kernels_own)
    };
    start("net.ipv4.tcp_rmem", 128 << 10).saturating_add(start("net.ipv4.tcp_wmem", 16 << 10))
}

fn memory_bytes(look: Look<'_>) -> Option<u64> {
    let meminfo = look.host.read("/proc/meminfo");
    let kib: u64 = field(meminfo.text()?, "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// What all TCP sockets hold now: `TCP: inuse 9 orphan 0 tw 2 alloc 11 mem 3`.
fn pages_in_use(look: Look<'_>) -> Option<u64> {
    let sockstat = look.process_file("net/sockstat");
    let line = field(sockstat.text()?, "TCP")?;
    line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    const GIB_16: &str = "MemTotal:       16777216 kB\n";

    fn found(tcp_mem: &str, meminfo: &str, connections: u64, in_use: &str) -> (Severity, Vec<String>) {
        let (_kept, host) = host(&[
            ("/proc/sys/net/ipv4/tcp_mem", tcp_mem),
            ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456"),
            ("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304"),
            ("/proc/meminfo", meminfo),
            (
                "/proc/self/net/sockstat",
                &format!("sockets: used 9\nTCP: inuse 9 orphan 0 tw 2 alloc 11 mem {in_use}\n"),
            ),
        ]);
        let found = settled(tcp_mem_of(&host, connections));
        (Severity::of(&found.verdict), found.fixes.iter().map(Fix::text).collect())
    }

    fn tcp_mem_of(host: &crate::Host, connections: u64) -> Result<Found, Found> {
        super::tcp_mem(Look { host, plan: &Plan { connections, ..Plan::default() } })
    }

    #[test]
    fn all_buffers_of_all_connections_fit_and_take_no_more_than_a_tenth() {
        // A tenth of 16 GiB is 419,430 pages; 10,000 connections with 144 KiB each are 360,000.
        assert_eq!(found("190000 253000 380000", GIB_16, 10_000, "3"), (Severity::Ok, vec![]));
        let all = vec!["sysctl -w 'net.ipv4.tcp_mem=209715 279620 419430'".to_owned()];
        assert_eq!(found("100000 150000 200000", GIB_16, 10_000, "3"), (Severity::Advice, all.clone()), "too little");
        assert_eq!(found("400000 600000 800000", GIB_16, 10_000, "3"), (Severity::Advice, all.clone()), "too much");
        assert_eq!(found("9000 12000 380000", GIB_16, 10_000, "3"), (Severity::Warning, all), "not even at work");
        for fits in ["190000 253000 380000", "209715 279620 419430"] {
            let (severity, fixes) = found(fits, GIB_16, 10_000, "280000");
            assert_eq!(severity, Severity::Warning, "under pressure");
            assert!(fixes.len() == 1 && fixes[0].starts_with("sockets hold 280000 pages: slow readers"), "{fixes:?}");
        }
    }

    #[test]
    fn of_connections_that_a_tenth_of_the_memory_does_not_hold_as_many_are_held_as_can_be() {
        let all = "sysctl -w 'net.ipv4.tcp_mem=209715 279620 419430'";
        let (severity, fixes) = found("190000 253000 380000", GIB_16, 100_000, "3");
        assert_eq!((severity, fixes[0].as_str()), (Severity::Warning, all));
        assert!(fixes[1].starts_with("more memory, fewer connections than 100000"), "{fixes:?}");
        let (severity, fixes) = found("209715 279620 419430", GIB_16, 100_000, "3");
        assert!(severity == Severity::Warning && fixes.len() == 1, "nothing is left to be written: {fixes:?}");
    }

    #[test]
    fn where_nobody_knows_the_memory_what_is_needed_is_enough() {
        assert_eq!(
            found("1 2 3", "", 1_000, "?"),
            (Severity::Warning, vec!["sysctl -w 'net.ipv4.tcp_mem=18000 24000 36000'".into()])
        );
    }
}
