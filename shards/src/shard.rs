//! A shard: one thread that owns its partitions, its groups and its connections, and asks the others
//! for the rest.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ringgate_group::limits::MAILBOX_REQUESTS_MAX;
use ringgate_group::mailbox::{Backlogs, Step, Turn};
use ringgate_group::route::{Route, ShardId};
use ringgate_group::{ConnectionId, Topics};
use ringgate_runtime::{FileThreads, Notified};

use crate::call::{Call, CatalogueCall, ConnectionClosedCall, Reply, ReplyTo, Request, WatchId};
use crate::catalogue::Catalogue;
use crate::clock::Clock;
use crate::controller::Controller;
use crate::file_times::FileTimes;
use crate::groups::Groups;
use crate::hops::Hops;
use crate::mailbox::{Envelope, Mailbox, Mailroom, Notice};
use crate::metrics::ShardReport;
use crate::op_counter::OpCounter;
use crate::partitions::Partitions;
use crate::pending::{Pending, Questions};
use crate::producer_ids::ProducerIds;
use crate::settings::ShardSettings;
use crate::store::Store;
use crate::timers::Timers;
use crate::waiters::Waiters;
use crate::watches::Watches;

/// A shard as its own tasks hold it.
pub type ShardHandle = Rc<Shard>;

/// What one thread owns.
pub struct Shard {
    id: ShardId,
    route: Route,
    pub(crate) clock: Clock,
    pub(crate) settings: ShardSettings,
    pub(crate) mailroom: Arc<Mailroom>,
    pub(crate) files: FileThreads,
    pub(crate) questions: Questions,
    backlogs: RefCell<Backlogs<Envelope>>,
    hops: RefCell<Hops>,
    pub(crate) file_times: RefCell<FileTimes>,
    room: Waiters,
    visible: RefCell<Arc<Catalogue>>,
    pub(crate) store: Store,
    pub(crate) groups: Groups,
    pub(crate) timers: Timers,
    pub(crate) watches: Watches,
    producer_ids: RefCell<ProducerIds>,
    leader_epoch: i32,
    ops: Arc<OpCounter>,
    stopping: Cell<bool>,
    stop: Waiters,
}

/// What a shard is made of.
pub(crate) struct Parts {
    pub(crate) id: ShardId,
    pub(crate) route: Route,
    pub(crate) settings: ShardSettings,
    pub(crate) mailroom: Arc<Mailroom>,
    pub(crate) files: FileThreads,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) store: Store,
    pub(crate) groups: Groups,
    pub(crate) leader_epoch: i32,
    pub(crate) ops: Arc<OpCounter>,
    pub(crate) clock: Clock,
}

impl Shard {
    pub(crate) fn new(parts: Parts) -> ShardHandle {
        let shards = usize::from(parts.route.shards());
        Rc::new(Shard {
            id: parts.id,
            route: parts.route,
            clock: parts.clock,
            settings: parts.settings,
            mailroom: parts.mailroom,
            files: parts.files,
            questions: Questions::default(),
            backlogs: RefCell::new(Backlogs::new(shards)),
            hops: RefCell::new(Hops::new(shards)),
            file_times: RefCell::default(),
            room: Waiters::default(),
            visible: RefCell::new(parts.catalogue),
            store: parts.store,
            groups: parts.groups,
            timers: Timers::default(),
            watches: Watches::default(),
            producer_ids: RefCell::new(ProducerIds::new(parts.leader_epoch, parts.id)),
            leader_epoch: parts.leader_epoch,
            ops: parts.ops,
            stopping: Cell::new(false),
            stop: Waiters::default(),
        })
    }

    /// Its number.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// What the batches of one request may decompress to, in bytes.
    pub fn max_decompressed_bytes(&self) -> usize {
        self.settings.max_decompressed_bytes
    }

    /// Who owns what.
    pub fn route(&self) -> Route {
        self.route
    }

    /// The topics that clients may see.
    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.visible.borrow().clone()
    }

    pub(crate) fn show(&self, catalogue: Arc<Catalogue>) {
        let before = self.visible.replace(catalogue.clone());
        if Topics::version(&*before) != Topics::version(&*catalogue) {
            self.groups.topics(catalogue);
        }
    }

    /// Milliseconds since the epoch, by the wall clock.
    pub fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// The epoch of every partition's leader in this run: the directory's start counter.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// The gateway's numbers for sessions and metadata changes of Iggy's clients.
    pub fn ops(&self) -> &OpCounter {
        &self.ops
    }

    /// A producer id that was never given out before; -1 when there is none to be had.
    pub async fn next_producer_id(&self) -> i64 {
        match &self.store {
            Store::Embedded { .. } => self.producer_ids.borrow_mut().next_id(),
            Store::Iggy(iggy) => iggy.next_producer_id().await,
        }
    }

    /// The embedded store's partitions. Only its own code asks: what comes for another store is served by that one.
    pub(crate) fn partitions(&self) -> &Partitions {
        match &self.store {
            Store::Embedded { partitions, .. } => partitions,
            Store::Iggy(_) => unreachable!("a call for the embedded store came to a shard that has another"),
        }
    }

    /// The embedded store's catalogue, on the shard that owns it.
    pub(crate) fn controller(&self) -> Option<&Rc<Controller>> {
        match &self.store {
            Store::Embedded { controller, .. } => controller.as_ref(),
            Store::Iggy(_) => None,
        }
    }

    /// Does what takes long and needs nothing of this shard on another thread.
    ///
    /// # Panics
    /// As `work` does.
    pub async fn elsewhere<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.files.run(work).await {
            Ok(done) => done,
            Err(panic) => panic!("{panic}"),
        }
    }

    /// Asks the owner. A plain call when that is this shard, otherwise one message there and one back.
    pub fn submit_to<C: Call>(self: &Rc<Self>, owner: ShardId, call: C) -> Pending<C::Reply> {
        let token = self.questions.ask();
        let reply_to = ReplyTo { shard: self.id, token };
        if owner == self.id {
            self.serve(call.into(), reply_to);
        } else {
            let envelope = Envelope { request: call.into(), reply_to, asked_ns: self.clock.mono_ns() };
            let was_blocked = self.backlogs.borrow().is_blocked_by(owner);
            self.backlogs.borrow_mut().push(owner, envelope);
            self.flush(owner);
            if !was_blocked && self.backlogs.borrow().is_blocked_by(owner) {
                self.hops.borrow_mut().found_full(owner);
            }
        }
        Pending::new(self.clone(), token)
    }

    /// Answers a question, wherever it came from.
    pub(crate) fn reply(&self, to: ReplyTo, reply: Reply) {
        if to.shard == self.id {
            self.questions.answer(to.token, reply);
        } else {
            self.mailroom.notify(to.shard, Notice::Reply { token: to.token, reply });
        }
    }

    /// Wakes a watch, wherever it was set.
    pub(crate) fn wake(&self, shard: ShardId, watch: WatchId) {
        if shard == self.id {
            self.watches.wake(watch);
        } else {
            self.mailroom.notify(shard, Notice::Wake(watch));
        }
    }

    /// Withdraws what a connection parked with these owners.
    pub fn connection_closed(self: &Rc<Self>, connection: ConnectionId, owners: impl Iterator<Item = ShardId>) {
        for owner in owners {
            drop(self.submit_to(owner, ConnectionClosedCall { connection }));
        }
    }

    /// Whether requests for another shard are still waiting for room in its mailbox: connections stop
    /// reading meanwhile.
    pub fn is_backlogged(&self) -> bool {
        self.backlogs.borrow().is_blocked()
    }

    /// Those who wait until nothing is backlogged.
    pub fn room(&self) -> &Waiters {
        &self.room
    }

    pub(crate) fn hops(&self) -> Hops {
        self.hops.borrow().clone()
    }

    /// Whether the gateway is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Waits for the gateway to stop.
    pub async fn stopping(&self) {
        self.stop.until(|| self.stopping.get()).await;
    }

    /// Those who wait for the gateway to stop.
    pub fn stop(&self) -> &Waiters {
        &self.stop
    }

    /// Serves the mailbox until the gateway stops and nothing is left to do.
    pub(crate) async fn serve_mailbox(self: Rc<Self>, mailbox: Mailbox, notified: Notified) {
        let mut batch = Vec::with_capacity(MAILBOX_REQUESTS_MAX);
        let mut turn = Turn::default();
        loop {
            match turn.poll_step() {
                Step::Notices(most) => {
                    let mut taken = 0;
                    for notice in std::iter::from_fn(|| mailbox.notice()).take(most) {
                        taken += 1;
                        self.take(notice);
                    }
                    turn.handle_taken(taken);
                }
                Step::Requests(most) => {
                    mailbox.requests(most, &mut batch);
                    turn.handle_taken(batch.len());
                }
                Step::TellStarving => self.mailroom.feed(self.id),
                Step::Serve => {
                    self.hops.borrow_mut().took_up(&batch, self.clock);
                    for Envelope { request, reply_to, .. } in batch.drain(..) {
                        self.serve(request, reply_to);
                    }
                }
                Step::Flush => {
                    if self.is_backlogged() {
                        self.route.all().for_each(|owner| self.flush(owner));
                    }
                }
                Step::Yield => ringgate_runtime::yield_now().await,
                Step::Wait => notified.notified().await,
            }
        }
    }

    fn take(self: &Rc<Self>, notice: Notice) {
        match notice {
            Notice::Reply { token, reply } => self.questions.answer(token, reply),
            Notice::Wake(watch) => self.watches.wake(watch),
            Notice::Stop => {
                self.stopping.set(true);
                self.store.stop();
                self.groups.shutdown(self);
                self.stop.wake_all();
            }
        }
    }

    /// Does what the owner does. Runs up to the first wait at once.
    fn serve(self: &Rc<Self>, request: Request, to: ReplyTo) {
        let _owner = OwnerState::enter();
        let request = match &self.store {
            Store::Embedded { .. } => request,
            Store::Iggy(iggy) => match iggy.serve(self, request, to) {
                Some(request) => request,
                None => return,
            },
        };
        match request {
            Request::Produced(call) => self.partitions().produce(self, call, to),
            Request::Sent(call) => self.partitions().send(self, call, to),
            Request::ConsumerOffsetDone(call) => {
                let shard = self.clone();
                self.answer_with(to, async move {
                    Reply::ConsumerOffsetDone(shard.partitions().consumer_offset(&shard, call).await)
                });
            }
            Request::SessionForgotten(call) => {
                self.partitions().attempts.end_session(call.session);
                self.reply(to, Reply::SessionForgotten(()));
            }
            Request::PartitionsMeasured(call) => {
                let shard = self.clone();
                self.answer_with(to, async move { Reply::PartitionsMeasured(shard.partitions().stats(call).await) });
            }
            Request::SegmentsDeleted(call) => {
                let shard = self.clone();
                self.answer_with(to, async move {
                    Reply::SegmentsDeleted(shard.partitions().delete_segments(&shard, call).await)
                });
            }
            Request::Fetched(call) => {
                let shard = self.clone();
                self.answer_with(to, async move { Reply::Fetched(shard.partitions().fetch(&shard, to, call).await) });
            }
            Request::Unwatched(call) => {
                self.partitions().unwatch(to.shard, call.id);
                self.reply(to, Reply::Unwatched(()));
            }
            Request::Offsets(call) => {
                let shard = self.clone();
                self.answer_with(
                    to,
                    async move { Reply::Offsets(shard.partitions().list_offsets(&shard, call).await) },
                );
            }
            Request::EpochEnds(call) => {
                let shard = self.clone();
                self.answer_with(to, async move {
                    Reply::EpochEnds(shard.partitions().epoch_ends(shard.leader_epoch(), call).await)
                });
            }
            Request::ProducersDescribed(call) => {
                let shard = self.clone();
                self.answer_with(
                    to,
                    async move { Reply::ProducersDescribed(shard.partitions().producers(call).await) },
                );
            }
            Request::RecordsDeleted(call) => {
                let shard = self.clone();
                self.answer_with(to, async move {
                    Reply::RecordsDeleted(shard.partitions().delete_records(&shard, call).await)
                });
            }
            Request::GroupAnswered(call) => self.groups.handle(self, call, to),
            Request::Withdrawn(call) => {
                self.groups.connection_closed(self, call.connection);
                self.reply(to, Reply::Withdrawn(()));
            }
            Request::SessionRefreshed(call) => {
                self.groups.heartbeat_seen(&call.heartbeat);
                self.reply(to, Reply::SessionRefreshed(()));
            }
            Request::TopicsCreated(call) => {
                let shard = self.clone();
                self.answer_with(to, async move { Reply::TopicsCreated(Controller::create(&shard, call).await) });
            }
            Request::TopicsDeleted(call) => {
                let shard = self.clone();
                self.answer_with(to, async move { Reply::TopicsDeleted(Controller::delete(&shard, call).await) });
            }
            Request::PartitionsCreated(call) => {
                let shard = self.clone();
                self.answer_with(to, async move {
                    Reply::PartitionsCreated(Controller::create_partitions(&shard, call).await)
                });
            }
            Request::ConfigsAltered(call) => {
                let shard = self.clone();
                self.answer_with(
                    to,
                    async move { Reply::ConfigsAltered(Controller::alter_configs(&shard, call).await) },
                );
            }
            Request::CatalogueApplied(call) => {
                let shard = self.clone();
                self.answer_with(to, async move {
                    match call {
                        CatalogueCall::Prepare(next) => shard.partitions().open_missing(&shard, &next).await,
                        CatalogueCall::Publish(next) => shard.partitions().publish(&shard, next).await,
                        CatalogueCall::Show { catalogue, deleted } => {
                            shard.show(catalogue);
                            if let Some(deleted) = deleted {
                                shard.partitions().delete_group_offsets(&shard, deleted).await;
                            }
                        }
                    }
                    Reply::CatalogueApplied(())
                });
            }
            Request::IggyChangeDone(call) => {
                let shard = self.clone();
                self.answer_with(to, async move { Reply::IggyChangeDone(Controller::change_iggy(&shard, call).await) });
            }
            Request::Reported(_) => self.reply(to, Reply::Reported(Box::new(self.report()))),
        }
    }

    /// Answers with what a future comes to: at once when it need not wait, otherwise from a task.
    pub(crate) fn answer_with(self: &Rc<Self>, to: ReplyTo, answer: impl Future<Output = Reply> + 'static) {
        let mut answer = Box::pin(answer);
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => self.reply(to, reply),
            Poll::Pending => {
                let shard = self.clone();
                ringgate_runtime::spawn_as("owner_answer", async move {
                    let reply = pin!(answer).await;
                    shard.reply(to, reply);
                })
                .detach();
            }
        }
    }

    fn flush(&self, owner: ShardId) {
        let has_room_again = self.mailroom.send(self.id, owner, &mut self.backlogs.borrow_mut());
        if has_room_again {
            self.room.wake_all();
        }
    }

    fn report(&self) -> ShardReport {
        ShardReport::of(self)
    }
}

/// While it is held a panic ends the process: it would leave what the shard owns half changed, and whoever
/// called may survive its own panics.
struct OwnerState {
    /// A destructor that runs in a panic may ask, too.
    already_panicking: bool,
}

impl OwnerState {
    fn enter() -> OwnerState {
        OwnerState { already_panicking: std::thread::panicking() }
    }
}

impl Drop for OwnerState {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.already_panicking {
            eprintln!("a shard's own state panicked; the process ends");
            std::process::abort();
        }
    }
}
