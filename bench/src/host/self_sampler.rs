//! The generator's own threads.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use super::process::{ThreadCounters, ThreadKey, threads};
use super::root::Root;

/// What one thread of this process used in the window.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadUse {
    /// `shard-N` for executor N.
    pub name: String,
    /// CPU seconds, deliberate spinning too.
    pub cpu_s: f64,
    /// Time that it was ready and had no CPU, in s; 0 where the kernel does not count it.
    pub run_delay_s: f64,
}

/// Watches this process's own threads: a generator without CPU measures itself.
#[derive(Debug)]
pub struct SelfSampler {
    root: Root,
    begun: Instant,
    before: BTreeMap<ThreadKey, ThreadCounters>,
}

impl SelfSampler {
    /// The window begins now.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn start() -> io::Result<SelfSampler> {
        let root = Root::default();
        let before = threads(&root, std::process::id())?;
        Ok(SelfSampler { root, begun: Instant::now(), before })
    }

    /// The window begins now, what was before is forgotten.
    ///
    /// # Errors
    /// As [`start`](SelfSampler::start).
    pub fn window_begin(&mut self) -> io::Result<()> {
        *self = SelfSampler::start()?;
        Ok(())
    }

    /// Seconds since the window began.
    pub fn wall_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// What every thread used since the window began, busiest first.
    ///
    /// # Errors
    /// As [`start`](SelfSampler::start).
    pub fn used(&self) -> io::Result<Vec<ThreadUse>> {
        let mut used: Vec<ThreadUse> = Vec::new();
        for (key, now) in threads(&self.root, std::process::id())? {
            let (cpu_ns, delay_ns) =
                self.before.get(&key).map_or((0, 0), |before| (before.cpu_ns, before.run_delay_ns.unwrap_or(0)));
            used.push(ThreadUse {
                name: now.name,
                cpu_s: now.cpu_ns.saturating_sub(cpu_ns) as f64 / 1e9,
                run_delay_s: now.run_delay_ns.unwrap_or(0).saturating_sub(delay_ns) as f64 / 1e9,
            });
        }
        used.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        Ok(used)
    }

    /// What executors used since the window began, busiest first.
    ///
    /// # Errors
    /// As [`start`](SelfSampler::start).
    pub fn executors(&self) -> io::Result<Vec<ThreadUse>> {
        let mut used = self.used()?;
        used.retain(|thread| thread.name.strip_prefix("shard-").is_some_and(|rest| rest.parse::<u16>().is_ok()));
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_executor_that_works_is_told_from_one_that_sleeps() {
        let mut sampler = SelfSampler::start().unwrap();
        let (burn, idle) = (named("shard-7", true), named("shard-8", false));
        sampler.window_begin().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let used = loop {
            let used = sampler.executors().unwrap();
            let cpu = |name| used.iter().find(|thread| thread.name == name).map(|thread| thread.cpu_s);
            if cpu("shard-7").is_some_and(|cpu| cpu > 0.2) {
                break used;
            }
            assert!(Instant::now() < deadline, "{used:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let idler = used.iter().find(|thread| thread.name == "shard-8").unwrap();
        assert!(idler.cpu_s < 0.05, "{used:?}");
        assert!(used.iter().all(|thread| thread.cpu_s <= sampler.wall_s() + 0.1), "{used:?}");
        for (stop, thread) in [burn, idle] {
            drop(stop);
            thread.join().unwrap();
        }
    }

    /// A thread that burns or sleeps until its sender is dropped.
    fn named(name: &str, burns: bool) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>) {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let work = move || {
            if burns {
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {}
            } else {
                let _ = stopped.recv();
            }
        };
        (stop, std::thread::Builder::new().name(name.into()).spawn(work).unwrap())
    }
}
