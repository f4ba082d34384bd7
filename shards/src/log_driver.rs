//! Carries the file jobs of one log out on the file threads and tells those who wait how far it has come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::Shard;
use crate::file_times::{JobKind, JobTime, LogKind};
use crate::settings::Fsync;
use crate::waiters::Waiters;

/// A log that says what is to be done with its files and is told when that was done. At most one write
/// and one sync are out at a time; what is appended meanwhile goes out together in the next.
pub trait JobLog: 'static {
    /// Blocking work on files.
    type Job: Send + 'static;
    /// How it went.
    type Done: Send + 'static;
    /// Which logs its times are counted with.
    const KIND: LogKind;

    /// What a job does, for its time to be counted.
    fn kind(job: &Self::Job) -> JobKind;
    /// The next thing to do, if any may be done now.
    fn poll_job(&mut self) -> Option<Self::Job>;
    /// Does it. May block for long.
    fn run(job: Self::Job) -> Self::Done;
    /// How long the write took of a job that also synced.
    fn wrote_for(_done: &Self::Done) -> Option<Duration> {
        None
    }
    /// Takes in how it went.
    fn handle_done(&mut self, done: Self::Done);
    /// Asks for everything that has been appended to be synced.
    fn request_sync(&mut self);
    /// The position below which everything is written.
    fn written(&self) -> u64;
    /// The position below which everything is on disk.
    fn durable(&self) -> u64;
    /// A write or sync has failed: nothing is taken any more.
    fn is_closed(&self) -> bool;
}

type Progress = Rc<dyn Fn(&Rc<Shard>)>;

/// A [`JobLog`] and its waiters.
pub struct LogDriver<L: JobLog> {
    log: RefCell<L>,
    waiters: Waiters,
    jobs_out: Cell<usize>,
    /// Called on the shard after each completed job.
    progress: RefCell<Option<Progress>>,
}

/// How far a write must have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Handed to the kernel: survives the process.
    Written,
    /// On disk: survives the machine.
    Durable,
}

impl<L: JobLog> LogDriver<L> {
    /// Drives a log.
    pub fn new(log: L) -> LogDriver<L> {
        LogDriver {
            log: RefCell::new(log),
            waiters: Waiters::default(),
            jobs_out: Cell::new(0),
            progress: RefCell::default(),
        }
    }

    /// Calls this after each completed job.
    pub(crate) fn on_progress(&self, progress: impl Fn(&Rc<Shard>) + 'static) {
        *self.progress.borrow_mut() = Some(Rc::new(progress));
    }

    /// Looks at the log or changes it; [`LogDriver::kick`] starts what that makes necessary.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut L) -> R) -> R {
        f(&mut self.log.borrow_mut())
    }

    /// Hands the jobs that may run now to the file threads.
    pub(crate) fn kick(self: &Rc<Self>, shard: &Rc<Shard>) {
        loop {
            let job = self.log.borrow_mut().poll_job();
            let Some(job) = job else { return };
            self.jobs_out.set(self.jobs_out.get() + 1);
            let (this, shard) = (self.clone(), shard.clone());
            let (kind, due) = (L::kind(&job), Instant::now());
            ringgate_runtime::spawn_as("log_job", async move {
                let done = shard.files.run(move || JobTime::of(|| L::run(job))).await;
                this.jobs_out.set(this.jobs_out.get() - 1);
                match done {
                    Ok((done, time)) => {
                        shard.file_times.borrow_mut().count(L::KIND, kind, due, time, L::wrote_for(&done));
                        this.log.borrow_mut().handle_done(done);
                    }
                    // The log's own state is unknown after a panic in its job.
                    Err(panic) => {
                        // Not through the log, whose last lines an abort takes with it.
                        eprintln!("a file job panicked: {panic:?}; the process ends");
                        std::process::abort();
                    }
                }
                let progress = this.progress.borrow().clone();
                if let Some(progress) = progress {
                    progress(&shard);
                }
                this.waiters.wake_all();
                this.kick(&shard);
            })
            .detach();
        }
    }

    /// Waits until everything below `position` has come that far; `Err` when the log closed first.
    pub(crate) async fn reached(self: &Rc<Self>, shard: &Rc<Shard>, position: u64, reach: Reach) -> Result<(), String> {
        if reach == Reach::Durable {
            self.log.borrow_mut().request_sync();
        }
        self.kick(shard);
        let mut outcome = Ok(());
        let at = |log: &L| match reach {
            Reach::Written => log.written(),
            Reach::Durable => log.durable(),
        };
        self.waiters
            .until(|| {
                let log = self.log.borrow();
                if at(&log) >= position {
                    return true;
                }
                if log.is_closed() {
                    outcome = Err("the log was closed by a failed write".to_string());
                    return true;
                }
                false
            })
            .await;
        outcome
    }

    /// Waits until `look` finds what it looks for. It is asked again after each job.
    pub(crate) async fn until<R>(self: &Rc<Self>, shard: &Rc<Shard>, look: impl Fn(&L) -> Option<R>) -> R {
        self.kick(shard);
        loop {
            let mut found = None;
            self.waiters
                .until(|| {
                    found = look(&self.log.borrow());
                    found.is_some()
                })
                .await;
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Appends what `append` says and waits until it is durable, or only written where the gateway's
    /// `fsync` setting says so.
    pub(crate) async fn append_durable(
        self: &Rc<Self>,
        shard: &Rc<Shard>,
        append: impl FnOnce(&mut L) -> Result<u64, String>,
    ) -> Result<(), String> {
        let position = append(&mut self.log.borrow_mut())?;
        let reach = if shard.settings.fsync == Fsync::Always { Reach::Durable } else { Reach::Written };
        self.reached(shard, position, reach).await
    }

    /// Has everything that is only written put on disk.
    pub(crate) fn sync_written(self: &Rc<Self>, shard: &Rc<Shard>) {
        let mut log = self.log.borrow_mut();
        if log.durable() < log.written() {
            log.request_sync();
            drop(log);
            self.kick(shard);
        }
    }

    /// Waits until no job is out and none is due.
    pub(crate) async fn idle(self: &Rc<Self>, shard: &Rc<Shard>) {
        self.kick(shard);
        self.waiters.until(|| self.jobs_out.get() == 0).await;
    }
}
