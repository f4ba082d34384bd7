//! From an open store to running shards, and back.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringgate_group::Totals;
use ringgate_group::route::{Route, ShardId};
use ringgate_runtime::{FileThreads, Notified, Notifier, notifier};

use crate::clock::Clock;
use crate::controller::{CONTROLLER, Controller};
use crate::groups::Groups;
use crate::log_driver::LogDriver;
use crate::mailbox::{Mailbox, Mailroom};
use crate::meeting::{Meeting, meeting};
use crate::op_counter::OpCounter;
use crate::open_files::OpenFiles;
use crate::partitions::Partitions;
use crate::settings::{Fsync, ShardSettings};
use crate::shard::Parts;
use crate::store::embedded::{Engine, ShardStore};
use crate::store::iggy::{self, IggyShard, OpenIggy};
use crate::store::{GroupLog, Store};
use crate::timers::{Sleep, Timers};
use crate::{Shard, ShardHandle};

/// Everything of one shard that can be made before its thread runs.
pub struct Seed {
    id: ShardId,
    route: Route,
    settings: ShardSettings,
    mailroom: Arc<Mailroom>,
    mailbox: Mailbox,
    notified: Notified,
    files: FileThreads,
    kept: Kept,
    clock: Clock,
    totals: Arc<Totals>,
    open_files: Arc<OpenFiles>,
    ops: Arc<OpCounter>,
    stages: Stages,
}

/// How far the shards have come with their stop.
struct Stages {
    /// None has a connection left, so nobody asks another for anything that a client waits for.
    unused: Meeting,
    /// Each has finished, so nobody asks another for anything.
    finished: Meeting,
}

/// What a shard keeps things with.
#[expect(clippy::large_enum_variant, reason = "one for each shard, and moved once")]
enum Kept {
    Embedded(Engine, ShardStore),
    Iggy(IggyShard),
}

/// Makes the seeds of all shards over an open engine.
pub fn seeds(
    engine: &Engine,
    stores: Vec<ShardStore>,
    settings: &ShardSettings,
    files: &FileThreads,
    mailbox_capacity: usize,
    open_files: &Arc<OpenFiles>,
) -> (Arc<Mailroom>, Vec<Seed>) {
    let kept = stores.into_iter().map(|store| Kept::Embedded(engine.clone(), store)).collect();
    seeds_of(kept, engine.leader_epoch(), settings, files, mailbox_capacity, open_files)
}

/// Makes the seeds of all shards over an Iggy that was reached.
pub fn iggy_seeds(
    iggy: OpenIggy,
    settings: &ShardSettings,
    files: &FileThreads,
    mailbox_capacity: usize,
    open_files: &Arc<OpenFiles>,
) -> (Arc<Mailroom>, Vec<Seed>) {
    let kept = iggy.into_shards(settings.topic_defaults).into_iter().map(Kept::Iggy).collect();
    seeds_of(kept, iggy::LEADER_EPOCH, settings, files, mailbox_capacity, open_files)
}

fn seeds_of(
    kept: Vec<Kept>,
    start_counter: i32,
    settings: &ShardSettings,
    files: &FileThreads,
    mailbox_capacity: usize,
    open_files: &Arc<OpenFiles>,
) -> (Arc<Mailroom>, Vec<Seed>) {
    let route = Route::new(kept.len() as u16);
    let clock = Clock::start();
    let totals = Arc::new(Totals::default());
    let ops = Arc::new(OpCounter::of_start(start_counter));
    let (notifiers, notifieds): (Vec<Notifier>, Vec<Notified>) = kept.iter().map(|_| notifier()).unzip();
    let (mailroom, mailboxes) = Mailroom::new(notifiers, mailbox_capacity);
    let mailroom = Arc::new(mailroom);
    let stages = meeting(kept.len()).zip(meeting(kept.len()));
    let seeds = kept
        .into_iter()
        .zip(mailboxes)
        .zip(notifieds)
        .zip(stages)
        .enumerate()
        .map(|(id, (((kept, mailbox), notified), (unused, finished)))| Seed {
            id: ShardId(id as u16),
            route,
            settings: settings.clone(),
            mailroom: mailroom.clone(),
            mailbox,
            notified,
            files: files.clone(),
            kept,
            clock,
            totals: totals.clone(),
            open_files: open_files.clone(),
            ops: ops.clone(),
            stages: Stages { unused, finished },
        })
        .collect();
    (mailroom, seeds)
}

impl Seed {
    /// Brings the shard up on this thread: its groups are loaded and its partitions open when this ends.
    pub async fn start(self) -> Running {
        let tail_cache_bytes = self.settings.tail_cache_bytes;
        let (store, log, catalogue, leader_epoch) = match self.kept {
            Kept::Embedded(engine, store) => {
                let catalogue = engine.catalogue();
                let (coordinator_log, controller) = store.into_parts();
                let controller = controller
                    .filter(|_| self.id == CONTROLLER)
                    .map(|log| Rc::new(Controller::new(log, catalogue.clone(), self.open_files)));
                let leader_epoch = engine.leader_epoch();
                let store = Store::Embedded { partitions: Partitions::new(engine, tail_cache_bytes), controller };
                (store, GroupLog::Embedded(Rc::new(LogDriver::new(coordinator_log))), catalogue, leader_epoch)
            }
            Kept::Iggy(iggy) => {
                let catalogue = iggy.catalogue.clone();
                let (store, log) = iggy.into_store(self.id, tail_cache_bytes);
                (Store::Iggy(store), GroupLog::Iggy(Box::new(log)), catalogue, iggy::LEADER_EPOCH)
            }
        };
        let shard = Shard::new(Parts {
            id: self.id,
            route: self.route,
            groups: Groups::new(&self.settings, self.totals, self.clock, log),
            settings: self.settings,
            mailroom: self.mailroom,
            files: self.files,
            store,
            leader_epoch,
            ops: self.ops,
            clock: self.clock,
            catalogue: catalogue.clone(),
        });
        let mailbox = ringgate_runtime::spawn_as("mailbox", shard.clone().serve_mailbox(self.mailbox, self.notified));
        let timers = ringgate_runtime::spawn_as("timers", Timers::turn(shard.clone()));
        shard.groups.topics(shard.catalogue());
        shard.groups.load(&shard).await;
        let expiry = ringgate_runtime::spawn_as("offset_expiry", Groups::expire(shard.clone()));
        let room = ringgate_runtime::spawn_as("room_for_groups", Groups::make_room(shard.clone()));
        let mut tasks = vec![mailbox, timers, expiry, room];
        match &shard.store {
            Store::Embedded { partitions, .. } => {
                partitions.open_missing(&shard, &catalogue).await;
                tasks.push(ringgate_runtime::spawn_as("retention", Partitions::retain(shard.clone())));
            }
            Store::Iggy(iggy) => {
                iggy.start(&shard);
                tasks.push(ringgate_runtime::spawn_as("group_offsets", Groups::load_rest(shard.clone())));
            }
        }
        if let Fsync::Interval(period) = shard.settings.fsync {
            tasks.push(ringgate_runtime::spawn_as("interval_sync", sync_every(shard.clone(), period)));
        }
        Running { shard, tasks: RefCell::new(tasks), stages: self.stages }
    }
}

/// Under `fsync = INTERVAL`: what was answered after the write is on disk one period later at the latest.
async fn sync_every(shard: ShardHandle, period: Duration) {
    loop {
        Sleep::new(&shard, period).await;
        shard.store.sync_written(&shard);
        shard.groups.sync_written(&shard);
    }
}

/// A shard that serves.
pub struct Running {
    shard: ShardHandle,
    tasks: RefCell<Vec<ringgate_runtime::Task<()>>>,
    stages: Stages,
}

impl Running {
    /// The shard.
    pub fn shard(&self) -> &ShardHandle {
        &self.shard
    }

    /// Finishes the writes that have started and puts everything on disk. To be called once, when the shard has no
    /// connection left; what the connections of other shards ask it for is answered until those have none either, and
    /// this ends when all shards have finished.
    pub async fn finish(&self) {
        self.stages.unused.of_all().await;
        self.shard.groups.finish(&self.shard).await;
        self.shard.store.finish(&self.shard).await;
        self.stages.finished.of_all().await;
    }

    /// Ends the shard's own tasks: nothing is answered any more.
    pub async fn end(self) {
        for task in self.tasks.take() {
            task.cancel().await;
        }
    }
}
