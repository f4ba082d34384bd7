//! What the thread of an executor used, as the kernel tells.

use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// From one moment to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// How long that was.
    pub wall: Duration,
    /// CPU time.
    pub cpu: Duration,
    /// Ready to run, without a CPU.
    pub run_delay: Duration,
    /// In tasks, by wall time: what is left of `cpu` when an executor polls instead of sleeping.
    pub in_tasks: Duration,
}

/// Where a [`Usage`] begins.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    at: Instant,
    cpu: Duration,
    run_delay: Duration,
    in_tasks: Duration,
}

impl Mark {
    /// Now, on the executor that calls this.
    ///
    /// # Errors
    /// The kernel keeps no such figures.
    pub fn now() -> io::Result<Mark> {
        let mut text = String::new();
        File::open("/proc/thread-self/schedstat")?.read_to_string(&mut text)?;
        let (cpu, run_delay) =
            parse(&text).ok_or_else(|| io::Error::other(format!("/proc/thread-self/schedstat reads {text:?}")))?;
        Ok(Mark { at: Instant::now(), cpu, run_delay, in_tasks: ringgate_runtime::slices().total })
    }

    /// What this executor used since.
    ///
    /// # Errors
    /// As [`Mark::now`].
    pub fn used(&self) -> io::Result<Usage> {
        let now = Mark::now()?;
        Ok(Usage {
            wall: now.at.saturating_duration_since(self.at),
            cpu: now.cpu.saturating_sub(self.cpu),
            run_delay: now.run_delay.saturating_sub(self.run_delay),
            in_tasks: now.in_tasks.saturating_sub(self.in_tasks),
        })
    }
}

/// CPU time and run delay (`Documentation/scheduler/sched-stats.rst`: ns on CPU, ns waiting, timeslices).
fn parse(text: &str) -> Option<(Duration, Duration)> {
    let mut fields = text.split_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
    Some((fields.next()??, fields.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_read_as_the_kernel_writes_it() {
        assert_eq!(parse("1200345 77 12\n"), Some((Duration::from_nanos(1_200_345), Duration::from_nanos(77))));
        assert_eq!(parse("nothing"), None);
    }
}
