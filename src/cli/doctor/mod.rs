//! `ringgate doctor`: looks at the host and says what it should be like. What is looked at is `ringgate-tuning`'s; here is
//! how it is asked for, printed, and told by an exit code.

mod change;
mod cpus;
mod files;
mod json;
mod selftest;
mod table;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use ringgate_tuning::{Finding, Host, Plan, Profile, Severity, checks, plan, report};

use super::Exit;
pub use change::{Change, Direction};

/// Columns of text that no terminal shows.
const COLUMNS_ELSEWHERE: usize = 100;

/// Narrower terminals get lines that they break themselves.
const COLUMNS_MIN: usize = 60;

/// What is asked of the doctor.
#[derive(Debug, Clone)]
pub struct Doctor {
    /// What the host is to be good for.
    pub plan: Plan,
    /// Where the host's files are.
    pub root: PathBuf,
    /// The checks to run; all where it is empty.
    pub only: Vec<String>,
    /// As JSON.
    pub json: bool,
    /// Also what is fine, in full.
    pub verbose: bool,
    /// What to do.
    pub task: Task,
}

/// What the doctor is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Run the checks.
    Look,
    /// Only say which checks there are.
    List,
    /// Carry out what they found, or undo it.
    Change(Change),
    /// Measure this machine.
    SelfTest,
    /// Choose CPUs for `serve --cpus`.
    Cpus,
    /// Print the host files, or write them.
    Files {
        /// Below which directory.
        write: Option<PathBuf>,
        /// Those of this one, too, when it is named.
        profile: Option<Profile>,
    },
}

impl PartialEq for Doctor {
    fn eq(&self, other: &Doctor) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Doctor {}

const AFTER_HELP: &str = "\
Exit code 0: nothing worse than advice; 1: a warning; 2: a blocker, or, with nothing on stdout, a command line that makes \
no sense. Root is not needed: what it alone may read is told as not read. Nothing is changed but by --apply, --revert and \
--persist, which exit with 1 when a change failed and with 2 when none was tried.";

/// The command line.
pub fn command() -> Command {
    let switch =
        |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let default = Plan::default();
    Command::new("doctor")
        .about("Look at the host: what costs latency or connections here, and the exact fix")
        .after_help(AFTER_HELP)
        .args_conflicts_with_subcommands(true)
        .arg(profile())
        .arg(switch("flat-clock", "Want turbo off: slower, and every run of a benchmark alike"))
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("ID,...")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .value_parser(PossibleValuesParser::new(checks::all().map(|check| check.id)))
                .hide_possible_values(true)
                .help("These checks alone; --list names them"),
        )
        .arg(switch("list", "Name all checks and say why each is there"))
        .arg(switch("json", "Print JSON"))
        .arg(switch("verbose", "Show in full what is fine, too").short('v'))
        .arg(shards("Shards of the gateway [default: the CPUs that this process may run on]"))
        .arg(
            number("connections", "N", "Connections to be prepared for")
                .value_parser(value_parser!(u64).range(1..=plan::CONNECTIONS_MAX))
                .default_value(default.connections.to_string()),
        )
        .arg(
            number("port", "PORT", "The bootstrap port of `ringgate serve --listen`")
                .value_parser(value_parser!(u16).range(1..))
                .default_value(default.port.to_string()),
        )
        .arg(
            number("other-ports", "PORT,...", "Those of `ringgate serve --admin-listen`, `--iggy-listen`, and others")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .value_parser(value_parser!(u16).range(1..)),
        )
        .arg(
            number("data", "DIR", "The data directory of `ringgate serve --data`")
                .value_parser(value_parser!(PathBuf))
                .default_value(default.data.into_os_string()),
        )
        .arg(pid())
        .arg(root())
        .arg(switch("selftest", "Measure for ten seconds what this machine takes for what a gateway does all the time"))
        .args(change::arguments())
        .group(change::group())
        .subcommand(
            Command::new("cpus")
                .about("Print the CPUs for `ringgate serve --cpus`; why those is told on stderr")
                .after_help("Use it as --cpus \"$(ringgate doctor cpus)\", from where the gateway is started, too.")
                .args([profile(), shards("Shards [default: as many as the machine is good for]"), pid(), root()])
                .arg(switch("json", "Print JSON, with the reasons and the CPUs for interrupts")),
        )
        .subcommand(
            Command::new("files")
                .about("Print the files that a host is given once: sysctls, systemd units, a script for interrupts")
                .arg(profile_named("Also what is for this profile alone; latency: a drop-in for the gateway's unit"))
                .arg(
                    Arg::new("write")
                        .long("write")
                        .value_name("DIR")
                        .value_parser(value_parser!(PathBuf))
                        .help("Write them below DIR instead, each where it belongs; / is this machine"),
                ),
        )
}

fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn profile() -> Arg {
    profile_named("What matters most; shared: the machine has other users, too")
        .default_value(Profile::default().name())
}

fn profile_named(help: &'static str) -> Arg {
    let names = PossibleValuesParser::new(Profile::ALL.map(Profile::name));
    Arg::new("profile").long("profile").value_name("PROFILE").value_parser(names).help(help)
}

fn shards(help: &'static str) -> Arg {
    number("shards", "N", help).value_parser(value_parser!(u16).range(1..=crate::limits::SHARDS_MAX as i64))
}

fn pid() -> Arg {
    number(
        "pid",
        "PID",
        "The gateway that is looked at instead of this shell [default: the one that listens on --port]",
    )
    .value_parser(value_parser!(u32).range(1..))
}

fn root() -> Arg {
    number("root", "DIR", "A directory with the proc/ and sys/ of another host; anything but / takes Linux 5.6")
        .value_parser(value_parser!(PathBuf))
        .default_value("/")
}

impl Doctor {
    /// From the command line, which clap has checked.
    pub(super) fn of(given: &ArgMatches) -> Doctor {
        match given.subcommand() {
            Some(("cpus", given)) => Doctor::with(given, Task::Cpus),
            Some((_, given)) => {
                Doctor::with(given, Task::Files { write: get(given, "write"), profile: profile_of(given) })
            }
            None => {
                let task = if given.get_flag("list") {
                    Task::List
                } else if given.get_flag("selftest") {
                    Task::SelfTest
                } else {
                    Change::of(given).map_or(Task::Look, Task::Change)
                };
                Doctor::with(given, task)
            }
        }
    }

    fn with(given: &ArgMatches, task: Task) -> Doctor {
        let default = Plan::default();
        let plan = Plan {
            profile: profile_of(given).unwrap_or_default(),
            flat_clock: get(given, "flat-clock").unwrap_or(false),
            shards: get::<u16>(given, "shards").map(usize::from),
            connections: get(given, "connections").unwrap_or(default.connections),
            port: get(given, "port").unwrap_or(default.port),
            other_ports: all(given, "other-ports"),
            data: get(given, "data").unwrap_or(default.data),
            pid: get(given, "pid"),
        };
        let flag = |name| get(given, name).unwrap_or(false);
        Doctor {
            plan,
            root: get(given, "root").unwrap_or_else(|| "/".into()),
            only: all(given, "only"),
            json: flag("json"),
            verbose: flag("verbose"),
            task,
        }
    }

    /// Does what is asked, and prints it.
    pub fn run(&self) -> Exit {
        match self.done() {
            Ok((text, exit)) => printed(&text, exit),
            Err(why) => {
                eprintln!("ringgate: {why}");
                Exit::BadConfiguration
            }
        }
    }

    /// What is to be printed, and how it ends.
    ///
    /// # Errors
    /// Nothing was done, and why.
    fn done(&self) -> Result<(String, Exit), String> {
        match &self.task {
            Task::List => return Ok((if self.json { json::list() } else { table::list() }, Exit::Success)),
            Task::Files { write: None, profile } => return Ok((files::printed(*profile), Exit::Success)),
            Task::Files { write: Some(below), profile } => return Ok((files::write(below, *profile)?, Exit::Success)),
            _ => {}
        }
        let host = self.host()?;
        match &self.task {
            Task::Cpus => {
                let choice = cpus::chosen(&host, &self.plan)?;
                if self.json {
                    return Ok((cpus::json(&choice), Exit::Success));
                }
                choice.reasons.iter().for_each(|reason| eprintln!("ringgate: {reason}"));
                Ok((format!("{choice}\n"), Exit::Success))
            }
            Task::SelfTest if !host.is_live() => Err("--selftest measures this machine: without --root".into()),
            Task::SelfTest => Ok((selftest::run(&host, &self.plan, self.json)?, Exit::Success)),
            Task::Change(change) => {
                let plan = self.plan_for(&host);
                let findings = self.findings(&host, &plan);
                change.make(&host, &plan, &findings, self.json).map_err(|refused| refused.to_string())
            }
            _ => Ok(self.looked(&host)),
        }
    }

    /// The plan, with the gateway that runs already: all checks look at the same one.
    fn plan_for(&self, host: &Host) -> Plan {
        Plan { pid: report::gateway(host, &self.plan), ..self.plan.clone() }
    }

    fn findings(&self, host: &Host, plan: &Plan) -> Vec<Finding> {
        let wanted = |id: &str| self.only.is_empty() || self.only.iter().any(|only| only == id);
        report::findings(host, plan, |check| wanted(check.id))
    }

    fn looked(&self, host: &Host) -> (String, Exit) {
        let plan = self.plan_for(host);
        let findings = self.findings(host, &plan);
        let text = if self.json {
            json::report(host, &plan, &findings)
        } else {
            table::report(host, &plan, &findings, self.verbose, &paper())
        };
        let exit = match report::worst(&findings) {
            Severity::Blocker => Exit::BadConfiguration,
            Severity::Warning => Exit::Failure,
            _ => Exit::Success,
        };
        (text, exit)
    }

    /// The host to look at.
    ///
    /// # Errors
    /// There is none, or no such process on it: every check would say that nothing applies.
    fn host(&self) -> Result<Host, String> {
        let host = if self.root == std::path::Path::new("/") {
            Host::live().with_io_uring(|| ringgate_runtime::check_io_uring().map_err(|why| why.to_string()))
        } else {
            Host::below(&self.root).kept_to()?
        };
        let proc = host.at("/proc");
        if !proc.is_dir() {
            return Err(format!(
                "{} is no directory: --root takes one with the proc/ and sys/ of a host",
                proc.display()
            ));
        }
        match self.plan.pid.map(|pid| host.at(format!("/proc/{pid}"))) {
            Some(process) if !process.is_dir() => Err(format!("there is no process {}", process.display())),
            _ => Ok(host),
        }
    }
}

fn profile_of(given: &ArgMatches) -> Option<Profile> {
    let name = get::<String>(given, "profile")?;
    Profile::ALL.into_iter().find(|profile| name == profile.name())
}

/// What a flag was given, of a command that has it.
fn get<T: Clone + Send + Sync + 'static>(given: &ArgMatches, name: &str) -> Option<T> {
    given.try_get_one::<T>(name).ok().flatten().cloned()
}

/// All that a flag was given.
fn all<T: Clone + Send + Sync + 'static>(given: &ArgMatches, name: &str) -> Vec<T> {
    given.try_get_many(name).ok().flatten().into_iter().flatten().cloned().collect()
}

/// What text is printed on.
struct Paper {
    columns: usize,
    color: bool,
}

fn paper() -> Paper {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return Paper { columns: COLUMNS_ELSEWHERE, color: false };
    }
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { COLUMNS_ELSEWHERE } else { columns.max(COLUMNS_MIN) };
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    Paper { columns, color: !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb") }
}

fn printed(text: &str, exit: Exit) -> Exit {
    match super::print(text) {
        Ok(()) => exit,
        Err(_) => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Doctor {
        Doctor::of(&command().try_get_matches_from([&["doctor"], arguments].concat()).unwrap())
    }

    #[test]
    fn without_flags_it_is_this_machine_for_the_least_latency() {
        let asked = asked(&[]);
        assert_eq!(format!("{:?}", asked.plan), format!("{:?}", Plan::default()));
        assert!(asked.root.is_absolute() && asked.only.is_empty() && !asked.json && !asked.verbose);
        assert_eq!(asked.task, Task::Look);
    }

    #[test]
    fn what_a_gateway_is_said_to_need_is_what_it_runs_with() {
        use crate::limits;
        use ringgate_runtime::limits as runtime;
        use ringgate_tuning::needs;
        assert_eq!(needs::OPEN_FILES_MIN, limits::OPEN_FILES_MIN);
        assert_eq!(needs::OPEN_FILES_RESERVED, limits::DESCRIPTORS_RESERVED);
        assert_eq!(needs::OPEN_FILES_PER_SHARD, limits::DESCRIPTORS_PER_SHARD);
        assert_eq!(needs::MEMLOCK_BYTES_MIN, runtime::MEMLOCK_BYTES_MIN);
        assert_eq!(needs::MEMLOCK_BYTES_PER_SHARD, 3 * runtime::IO_MEMORY_BYTES as u64);
        assert!(std::any::type_name::<ringgate_runtime::Allocator>().contains("mimalloc"));
    }

    #[test]
    fn every_flag_is_understood() {
        let asked = asked(&[
            "--profile",
            "shared",
            "--flat-clock",
            "--only",
            "swap",
            "--json",
            "-v",
            "--shards",
            "3",
            "--connections",
            "5",
            "--port",
            "1",
            "--other-ports",
            "9644,8090",
            "--data",
            "/d",
            "--pid",
            "7",
            "--root",
            "/r",
        ]);
        let plan = Plan {
            profile: Profile::Shared,
            flat_clock: true,
            shards: Some(3),
            connections: 5,
            port: 1,
            other_ports: vec![9644, 8090],
            data: "/d".into(),
            pid: Some(7),
        };
        let want =
            Doctor { plan, root: "/r".into(), only: vec!["swap".into()], json: true, verbose: true, task: Task::Look };
        assert_eq!(asked, want);
    }

    #[test]
    fn tasks_are_told_apart() {
        let change = |direction, dry_run, persist| Task::Change(Change { direction, dry_run, persist, journal: None });
        for (arguments, task) in [
            (&["--list"][..], Task::List),
            (&["--selftest", "--json"], Task::SelfTest),
            (&["--apply"], change(Direction::Forth, false, None)),
            (&["--dry-run"], change(Direction::Forth, true, None)),
            (&["--apply", "--persist"], change(Direction::Forth, false, Some(None))),
            (&["--persist=/x"], change(Direction::Stay, false, Some(Some("/x".into())))),
            (&["--revert"], change(Direction::Back { force: false }, false, None)),
            (&["--revert", "--force", "--dry-run"], change(Direction::Back { force: true }, true, None)),
            (&["cpus", "--shards", "3"], Task::Cpus),
            (&["files"], Task::Files { write: None, profile: None }),
            (
                &["files", "--write", "/", "--profile", "latency"],
                Task::Files { write: Some("/".into()), profile: Some(Profile::Latency) },
            ),
        ] {
            assert_eq!(asked(arguments).task, task, "{arguments:?}");
        }
        assert_eq!(asked(&["cpus", "--shards", "3"]).plan.shards, Some(3));
        let Task::Change(change) = asked(&["--apply", "--journal", "/j"]).task else { panic!("no change") };
        assert_eq!(change.journal, Some("/j".into()));
        for arguments in [
            &["--apply", "--revert"][..],
            &["--apply", "--selftest"],
            &["--apply", "--force"],
            &["--revert", "--persist"],
            &["--apply", "cpus"],
            &["cpus", "--apply"],
        ] {
            assert!(command().try_get_matches_from([&["doctor"], arguments].concat()).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for arguments in [
            ["--profile", "fast"],
            ["--only", "swapp"],
            ["--shards", "0"],
            ["--shards", "1001"],
            ["--connections", "0"],
            ["--port", "0"],
            ["--other-ports", "9644,70000"],
            ["--pid", "0"],
        ] {
            let error = command().try_get_matches_from(["doctor"].into_iter().chain(arguments)).unwrap_err();
            assert_eq!(error.exit_code(), Exit::BadConfiguration as i32, "{arguments:?}");
        }
        let error = command().try_get_matches_from(["doctor", "--only", "swapp"]).unwrap_err().to_string();
        assert!(error.contains("'swap'"), "{error}");
    }
}
