//! Commands of the user's that start and stop a target around each of its runs.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::child;
use crate::engine::Interrupt;
use crate::limits::{HOOK_LOOK, HOOK_TOLD};

/// A hook failed: exit code 3. Says which, how, and what it said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// One call of a hook.
#[derive(Debug, Clone)]
pub struct Hook<'a> {
    /// For messages: `--a-start`.
    pub flag: &'static str,
    /// What `sh -c` runs.
    pub command: &'a str,
    /// `RINGGATE_BENCH_*`, without that prefix.
    pub environment: Vec<(&'static str, String)>,
    /// How long it may take.
    pub timeout: Duration,
    /// What it prints goes to `<log>.out` and `<log>.err`: a server that it leaves behind keeps writing there, and nobody
    /// waits for it to close them.
    pub log: PathBuf,
}

/// What a start hook tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Started {
    /// The server's process, to be sampled: from a line `pid=N` or a JSON object with `pid`.
    pub pid: Option<u32>,
}

impl Hook<'_> {
    /// Runs it to its end.
    pub fn run(&self, interrupt: &Interrupt) -> Result<Started, HookError> {
        let failed = |why: String| HookError(format!("--{} '{}': {why}", self.flag, self.command));
        let at = |suffix: &str| self.log.with_extension(suffix);
        let file = |suffix: &str| File::create(at(suffix)).map_err(|error| failed(format!("cannot log: {error}")));
        let mut child = Command::new("sh")
            .args(["-c", self.command])
            .envs(self.environment.iter().map(|(name, value)| (format!("RINGGATE_BENCH_{name}"), value)))
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            // Ctrl-C is for the comparison, which stops what it started in order.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("cannot be run: {error}")))?;
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().map_err(|error| failed(error.to_string()))? {
                Some(status) => break status,
                None if interrupt.is_told() => {
                    end(&mut child);
                    return Err(failed("interrupted".into()));
                }
                None if begun.elapsed() >= self.timeout => {
                    end(&mut child);
                    return Err(failed(format!(
                        "had not ended after {} s (--hook-timeout); a start hook leaves the server in the background and ends",
                        self.timeout.as_secs_f64()
                    )));
                }
                None => std::thread::sleep(HOOK_LOOK),
            }
        };
        if !status.success() {
            let how = match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            };
            let said = last_lines(&at("err"));
            let said = if said.is_empty() { last_lines(&at("out")) } else { said };
            return Err(failed(if said.is_empty() { how } else { format!("{how}: {said}") }));
        }
        let said = fs::read_to_string(at("out")).unwrap_or_default();
        Ok(Started { pid: pid_in(&said).map_err(failed)? })
    }
}

/// Ends the hook and what it started in its process group.
fn end(child: &mut std::process::Child) {
    child::signal_group(child, rustix::process::Signal::KILL);
    let _ = child.wait();
}

/// The last line that names a process.
fn pid_in(said: &str) -> Result<Option<u32>, String> {
    for line in said.lines().rev().map(str::trim) {
        let told = if let Some(number) = line.strip_prefix("pid=") {
            number.parse().ok()
        } else if line.starts_with('{') {
            match serde_json::from_str::<serde_json::Value>(line) {
                Ok(object) if object.get("pid").is_some() => {
                    object["pid"].as_u64().and_then(|number| u32::try_from(number).ok())
                }
                _ => continue,
            }
        } else {
            continue;
        };
        return match told {
            Some(pid) if pid > 0 => Ok(Some(pid)),
            _ => Err(format!("told no process in {line}")),
        };
    }
    Ok(None)
}

/// The end of what a hook wrote, on one line.
fn last_lines(path: &Path) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().rev().take(HOOK_TOLD).collect();
    lines.reverse();
    lines.join(" | ")
}

/// Makes the directory of the hooks' logs.
pub fn logs(directory: &Path) -> io::Result<PathBuf> {
    let logs = directory.join("hooks");
    fs::create_dir_all(&logs)?;
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, timeout: Duration) -> Result<Started, HookError> {
        let directory = tempfile::tempdir().unwrap();
        let environment = vec![("SIDE", "a".to_owned())];
        let log = directory.path().join("1-a-start");
        Hook { flag: "a-start", command, environment, timeout, log }.run(&Interrupt::new())
    }

    const PLENTY: Duration = Duration::from_secs(60);

    #[test]
    fn a_hook_is_told_what_it_is_for_and_tells_the_servers_process() {
        assert_eq!(run("test $RINGGATE_BENCH_SIDE = a", PLENTY), Ok(Started { pid: None }));
        assert_eq!(run("echo starting; echo pid=17; echo done", PLENTY), Ok(Started { pid: Some(17) }));
        assert_eq!(run("echo '{\"pid\": 18}'", PLENTY), Ok(Started { pid: Some(18) }));
        assert!(run("echo pid=none", PLENTY).unwrap_err().0.ends_with("told no process in pid=none"));
    }

    #[test]
    fn nobody_waits_for_a_server_that_a_hook_leaves_behind() {
        let begun = Instant::now();
        let started = run("sleep 300 & echo pid=$!", PLENTY).unwrap();
        assert!(begun.elapsed() < PLENTY);
        let pid = rustix::process::Pid::from_raw(started.pid.unwrap() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it still runs");
    }

    #[test]
    fn a_hook_that_fails_or_does_not_end_says_which_and_why() {
        assert_eq!(
            run("echo no disk >&2; exit 7", PLENTY).unwrap_err().0,
            "--a-start 'echo no disk >&2; exit 7': exit code 7: no disk"
        );
        let error = run("sleep 300", Duration::from_millis(200)).unwrap_err().0;
        assert!(error.starts_with("--a-start 'sleep 300': had not ended after 0.2 s"), "{error}");
    }
}
