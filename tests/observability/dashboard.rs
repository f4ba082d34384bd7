//! The dashboard's file.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

fn dashboard() -> Value {
    serde_json::from_str(include_str!("../../docs/observability/dashboard.json")).expect("JSON")
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

/// The panels that show something.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "panels").iter().filter(|panel| text(panel, "type") != "row")
}

/// Every query with the panel it is of, as Grafana sends it when all is chosen.
pub fn queries() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let of_panels = panels(&dashboard)
        .flat_map(|panel| list(panel, "targets").iter().map(|target| (text(panel, "title"), text(target, "expr"))));
    let annotations = list(&dashboard["annotations"], "list").iter();
    let of_annotations = annotations.filter(|a| a["expr"].is_string()).map(|a| (text(a, "name"), text(a, "expr")));
    of_panels.chain(of_annotations).map(|(of, query)| (of.to_owned(), chosen(&dashboard, query))).collect()
}

fn chosen(dashboard: &Value, query: &str) -> String {
    let variables = list(&dashboard["templating"], "list").iter();
    let query = query.replace("$__rate_interval", "1m");
    let query = variables.fold(query, |query, variable| {
        query.replace(&format!("${}", text(variable, "name")), text(variable, "allValue"))
    });
    assert!(!query.contains('$'), "a variable that there is not: {query}");
    query
}

#[test]
fn panels_are_whole_and_side_by_side() {
    let dashboard = dashboard();
    let (mut ids, mut taken) = (HashSet::new(), HashSet::new());
    for panel in list(&dashboard, "panels") {
        let title = text(panel, "title");
        assert!(!title.is_empty(), "{panel}");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}: its id is another one's");
        let at = |key| panel["gridPos"][key].as_u64().unwrap_or_else(|| panic!("{title} has no {key}"));
        assert!(at("x") + at("w") <= 24, "{title} is beyond the right edge");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{title} covers another panel");
            }
        }
    }
    for panel in panels(&dashboard) {
        let title = text(panel, "title");
        assert!(text(panel, "description").ends_with('.'), "{title} says what it shows");
        assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty(), "{title} has a unit");
        assert!(!list(panel, "targets").is_empty(), "{title} shows nothing");
        let references: BTreeSet<&str> = list(panel, "targets").iter().map(|target| text(target, "refId")).collect();
        assert_eq!(references.len(), list(panel, "targets").len(), "{title}: one name for each query");
        for source in list(panel, "targets").iter().chain([panel]) {
            assert_eq!(text(&source["datasource"], "uid"), "${datasource}", "{title}");
        }
    }
}

#[test]
fn alerts_that_descriptions_name_are_there() {
    let dashboard = dashboard();
    let alerts = super::rules::names();
    for panel in panels(&dashboard) {
        let named = text(panel, "description").split(|c: char| !c.is_alphanumeric());
        for name in named.filter(|word| word.starts_with("Ringgate")) {
            assert!(alerts.iter().any(|alert| alert == name), "{}: there is no {name}", text(panel, "title"));
        }
    }
}
