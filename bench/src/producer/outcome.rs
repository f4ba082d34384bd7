//! What came of a request.

use std::rc::Rc;
use std::time::Instant;

use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use ringgate_client::{Answered, CallError, Complete, decode};

use super::queue::Batch;
use super::sender::{Acks, Inner};
use crate::check::StreamId;

use crate::measure::Phase;
use crate::result::errors::{BAD_RESPONSE, DISCONNECTED, TIMED_OUT};

/// Kafka's codes that pass: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
/// REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR,
/// FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID.
const PASSES: [i16; 11] = [3, 5, 6, 7, 13, 19, 20, 56, 74, 75, 100];
/// OUT_OF_ORDER_SEQUENCE_NUMBER: a batch before it is not there yet.
const OUT_OF_ORDER: i16 = 45;
/// DUPLICATE_SEQUENCE_NUMBER: it is there already.
const DUPLICATE: i16 = 46;

/// Whether a code is one that clients try again at, after they have looked up who leads: Kafka's own, or a connection
/// that was lost.
pub fn passes(code: i16) -> bool {
    code == DISCONNECTED || PASSES.contains(&code)
}

/// A request that is out.
pub(super) struct Waiting {
    pub(super) producer: Rc<Inner>,
    pub(super) broker: usize,
    pub(super) batches: Vec<Batch>,
}

impl Complete for Waiting {
    fn complete(&mut self, came: Result<Answered, CallError>) {
        let batches = std::mem::take(&mut self.batches);
        self.producer.state.borrow_mut().brokers[self.broker].out -= 1;
        match came {
            Err(error) => {
                batches.into_iter().for_each(|batch| self.producer.refused(batch, error.code(), Instant::now()))
            }
            Ok(answered) => self.producer.answered(batches, answered),
        }
        self.producer.work.give();
    }
}

impl Inner {
    fn answered(self: &Rc<Self>, batches: Vec<Batch>, Answered { body, sent, received }: Answered) {
        let oldest = batches.iter().filter_map(|batch| batch.moments.first()).map(|(moment, _)| *moment).min();
        if let Some(oldest) = oldest {
            self.recorder.record(self.series.request_rt, oldest, received.saturating_duration_since(oldest));
            self.recorder.record(self.series.request_st, oldest, received.saturating_duration_since(sent));
            self.recorder.count("produce_requests", oldest, 1);
        }
        if self.settings.acks == Acks::None {
            batches.into_iter().for_each(|batch| self.acknowledged(batch, received));
            return;
        }
        match decode::<ProduceRequest>(body, self.version) {
            Err(_) => batches.into_iter().for_each(|batch| self.refused(batch, BAD_RESPONSE, received)),
            Ok(response) => {
                for (at, batch) in batches.into_iter().enumerate() {
                    match self.code_of(&response, at, batch.partition) {
                        0 | DUPLICATE => self.acknowledged(batch, received),
                        code => self.refused(batch, code, received),
                    }
                }
            }
        }
    }

    /// What an answer says of a partition, which mostly is at the same place in it as in the request.
    fn code_of(&self, response: &ProduceResponse, at: usize, partition: usize) -> i16 {
        let (topic, index) = (partition / self.settings.partitions, (partition % self.settings.partitions) as i32);
        let topic = &self.settings.topics[topic];
        let found = response
            .responses
            .iter()
            .filter(|of_topic| match topic.id.is_nil() || of_topic.topic_id.is_nil() {
                true => of_topic.name.as_str() == topic.name,
                false => of_topic.topic_id == topic.id,
            })
            .find_map(|of_topic| {
                let parts = &of_topic.partition_responses;
                let here = parts.get(at).filter(|part| part.index == index);
                here.or_else(|| parts.iter().find(|part| part.index == index))
            });
        found.map_or(BAD_RESPONSE, |part| part.error_code)
    }

    fn acknowledged(&self, batch: Batch, at: Instant) {
        let mut left = (batch.records, batch.record_bytes);
        let mut moments = &batch.moments[..];
        while let Some((first, _)) = moments.first() {
            let phase = self.recorder.phase(*first);
            let mut records = 0;
            while let Some(((moment, count), rest)) = moments.split_first()
                && self.recorder.phase(*moment) == phase
            {
                self.recorder.record_n(self.series.rt, *moment, at.saturating_duration_since(*moment), (*count).into());
                records += count;
                moments = rest;
            }
            // Where the window begins within a batch its bytes are shared out evenly.
            let bytes = left.1 * u64::from(records) / u64::from(left.0.max(1));
            left = (left.0 - records, left.1 - bytes);
            self.recorder.count_moved(self.settings.names.records, *first, at, records.into());
            self.recorder.count_moved(self.settings.names.bytes, *first, at, bytes);
            if phase == Phase::Measured || left.0 == 0 {
                self.recorder.count("batches", *first, 1);
                self.recorder.count("batch_bytes", *first, batch.bytes.len() as u64);
            }
        }
        self.state.borrow_mut().totals.acknowledged_bytes += batch.record_bytes;
        self.done(&batch);
    }

    /// A batch was not taken: it goes out again, or has failed.
    pub(super) fn refused(self: &Rc<Self>, batch: Batch, code: i16, at: Instant) {
        let again = passes(code) || self.settings.idempotent && code == OUT_OF_ORDER;
        let over = at.saturating_duration_since(batch.first_sent) >= self.settings.request_timeout;
        let mut state = self.state.borrow_mut();
        if again && !over && !state.ended && self.settings.acks != Acks::None {
            *state.totals.again.entry(code).or_default() += 1;
            if let Some((first, _)) = batch.moments.first() {
                self.recorder.count("retries", *first, 1);
            }
            let queue = &mut state.queues[batch.partition];
            queue.out -= 1;
            queue.recovering = true;
            queue.push_again(batch);
            drop(state);
            self.recover();
            return;
        }
        // Batches behind one that is missing are not taken under this identity.
        state.identity_spent |= self.settings.idempotent;
        let recover = state.identity_spent && !state.ended;
        state.queues[batch.partition].recovering |= recover;
        drop(state);
        self.failed(&batch, code, at);
        if recover {
            self.recover();
        }
        self.done(&batch);
    }

    /// Counts a batch that will not be sent any more.
    pub(super) fn failed(&self, batch: &Batch, code: i16, at: Instant) {
        for (moment, records) in &batch.moments {
            self.recorder.errors("produce", code, *moment, (*records).into());
            if code == TIMED_OUT {
                let waited = at.saturating_duration_since(*moment);
                self.recorder.record_unanswered_n(self.series.rt, *moment, waited, (*records).into());
            }
        }
        if let Some(delivery) = &self.delivery
            && let Some(producer) = self.state.borrow().content.stamped_producer()
        {
            let stream = StreamId { producer, partition: batch.partition as u32 };
            delivery.borrow_mut().excused(stream, batch.sequences.clone());
        }
    }

    /// A batch that was out has come to its end.
    fn done(&self, batch: &Batch) {
        let mut state = self.state.borrow_mut();
        state.queues[batch.partition].out -= 1;
        state.under_way -= batch.records as usize;
        drop(state);
        self.fewer.give();
    }

    /// Ends it: what is not acknowledged by now has failed, what is not in a batch was never sent.
    pub(super) fn give_up(self: &Rc<Self>) {
        let now = Instant::now();
        let mut links = Vec::new();
        let (mut again, mut unsent) = (Vec::new(), Vec::new());
        {
            let mut state = self.state.borrow_mut();
            state.ended = true;
            links.extend(state.brokers.iter_mut().filter_map(|broker| broker.link.take()));
            for queue in &mut state.queues {
                again.extend(std::iter::from_fn(|| queue.pop_again()));
                unsent.extend(std::iter::from_fn(|| queue.pop_if(|_| true)));
            }
        }
        again.iter().for_each(|batch| self.failed(batch, TIMED_OUT, now));
        for due in unsent {
            let (series, counter) = self.settings.unsent;
            self.recorder.count(counter, due.intended, 1);
            self.recorder.record_unanswered(series, due.intended, now.saturating_duration_since(due.intended));
        }
        // What is out is told that its connection is closed, and fails.
        drop(links);
        self.work.give();
    }
}
