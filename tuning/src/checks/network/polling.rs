//! Asking the card instead of being interrupted by it.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::plan::Profile;

use super::cards;
use super::settings::{number, set, settled};

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "busy_poll",
        area: Area::Network,
        why: "lets poll, select and epoll ask the card; a gateway waits in io_uring, which does not, so it only takes CPU \
              from others",
        run: |look| settled(busy_poll(look)),
    },
    Check {
        id: "busy_read",
        area: Area::Network,
        why: "makes each read that finds nothing ask the card once: an experiment for a dedicated host, a waste elsewhere",
        run: |look| settled(busy_read(look)),
    },
    Check {
        id: "defer_irq",
        area: Area::Network,
        why: "puts interrupts off for those who ask the card themselves; for a gateway, which does not, it is delay",
        run: |look| cards::each(look, "", defer_irq),
    },
];

fn busy_poll(look: Look<'_>) -> Result<Found, Found> {
    let want = "net.core.busy_poll = 0";
    let value = number(look, "net.core.busy_poll", want)?;
    let read = format!("net.core.busy_poll = {value}");
    if value == 0 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, "net.core.busy_poll", 0)))
}

/// Microseconds, as `tuned`'s network-latency has it.
const BUSY_READ_US: u64 = 50;

fn busy_read(look: Look<'_>) -> Result<Found, Found> {
    let latency = look.plan.profile == Profile::Latency;
    let want = match latency {
        true => {
            format!("net.core.busy_read = 0; up to {BUSY_READ_US} only where a run of the bench shows that it helps")
        }
        false => "net.core.busy_read = 0".to_owned(),
    };
    let value = number(look, "net.core.busy_read", &want)?;
    let read = format!("net.core.busy_read = {value}");
    if value == 0 || latency && value <= BUSY_READ_US {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, "net.core.busy_read", 0)))
}

fn defer_irq(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "gro_flush_timeout = 0 and napi_defer_hard_irqs = 0";
    let value = |name: &str| {
        let reading = look.host.read(format!("/sys/class/net/{card}/{name}"));
        let value = reading.text().and_then(|text| text.parse::<u64>().ok());
        value.ok_or_else(|| Found::without(&reading, &format!("this kernel has no {name}"), want))
    };
    let (flush_ns, defer) = (value("gro_flush_timeout")?, value("napi_defer_hard_irqs")?);
    let read = format!("{card}: gro_flush_timeout = {flush_ns}, napi_defer_hard_irqs = {defer}");
    if flush_ns == 0 && defer == 0 {
        return Ok(Found::fine(read, want));
    }
    let read = format!("{read}: up to {} us later", flush_ns / 1000);
    let verdict = if look.plan.profile == Profile::Latency { Verdict::Warning } else { Verdict::Advice };
    let fix = |name: &str| Fix::Nic(format!("echo 0 > /sys/class/net/{card}/{name}"));
    Ok(Found::wrong(verdict, read, want, vec![fix("napi_defer_hard_irqs"), fix("gro_flush_timeout")]))
}
