//! What `ringgate config` prints: every setting's value in force and where it came from.

use std::fmt;

use super::error::Source;
use super::sources::Given;
use super::table::{SETTINGS, Setting};

/// One setting in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The setting's name.
    pub name: &'static str,
    /// The heading it is listed under.
    pub section: &'static str,
    /// The value as it may be shown; `None`: unset.
    pub value: Option<String>,
    /// `flag`, `env`, `file` or `default`.
    pub source: &'static str,
    /// Where exactly: the flag, the variable, or the key and the file.
    pub from: String,
}

/// Every setting in force, in the table's order. [`Display`](fmt::Display) is the text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The settings.
    pub rows: Vec<Row>,
}

impl Report {
    /// Of what was gathered and checked.
    pub(super) fn new(given: &Given) -> Report {
        Report { rows: SETTINGS.iter().map(|setting| row(setting, given)).collect() }
    }

    /// The same for programs: `{"settings":[{"name","value","source","from"}]}`; an unset value is null.
    pub fn to_json(&self) -> serde_json::Value {
        let settings: Vec<_> = self
            .rows
            .iter()
            .map(
                |row| serde_json::json!({"name": row.name, "value": row.value, "source": row.source, "from": row.from}),
            )
            .collect();
        serde_json::json!({ "settings": settings })
    }
}

fn row(setting: &'static Setting, given: &Given) -> Row {
    let (value, source) = match given.get(setting.name) {
        Some((text, source)) => (Some(setting.shown(text.trim()).to_owned()), source),
        None => (None, &Source::Default),
    };
    // `store` may hold what `data` said.
    let from = match (setting.name, source) {
        ("store", source) if *source != Source::Default && given.contains_key("data") => "data".into(),
        _ => source.of(setting),
    };
    Row { name: setting.name, section: setting.section, value, source: source.kind(), from }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = "";
        for row in &self.rows {
            if row.section != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                writeln!(f, "{gap}# {}", row.section)?;
                section = row.section;
            }
            let value = row.value.as_deref().unwrap_or("(unset)");
            writeln!(f, "{:<28} = {value:<24} ({})", row.name, row.from)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::config::{Flags, Host, Loaded, load};

    fn loaded(flags: &[(&'static str, &str)], environment: &[(&str, &str)]) -> Loaded {
        let flags: Flags = flags.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        let environment: Vec<(OsString, OsString)> =
            environment.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        load(&flags, None, &environment, &Host { allowed_cpus: vec![0, 1], open_files: 4096 }).unwrap()
    }

    #[test]
    fn the_report_says_the_effective_value_and_where_it_came_from() {
        let report = loaded(&[("fsync", "never")], &[("RINGGATE_SPIN", "50us")]).report;
        let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap().clone();
        let seen = |name: &str| (row(name).value, row(name).source, row(name).from);
        assert_eq!(seen("fsync"), (Some("never".into()), "flag", "--fsync".into()));
        assert_eq!(seen("spin"), (Some("50us".into()), "env", "RINGGATE_SPIN".into()));
        assert_eq!(seen("shards"), (Some("2".into()), "default", "default".into()));
        assert_eq!(seen("cpus"), (Some("0,1".into()), "default", "default".into()));
        assert_eq!(seen("max_connections"), (Some("3584".into()), "default", "default".into()));
        assert_eq!(seen("ready_file"), (None, "default", "default".into()));
    }

    #[test]
    fn the_report_of_data_shows_the_store_it_stands_for() {
        let report = loaded(&[("data", "/var/lib/ringgate")], &[]).report;
        let store = report.rows.iter().find(|row| row.name == "store").unwrap();
        assert_eq!((store.value.as_deref(), store.from.as_str()), (Some("embedded:/var/lib/ringgate"), "data"));
    }

    #[test]
    fn text_and_json_list_every_setting_once() {
        let report = loaded(&[], &[]).report;
        let text = report.to_string();
        let json = report.to_json();
        let listed = json["settings"].as_array().unwrap();
        assert_eq!(listed.len(), crate::config::table::SETTINGS.len());
        for (row, listed) in report.rows.iter().zip(listed) {
            assert_eq!(listed["name"], row.name);
            let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(row.name)).count();
            assert_eq!(lines, 1, "{}", row.name);
        }
        assert!(text.contains("ready_file                   = (unset)"));
        assert!(json["settings"].as_array().unwrap().iter().any(|row| row["value"].is_null()));
    }
}
