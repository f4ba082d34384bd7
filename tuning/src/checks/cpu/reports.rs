//! What is told and never changed: mitigations, and time that a hypervisor gave to others.

use std::thread;
use std::time::Duration;

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::settled;
use crate::fix::Fix;
use crate::host::Reading;

use super::CPUS;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "mitigations",
        area: Area::Cpu,
        why: "what guards against leaks between programs slows every system call; whether to do without is no matter of speed alone",
        run: |look| settled(mitigations(look)),
    },
    Check {
        id: "steal",
        area: Area::Cpu,
        why: "while the hypervisor runs somebody else on this CPU, a shard stands still and does not know it",
        run: |look| settled(steal(look)),
    },
];

fn mitigations(look: Look<'_>) -> Result<Found, Found> {
    let want = "whatever the machine's owner decides";
    let directory = format!("{CPUS}/vulnerabilities");
    let names = look.host.list(&directory).map_err(|why| Found::unread(why, want))?;
    if names.is_empty() {
        return Err(Found::not_applicable("the kernel tells of none"));
    }
    let (mut mitigated, mut vulnerable) = (0, Vec::new());
    for name in &names {
        let state = look.host.read(format!("{directory}/{name}"));
        let state = state.text().unwrap_or_default();
        if state.starts_with("Mitigation") {
            mitigated += 1;
        } else if state.starts_with("Vulnerable") {
            vulnerable.push(name.as_str());
        }
    }
    let switch =
        look.host.boot_parameter("mitigations").map(|value| format!("mitigations={value}; ")).unwrap_or_default();
    let mut read = format!("{switch}{mitigated} in force, of {} known faults", names.len());
    if !vulnerable.is_empty() {
        read.push_str(&format!("; open to {}", vulnerable.join(", ")));
    }
    Ok(Found::fine(read, want))
}

/// Between two looks at a live host: at 100 ticks a second and a CPU, a percent of it can be told.
const BETWEEN: Duration = Duration::from_millis(500);

/// Stolen of a hundred ticks: beyond this a neighbour is felt.
const STOLEN_PERCENT_MAX: f64 = 1.0;

/// Beyond this the gateway's own latencies mean little.
const STOLEN_PERCENT_BAD: f64 = 5.0;

fn steal(look: Look<'_>) -> Result<Found, Found> {
    let want = format!("at most {STOLEN_PERCENT_MAX} % of the CPUs' time");
    let first = ticks(look, &want)?;
    let (stolen, total, when) = if look.host.is_live() {
        thread::sleep(BETWEEN);
        let second = ticks(look, &want)?;
        let stolen = second.0.saturating_sub(first.0);
        (stolen, second.1.saturating_sub(first.1), format!("within {BETWEEN:?}"))
    } else {
        (first.0, first.1, "since the start".to_owned())
    };
    let percent = |stolen: u64, total: u64| 100.0 * stolen as f64 / total.max(1) as f64;
    let now = percent(stolen, total);
    let read = if look.host.is_live() {
        format!("{now:.1} % stolen {when}, {:.1} % since the start", percent(first.0, first.1))
    } else {
        format!("{now:.1} % stolen {when}")
    };
    if now <= STOLEN_PERCENT_MAX {
        return Ok(Found::fine(read, want));
    }
    let verdict = if now > STOLEN_PERCENT_BAD { Verdict::Warning } else { Verdict::Advice };
    let fix = "a machine whose CPUs are not shared: dedicated cores, or a type of instance without bursts";
    Ok(Found::wrong(verdict, read, want, vec![Fix::Advice(fix.into())]))
}

/// Those stolen and all of them, of all CPUs since the start.
fn ticks(look: Look<'_>, want: &str) -> Result<(u64, u64), Found> {
    match look.host.read("/proc/stat") {
        Reading::Text(text) => parse_ticks(&text).ok_or_else(|| Found::unread("/proc/stat does not tell", want)),
        reading => Err(Found::without(&reading, "the kernel does not count", want)),
    }
}

fn parse_ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    // Guests' time, which follows, is part of the first two already.
    let all = ticks.get(..8)?;
    Some((all[7], all.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_time_is_not_counted_twice() {
        assert_eq!(parse_ticks("cpu  10 0 10 70 5 0 0 5 10 0\ncpu0 1 2 3\n"), Some((5, 100)));
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(parse_ticks(text), None, "{text}");
        }
    }
}
