//! The command line: what it says, checked, and what a start prints.
//!
//! Flags are made from the [table of settings](crate::config::table), so a setting is never declared twice.
//! Nothing here starts a gateway; [`parse`] ends the process itself only for `--help`, `--version` and a
//! command line that makes no sense (exit 2, as for any bad configuration).

mod banner;
pub mod doctor;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};

pub use banner::{OtherPorts, banner};
pub use ringgate_tools::cli::Tool;
pub use verify::{verify_json, verify_text};

use crate::config::Flags;
use crate::config::table::{Kind, SETTINGS, Setting};

/// What the user wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// `ringgate serve`.
    Serve(Settings),
    /// `ringgate config`.
    Config {
        /// The settings given on the command line.
        settings: Settings,
        /// As JSON.
        json: bool,
    },
    /// `ringgate doctor`.
    Doctor(doctor::Doctor),
    /// `ringgate groups` or `ringgate topics`.
    Tool(Box<Tool>),
    /// `ringgate verify`.
    Verify {
        /// The data directory.
        directory: PathBuf,
        /// As JSON.
        json: bool,
    },
}

/// Settings as the command line gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// By name.
    pub flags: Flags,
    /// `--config`.
    pub config: Option<String>,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// As it should.
    Success = 0,
    /// A failure at run time; of `ringgate verify`: damage; of `ringgate doctor`: a warning.
    Failure = 1,
    /// The configuration or the command line is refused; of `ringgate verify`: nothing was looked at; of
    /// `ringgate doctor`: a blocker.
    BadConfiguration = 2,
    /// Another gateway coordinates the groups of this Iggy.
    LeaseHeld = 3,
}

impl From<ringgate_tools::Ended> for Exit {
    fn from(ended: ringgate_tools::Ended) -> Exit {
        match ended {
            ringgate_tools::Ended::Well => Exit::Success,
            ringgate_tools::Ended::Failed => Exit::Failure,
            ringgate_tools::Ended::Usage => Exit::BadConfiguration,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// Reads the command line, its first word being the program's name.
///
/// # Errors
/// Help and version, which are no mistakes, and what makes no sense; `clap::Error::exit` prints each where
/// it belongs.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    match matches.subcommand() {
        Some(("config", given)) => Ok(Invocation::Config { settings: settings(given), json: given.get_flag("json") }),
        Some(("doctor", given)) => Ok(Invocation::Doctor(doctor::Doctor::of(given))),
        Some(("groups" | "topics", _)) => Ok(Invocation::Tool(Box::new(Tool::from_arg_matches(&matches)?))),
        Some(("verify", given)) => Ok(Invocation::Verify {
            // Clap has refused a command line without it.
            directory: given.get_one::<PathBuf>("DIR").cloned().unwrap_or_default(),
            json: given.get_flag("json"),
        }),
        Some((_, given)) => Ok(Invocation::Serve(settings(given))),
        // Refused by clap before, since a subcommand is required.
        None => Err(command().error(clap::error::ErrorKind::MissingSubcommand, "a subcommand is required")),
    }
}

/// Writes to stdout. A reader who has seen enough (`ringgate config | head`) is no error.
///
/// # Errors
/// Stdout cannot be written.
pub fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn command() -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("A TOML file of settings, by the names that `ringgate config` shows [env: RINGGATE_CONFIG]");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
    Command::new("ringgate")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Lets unmodified Kafka clients use Apache Iggy, or a directory: a thread-per-core gateway")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("serve")
                .about("Serve Kafka clients; needs no flag")
                .after_help("Every setting is a flag, an environment variable and a TOML key, in that precedence.")
                .arg(config.clone())
                .args(SETTINGS.iter().map(flag)),
        )
        .subcommand(
            Command::new("config")
                .about("Print every setting's value in force and where it came from")
                .arg(json.clone())
                .arg(config)
                .args(SETTINGS.iter().map(flag)),
        )
        .subcommand(doctor::command())
        // In their turn: they would keep the places that they have among themselves.
        .subcommands(
            Tool::augment_subcommands(Command::new("tools"))
                .get_subcommands()
                .map(|tool| tool.clone().display_order(None)),
        )
        .subcommand(
            Command::new("verify")
                .about("Read a whole data directory that no gateway uses, and say whether it is as it was written")
                .after_help("Exit code 0: it is; 1: there is damage; 2: it was not looked at. Only LOCK is touched.")
                .arg(json)
                .arg(
                    Arg::new("DIR")
                        .required(true)
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("The data directory, as in `ringgate serve --data DIR`"),
                ),
        )
}

fn flag(setting: &'static Setting) -> Arg {
    let several = matches!(setting.kind, Kind::Addresses);
    let arg = Arg::new(setting.name)
        .long(setting.name.replace('_', "-"))
        .value_name(value_name(setting.kind))
        .action(if several { ArgAction::Append } else { ArgAction::Set })
        .help_heading(setting.section)
        .help(help(setting));
    match setting.kind {
        // The flag alone says yes.
        Kind::Bool => arg.num_args(0..=1).default_missing_value("true"),
        _ => arg.allow_hyphen_values(true),
    }
}

fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Addresses | Kind::OptionalAddress => "HOST:PORT",
        Kind::AdvertisedHost => "HOST[:PORT]",
        Kind::Choice(_) => "WORD",
        Kind::Bool => "BOOL",
        Kind::Count { .. } => "N",
        Kind::Size { .. } => "SIZE",
        Kind::Time { .. } => "DURATION",
        Kind::Path => "PATH",
        Kind::Password => "PASSWORD",
        Kind::Text => "TEXT",
        Kind::Store => "STORE",
        Kind::Fsync => "WHEN",
        Kind::Cpus => "LIST",
    }
}

fn help(setting: &Setting) -> StyledStr {
    let default = setting.default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    format!("{}{default} [allowed: {}]", setting.help, setting.allowed()).into()
}

fn settings(matches: &ArgMatches) -> Settings {
    let flags = SETTINGS
        .iter()
        .filter_map(|setting| {
            let values: Vec<&str> = matches.get_many::<String>(setting.name)?.map(String::as_str).collect();
            Some((setting.name, values.join(",")))
        })
        .collect();
    Settings { flags, config: matches.get_one::<String>("config").cloned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    fn parsed(arguments: &[&str]) -> Result<Invocation, clap::Error> {
        parse(std::iter::once("ringgate").chain(arguments.iter().copied()).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_sound_and_has_a_flag_for_every_setting() {
        command().debug_assert();
        for setting in SETTINGS {
            let invocation = parsed(&["serve", &format!("{}=v", setting.flag())]).unwrap();
            let expected = Settings { flags: Flags::from([(setting.name, "v".to_owned())]), config: None };
            assert_eq!(invocation, Invocation::Serve(expected));
        }
    }

    #[test]
    fn serve_needs_no_flag_and_config_takes_the_same_ones() {
        let none = Settings { flags: Flags::new(), config: None };
        assert_eq!(parsed(&["serve"]).unwrap(), Invocation::Serve(none.clone()));
        assert_eq!(parsed(&["config"]).unwrap(), Invocation::Config { settings: none, json: false });
        let given = Settings { flags: Flags::from([("fsync", "never".to_owned())]), config: Some("r.toml".into()) };
        let invocation = parsed(&["config", "--json", "--config", "r.toml", "--fsync", "never"]).unwrap();
        assert_eq!(invocation, Invocation::Config { settings: given, json: true });
    }

    #[test]
    fn verify_takes_a_directory_and_nothing_else() {
        let expected = Invocation::Verify { directory: "/d".into(), json: true };
        assert_eq!(parsed(&["verify", "--json", "/d"]).unwrap(), expected);
        for arguments in [&["verify"][..], &["verify", "/d", "/e"], &["verify", "--fsync", "never", "/d"]] {
            assert_eq!(parsed(arguments).unwrap_err().exit_code(), Exit::BadConfiguration as i32, "{arguments:?}");
        }
    }

    #[test]
    fn listen_may_be_given_several_times_and_other_flags_once() {
        let Invocation::Serve(settings) = parsed(&["serve", "--listen", "a:1", "--listen", "b:2,c:3"]).unwrap() else {
            panic!("not serve");
        };
        assert_eq!(settings.flags["listen"], "a:1,b:2,c:3");
        let error = parsed(&["serve", "--fsync", "never", "--fsync", "always"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn what_makes_no_sense_ends_with_the_code_of_bad_configuration() {
        for arguments in
            [&["serve", "--max-frame-sise", "1"][..], &["nosuch"], &["serve", "extra"], &["serve", "--fsync"]]
        {
            let error = parsed(arguments).unwrap_err();
            assert_eq!(error.exit_code(), Exit::BadConfiguration as i32, "{arguments:?}");
        }
        assert!(parsed(&["serve", "--max-frame-sise", "1"]).unwrap_err().to_string().contains("--max-frame-size"));
        assert_eq!(parsed(&["--version"]).unwrap_err().exit_code(), Exit::Success as i32);
    }

    #[test]
    fn a_negative_number_reaches_the_check_that_explains_it() {
        let Invocation::Serve(settings) = parsed(&["serve", "--shards", "-1"]).unwrap() else { panic!("not serve") };
        assert_eq!(settings.flags["shards"], "-1");
    }

    #[test]
    fn help_shows_default_and_what_is_allowed() {
        let help = parsed(&["serve", "--help"]).unwrap_err().to_string();
        for part in ["--max-frame-size <SIZE>", "[default: 100MiB]", "1KiB", "Listening:", "RINGGATE_CONFIG"] {
            assert!(help.contains(part), "{part} in {help}");
        }
    }
}
