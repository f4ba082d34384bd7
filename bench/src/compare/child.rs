//! A run in a process of its own: no run finds connections, memory or ports that an earlier one left.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::engine::Interrupt;

/// How a run's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The directory that it wrote, when it wrote one.
    pub directory: Option<PathBuf>,
}

/// Runs this program with these arguments. Progress goes where this process's goes; the result is read from its files.
pub fn run(arguments: &[OsString], children: &Children) -> io::Result<Ended> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A signal reaches it once, from here.
        .process_group(0)
        .spawn()?;
    let out = child.stdout.take().expect("piped");
    let running = children.hold(&child);
    let mut last = None;
    for line in BufReader::new(out).lines() {
        let line = line?;
        if !line.is_empty() {
            last = Some(line);
        }
    }
    let code = child.wait()?.code();
    drop(running);
    Ok(Ended { code, directory: last.map(PathBuf::from).filter(|directory| directory.is_dir()) })
}

/// Sends a signal to a process and all that it started.
pub fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended in this moment.
        let _ = kill_process_group(group, signal);
    }
}

/// The run under way, which is to hear of an interrupt.
#[derive(Clone, Default)]
pub struct Children(Arc<Mutex<Option<Pid>>>);

impl Children {
    /// Passes on an interrupt to whichever run is under way.
    pub fn heed(interrupt: &Interrupt) -> Children {
        let children = Children::default();
        let told = children.clone();
        interrupt.listen(move || {
            if let Some(group) = *told.0.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = kill_process_group(group, Signal::TERM);
            }
        });
        children
    }

    fn hold(&self, child: &Child) -> Held<'_> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = group;
        Held(self)
    }
}

/// Lets go of a run that has ended.
struct Held<'a>(&'a Children);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
