//! What a host's own tools say of it, where no file does.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::host::{Host, Reading};

/// How long a tool may take. They answer in milliseconds; one that waits for a daemon that is gone never would.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The most that is read of what a tool says: `ss` of a host with 100,000 connections stays below.
const OUTPUT_BYTES_MAX: u64 = 32 << 20;

/// Where tools are looked for besides `PATH`, which has the latter ones for root only.
const DIRECTORIES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What tools have told already, by their words.
pub(crate) type Told = Arc<Mutex<BTreeMap<String, Reading>>>;

impl Host {
    /// What a [command](Self::command) printed when it was first asked: of what does not change while a host is looked
    /// at, and takes long to tell. `ss -p` looks at every open file of the host.
    pub fn command_once(&self, words: &[&str]) -> Reading {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.entry(words.join(" ")).or_insert_with(|| self.command(words)).clone()
    }

    /// What a tool that only reads prints on its standard output: `["ethtool", "-l", "eth0"]`. Absent when it is not
    /// installed; unread, with its own words, when it fails.
    ///
    /// Below a root it is what the file `/commands/ethtool -l eth0` of that tree holds, or the failure that
    /// `/commands/ethtool -l eth0.failed` tells (each `/` of the words is a `_` in the name).
    pub fn command(&self, words: &[&str]) -> Reading {
        if self.is_live() {
            return run(words, TIME_MAX);
        }
        let file = format!("/commands/{}", words.join(" ").replace('/', "_"));
        match self.read(format!("{file}.failed")) {
            Reading::Text(why) => failed(words, &why),
            Reading::Absent => self.read(file),
            unread => unread,
        }
    }
}

fn run(words: &[&str], time_max: Duration) -> Reading {
    let (tool, arguments) = words.split_first().expect("a command has a name");
    let path = std::env::var("PATH").map_or_else(|_| DIRECTORIES.to_owned(), |path| format!("{path}:{DIRECTORIES}"));
    let child = Command::new(tool)
        .args(arguments)
        .env("PATH", path)
        // Numbers and words as the parsers know them.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Reading::Absent,
        Err(error) => return failed(words, &error.to_string()),
    };
    let answer = outcome(&mut child, time_max);
    // Whether it ended or not: nothing of it stays, neither a process nor a zombie.
    let _ = child.kill();
    let status = child.wait();
    match (answer, status) {
        (Err(why), _) => failed(words, &why),
        (Ok((stdout, _)), Ok(status)) if status.success() => Reading::Text(stdout.trim().to_owned()),
        (Ok((_, stderr)), Ok(status)) if stderr.trim().is_empty() => failed(words, &status.to_string()),
        (Ok((_, stderr)), Ok(_)) => failed(words, stderr.trim()),
        (Ok(_), Err(error)) => failed(words, &error.to_string()),
    }
}

/// All that it prints, once it has ended.
fn outcome(child: &mut Child, time_max: Duration) -> Result<(String, String), String> {
    let deadline = Instant::now() + time_max;
    let late = || format!("no answer within {time_max:?}");
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let stdout = text(&stdout, deadline).ok_or_else(late)?;
    let stderr = text(&stderr, deadline).ok_or_else(late)?;
    // Both streams have ended, but a process may close them and go on.
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() >= deadline {
            return Err(late());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok((stdout, stderr))
}

/// Reads on a thread of its own, so that a tool that never ends holds nobody up.
fn reader(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What came before a failed read counts.
            let _ = stream.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        }
        // Nobody waits any more when the time is over.
        let _ = sender.send(bytes);
    });
    receiver
}

fn text(stream: &Receiver<Vec<u8>>, deadline: Instant) -> Option<String> {
    let bytes = stream.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn failed(words: &[&str], why: &str) -> Reading {
    let why: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Reading::Unread(format!("`{}`: {}", words.join(" "), why.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_installed_is_absent() {
        assert_eq!(Host::live().command(&["ringgate-has-no-such-tool"]), Reading::Absent);
    }

    #[test]
    fn a_live_tool_gives_what_it_prints() {
        assert_eq!(Host::live().command(&["echo", "one two"]), Reading::Text("one two".into()));
    }

    #[test]
    fn a_tool_that_fails_is_unread_with_its_own_words() {
        let read = Host::live().command(&["sh", "-c", "echo ignored; echo not permitted >&2; exit 3"]);
        let Reading::Unread(why) = read else { panic!("{read:?}") };
        assert!(why.ends_with(": not permitted"), "{why}");

        let read = Host::live().command(&["sh", "-c", "exit 3"]);
        let Reading::Unread(why) = read else { panic!("{read:?}") };
        assert!(why.contains("exit status: 3"), "{why}");
    }

    #[test]
    fn a_tool_that_never_ends_is_ended() {
        let start = Instant::now();
        let read = run(&["sleep", "600"], Duration::from_millis(50));
        assert!(matches!(&read, Reading::Unread(why) if why.contains("no answer")), "{read:?}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn what_is_asked_once_is_told_the_same_again() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("commands")).unwrap();
        let file = tree.path().join("commands/ss -ltnp");
        let host = Host::below(tree.path());
        for text in ["first", "second"] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(host.command_once(&["ss", "-ltnp"]), Reading::Text("first".into()));
            assert_eq!(host.command(&["ss", "-ltnp"]), Reading::Text(text.into()));
        }
    }

    #[test]
    fn below_a_root_files_speak_for_the_tools() {
        let tree = tempfile::tempdir().unwrap();
        let commands = tree.path().join("commands");
        std::fs::create_dir(&commands).unwrap();
        std::fs::write(commands.join("ethtool -l eth0"), "Combined: 8\n").unwrap();
        std::fs::write(commands.join("cat _etc_hosts"), "hosts\n").unwrap();
        std::fs::write(commands.join("ethtool -c eth0.failed"), "netlink error:\nOperation not supported\n").unwrap();
        let host = Host::below(tree.path());

        assert_eq!(host.command(&["ethtool", "-l", "eth0"]), Reading::Text("Combined: 8".into()));
        assert_eq!(host.command(&["cat", "/etc/hosts"]), Reading::Text("hosts".into()));
        assert_eq!(
            host.command(&["ethtool", "-c", "eth0"]),
            Reading::Unread("`ethtool -c eth0`: netlink error:; Operation not supported".into())
        );
        assert_eq!(host.command(&["echo", "this machine's own"]), Reading::Absent);
    }
}
