//! The alerts' file.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    alert: String,
    expr: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn alerts() -> Vec<Alert> {
    let rules: Rules =
        serde_saphyr::from_str(include_str!("../../docs/observability/alerts.yml")).expect("a rule file");
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

pub fn names() -> Vec<String> {
    alerts().into_iter().map(|alert| alert.alert).collect()
}

/// Every expression with the alert it is of.
pub fn queries() -> Vec<(String, String)> {
    alerts().into_iter().map(|alert| (alert.alert, alert.expr)).collect()
}

#[test]
fn every_alert_says_how_urgent_it_is_and_has_a_runbook() {
    let manual = include_str!("../../docs/observability.md");
    for alert in alerts() {
        let name = &alert.alert;
        assert!(["page", "ticket"].contains(&alert.labels["severity"].as_str()), "{name}");
        assert!(!alert.annotations["summary"].is_empty() && !alert.annotations["description"].is_empty(), "{name}");
        let anchor = name.to_lowercase();
        assert_eq!(alert.annotations["runbook"], format!("observability.md#{anchor}"), "{name}");
        assert!(manual.contains(&format!("\n### {name}\n")), "{name} is not in the runbook");
    }
    let runbooks = manual.lines().filter_map(|line| line.strip_prefix("### Ringgate"));
    for name in runbooks {
        assert!(names().contains(&format!("Ringgate{name}")), "there is no alert Ringgate{name}");
    }
}
