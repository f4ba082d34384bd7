//! What is looked at, and from where on it is wrong.

use super::census::Census;
use super::findings::{Condition, Severity, Symptom};
use super::sample::{Sample, Step};

/// A shard that takes longer to look at its work than this keeps its clients waiting, in ms.
const LOOP_LAG_MS: f64 = 25.0;
/// Below this it is well again.
const LOOP_LAG_WELL_MS: f64 = 10.0;
/// A shard that takes this long serves nobody.
const LOOP_LAG_CRITICAL_MS: f64 = 1_000.0;
/// A shard is hot when it uses more than this of its CPU, and more than [`HOT_RATIO`] of what the others do.
const HOT_CPU: f64 = 0.5;
/// Against the mean of the other shards.
const HOT_RATIO: f64 = 2.0;
/// It is hot no more below this.
const HOT_CPU_WELL: f64 = 0.4;
/// Or below this ratio.
const HOT_RATIO_WELL: f64 = 1.5;
/// The lease is renewed every 5 s and is good for 10: with less than this left a renewal is late, in s.
const LEASE_SHORT_S: f64 = 3.0;
/// With this much left it has been renewed.
const LEASE_WELL_S: f64 = 4.0;
/// A disk that takes longer than this over one sync of a hundred is slow, in ms.
const SYNC_MS: f64 = 100.0;
/// It is well below this.
const SYNC_WELL_MS: f64 = 50.0;
/// How long what happens at a moment stays told, in ms.
const STAYS_MS: i64 = 60_000;

/// Everything that is looked at.
pub fn symptoms(sample: &Sample, step: &Step, census: Option<&Census>, shards: usize) -> Vec<Symptom> {
    let mut all = Vec::new();
    loop_lag(&mut all, sample);
    stalls(&mut all, step);
    hot_shards(&mut all, step);
    limits(&mut all, sample, step);
    silent(&mut all, sample, shards);
    lanes(&mut all, sample, step);
    slow_store(&mut all, step);
    if let Some(census) = census {
        groups(&mut all, census);
        closed_logs(&mut all, census);
    }
    all
}

fn symptom(kind: &'static str, subject: String, condition: Condition, text: String) -> Symptom {
    Symptom { kind, subject, condition, text, looks: 1, stays_ms: 0, since_ms: None }
}

fn wrong_if(is_wrong: bool, severity: Severity) -> Condition {
    if is_wrong { Condition::Wrong(severity) } else { Condition::Well }
}

fn loop_lag(all: &mut Vec<Symptom>, sample: &Sample) {
    for (shard, lag) in sample.loop_lags.iter().enumerate() {
        let ms = lag.as_secs_f64() * 1000.0;
        let severity = if ms > LOOP_LAG_CRITICAL_MS { Severity::Critical } else { Severity::Warning };
        let condition = Condition::of(ms, LOOP_LAG_MS, LOOP_LAG_WELL_MS, severity);
        let text = format!("Shard {shard} took {ms:.0} ms to look at its work, so its clients wait.");
        all.push(Symptom { looks: 2, ..symptom("loop_lag", format!("shard {shard}"), condition, text) });
    }
}

fn stalls(all: &mut Vec<Symptom>, step: &Step) {
    for (shard, of) in step.shards.iter().enumerate() {
        let condition = wrong_if(of.stalls > 0, Severity::Warning);
        let text = format!("Shard {shard} did not run for over 250 ms.");
        all.push(Symptom { stays_ms: STAYS_MS, ..symptom("stall", format!("shard {shard}"), condition, text) });
    }
}

fn hot_shards(all: &mut Vec<Symptom>, step: &Step) {
    let cpus: Option<Vec<f64>> = step.shards.iter().map(|shard| shard.cpu).collect();
    let Some(cpus) = cpus.filter(|cpus| cpus.len() > 1) else { return };
    let sum: f64 = cpus.iter().sum();
    for (shard, cpu) in cpus.iter().enumerate() {
        let others = (sum - cpu) / (cpus.len() - 1) as f64;
        let condition = if *cpu > HOT_CPU && *cpu > HOT_RATIO * others {
            Condition::Wrong(Severity::Warning)
        } else if *cpu < HOT_CPU_WELL || *cpu < HOT_RATIO_WELL * others {
            Condition::Well
        } else {
            Condition::Between
        };
        let (used, mean) = (cpu * 100.0, others * 100.0);
        let text = format!("Shard {shard} uses {used:.0} % of a CPU, the others {mean:.0} % each.");
        all.push(Symptom { looks: 2, ..symptom("hot_shard", format!("shard {shard}"), condition, text) });
    }
}

fn limits(all: &mut Vec<Symptom>, sample: &Sample, step: &Step) {
    for (limit, met) in sample.limits() {
        let now = step.limits.iter().find(|(name, _)| *name == limit).map_or(0, |(_, count)| *count);
        let text = format!("Clients met the limit {limit}, {met} times since the start.");
        let condition = wrong_if(now > 0, Severity::Warning);
        all.push(Symptom { stays_ms: STAYS_MS, ..symptom("limit_hit", format!("limit {limit}"), condition, text) });
    }
}

fn silent(all: &mut Vec<Symptom>, sample: &Sample, shards: usize) {
    let condition = wrong_if(sample.shards.len() < shards, Severity::Critical);
    let text = "A shard did not answer within 5 s.".to_string();
    all.push(symptom("stall", "shards".into(), condition, text));
}

fn lanes(all: &mut Vec<Symptom>, sample: &Sample, step: &Step) {
    let Some(lane) = sample.shards.iter().find_map(|shard| shard.report.lane.as_ref()) else { return };
    let left = lane.lease.as_secs_f64();
    let severity = if lane.lease.is_zero() { Severity::Critical } else { Severity::Warning };
    let condition = Condition::of(-left, -LEASE_SHORT_S, -LEASE_WELL_S, severity);
    let text = match lane.lease.is_zero() {
        true => "No group is answered: Iggy has not confirmed the lease for 10 s.".to_string(),
        false => format!("The lease is good for {left:.0} s more: Iggy is late to confirm it."),
    };
    all.push(symptom("lane", "lease".into(), condition, text));
    let text = format!("{} calls on Iggy failed in 5 s; most are tried again.", step.lane_failures);
    let condition = wrong_if(step.lane_failures > 0, Severity::Warning);
    all.push(Symptom { looks: 2, ..symptom("lane", "calls".into(), condition, text) });
}

fn slow_store(all: &mut Vec<Symptom>, step: &Step) {
    let Some(p99) = step.synced.p99 else { return };
    let condition = Condition::of(p99, SYNC_MS, SYNC_WELL_MS, Severity::Warning);
    let text = format!("One sync of a hundred takes {p99:.0} ms and more, and commits and acks=all wait for it.");
    all.push(Symptom { looks: 2, stays_ms: STAYS_MS, ..symptom("store", "sync".into(), condition, text) });
}

fn groups(all: &mut Vec<Symptom>, census: &Census) {
    for group in census.by_lag() {
        let Some(since_ms) = group.trend.growing_since_ms() else { continue };
        let lag = group.lag.unwrap_or_default();
        let text = format!("Its lag has grown for over a minute and is {lag} records.");
        let condition = Condition::Wrong(Severity::Warning);
        let found = symptom("group_lag", format!("group {}", group.group), condition, text);
        all.push(Symptom { since_ms: Some(since_ms), ..found });
    }
}

fn closed_logs(all: &mut Vec<Symptom>, census: &Census) {
    for seen in census.topics.iter().filter(|seen| seen.closed > 0) {
        let text = format!("A failed write has closed {} of its partitions until the next start.", seen.closed);
        let condition = Condition::Wrong(Severity::Critical);
        all.push(symptom("store", format!("topic {}", seen.topic.name), condition, text));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::sample::ShardStep;
    use super::*;

    fn wrong(all: &[Symptom]) -> Vec<(&'static str, &str)> {
        let is_wrong = |symptom: &&Symptom| matches!(symptom.condition, Condition::Wrong(_));
        all.iter().filter(is_wrong).map(|symptom| (symptom.kind, &*symptom.subject)).collect()
    }

    fn step(cpus: &[f64]) -> Step {
        let shard = |cpu: &f64| ShardStep { cpu: Some(*cpu), ..ShardStep::default() };
        Step { shards: cpus.iter().map(shard).collect(), ..Step::default() }
    }

    #[test]
    fn a_shard_is_hot_against_the_others_and_not_when_all_are_busy() {
        let hot = |cpus: &[f64]| {
            let mut all = Vec::new();
            hot_shards(&mut all, &step(cpus));
            wrong(&all).len()
        };
        assert_eq!(hot(&[0.9, 0.2]), 1, "of two");
        assert_eq!(hot(&[0.9, 0.2, 0.3, 0.2]), 1);
        assert_eq!(hot(&[0.9, 0.8, 0.9]), 0);
        assert_eq!(hot(&[0.3, 0.01]), 0, "nearly idle");
        assert_eq!(hot(&[0.9]), 0, "there are no others");
    }

    #[test]
    fn lag_of_the_loop_and_shards_that_say_nothing_are_wrong() {
        let sample = Sample {
            loop_lags: vec![Duration::from_millis(2), Duration::from_millis(30), Duration::from_secs(2)],
            ..Sample::default()
        };
        let all = symptoms(&sample, &Step::default(), None, 3);
        assert_eq!(wrong(&all), [("loop_lag", "shard 1"), ("loop_lag", "shard 2"), ("stall", "shards")]);
        assert_eq!(all[2].condition, Condition::Wrong(Severity::Critical));
    }

    #[test]
    fn a_limit_is_wrong_while_it_is_met_and_looked_at_as_long_as_it_was_ever() {
        let limits_hit = vec![("max_connections", 3)];
        let shard = crate::scrape::ShardScrape { limits_hit, ..crate::scrape::ShardScrape::default() };
        let sample = Sample { shards: vec![shard], ..Sample::default() };
        let met = Step { limits: vec![("max_connections", 2)], ..Step::default() };
        let all = symptoms(&sample, &met, None, 1);
        assert_eq!(wrong(&all), [("limit_hit", "limit max_connections")]);
        assert!(all.iter().any(|symptom| symptom.text.contains("3 times")));
        assert!(wrong(&symptoms(&sample, &Step::default(), None, 1)).is_empty());
    }
}
