//! Running the program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use ringgate_bench::result::RunResult;

use crate::server::Server;

/// The program with these arguments, separated by spaces.
pub fn bench(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringgate-bench"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs that the machine may disturb before one must be as it was meant.
const ATTEMPTS: usize = 20;

/// Does it until the machine leaves it alone, which `is_so` judges; what came of it last if it never does.
///
/// A machine that stands still for seconds shows in a run's figures as a target does that stands still. Tests hold those of
/// a run without that against what they must be.
pub fn undisturbed<T>(mut attempt: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let mut came = attempt();
    for _ in 1..ATTEMPTS {
        if is_so(&came) {
            break;
        }
        came = attempt();
    }
    came
}

/// A run that has ended.
pub struct Ran {
    pub exit: i32,
    pub stdout: String,
    pub stderr: String,
    out: tempfile::TempDir,
}

impl Ran {
    /// Runs it to its end.
    pub fn to_end(arguments: &str) -> Ran {
        let out = tempfile::tempdir().unwrap();
        let output = bench(arguments).arg("--out").arg(out.path()).output().unwrap();
        Ran::of(output, out)
    }

    /// Runs it, each time against a server that is new, until all of its schedule was sent: slots that a machine without
    /// time leaves over for longer than a second at the end are never sent, and counted.
    pub fn in_full(arguments: &str, server: impl Fn() -> Server) -> (Server, Ran) {
        let run = || {
            let server = server();
            let ran = Ran::to_end(&format!("{arguments} --bootstrap {}", server.address));
            (server, ran)
        };
        undisturbed(run, |(_, ran)| ran.sent_all())
    }

    /// Whether every slot of the schedule was sent.
    pub fn sent_all(&self) -> bool {
        let result = self.result();
        ["unsent", "other.unsent"].iter().all(|name| result.values.get(*name).is_none_or(|unsent| unsent.value == 0.0))
    }

    /// Whether the numbers are the target's, as the run itself says.
    pub fn is_valid(&self) -> bool {
        self.exit != 5
    }

    /// What an output came to, with its directory.
    pub fn of(output: Output, out: tempfile::TempDir) -> Ran {
        Ran {
            exit: output.status.code().expect("it ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            out,
        }
    }

    /// The run's directory: there is one.
    pub fn directory(&self) -> PathBuf {
        let mut runs: Vec<PathBuf> =
            std::fs::read_dir(self.out.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(runs.len(), 1, "{runs:?}\n{}\n{}", self.stdout, self.stderr);
        runs.remove(0)
    }

    /// Its result.
    pub fn result(&self) -> RunResult {
        read(&self.directory())
    }

    /// That it left nothing.
    pub fn left_nothing(&self) -> bool {
        std::fs::read_dir(self.out.path()).unwrap().next().is_none()
    }

    /// Fails unless the run was carried out to its end, whether or not this machine was fast enough for it to be believed.
    #[track_caller]
    pub fn was_carried_out(&self) {
        assert!([0, 5].contains(&self.exit), "exit {}\n{}\n{}", self.exit, self.stdout, self.stderr);
    }
}

/// The result of a run's directory.
pub fn read(directory: &Path) -> RunResult {
    ringgate_bench::result::read(directory).unwrap()
}

/// `floor --serve`, for as long as this lives.
pub struct Echo {
    child: Child,
    pub address: String,
}

impl Echo {
    pub fn start() -> Echo {
        let mut child = bench("floor --serve 127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Echo { child, address: address.trim().to_string() }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
