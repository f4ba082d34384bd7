//! What is wrong with a configuration: always the field, the value, where it came from and what is allowed.

use std::fmt;
use std::path::PathBuf;

use super::table::Setting;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// A TOML file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl Source {
    /// The kind of source in one word: `flag`, `env`, `file` or `default`.
    pub fn kind(&self) -> &'static str {
        match self {
            Source::Flag => "flag",
            Source::Environment => "env",
            Source::File(_) => "file",
            Source::Default => "default",
        }
    }

    /// Where exactly this setting was given.
    pub fn of(&self, setting: &Setting) -> String {
        match self {
            Source::Flag => setting.flag(),
            Source::Environment => setting.variable(),
            Source::File(path) => format!("{} in {}", setting.name, path.display()),
            Source::Default => "default".into(),
        }
    }
}

/// Everything that is wrong with a configuration, a sentence for each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// One sentence each, at least one.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad configuration")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// A value that its own row refuses.
pub fn refused(setting: &Setting, value: &str, source: &Source, allowed: &str) -> String {
    let value = without_password(setting.shown(value));
    format!("{} = {value:?} (from {}) is refused; allowed: {allowed}", setting.name, source.of(setting))
}

/// A URL's `user:password@` is nobody's business.
pub fn without_password(value: &str) -> String {
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://********{}", &value[..scheme], &value[at..]),
        _ => value.to_owned(),
    }
}

/// `did you mean`, when something known is spelled nearly like this.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3)
        .map(|(_, candidate)| format!("; did you mean {candidate}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::find;

    #[test]
    fn a_refusal_names_field_value_source_and_what_is_allowed() {
        let setting = find("max_frame_size").unwrap();
        let text = refused(setting, "lots", &Source::Environment, &setting.allowed());
        for part in ["max_frame_size", "\"lots\"", "RINGGATE_MAX_FRAME_SIZE", "1KiB", "64MiB"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_masked() {
        let setting = find("store").unwrap();
        let text = refused(setting, "iggy://user:p@ss@host:1", &Source::Flag, "embedded:DIR");
        assert!(!text.contains("user") && !text.contains("p@ss"), "{text}");
        assert!(text.contains("iggy://********@host:1"), "{text}");
    }

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let known = ["max_frame_size", "fsync"];
        assert_eq!(nearest("max_frame_sise", known.into_iter()), "; did you mean max_frame_size?");
        assert_eq!(nearest("fync", known.into_iter()), "; did you mean fsync?");
        assert_eq!(nearest("something", known.into_iter()), "");
    }
}
