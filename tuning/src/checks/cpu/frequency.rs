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

/// A file that turns turbo on or off.
struct Switch {
    path: String,
    on: &'static str,
    off: &'static str,
}

/// The one switch of the driver, or the general one; those of each policy where there are only those.
fn turbo_switches(look: Look<'_>) -> Result<Vec<(Switch, String)>, Found> {
    let one = |path: String, on, off| {
        let value = look.host.read(&path).text()?.to_owned();
        Some(vec![(Switch { path, on, off }, value)])
    };
    let of_policies = || {
        let policies = each(look, &format!("{CPUS}/cpufreq"), "policy", "boost")?;
        Ok(policies.into_iter().map(|(path, value)| (Switch { path, on: "1", off: "0" }, value)).collect())
    };
    one(format!("{CPUS}/intel_pstate/no_turbo"), "0", "1")
        .or_else(|| one(format!("{CPUS}/cpufreq/boost"), "1", "0"))
        .map_or_else(of_policies, Ok)
}

fn turbo(look: Look<'_>) -> Result<Found, Found> {
    only_of_its_own(look)?;
    let flat = look.plan.flat_clock;
    let want = if flat { "off, for a flat clock" } else { "on; off with --flat-clock, for runs that are compared" };
    let switches = turbo_switches(look)?;
    if switches.is_empty() {
        return Err(Found::not_applicable(NO_SCALING));
    }
    let wanted = |switch: &Switch| if flat { switch.off } else { switch.on };
    let values: Vec<(String, String)> =
        switches.iter().map(|(switch, value)| (switch.path.clone(), value.clone())).collect();
    let read = match values.as_slice() {
        [(path, value)] => format!("{path} = {}", plain(value)),
        _ => counted(&values, "boost of each policy"),
    };
    if switches.iter().any(|(switch, value)| value != switch.on && value != switch.off) {
        return Err(Found::unread(read, want));
    }
    let wrong = switches.iter().filter(|(switch, value)| value != wanted(switch));
    let fixes: Vec<Fix> = wrong.map(|(switch, _)| Fix::Knob(Knob::file(&switch.path, wanted(switch)))).collect();
    if fixes.is_empty() {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, fixes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::{Plan, Profile};
    use crate::report::Severity;

    fn turbo_of(files: &[(&str, &str)], plan: &Plan) -> (Severity, Vec<String>) {
        let (_kept, host) = host(files);
        let found = settled(turbo(Look { host: &host, plan }));
        (Severity::of(&found.verdict), crate::fix::texts(&found.fixes))
    }

    #[test]
    fn turbo_is_wanted_unless_a_flat_clock_is() {
        let (fast, flat) = (Plan::default(), Plan { flat_clock: true, ..Plan::default() });
        let throughput = Plan { profile: Profile::Throughput, ..Plan::default() };
        let no_turbo = |value| [("/sys/devices/system/cpu/intel_pstate/no_turbo", value)];
        let boost = |value| [("/sys/devices/system/cpu/cpufreq/boost", value)];
        let echo = |value: &str, file: &str| vec![format!("echo {value} > /sys/devices/system/cpu/{file}")];
        assert_eq!(turbo_of(&no_turbo("0"), &fast), (Severity::Ok, vec![]));
        assert_eq!(turbo_of(&no_turbo("1"), &fast), (Severity::Advice, echo("0", "intel_pstate/no_turbo")));
        assert_eq!(turbo_of(&no_turbo("0"), &flat), (Severity::Advice, echo("1", "intel_pstate/no_turbo")));
        assert_eq!(turbo_of(&no_turbo("1"), &flat), (Severity::Ok, vec![]));
        assert_eq!(turbo_of(&boost("0"), &throughput), (Severity::Advice, echo("1", "cpufreq/boost")));
        assert_eq!(turbo_of(&boost("1"), &flat), (Severity::Advice, echo("0", "cpufreq/boost")));
        assert_eq!(turbo_of(&boost("maybe"), &fast).0, Severity::Unread);
        let shared = Plan { profile: Profile::Shared, ..Plan::default() };
        assert_eq!(turbo_of(&boost("0"), &shared).0, Severity::NotApplicable);
    }

    #[test]
    fn where_each_policy_has_a_switch_all_of_them_count() {
        let policies = [
            ("/sys/devices/system/cpu/cpufreq/policy0/boost", "1"),
            ("/sys/devices/system/cpu/cpufreq/policy1/boost", "0"),
            ("/sys/devices/system/cpu/cpufreq/policy2/boost", "0"),
        ];
        let fix = "echo 1 | tee /sys/devices/system/cpu/cpufreq/policy{1,2}/boost";
        assert_eq!(turbo_of(&policies, &Plan::default()), (Severity::Advice, vec![fix.into()]));
    }
}
