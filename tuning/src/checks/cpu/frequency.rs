//! How fast CPUs run.

use super::CPUS;
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{only_of_its_own, settled, shown, worst_for_latency};
use crate::fix::{Fix, Knob};

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "governor",
        area: Area::Cpu,
        why: "a core that has slowed down while it waited takes tens of microseconds to be fast again",
        run: |look| settled(governor(look)),
    },
    Check {
        id: "epp",
        area: Area::Cpu,
        why: "processors that choose their own speed go by this preference, and save power unless it says otherwise",
        run: |look| settled(epp(look)),
    },
    Check {
        id: "epb",
        area: Area::Cpu,
        why: "the processor's bias between speed and power also decides how soon a core slows down",
        run: |look| settled(epb(look)),
    },
    Check {
        id: "turbo",
        area: Area::Cpu,
        why: "with it cores are faster while few are busy; without it they are slower and every run of a bench is alike",
        run: |look| settled(turbo(look)),
    },
];

const NO_SCALING: &str = "the kernel does not set these processors' speed: firmware or a hypervisor does";

/// A file of each of several directories, and what it holds.
fn each(look: Look<'_>, directory: &str, prefix: &str, file: &str) -> Result<Vec<(String, String)>, Found> {
    let names = look.host.list(directory).map_err(|why| Found::unread(why, ""))?;
    let is_one = |name: &&String| {
        name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
    };
    let paths = names.iter().filter(is_one).map(|name| format!("{directory}/{name}/{file}"));
    Ok(paths.filter_map(|path| Some((path.clone(), look.host.read(path).text()?.to_owned()))).collect())
}

/// How many hold what: `performance on 2, powersave on 14`.
fn counted(values: &[(String, String)], what: &str) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    values.iter().for_each(|(_, value)| *counts.entry(value).or_default() += 1);
    let counts: Vec<String> =
        counts.iter().take(5).map(|(value, count)| format!("{} on {count}", plain(value))).collect();
    format!("{what}: {}", counts.join(", "))
}

/// A word as it is; anything else quoted and short.
fn plain(value: &str) -> String {
    let is_word = value.len() <= 30 && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if is_word && !value.is_empty() { value.to_owned() } else { shown(value) }
}

fn governor(look: Look<'_>) -> Result<Found, Found> {
    let want = "performance for every policy";
    only_of_its_own(look)?;
    let policies = each(look, &format!("{CPUS}/cpufreq"), "policy", "scaling_governor")?;
    if policies.is_empty() {
        return Err(Found::not_applicable(NO_SCALING));
    }
    let read = counted(&policies, "governors");
    let wrong: Vec<&String> =
        policies.iter().filter(|(_, value)| value != "performance").map(|(path, _)| path).collect();
    if wrong.is_empty() {
        return Ok(Found::fine(read, want));
    }
    let fixes = wrong.into_iter().map(|path| {
        let available = look.host.read(path.replace("scaling_governor", "scaling_available_governors"));
        let has_it = available.text().is_none_or(|text| text.split_whitespace().any(|one| one == "performance"));
        if has_it {
            Fix::Knob(Knob::file(path, "performance"))
        } else {
            Fix::Advice("modprobe cpufreq_performance, and write `performance` to every scaling_governor".into())
        }
    });
    let mut fixes: Vec<Fix> = fixes.collect();
    fixes.dedup();
    Ok(Found::wrong(worst_for_latency(look), read, want, fixes))
}

fn epp(look: Look<'_>) -> Result<Found, Found> {
    let want = "performance for every policy";
    only_of_its_own(look)?;
    let policies = each(look, &format!("{CPUS}/cpufreq"), "policy", "energy_performance_preference")?;
    if policies.is_empty() {
        return Err(Found::not_applicable("these processors take no preference between speed and power"));
    }
    let read = counted(&policies, "preferences");
    // Some drivers show the number: 0 is performance.
    let wrong = policies.iter().filter(|(_, value)| value != "performance" && value != "0");
    let fixes: Vec<Fix> = wrong.map(|(path, _)| Fix::Knob(Knob::file(path, "performance"))).collect();
    if fixes.is_empty() {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, fixes))
}

fn epb(look: Look<'_>) -> Result<Found, Found> {
    let want = "0 (performance) on every CPU";
    only_of_its_own(look)?;
    let cpus = each(look, CPUS, "cpu", "power/energy_perf_bias")?;
    if cpus.is_empty() {
        return Err(Found::not_applicable("these processors have no such bias"));
    }
    let read = counted(&cpus, "biases");
    let wrong = cpus.iter().filter(|(_, value)| value != "0" && value != "performance");
    let fixes: Vec<Fix> = wrong.map(|(path, _)| Fix::Knob(Knob::file(path, 0))).collect();
    if fixes.is_empty() {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, fixes))
}

fn turbo(look: Look<'_>) -> Result<Found, Found> {
    let want = "on, unless runs are to be compared with each other";
    only_of_its_own(look)?;
    // Whether it is on, by the driver's own switch or the general one.
    let switches = [(format!("{CPUS}/intel_pstate/no_turbo"), "0"), (format!("{CPUS}/cpufreq/boost"), "1")];
    for (path, on) in switches {
        let reading = look.host.read(&path);
        let Some(value) = reading.text() else { continue };
        let read = format!("{path} = {}", plain(value));
        return match value {
            value if value == on => Ok(Found::fine(read, want)),
            // Whoever turned it off chose so: nothing is written.
            "0" | "1" => {
                Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice(Knob::file(path, on).command())]))
            }
            _ => Err(Found::unread(read, want)),
        };
    }
    Err(Found::not_applicable(NO_SCALING))
}
