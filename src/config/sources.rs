//! Gathering what was said about each setting: flag before environment before TOML before default.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::error::{ConfigError, Source, nearest, refused};
use super::table::{SETTINGS, Setting, VARIABLE_PREFIX, find};

/// The environment variable that names the TOML file.
pub const CONFIG_VARIABLE: &str = "RINGGATE_CONFIG";

/// What the command line said, by setting name, as it was written.
pub type Flags = HashMap<&'static str, String>;

/// The value in force of every setting that has one, as text, and where it came from.
pub type Given = BTreeMap<&'static str, (String, Source)>;

/// What was gathered.
#[derive(Debug)]
pub struct Gathered {
    /// The values in force.
    pub given: Given,
    /// What deserves a word but stops nothing.
    pub warnings: Vec<String>,
}

/// The TOML file to read: the flag's, else the environment's.
pub fn config_file(flag: Option<&str>, environment: &[(OsString, OsString)]) -> Option<OsString> {
    let variable = || {
        let (_, value) = environment.iter().find(|(name, _)| name == CONFIG_VARIABLE)?;
        Some(value.clone())
    };
    flag.map(OsString::from).or_else(variable).filter(|path| !path.is_empty())
}

/// Puts the sources together. `file` is the TOML file's path and text.
///
/// # Errors
/// TOML that cannot be read, keys that no setting has, values that are no text.
pub fn gather(
    flags: &Flags,
    environment: &[(OsString, OsString)],
    file: Option<(&Path, &str)>,
) -> Result<Gathered, ConfigError> {
    let mut problems = Vec::new();
    let mut given: Given = SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.name, (setting.default?.to_owned(), Source::Default))))
        .collect();
    if let Some((path, text)) = file {
        read_file(path, text, &mut given, &mut problems);
    }
    let warnings = read_environment(environment, &mut given, &mut problems);
    for (&name, value) in flags {
        given.insert(name, (value.clone(), Source::Flag));
    }
    if problems.is_empty() { Ok(Gathered { given, warnings }) } else { Err(ConfigError { problems }) }
}

fn read_file(path: &Path, text: &str, given: &mut Given, problems: &mut Vec<String>) {
    let table = match text.parse::<toml::Table>() {
        Ok(table) => table,
        Err(error) => return problems.push(format!("{} is not TOML: {}", path.display(), error.to_string().trim())),
    };
    let source = Source::File(path.to_owned());
    for (key, value) in table {
        let Some(setting) = find(&key) else {
            let near = nearest(&key, SETTINGS.iter().map(|setting| setting.name));
            problems.push(format!("{key} in {} is no setting{near}", path.display()));
            continue;
        };
        match toml_text(&value) {
            Some(text) => {
                given.insert(setting.name, (text, source.clone()));
            }
            None => problems.push(refused(
                setting,
                &value.to_string(),
                &source,
                &format!("{}, as a string, a whole number, a boolean or an array of strings", setting.allowed()),
            )),
        }
    }
}

/// A TOML value as the other sources would spell it.
fn toml_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Array(parts) => {
            let texts: Option<Vec<&str>> = parts.iter().map(toml::Value::as_str).collect();
            texts.map(|texts| texts.join(","))
        }
        _ => None,
    }
}

/// Takes the variables that name a setting and warns about the others: Kubernetes, among others, sets
/// variables that begin like ours.
fn read_environment(
    environment: &[(OsString, OsString)],
    given: &mut Given,
    problems: &mut Vec<String>,
) -> Vec<String> {
    let by_variable: HashMap<String, &'static Setting> =
        SETTINGS.iter().map(|setting| (setting.variable(), setting)).collect();
    let mut warnings = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
        if name == CONFIG_VARIABLE {
            continue;
        }
        match (by_variable.get(name), value.to_str()) {
            (Some(setting), Some(text)) => {
                given.insert(setting.name, (text.to_owned(), Source::Environment));
            }
            (Some(setting), None) => problems.push(refused(
                setting,
                &OsStr::to_string_lossy(value),
                &Source::Environment,
                &format!("{}, in UTF-8", setting.allowed()),
            )),
            (None, _) => {
                let near = nearest(&name[VARIABLE_PREFIX.len()..].to_lowercase(), SETTINGS.iter().map(|s| s.name));
                warnings.push(format!("environment variable {name} is no setting and is ignored{near}"));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn file(text: &str) -> Option<(&Path, &str)> {
        Some((Path::new("r.toml"), text))
    }

    fn value_of(gathered: &Gathered, name: &str) -> (String, &'static str) {
        let (value, source) = &gathered.given[name];
        (value.clone(), source.kind())
    }

    #[test]
    fn flag_wins_over_environment_over_file_over_default() {
        let flags = Flags::from([("fsync", "never".to_owned())]);
        let environment = env(&[("RINGGATE_FSYNC", "1s"), ("RINGGATE_SHARDS", "2")]);
        let toml = "fsync = '2s'\nshards = 3\nnum_partitions = 4\n";
        let all = gather(&flags, &environment, file(toml)).unwrap();
        assert_eq!(value_of(&all, "fsync"), ("never".into(), "flag"));
        assert_eq!(value_of(&all, "shards"), ("2".into(), "env"));
        assert_eq!(value_of(&all, "num_partitions"), ("4".into(), "file"));
        assert_eq!(value_of(&all, "listen"), ("127.0.0.1:9092".into(), "default"));
        assert!(!all.given.contains_key("ready_file"));
    }

    #[test]
    fn every_setting_can_be_given_by_each_source() {
        for setting in SETTINGS {
            let by_flag = gather(&Flags::from([(setting.name, "v".to_owned())]), &[], None).unwrap();
            assert_eq!(value_of(&by_flag, setting.name), ("v".into(), "flag"));
            let by_env = gather(&Flags::new(), &env(&[(&setting.variable(), "v")]), None).unwrap();
            assert_eq!(value_of(&by_env, setting.name), ("v".into(), "env"));
            let by_file = gather(&Flags::new(), &[], file(&format!("{} = \"v\"", setting.name))).unwrap();
            assert_eq!(value_of(&by_file, setting.name), ("v".into(), "file"));
        }
    }

    #[test]
    fn an_unknown_key_in_the_file_is_refused_with_the_nearest_name() {
        let error = gather(&Flags::new(), &[], file("max_frame_sise = 1\nport = 2\n")).unwrap_err();
        assert_eq!(error.problems.len(), 2);
        assert!(error.problems[0].contains("max_frame_sise in r.toml is no setting; did you mean max_frame_size?"));
        assert!(error.problems[1].contains("port in r.toml is no setting"));
    }

    #[test]
    fn an_unknown_variable_of_ours_is_only_warned_about() {
        let environment = env(&[("RINGGATE_PORT", "tcp://10.0.0.1:9092"), ("RINGGATE_FSINC", "x"), ("HOME", "/")]);
        let gathered = gather(&Flags::new(), &environment, None).unwrap();
        assert_eq!(gathered.warnings.len(), 2, "{:?}", gathered.warnings);
        assert!(gathered.warnings[0].contains("RINGGATE_PORT") && !gathered.warnings[0].contains("did you mean"));
        assert!(gathered.warnings[1].contains("did you mean fsync?"));
    }

    #[test]
    fn toml_numbers_booleans_and_arrays_read_like_their_text() {
        let toml = "max_frame_size = 1048576\nauto_create_topics = false\nlisten = ['127.0.0.1:1', '[::1]:1']\n";
        let gathered = gather(&Flags::new(), &[], file(toml)).unwrap();
        assert_eq!(value_of(&gathered, "max_frame_size").0, "1048576");
        assert_eq!(value_of(&gathered, "auto_create_topics").0, "false");
        assert_eq!(value_of(&gathered, "listen").0, "127.0.0.1:1,[::1]:1");
    }

    #[test]
    fn toml_values_of_other_types_and_broken_toml_are_refused() {
        for toml in ["shards = 1.5", "[shards]\nx = 1", "listen = [1]", "fsync = 1979-05-27"] {
            let error = gather(&Flags::new(), &[], file(toml)).unwrap_err();
            let name = toml.trim_start_matches('[').split([' ', ']']).next().unwrap();
            assert!(error.problems[0].contains(name), "{toml}: {error}");
            assert!(error.problems[0].contains("allowed: "), "{toml}: {error}");
        }
        let error = gather(&Flags::new(), &[], file("shards = ")).unwrap_err();
        assert!(error.problems[0].contains("r.toml is not TOML"), "{error}");
    }

    #[test]
    fn a_value_that_is_not_utf8_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let environment = vec![("RINGGATE_FSYNC".into(), OsString::from_vec(vec![0xff]))];
        let error = gather(&Flags::new(), &environment, None).unwrap_err();
        assert!(error.problems[0].contains("fsync") && error.problems[0].contains("UTF-8"), "{error}");
    }

    #[test]
    fn the_file_is_named_by_flag_then_variable_and_an_empty_name_is_none() {
        let environment = env(&[(CONFIG_VARIABLE, "env.toml")]);
        assert_eq!(config_file(Some("flag.toml"), &environment), Some("flag.toml".into()));
        assert_eq!(config_file(None, &environment), Some("env.toml".into()));
        assert_eq!(config_file(None, &env(&[(CONFIG_VARIABLE, "")])), None);
        assert_eq!(config_file(None, &[]), None);
        assert!(gather(&Flags::new(), &environment, None).unwrap().warnings.is_empty());
    }
}
