//! The groups that a shard coordinates: the coordinator's effects carried out, and its writes batched into
//! the shard's log.

mod later;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringgate_group::pieced::PiecedSlab;
use ringgate_group::request::{HeartbeatRequest, Request};
use ringgate_group::{
    Batcher, ConnectionId, Coordinator, DeletedTopic, Effect, Histogram, Now, Record, ReplyToken, StoreError,
    SurveyCursor, SurveyPage, Text, Totals, resolve_regexes,
};
use ringgate_runtime::Budget;

use crate::ShardHandle;
use crate::call::{GroupCall, Reply, ReplyTo};
use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::limits::{EFFECTS_PER_LOOK, EFFECTS_SLICE, PLACES_LOOK_INTERVAL, UNREADABLE_SAID_MS};
use crate::log_driver::LogDriver;
use crate::metrics::ShardReport;
use crate::settings::ShardSettings;
use crate::store::embedded::coordinator_log::{CoordinatorLog, RecordKey};
use crate::store::{GroupLog, encoded, iggy};
use crate::timers::{Sleep, TimerKey};
use later::Later;

/// One shard's groups and what keeps them.
pub(crate) struct Groups {
    coordinator: RefCell<Coordinator>,
    batcher: RefCell<Batcher>,
    log: GroupLog,
    /// Where the answer to each open request goes.
    asked: RefCell<PiecedSlab<Asked>>,
    /// From a commit's arrival until it is decided, which is when it is kept.
    commit_took: RefCell<Histogram>,
    /// A task carries effects out in slices; those that come meanwhile are its, too.
    pumping: Cell<bool>,
    writing: Cell<bool>,
    batches: Cell<u64>,
    records: Cell<u64>,
    /// When the log was last said to take nothing.
    refused_said_ms: Cell<i64>,
    later: Later,
    clock: Clock,
}

/// An open request.
struct Asked {
    to: ReplyTo,
    /// When it came, of a commit; else 0.
    at_ns: u64,
}

impl Groups {
    /// Groups that are still to be loaded.
    pub(crate) fn new(settings: &ShardSettings, totals: Arc<Totals>, clock: Clock, log: GroupLog) -> Groups {
        let random = || uuid::Uuid::new_v4().as_u128();
        Groups {
            coordinator: RefCell::new(Coordinator::new(settings.group.clone(), totals, random)),
            batcher: RefCell::new(Batcher::new(settings.offset_linger)),
            log,
            asked: RefCell::default(),
            commit_took: RefCell::new(Histogram::of_times()),
            pumping: Cell::new(false),
            writing: Cell::new(false),
            batches: Cell::new(0),
            records: Cell::new(0),
            refused_said_ms: Cell::new(i64::MIN),
            later: Later::default(),
            clock,
        }
    }

    fn now(&self) -> Now {
        Now { mono_ms: self.clock.mono_ms(), wall_ms: self.clock.wall_ms() }
    }

    /// Brings back what the log keeps: stable groups go on as if nothing had happened.
    pub(crate) async fn load(&self, shard: &ShardHandle) {
        if let GroupLog::Iggy(_) = self.log {
            self.coordinator.borrow_mut().load_offsets_later();
        }
        for (nth, record) in self.log.load(shard).await.into_iter().enumerate() {
            self.coordinator.borrow_mut().load(self.now(), record);
            if nth % EFFECTS_SLICE == 0 {
                ringgate_runtime::yield_now().await;
            }
        }
        self.coordinator.borrow_mut().finish_loading(self.now());
        self.pump(shard);
    }

    /// Takes in a request.
    pub(crate) fn handle(&self, shard: &ShardHandle, call: GroupCall, to: ReplyTo) {
        let GroupCall { connection, request } = call;
        let at_ns = if let Request::OffsetCommit(_) = request { self.clock.mono_ns() } else { 0 };
        let token = ReplyToken(self.asked.borrow_mut().insert(Asked { to, at_ns }) as u64);
        self.take(shard, token, connection, request);
        self.pump(shard);
    }

    /// A Heartbeat waits behind another request of its connection: its member's session goes on.
    pub(crate) fn heartbeat_seen(&self, request: &HeartbeatRequest) {
        if !self.is_held() {
            return;
        }
        self.coordinator.borrow_mut().handle_heartbeat_seen(self.now(), request);
    }

    /// What topics there are from now on.
    pub(crate) fn topics(&self, catalogue: Arc<Catalogue>) {
        self.coordinator.borrow_mut().handle_topics(catalogue);
    }

    /// Topics are gone, and the offsets committed for them with them.
    pub(crate) fn topics_deleted(&self, shard: &ShardHandle, topics: Vec<DeletedTopic>) {
        self.coordinator.borrow_mut().handle_topics_deleted(self.now(), topics);
        self.pump(shard);
    }

    /// Lets offsets go whose time is over, every `offsets_retention_check_interval`.
    pub(crate) async fn expire(shard: ShardHandle) {
        loop {
            Sleep::new(&shard, shard.settings.offsets_retention_check_interval).await;
            if shard.groups.is_held() {
                shard.groups.coordinator.borrow_mut().handle_expiry(shard.groups.now());
            }
            shard.groups.pump(&shard);
        }
    }

    /// Gives up groups that have nothing but their place, where other shards want room for theirs.
    pub(crate) async fn make_room(shard: ShardHandle) {
        loop {
            Sleep::new(&shard, PLACES_LOOK_INTERVAL).await;
            if shard.groups.is_held() {
                shard.groups.coordinator.borrow_mut().handle_places_wanted();
            }
            shard.groups.pump(&shard);
        }
    }

    /// A timer is due.
    pub(crate) fn timer(&self, shard: &ShardHandle, key: ringgate_group::TimerKey) {
        if !self.is_held() {
            return self.put_off(shard, key);
        }
        self.coordinator.borrow_mut().handle_timer(self.now(), key);
        self.pump(shard);
    }

    /// The connection is gone.
    pub(crate) fn connection_closed(&self, shard: &ShardHandle, connection: ConnectionId) {
        self.withdraw(connection);
        self.coordinator.borrow_mut().handle_connection_closed(self.now(), connection);
        self.pump(shard);
    }

    /// Nothing was done for this long.
    pub(crate) fn stalled(&self, shard: &ShardHandle, stall_ms: u64) {
        self.coordinator.borrow_mut().handle_stall(stall_ms);
        self.pump(shard);
    }

    /// The gateway stops: what is parked is answered.
    pub(crate) fn shutdown(&self, shard: &ShardHandle) {
        self.coordinator.borrow_mut().handle_shutdown(self.now());
        self.pump(shard);
    }

    /// Has everything that is only written put on disk.
    pub(crate) fn sync_written(&self, shard: &ShardHandle) {
        self.log.sync_written(shard);
    }

    /// Finishes what is being written and puts everything on disk.
    pub(crate) async fn finish(&self, shard: &ShardHandle) {
        // A batch that is written may still have commits to tell.
        while !self.batcher.borrow().is_idle() || self.writing.get() {
            self.log.idle(shard).await;
            ringgate_runtime::yield_now().await;
        }
        self.sync_written(shard);
        self.log.idle(shard).await;
    }

    /// A slice of the groups and what they have committed.
    pub(crate) fn survey(&self, from: SurveyCursor) -> SurveyPage {
        self.coordinator.borrow().survey(from)
    }

    /// As [`Groups::survey`], of one group.
    pub(crate) fn survey_group(&self, group_id: &Text, from: SurveyCursor) -> Option<SurveyPage> {
        self.coordinator.borrow().survey_group(group_id, from)
    }

    /// For how long groups may be answered yet, where a lease bounds that.
    pub(crate) fn held_for(&self) -> Duration {
        match &self.log {
            GroupLog::Embedded(_) => Duration::MAX,
            GroupLog::Iggy(log) => log.held_for(),
        }
    }

    pub(crate) fn report(&self) -> ShardReport {
        let coordinator = self.coordinator.borrow();
        ShardReport {
            groups: coordinator.groups_by_state().map(|(state, groups)| (state.name(), groups)).collect(),
            members: coordinator.member_count(),
            groups_are_listed: match &self.log {
                GroupLog::Embedded(_) => true,
                GroupLog::Iggy(_) => self.later.is_complete(),
            },
            group_stats: coordinator.stats().clone(),
            commit_took: self.commit_took.borrow().clone(),
            commit_batches: match &self.log {
                GroupLog::Embedded(_) => self.batches.get(),
                GroupLog::Iggy(log) => log.operations(),
            },
            commit_records: self.records.get(),
            limits_hit: coordinator.limits_hit().iter().collect(),
            ..ShardReport::default()
        }
    }

    /// Carries out what the coordinator wants; in slices, so that the answers of one large rebalance do not
    /// hold up everything else.
    fn pump(&self, shard: &ShardHandle) {
        if self.pumping.get() || !self.carry_out(shard, EFFECTS_SLICE) {
            return;
        }
        self.pumping.set(true);
        let shard = shard.clone();
        ringgate_runtime::spawn_as("group_effects", async move {
            let groups = &shard.groups;
            loop {
                ringgate_runtime::yield_now().await;
                if !groups.carry_out(&shard, EFFECTS_SLICE) {
                    break;
                }
            }
            groups.pumping.set(false);
        })
        .detach();
    }

    /// Carries out up to `most` effects, or as many as fit a turn: most take a microsecond, but what a work of a large
    /// group does between two may take twenty. `true` when there may be more to do.
    fn carry_out(&self, shard: &ShardHandle, most: usize) -> bool {
        let turn = Budget::new();
        for nth in 1..=most {
            let effect = self.coordinator.borrow_mut().poll_effect();
            match effect {
                None => {
                    self.write(shard);
                    return false;
                }
                Some(Effect::Reply { token, response }) => {
                    let Asked { to, at_ns } = self.asked.borrow_mut().remove(token.0 as usize);
                    if at_ns > 0 {
                        self.commit_took.borrow_mut().record(self.clock.mono_ns().saturating_sub(at_ns));
                    }
                    shard.reply(to, Reply::GroupAnswered(response));
                }
                Some(Effect::Persist { id, records }) => match &self.log {
                    GroupLog::Embedded(_) => self.batcher.borrow_mut().push(self.clock.mono_us(), id, records),
                    GroupLog::Iggy(log) => {
                        self.records.set(self.records.get() + records.len() as u64);
                        log.push(id, records);
                    }
                },
                Some(Effect::ArmTimer { key, deadline_ms }) => shard.timers.arm(TimerKey::Group(key), deadline_ms),
                Some(Effect::CancelTimer { key }) => shard.timers.cancel(&TimerKey::Group(key)),
                Some(Effect::ComputeAssignment { group, uid, assignor, question, asked }) => {
                    self.elsewhere(
                        shard,
                        move || assignor.assign(&question),
                        move |coordinator, now, targets| {
                            coordinator.handle_assignment_computed(now, group, uid, asked, targets);
                        },
                    );
                }
                Some(Effect::ResolveRegex { group, uid, patterns, topics }) => {
                    let resolve = move || resolve_regexes(&patterns, &*topics);
                    self.elsewhere(shard, resolve, move |coordinator, now, resolved| {
                        coordinator.handle_regex_resolved(now, group, uid, resolved);
                    });
                }
                Some(Effect::Worked) => {}
            }
            if nth.is_multiple_of(EFFECTS_PER_LOOK) && turn.is_spent() {
                break;
            }
        }
        self.write(shard);
        true
    }

    /// Does what would take too long here on another thread, and tells the coordinator what came of it.
    fn elsewhere<T: Send + 'static>(
        &self,
        shard: &ShardHandle,
        work: impl FnOnce() -> T + Send + 'static,
        tell: impl FnOnce(&mut Coordinator, Now, T) + 'static,
    ) {
        let done = shard.files.run(work);
        let shard = shard.clone();
        ringgate_runtime::spawn_as("group_assignment", async move {
            let groups = &shard.groups;
            match done.await {
                Ok(done) => tell(&mut groups.coordinator.borrow_mut(), groups.now(), done),
                Err(panic) => panic!("work for a consumer group failed: {panic}"),
            }
            groups.pump(&shard);
        })
        .detach();
    }

    /// Starts what may be written now.
    fn write(&self, shard: &ShardHandle) {
        match &self.log {
            GroupLog::Embedded(log) => self.write_batches(shard, log),
            GroupLog::Iggy(log) => self.write_keys(shard, log),
        }
    }

    /// Starts operations on the keys that have none out.
    fn write_keys(&self, shard: &ShardHandle, log: &iggy::GroupLog) {
        while let Some(operation) = log.start(&shard.catalogue()) {
            let shard = shard.clone();
            ringgate_runtime::spawn_as("group_operation", async move {
                let done = operation.await;
                let groups = &shard.groups;
                if let GroupLog::Iggy(log) = &groups.log {
                    log.done(done);
                    while let Some((id, result)) = log.poll_decided() {
                        groups.coordinator.borrow_mut().handle_persisted(groups.now(), id, result);
                    }
                }
                groups.pump(&shard);
                groups.write(&shard);
            })
            .detach();
        }
    }

    /// Starts the next batch when none is out; the task goes on while there are more.
    fn write_batches(&self, shard: &ShardHandle, log: &Rc<LogDriver<CoordinatorLog>>) {
        if self.writing.get() || self.batcher.borrow().is_idle() {
            return;
        }
        self.writing.set(true);
        let (shard, log) = (shard.clone(), log.clone());
        ringgate_runtime::spawn_as("group_writes", async move {
            let groups = &shard.groups;
            loop {
                let batch = groups.batcher.borrow_mut().poll_batch(groups.clock.mono_us());
                if let Some(batch) = batch {
                    groups.write_batch(&shard, &log, batch.records).await;
                    continue;
                }
                let Some(due_us) = groups.batcher.borrow().next_deadline_us() else { break };
                let wait = due_us.saturating_sub(groups.clock.mono_us());
                ringgate_runtime::sleep(Duration::from_micros(wait)).await;
            }
            groups.writing.set(false);
        })
        .detach();
    }

    async fn write_batch(&self, shard: &ShardHandle, log: &Rc<LogDriver<CoordinatorLog>>, records: Vec<Record>) {
        self.batches.set(self.batches.get() + 1);
        self.records.set(self.records.get() + records.len() as u64);
        let records = encoded(shard, records).await;
        let result = log.append_durable(shard, |log| log.append(records)).await.map_err(|why| {
            self.say_refused(shard, &why);
            StoreError::Unavailable
        });
        let written = self.batcher.borrow_mut().handle_written(result);
        if let Some(written) = written {
            let mut turn = Budget::new();
            for id in written.ids {
                self.coordinator.borrow_mut().handle_persisted(self.now(), id, written.result);
                if turn.is_spent() {
                    // What is decided is told, while the rest of a large batch waits for its turn.
                    self.pump(shard);
                    turn.turn().await;
                }
            }
        }
        self.pump(shard);
    }

    /// Says that nothing is kept, now and then: a log that a failed write has closed refuses all that comes until a restart.
    fn say_refused(&self, shard: &ShardHandle, why: &str) {
        let now_ms = self.clock.wall_ms();
        if now_ms.saturating_sub(self.refused_said_ms.get()) < UNREADABLE_SAID_MS {
            return;
        }
        self.refused_said_ms.set(now_ms);
        tracing::error!(shard = shard.id().0, why, "groups and offsets cannot be kept");
    }
}

/// Looks into a stored record for the log, which knows nothing of groups.
pub fn describe(kind: u8, version: u8, payload: &[u8]) -> Result<RecordKey, String> {
    let record = Record::decode(kind, version, payload).map_err(|error| error.to_string())?;
    Ok(RecordKey { key: record.key(), is_tombstone: record.is_tombstone(), group: record.group_id().as_str().into() })
}
