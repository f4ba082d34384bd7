//! The server's process while it is loaded.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::limits::{SERVER_THREADS_SHOWN, SERVER_WATCH};
use crate::result::{Server, ServerRow, Thread};

use super::cgroup::{CpuGroup, Throttled};
use super::kernel::{ALWAYS, counters};
use super::process::{Memory, Stat, ThreadCounters, ThreadKey, command, descriptors, memory, seconds, threads};
use super::root::Root;

/// Watches one process from outside: what it uses per interval and in the measured window.
///
/// The order: [`start`](ServerSampler::start), [`window_begin`](ServerSampler::window_begin) when the warm-up is over,
/// [`window_end`](ServerSampler::window_end), [`finish`](ServerSampler::finish), and
/// [`interval`](ServerSampler::interval) once per interval of all of it. A thread of its own looks at resident memory
/// and at whether the process still lives.
pub struct ServerSampler {
    root: Root,
    pid: u32,
    command: String,
    watch: Watch,
    /// When the last interval ended.
    interval: Moment,
    begin: Moment,
    begin_extras: Extras,
    end: Option<End>,
    /// Threads that were seen in the window: what they had used when it began, and when last seen in it.
    seen: BTreeMap<ThreadKey, (ThreadCounters, ThreadCounters)>,
}

/// What is read every interval.
#[derive(Debug, Clone)]
struct Moment {
    at: Instant,
    stat: Stat,
    threads: BTreeMap<ThreadKey, ThreadCounters>,
    descriptors: Result<u64, String>,
}

/// Where the window ended; what comes behind does not count.
struct End {
    moment: Moment,
    extras: Extras,
    /// Most resident bytes since the window began.
    rss_max: u64,
}

/// What is read at the window's ends only.
#[derive(Debug, Clone)]
struct Extras {
    memory: Result<Memory, String>,
    kernel: Result<BTreeMap<String, u64>, String>,
    throttled: Result<Option<Throttled>, String>,
}

impl ServerSampler {
    /// Begins to watch the process; the window begins now, too, until told otherwise.
    ///
    /// # Errors
    /// There is no such process, or its threads may not be read.
    pub fn start(pid: u32) -> io::Result<ServerSampler> {
        ServerSampler::start_at(Root::default(), pid)
    }

    /// As [`start`](ServerSampler::start), in another tree.
    ///
    /// # Errors
    /// As there.
    pub fn start_at(root: Root, pid: u32) -> io::Result<ServerSampler> {
        let begin = Moment::now(&root, pid)?;
        if begin.stat.has_ended() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {pid} has ended")));
        }
        let watch = Watch::start(root.clone(), pid, &begin.stat)?;
        Ok(ServerSampler {
            command: command(&root, pid)
                .ok()
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| begin.stat.name.clone()),
            begin_extras: Extras::now(&root, pid),
            interval: begin.clone(),
            seen: BTreeMap::new(),
            begin,
            end: None,
            watch,
            root,
            pid,
        })
    }

    /// Whether the process has ended, or another one has its id.
    pub fn has_ended(&self) -> bool {
        self.watch.shared.gone.load(Ordering::Relaxed)
    }

    /// What it used since the last call; `None` when it has ended.
    pub fn interval(&mut self) -> Option<ServerRow> {
        let now = self.look()?;
        let wall_s = (now.at - self.interval.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let row = ServerRow {
            cpu: cpu_s_between(&self.interval, &now) / wall_s,
            rss_bytes: now.stat.rss_bytes(),
            descriptors: now.descriptors.clone().unwrap_or(0),
            threads: busiest(&self.interval, &now, wall_s),
        };
        self.interval = now;
        Some(row)
    }

    /// The measured window begins: what was before counts no more. Nothing begins behind its end.
    pub fn window_begin(&mut self) {
        if self.end.is_some() {
            return;
        }
        if let Some(now) = self.look() {
            self.watch.shared.rss_max.store(now.stat.rss_bytes(), Ordering::Relaxed);
            self.begin_extras = Extras::now(&self.root, self.pid);
            self.begin = now;
            self.seen.clear();
        }
    }

    /// The measured window ends: what comes behind does not count. It ends once: later calls change nothing.
    pub fn window_end(&mut self) {
        if self.end.is_some() {
            return;
        }
        if let Some(moment) = self.look() {
            let rss_max = self.watch.shared.rss_max.load(Ordering::Relaxed);
            self.end = Some(End { moment, extras: Extras::now(&self.root, self.pid), rss_max });
        }
    }

    /// What it used in the window, until now when no end was told, until it was last seen when it has ended.
    /// The costs per request and per MB are the caller's to fill in.
    pub fn finish(mut self) -> Server {
        self.window_end();
        let restarted = self.has_ended();
        let (end, end_extras, rss_max) = match &self.end {
            Some(End { moment, extras, rss_max }) => (moment, extras.clone(), *rss_max),
            None => {
                let rss_max = self.watch.shared.rss_max.load(Ordering::Relaxed);
                (&self.interval, Extras::none("the process has ended"), rss_max)
            }
        };
        let (begin, begin_extras) = (&self.begin, &self.begin_extras);

        let mut unread = BTreeMap::new();
        let mut note = |what: &str, reason: &String| {
            unread.insert(what.to_owned(), reason.clone());
        };
        let pss = |memory: &Result<Memory, String>| memory.as_ref().ok().map(|memory| memory.pss_bytes);
        let rss = |memory: &Result<Memory, String>, moment: &Moment| {
            memory.as_ref().map_or(moment.stat.rss_bytes(), |memory| memory.rss_bytes)
        };
        if let Err(reason) = begin_extras.memory.as_ref().and(end_extras.memory.as_ref()) {
            note("pss", reason);
        }
        if let Err(reason) = &end.descriptors {
            note("descriptors", reason);
        }
        let kernel = match (&begin_extras.kernel, &end_extras.kernel) {
            (Ok(before), Ok(after)) => moved(before, after),
            (Err(reason), _) | (_, Err(reason)) => {
                note("kernel", reason);
                BTreeMap::new()
            }
        };
        let throttled = match (&begin_extras.throttled, &end_extras.throttled) {
            (Ok(before), Ok(after)) => before.zip(*after).map(|(before, after)| Throttled {
                periods: after.periods.saturating_sub(before.periods),
                seconds: (after.seconds - before.seconds).max(0.0),
            }),
            (Err(reason), _) | (_, Err(reason)) => {
                note("throttled", reason);
                None
            }
        };

        let mut run_delay_ns = Some(0);
        let (mut voluntary, mut involuntary) = (0, 0);
        let mut used = Vec::with_capacity(self.seen.len());
        for ((id, _), (before, last)) in &self.seen {
            let delay = last.run_delay_ns.map(|last| last.saturating_sub(before.run_delay_ns.unwrap_or(0)));
            run_delay_ns = run_delay_ns.zip(delay).map(|(sum, delay)| sum + delay);
            voluntary += last.voluntary_switches.saturating_sub(before.voluntary_switches);
            involuntary += last.involuntary_switches.saturating_sub(before.involuntary_switches);
            let cpu_s = last.cpu_ns.saturating_sub(before.cpu_ns) as f64 / 1e9;
            used.push(Thread { name: last.name.clone(), id: *id, cpu_s });
        }
        used.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        if run_delay_ns.is_none() {
            note("run_delay", &"the kernel keeps no schedstat".to_owned());
        }

        let cpu_s = cpu_s_between(begin, end);
        let wall_s = (end.at - begin.at).as_secs_f64();
        Server {
            pid: self.pid,
            command: self.command.clone(),
            user_s: seconds(end.stat.user_ticks.saturating_sub(begin.stat.user_ticks)),
            system_s: seconds(end.stat.system_ticks.saturating_sub(begin.stat.system_ticks)),
            cpu_s,
            cpu: if wall_s > 0.0 { cpu_s / wall_s } else { 0.0 },
            cpu_us_per_request: None,
            cpu_ms_per_mb: None,
            rss_start_bytes: rss(&begin_extras.memory, begin),
            rss_end_bytes: rss(&end_extras.memory, end),
            rss_max_bytes: rss_max.max(rss(&begin_extras.memory, begin)).max(rss(&end_extras.memory, end)),
            pss_start_bytes: pss(&begin_extras.memory),
            pss_end_bytes: pss(&end_extras.memory),
            descriptors: end.descriptors.clone().unwrap_or(0),
            thread_imbalance: imbalance(&used),
            threads: used,
            context_switches: voluntary + involuntary,
            involuntary_switches: involuntary,
            run_delay_s: run_delay_ns.unwrap_or(0) as f64 / 1e9,
            throttled_periods: throttled.map(|throttled| throttled.periods),
            throttled_s: throttled.map(|throttled| throttled.seconds),
            kernel,
            restarted,
            unread,
        }
    }

    /// The process now; `None` when it has ended. Keeps the threads' counters, for threads end before the window does.
    fn look(&mut self) -> Option<Moment> {
        let now = match Moment::now(&self.root, self.pid) {
            Ok(now) if !now.stat.has_ended() && now.stat.started_ticks == self.watch.started_ticks => now,
            _ => {
                self.watch.shared.gone.store(true, Ordering::Relaxed);
                return None;
            }
        };
        if self.has_ended() {
            return None;
        }
        // Intervals go on behind the window's end, and what is used in them is not the window's.
        for (key, counters) in now.threads.iter().filter(|_| self.end.is_none()) {
            let (_, last) = self.seen.entry(*key).or_insert_with(|| {
                (self.begin.threads.get(key).cloned().unwrap_or_default(), ThreadCounters::default())
            });
            *last = counters.clone();
        }
        Some(now)
    }
}

impl Moment {
    fn now(root: &Root, pid: u32) -> io::Result<Moment> {
        Ok(Moment {
            at: Instant::now(),
            stat: Stat::of_process(root, pid)?,
            threads: threads(root, pid)?,
            descriptors: descriptors(root, pid).map_err(|error| error.to_string()),
        })
    }
}

impl Extras {
    fn now(root: &Root, pid: u32) -> Extras {
        let reason = |error: io::Error| error.to_string();
        Extras {
            memory: memory(root, pid).map_err(reason),
            kernel: counters(root, pid).map_err(reason),
            throttled: CpuGroup::of_process(root, &pid.to_string()).map(|group| group.throttled()).map_err(reason),
        }
    }

    fn none(reason: &str) -> Extras {
        let reason = reason.to_owned();
        Extras { memory: Err(reason.clone()), kernel: Err(reason.clone()), throttled: Err(reason) }
    }
}

/// CPU that the process used between two moments: by thread in ns when none of them ended meanwhile, for then
/// nothing is missing; by the process's clock ticks otherwise.
fn cpu_s_between(before: &Moment, after: &Moment) -> f64 {
    if before.threads.keys().all(|key| after.threads.contains_key(key)) {
        after.threads.iter().map(|(key, counters)| thread_cpu_s(before, key, counters)).sum()
    } else {
        let ticks = |moment: &Moment| moment.stat.user_ticks + moment.stat.system_ticks;
        seconds(ticks(after).saturating_sub(ticks(before)))
    }
}

fn thread_cpu_s(before: &Moment, key: &ThreadKey, now: &ThreadCounters) -> f64 {
    let cpu_ns = before.threads.get(key).map_or(0, |before| before.cpu_ns);
    now.cpu_ns.saturating_sub(cpu_ns) as f64 / 1e9
}

/// The busiest threads' CPU per wall second, by name; those that share a name have their ids behind it.
fn busiest(before: &Moment, after: &Moment, wall_s: f64) -> BTreeMap<String, f64> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for counters in after.threads.values() {
        *named.entry(&counters.name).or_default() += 1;
    }
    let mut used: Vec<(f64, &ThreadKey, &str)> = after
        .threads
        .iter()
        .map(|(key, counters)| (thread_cpu_s(before, key, counters), key, counters.name.as_str()))
        .filter(|(cpu_s, _, _)| *cpu_s > 0.0)
        .collect();
    used.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown = used.into_iter().take(SERVER_THREADS_SHOWN);
    shown
        .map(|(cpu_s, (id, _), name)| {
            let name = if named[name] > 1 { format!("{name}/{id}") } else { name.to_owned() };
            (name, cpu_s / wall_s)
        })
        .collect()
}

/// See [`Server::thread_imbalance`].
fn imbalance(threads: &[Thread]) -> f64 {
    let mut pools: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for thread in threads {
        pools.entry(pool(&thread.name)).or_default().push(thread.cpu_s);
    }
    let sum = |pool: &[f64]| pool.iter().sum::<f64>();
    let Some(pool) = pools.values().max_by(|a, b| sum(a).total_cmp(&sum(b))) else { return 0.0 };
    let mean = sum(pool) / pool.len() as f64;
    if mean > 0.0 { pool.iter().copied().fold(0.0, f64::max) / mean } else { 0.0 }
}

/// What threads of a kind share: the name without the number behind it.
fn pool(name: &str) -> &str {
    name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches(['-', '_', '#', '/', ' '])
}

/// How much counters moved.
fn moved(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let moved = after.iter().filter_map(|(name, after)| {
        let by = after.saturating_sub(*before.get(name)?);
        (by > 0 || ALWAYS.contains(&name.as_str())).then(|| (name.clone(), by))
    });
    moved.collect()
}

/// The thread that looks at the process between intervals.
struct Watch {
    started_ticks: u64,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    rss_max: AtomicU64,
    gone: AtomicBool,
    stop: Mutex<bool>,
    stopped: Condvar,
}

impl Watch {
    fn start(root: Root, pid: u32, stat: &Stat) -> io::Result<Watch> {
        let shared = Arc::new(Shared {
            rss_max: AtomicU64::new(stat.rss_bytes()),
            gone: AtomicBool::new(false),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let started_ticks = stat.started_ticks;
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("server-watch".into())
            .spawn(move || theirs.watch(&root, pid, started_ticks))?;
        Ok(Watch { started_ticks, shared, thread: Some(thread) })
    }
}

impl Shared {
    fn watch(&self, root: &Root, pid: u32, started_ticks: u64) {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stop {
            match Stat::of_process(root, pid) {
                Ok(stat) if !stat.has_ended() && stat.started_ticks == started_ticks => {
                    self.rss_max.fetch_max(stat.rss_bytes(), Ordering::Relaxed);
                }
                _ => {
                    self.gone.store(true, Ordering::Relaxed);
                    return;
                }
            }
            (stop, _) = self.stopped.wait_timeout(stop, SERVER_WATCH).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopped.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic: it has nothing that could be wrong.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_held_against_those_that_do_the_same_work() {
        let of = |threads: &[(&str, f64)]| {
            let threads =
                threads.iter().zip(1..).map(|((name, cpu_s), id)| Thread { name: (*name).into(), id, cpu_s: *cpu_s });
            imbalance(&threads.collect::<Vec<_>>())
        };
        // The guard and the files have work of their own; a shard that did nothing is out of balance.
        assert_eq!(of(&[("shard-0", 3.0), ("shard-1", 1.0), ("file-0", 0.9), ("guard", 0.1)]), 1.5);
        assert_eq!(of(&[("shard-0", 3.0), ("shard-1", 0.0)]), 2.0);
        assert_eq!(of(&[("shard-0", 3.0), ("guard", 0.1)]), 1.0);
        // Java's names are cut off at 15 bytes, before their numbers.
        assert_eq!(of(&[("data-plane-kafk", 2.0), ("data-plane-kafk", 4.0), ("main", 1.0)]), 4.0 / 3.0);
        assert_eq!((of(&[]), of(&[("main", 0.0)])), (0.0, 0.0));
    }
}
