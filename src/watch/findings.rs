//! What is wrong, and since when.
//!
//! A [`Symptom`] says of one thing at one moment that it is wrong, that it is well, or that it is neither: between the two
//! bounds what was found before holds, so that a value at a bound does not come and go. What is not looked at any more
//! (a shard, a group, a limit) is well.

use std::collections::BTreeMap;

use crate::limits::FINDINGS_MAX;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a look.
    Warning,
    /// Clients are not served as they should be.
    Critical,
}

impl Severity {
    /// As the API says it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// How something is at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Wrong.
    Wrong(Severity),
    /// As before.
    Between,
    /// Well.
    Well,
}

impl Condition {
    /// Wrong above one bound and well below another.
    pub fn of(value: f64, wrong_above: f64, well_below: f64, severity: Severity) -> Condition {
        if value > wrong_above {
            Condition::Wrong(severity)
        } else if value < well_below {
            Condition::Well
        } else {
            Condition::Between
        }
    }
}

/// What is looked at, at one moment.
#[derive(Debug, Clone)]
pub struct Symptom {
    /// `loop_lag`, `stall`, `hot_shard`, `group_lag`, `limit_hit`, `store` or `lane`.
    pub kind: &'static str,
    /// `shard 1`, `group billing`, ...
    pub subject: String,
    /// How it is.
    pub condition: Condition,
    /// One sentence, where it is wrong.
    pub text: String,
    /// How many looks in a row must find it wrong before it is told, at least 1.
    pub looks: u32,
    /// How long it stays told after it was wrong last, in ms.
    pub stays_ms: i64,
    /// Since when it is wrong, where that is known better than by looking.
    pub since_ms: Option<i64>,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// As of the symptom.
    pub kind: &'static str,
    /// As of the symptom.
    pub subject: String,
    /// One sentence.
    pub text: String,
    /// In ms since the epoch.
    pub since_ms: i64,
}

/// What was found so far.
#[derive(Debug, Default)]
pub struct Findings {
    all: BTreeMap<(&'static str, String), Course>,
    left_out: usize,
    /// When the worst of them became what it is, in ms since the epoch.
    status_since_ms: Option<i64>,
    status: Option<Severity>,
}

#[derive(Debug)]
struct Course {
    finding: Finding,
    looks: u32,
    is_told: bool,
    wrong_last_ms: i64,
    seen_ms: i64,
}

impl Findings {
    /// Takes in everything that was looked at at this moment.
    pub fn look(&mut self, at_ms: i64, symptoms: Vec<Symptom>) {
        self.left_out = 0;
        for symptom in symptoms {
            self.take(at_ms, symptom);
        }
        self.all.retain(|_, course| course.seen_ms == at_ms);
        let status = self.told().map(|finding| finding.severity).max();
        if status != self.status || self.status_since_ms.is_none() {
            self.status = status;
            self.status_since_ms = Some(at_ms);
        }
    }

    fn take(&mut self, at_ms: i64, symptom: Symptom) {
        let key = (symptom.kind, symptom.subject.clone());
        match (symptom.condition, self.all.get_mut(&key)) {
            (Condition::Wrong(severity), Some(course)) => {
                course.looks += 1;
                course.is_told |= course.looks >= symptom.looks;
                (course.wrong_last_ms, course.seen_ms) = (at_ms, at_ms);
                (course.finding.severity, course.finding.text) = (severity, symptom.text);
            }
            (Condition::Wrong(severity), None) => {
                if self.all.len() >= FINDINGS_MAX {
                    self.left_out += 1;
                    return;
                }
                let since_ms = symptom.since_ms.unwrap_or(at_ms);
                let (kind, subject, text) = (symptom.kind, symptom.subject, symptom.text);
                let finding = Finding { severity, kind, subject, text, since_ms };
                let is_told = symptom.looks <= 1;
                self.all.insert(key, Course { finding, looks: 1, is_told, wrong_last_ms: at_ms, seen_ms: at_ms });
            }
            (Condition::Between, Some(course)) if course.is_told => course.seen_ms = at_ms,
            (Condition::Well, Some(course)) if course.is_told && at_ms - course.wrong_last_ms < symptom.stays_ms => {
                course.seen_ms = at_ms;
            }
            (Condition::Between | Condition::Well, _) => {}
        }
    }

    /// What is to be told, by kind and subject.
    fn told(&self) -> impl Iterator<Item = &Finding> {
        self.all.values().filter(|course| course.is_told).map(|course| &course.finding)
    }

    /// What is to be told, the worst first and the oldest first of those.
    pub fn worst_first(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.told().collect();
        all.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.since_ms.cmp(&b.since_ms)));
        all
    }

    /// How many there were more than are kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The worst of all, and since when that is so; not known before the first look.
    pub fn status(&self) -> (Option<Severity>, Option<i64>) {
        (self.status, self.status_since_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symptom(value: f64) -> Symptom {
        Symptom {
            kind: "loop_lag",
            subject: "shard 0".into(),
            condition: Condition::of(value, 25.0, 10.0, Severity::Warning),
            text: format!("{value} ms"),
            looks: 2,
            stays_ms: 0,
            since_ms: None,
        }
    }

    fn looked(values: &[f64]) -> Findings {
        let mut findings = Findings::default();
        for (nth, value) in (0..).zip(values) {
            findings.look(nth * 5_000, vec![symptom(*value)]);
        }
        findings
    }

    #[test]
    fn once_is_no_finding_where_two_looks_are_asked_for() {
        assert!(looked(&[30.0]).worst_first().is_empty());
        assert!(looked(&[30.0, 20.0, 30.0]).worst_first().is_empty(), "not in a row");
        let findings = looked(&[1.0, 30.0, 40.0]);
        let found = findings.worst_first();
        assert_eq!((found.len(), found[0].since_ms, &*found[0].text), (1, 5_000, "40 ms"));
    }

    #[test]
    fn between_the_bounds_a_finding_stays_and_below_the_lower_one_it_goes() {
        assert_eq!(looked(&[30.0, 30.0, 20.0, 15.0]).worst_first().len(), 1);
        assert!(looked(&[30.0, 30.0, 9.0]).worst_first().is_empty());
        assert!(looked(&[20.0, 20.0]).worst_first().is_empty(), "it never was wrong");
    }

    #[test]
    fn what_is_told_for_a_while_stays_that_long_and_keeps_its_beginning() {
        let hit = |condition| Symptom { condition, looks: 1, stays_ms: 60_000, ..symptom(0.0) };
        let mut findings = Findings::default();
        findings.look(0, vec![hit(Condition::Wrong(Severity::Warning))]);
        findings.look(55_000, vec![hit(Condition::Well)]);
        assert_eq!(findings.worst_first()[0].since_ms, 0);
        findings.look(60_000, vec![hit(Condition::Well)]);
        assert!(findings.worst_first().is_empty());
    }

    #[test]
    fn the_status_is_the_worst_and_says_since_when() {
        let mut findings = Findings::default();
        assert_eq!(findings.status(), (None, None));
        findings.look(1, vec![]);
        assert_eq!(findings.status(), (None, Some(1)));
        let wrong = |subject: &str, severity| Symptom {
            subject: subject.into(),
            condition: Condition::Wrong(severity),
            looks: 1,
            ..symptom(0.0)
        };
        findings.look(2, vec![wrong("a", Severity::Warning)]);
        findings.look(3, vec![wrong("a", Severity::Warning), wrong("b", Severity::Critical)]);
        assert_eq!(findings.status(), (Some(Severity::Critical), Some(3)));
        assert_eq!(findings.worst_first().iter().map(|f| &*f.subject).collect::<Vec<_>>(), ["b", "a"]);
        findings.look(4, vec![wrong("a", Severity::Warning)]);
        assert_eq!(findings.status(), (Some(Severity::Warning), Some(4)));
    }

    #[test]
    fn what_is_not_looked_at_any_more_goes_and_more_than_the_bound_are_counted() {
        let wrong = |n: usize| Symptom {
            subject: format!("group {n}"),
            condition: Condition::Wrong(Severity::Warning),
            looks: 1,
            ..symptom(0.0)
        };
        let mut findings = Findings::default();
        findings.look(1, (0..FINDINGS_MAX + 7).map(wrong).collect());
        assert_eq!((findings.worst_first().len(), findings.left_out()), (FINDINGS_MAX, 7));
        findings.look(2, vec![wrong(3)]);
        assert_eq!((findings.worst_first().len(), findings.left_out()), (1, 0));
    }
}
