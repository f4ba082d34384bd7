//! Running the program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use ringgate_bench::result::RunResult;

/// The program with these arguments, separated by spaces.
pub fn bench(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringgate-bench"));
    command.args(arguments.split_whitespace());
    command
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
