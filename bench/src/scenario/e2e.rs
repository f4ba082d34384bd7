//! `e2e`: records through topics, from the moment they were meant to be sent to the moment a consumer has them, each
//! one checked.
//!
//! Producers and consumers are in one process, so that one clock times both. Each executor sends to partitions of its
//! own and reads them, so that what was sent and what came are compared without sharing anything.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringgate_client::Target;
use ringgate_wire::records::{BatchHeader, OpenBatch};

use crate::batch::{KeyChoice, Pool, Stamp};
use crate::check::{Delivery, Seen};
use crate::consumer::{Consumer, Names, Settings, Sink};
use crate::limits::{FETCHED_BYTES_MAX, STRAGGLER_LOOK};
use crate::measure::{Recorder, SeriesId, Window};
use crate::plan::{Common, UsageError};
use crate::producer::{Acks, Values};
use crate::result::{Parameter, Unit, Value};
use crate::scenario::records::{Made, Making, Producers, RecordsPlan, mine, say, share};
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};

/// Parameters of `e2e`.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of records and producers.
    pub records: RecordsPlan,
    /// Of consumers.
    pub fetch: Settings,
}

impl Plan {
    /// Checks it.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(records: RecordsPlan, fetch: Settings, common: &Common) -> Result<Plan, UsageError> {
        let records = records.check_stamped(common)?;
        if records.keys != KeyChoice::None {
            let allowed = "none: each executor sends to partitions of its own";
            return Err(UsageError { flag: "keys", value: "given".into(), allowed: allowed.into() });
        }
        let names = Names { records: "consumed_records", bytes: "consumed_bytes" };
        Ok(Plan { records, fetch: Settings { names, ..fetch } })
    }
}

/// What all executors share.
#[derive(Debug, Clone)]
pub struct Shared {
    made: Made,
    run: u64,
    epoch: Instant,
}

/// One executor's producers, and the consumer of its partitions.
pub struct EndToEnd {
    plan: Plan,
    made: Made,
    target: Target,
    producers: Producers,
    consumer: Consumer,
    delivery: Rc<RefCell<Delivery>>,
}

/// Times and checks every record.
struct Arrivals {
    run: u64,
    epoch: Instant,
    pool: std::sync::Arc<Pool>,
    delivery: Rc<RefCell<Delivery>>,
    recorder: Recorder,
    rt: SeriesId,
    st: SeriesId,
}

impl Arrivals {
    fn record(&self, partition: usize, offset: i64, value: &[u8], received: Instant) {
        let mut delivery = self.delivery.borrow_mut();
        let Some(stamp) = Stamp::read(value) else {
            delivery.corrupt(partition as u32, offset, "its stamp is not one that was sent");
            return;
        };
        if stamp.run == self.run && (stamp.partition as usize != partition || !stamp.is_whole(value, &self.pool)) {
            delivery.corrupt(partition as u32, offset, "its bytes are not those that were sent here");
        }
        match delivery.received(&stamp, offset) {
            Seen::Foreign | Seen::Duplicate => {}
            Seen::InOrder | Seen::Reordered => {
                let intended = self.epoch + Duration::from_nanos(stamp.intended_ns);
                let sent = self.epoch + Duration::from_nanos(stamp.sent_ns);
                self.recorder.record(self.rt, intended, received.saturating_duration_since(intended));
                self.recorder.record(self.st, intended, received.saturating_duration_since(sent));
            }
        }
    }
}

impl Sink for Arrivals {
    fn batch(&mut self, partition: usize, header: &BatchHeader, batch: &Bytes, from: i64, received: Instant) {
        let open = match OpenBatch::open(batch, FETCHED_BYTES_MAX) {
            Ok(open) => open,
            Err(error) => return self.corrupt(partition, header.base_offset, &error.to_string()),
        };
        for record in open.records() {
            match record {
                Ok(record) => {
                    let offset = header.base_offset + i64::from(record.offset_delta);
                    if offset >= from {
                        self.record(partition, offset, record.value.unwrap_or_default(), received);
                    }
                }
                Err(error) => return self.corrupt(partition, header.base_offset, &error.to_string()),
            }
        }
    }

    fn corrupt(&mut self, partition: usize, offset: i64, what: &str) {
        self.delivery.borrow_mut().corrupt(partition as u32, offset, what);
    }
}

impl Scenario for EndToEnd {
    const NAME: &'static str = "e2e";
    const PRIMARY: &'static str = "e2e";
    type Plan = Plan;
    type Shared = Shared;

    fn parameters(plan: &Plan) -> Vec<Parameter> {
        let mut parameters = plan.records.parameters();
        parameters.extend(super::consume::fetch_parameters(&plan.fetch));
        parameters
    }

    async fn found(plan: &Plan, seat: &Seat) -> Result<Shared, SetupError> {
        let made = Made::make(&plan.records, seat, &Target::reach(&seat.common.client()).await?).await?;
        // Of this run alone, also when a seed is used again.
        Ok(Shared { made, run: uuid::Uuid::new_v4().as_u64_pair().0, epoch: Instant::now() })
    }

    async fn prepare(plan: &Plan, shared: &Shared, seat: &Seat) -> Result<EndToEnd, SetupError> {
        let target = Target::reach(&seat.common.client()).await?;
        let Shared { made, run, epoch } = shared.clone();
        let delivery = Rc::new(RefCell::new(Delivery::new(run)));
        let partitions: Vec<usize> = mine(seat, plan.records.all_partitions()).collect();
        let making = Making {
            plan: &plan.records,
            made: &made,
            target: &target,
            numbers: mine(seat, seat.common.connections).collect(),
            primary: true,
            share: share(partitions.len(), plan.records.all_partitions()),
            partitions: partitions.clone(),
            names: Names { records: "records", bytes: "bytes" },
            values: &|number| Values::Stamped { run, producer: number as u32, epoch },
            delivery: Some(delivery.clone()),
        };
        let producers = Producers::start(seat, making).await?;
        let arrivals = Arrivals {
            run,
            epoch,
            pool: made.pool.clone(),
            delivery: delivery.clone(),
            recorder: seat.recorder.clone(),
            rt: seat.primary_rt,
            st: seat.recorder.series("e2e.st"),
        };
        let (fetch, per_topic) = (plan.fetch.clone(), plan.records.partitions);
        let topics = made.topics.clone();
        let consumer =
            Consumer::new(target.clone(), fetch, topics, per_topic, partitions, seat.recorder.clone(), arrivals)?;
        consumer.start();
        Ok(EndToEnd { plan: plan.clone(), made, target, producers, consumer, delivery })
    }

    async fn drive(&mut self, seat: &Seat, window: Window) -> Result<(), Aborted> {
        self.producers.drive(seat, window).await;
        Ok(())
    }

    async fn finish(self, seat: &Seat) -> Findings {
        let EndToEnd { plan, made, target, producers, consumer, delivery } = self;
        let mut findings = Findings { about: target.about(), ..Findings::default() };
        let totals = producers.finish(seat).await;
        // Stragglers have as long as an answer may take.
        let open = || delivery.borrow().open();
        let _ = ringgate_runtime::timeout(seat.common.request_timeout, async {
            while open() > 0 {
                ringgate_runtime::sleep(STRAGGLER_LOOK).await;
            }
        })
        .await;
        let moves = consumer.stop().await.again;
        let mut delivery = delivery.replace(Delivery::new(0));
        if plan.records.acks == Acks::None {
            let missing = delivery.open();
            delivery.excuse_all();
            findings.values.insert("missing_unacknowledged".into(), count(missing));
        }
        findings.values.insert("unacknowledged".into(), count(delivery.excused_records()));
        if delivery.foreign() > 0 {
            findings.notes.push("topics hold records that this run did not send; they are left out".into());
        }
        if delivery.unjudged() > 0 {
            let notes = &mut findings.notes;
            notes.push(format!("{} records could not be judged: there were too many gaps", delivery.unjudged()));
        }
        if !moves.is_empty() {
            findings.notes.push(super::consume::say_moves(&moves));
        }
        findings.checks = delivery.finish();
        say(&plan.records, &made, &totals, &mut findings);
        made.done(&plan.records, Vec::new(), seat, &target, &mut findings).await;
        findings
    }
}

fn count(count: u64) -> Value {
    Value { value: count as f64, unit: Unit::Count }
}
