//! How the kernel handles pages.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{
    chosen, number, only_for_latency, only_of_its_own, settled, shown, sysctl, text, worst_for_latency,
};
use crate::fix::{Fix, Knob};

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "thp",
        area: Area::Memory,
        why: "a huge page is made by moving small ones together, for which a shard stands still; the gateway asks for none",
        run: |look| settled(enabled(look)),
    },
    Check {
        id: "thp_defrag",
        area: Area::Memory,
        why: "a page fault that may wait for memory to be put in order takes milliseconds",
        run: |look| settled(defrag(look)),
    },
    Check {
        id: "overcommit",
        area: Area::Memory,
        why: "an allocator reserves more than it uses: where that is refused, the process ends while there is memory",
        run: |look| settled(overcommit(look)),
    },
    Check {
        id: "zone_reclaim",
        area: Area::Memory,
        why: "a node that looks for pages of its own before it takes another node's holds up whoever asked",
        run: |look| settled(zone_reclaim(look)),
    },
    Check {
        id: "ksm",
        area: Area::Memory,
        why: "a thread that looks for equal pages reads all memory and pushes what shards use out of the caches",
        run: |look| settled(ksm(look)),
    },
];

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage";

const NO_HUGE_PAGES: &str = "this kernel has no transparent huge pages";

/// Which word of a file of huge pages is chosen.
fn word(look: Look<'_>, file: &str, want: &str) -> Result<String, Found> {
    let path = format!("{HUGE}/{file}");
    let text = text(look, &path, NO_HUGE_PAGES, want)?;
    let chosen = chosen(&text).map(str::to_owned);
    chosen.ok_or_else(|| Found::unread(format!("{path} holds {}", shown(&text)), want))
}

fn enabled(look: Look<'_>) -> Result<Found, Found> {
    let want = "madvise or never";
    only_of_its_own(look)?;
    let word = word(look, "enabled", want)?;
    let read = format!("transparent huge pages: {word}");
    if word != "always" {
        return Ok(Found::fine(read, want));
    }
    let fix = Fix::Knob(Knob::file(format!("{HUGE}/enabled"), "madvise"));
    Ok(Found::wrong(worst_for_latency(look), read, want, vec![fix]))
}

fn defrag(look: Look<'_>) -> Result<Found, Found> {
    let want = "anything but always";
    only_of_its_own(look)?;
    if word(look, "enabled", want)? == "never" {
        return Err(Found::not_applicable("huge pages are off"));
    }
    let word = word(look, "defrag", want)?;
    let read = format!("huge pages at a page fault: {word}");
    if word != "always" {
        return Ok(Found::fine(read, want));
    }
    let fix = Fix::Knob(Knob::file(format!("{HUGE}/defrag"), "defer+madvise"));
    Ok(Found::wrong(worst_for_latency(look), read, want, vec![fix]))
}

fn overcommit(look: Look<'_>) -> Result<Found, Found> {
    let (name, want) = ("vm.overcommit_memory", "vm.overcommit_memory = 0 or 1");
    let value = sysctl(look, name, want)?;
    let read = format!("{name} = {value}");
    if value < 2 {
        return Ok(Found::fine(read, want));
    }
    let fix = match only_of_its_own(look) {
        Ok(()) => Fix::Knob(Knob::sysctl(name, 0)),
        // Others may rely on it.
        Err(_) => Fix::Advice("raise vm.overcommit_ratio so far that /proc/meminfo's CommitLimit leaves room".into()),
    };
    Ok(Found::wrong(Verdict::Warning, read, want, vec![fix]))
}

fn zone_reclaim(look: Look<'_>) -> Result<Found, Found> {
    let (name, want) = ("vm.zone_reclaim_mode", "vm.zone_reclaim_mode = 0");
    only_of_its_own(look)?;
    if look.topology().is_ok_and(|topology| topology.nodes.len() < 2) {
        return Err(Found::not_applicable("the machine has one NUMA node"));
    }
    let value = sysctl(look, name, want)?;
    let read = format!("{name} = {value}");
    if value == 0 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Warning, read, want, vec![Fix::Knob(Knob::sysctl(name, 0))]))
}

fn ksm(look: Look<'_>) -> Result<Found, Found> {
    const RUN: &str = "/sys/kernel/mm/ksm/run";
    let want = "0: pages are not compared";
    only_for_latency(look, "it costs microseconds now and then, and may be what makes room for the page cache")?;
    let value = number(look, RUN, "this kernel does not compare pages", want)?;
    let read = format!("{RUN} = {value}");
    // 2 gives back what was merged, and stops.
    if value != 1 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Knob(Knob::file(RUN, 0))]))
}
