//! How long the files of a shard's logs take, by kind of log.

use std::time::{Duration, Instant};

use ringgate_group::Histogram;

/// A kind of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Records of partitions.
    Partition,
    /// Groups and their offsets.
    Group,
    /// Topics.
    Catalogue,
    /// Offsets of Iggy's consumers.
    ConsumerOffset,
}

impl LogKind {
    /// All of them.
    pub const ALL: [LogKind; 4] = [LogKind::Partition, LogKind::Group, LogKind::Catalogue, LogKind::ConsumerOffset];

    /// As a metric names it.
    pub fn name(self) -> &'static str {
        match self {
            LogKind::Partition => "partition",
            LogKind::Group => "group",
            LogKind::Catalogue => "catalogue",
            LogKind::ConsumerOffset => "consumer_offset",
        }
    }
}

/// What a file job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Writes so many appends together.
    Append(usize),
    /// Has what is written put on disk, perhaps after it has written it.
    Sync,
    /// Anything else: what is no longer wanted is removed, or gathered anew.
    Chore,
}

/// When a file thread took a job up, and how long that worked on it.
pub(crate) struct JobTime {
    taken: Instant,
    worked: Duration,
}

impl JobTime {
    /// Does the job.
    pub(crate) fn of<T>(job: impl FnOnce() -> T) -> (T, JobTime) {
        let taken = Instant::now();
        let done = job();
        (done, JobTime { taken, worked: taken.elapsed() })
    }
}

/// Times of one kind of log.
#[derive(Debug, Clone)]
pub struct LogTimes {
    /// Writes.
    pub append: Histogram,
    /// How many appends went into each write.
    pub appends: Histogram,
    /// Syncs.
    pub sync: Histogram,
}

/// Times of all logs of a shard.
#[derive(Debug, Clone)]
pub struct FileTimes {
    /// By [`LogKind`], in its order.
    logs: [LogTimes; LogKind::ALL.len()],
    /// From the moment that a job could be done until a file thread took it up.
    pub waited: Histogram,
}

impl Default for FileTimes {
    fn default() -> FileTimes {
        let log =
            || LogTimes { append: Histogram::of_times(), appends: Histogram::of_counts(), sync: Histogram::of_times() };
        FileTimes { logs: std::array::from_fn(|_| log()), waited: Histogram::of_times() }
    }
}

impl FileTimes {
    /// Of this kind of log.
    pub fn of(&self, log: LogKind) -> &LogTimes {
        &self.logs[log as usize]
    }

    /// As [`of`](FileTimes::of).
    pub fn of_mut(&mut self, log: LogKind) -> &mut LogTimes {
        &mut self.logs[log as usize]
    }

    /// A job of this log, which could be done since `due`, was; `wrote` of its time went into the write, if it both wrote
    /// and synced.
    pub(crate) fn count(&mut self, log: LogKind, job: JobKind, due: Instant, time: JobTime, wrote: Option<Duration>) {
        self.waited.record_time(time.taken.saturating_duration_since(due));
        let log = self.of_mut(log);
        match job {
            JobKind::Append(appends) => {
                log.append.record_time(wrote.unwrap_or(time.worked));
                log.appends.record(appends as u64);
                if let Some(wrote) = wrote {
                    log.sync.record_time(time.worked.saturating_sub(wrote));
                }
            }
            JobKind::Sync => log.sync.record_time(time.worked),
            JobKind::Chore => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_counted_with_their_log_by_what_they_did() {
        let mut times = FileTimes::default();
        let pause = Duration::from_millis(2);
        let due = Instant::now();
        std::thread::sleep(pause);
        let mut did = |log, job, wrote| {
            let ((), time) = JobTime::of(|| std::thread::sleep(pause));
            times.count(log, job, due, time, wrote);
        };
        did(LogKind::Group, JobKind::Append(3), None);
        did(LogKind::Group, JobKind::Sync, None);
        did(LogKind::Partition, JobKind::Chore, None);
        did(LogKind::Catalogue, JobKind::Append(2), Some(pause / 2));
        let both = times.of(LogKind::Catalogue);
        assert_eq!((both.append.count(), both.appends.sum(), both.sync.count()), (1, 2.0, 1));
        assert!(both.append.sum() < both.sync.sum() + pause.as_secs_f64() / 2.0, "the sync's part is not the write's");
        let group = times.of(LogKind::Group);
        assert_eq!((group.append.count(), group.appends.sum(), group.sync.count()), (1, 3.0, 1));
        assert!(group.sync.sum() >= pause.as_secs_f64() && times.waited.sum() >= 4.0 * pause.as_secs_f64());
        let partition = times.of(LogKind::Partition);
        assert_eq!((partition.append.count(), partition.sync.count(), times.waited.count()), (0, 0, 4));
    }
}
