//! Members fetch the tail of what they own.
//!
//! A Fetch waits at the leader for records, and Kafka answers a connection's requests in their order: so fetches have
//! connections of their own, as those of Kafka's consumer have, and where members share these a Fetch does not wait.

use std::time::Instant;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse, TopicName};
use ringgate_client::{Address, Answered, CallError, Target, decode};

use super::driver::{Due, Fleet, Topics};
use super::fetchers::Turn;
use super::inbox::{Ask, Asked, Event};
use super::member::State;
use super::operations::{record, record_none};
use super::timers::Nanos;
use crate::consumer::end_offsets;
use crate::limits::{FLEET_FETCH_BYTES, MEMBER_PAUSE};
use crate::producer::TopicRef;

/// Kafka's code of an offset that the leader does not have.
const OFFSET_OUT_OF_RANGE: i16 = 1;

/// Each partition's leader and, if asked for, its end; by the fleet's numbers.
pub(super) type Led = Vec<(Address, Option<i64>)>;

/// Looks them up.
pub(super) async fn led(target: &Target, topics: &Topics, with_ends: bool) -> Result<Led, CallError> {
    let per_topic = topics.partitions as usize;
    let mut leaders = Vec::new();
    for name in &topics.names {
        target.forget_topic(name);
        leaders.push(target.leaders(name).await?);
    }
    let names = topics.names.iter().zip(&topics.ids);
    let names: Vec<TopicRef> = names.map(|(name, id)| TopicRef { name: name.to_string(), id: *id }).collect();
    let ends = if with_ends { Some(end_offsets(target, &names, per_topic).await?) } else { None };
    let mut led = Vec::with_capacity(leaders.len() * per_topic);
    for index in 0..per_topic {
        for (topic, leaders) in leaders.iter().enumerate() {
            let gone = || CallError::BadResponse(format!("partition {index} of topic {topic} is not there"));
            let leader = leaders.get(index).ok_or_else(gone)?.clone();
            led.push((leader, ends.as_ref().map(|ends| ends[topic * per_topic + index])));
        }
    }
    Ok(led)
}

impl Fleet {
    /// Leaders are these, or cannot be looked up: who has partitions fetches them from there.
    pub(super) fn are_led(&mut self, came: Result<Led, CallError>) {
        self.fetchers.finding = false;
        match came {
            Ok(led) => {
                if led.iter().all(|(_, end)| end.is_some()) {
                    self.fetchers.ends_unknown = false;
                }
                let led: Vec<_> = led.into_iter().map(|(leader, end)| (self.links.broker(leader), end)).collect();
                self.fetchers.are_led(led.into_iter());
                for member in 0..self.members.len() as u32 {
                    self.fetch_owned(member);
                }
            }
            Err(error) => {
                self.failed("fetch", error.code(), Instant::now());
                self.find_leaders();
            }
        }
    }

    fn find_leaders(&mut self) {
        if self.closing || std::mem::replace(&mut self.fetchers.finding, true) {
            return;
        }
        let (target, inbox, topics) = (self.target.clone(), self.inbox.clone(), self.topics.clone());
        let with_ends = self.fetchers.ends_unknown;
        let find = async move {
            ringgate_runtime::sleep(MEMBER_PAUSE).await;
            inbox.put(Event::Led(led(&target, &topics, with_ends).await));
        };
        ringgate_runtime::spawn_as("a look-up of leaders", find).detach();
    }

    /// What a member owns has changed: it fetches that and nothing else.
    pub(super) fn fetch_owned(&mut self, member: u32) {
        let Some(poll) = self.plan.poll else { return };
        let row = &self.members[member as usize];
        // Consumers stop when they are to join again.
        let owned: &[u32] = if row.state == State::Stable { &row.assignment } else { &[] };
        if !self.fetchers.own(member, owned) {
            self.find_leaders();
        }
        let now = self.now();
        let first = poll.interval.map_or(0, |mean| (mean.as_nanos() as f64 * self.random.unit()) as Nanos);
        for fetcher in self.fetchers.of(member) {
            if fetcher.turn == Turn::Idle && !fetcher.positions.is_empty() {
                fetcher.turn = Turn::Set;
                fetcher.next = now + first;
                self.timers.set(fetcher.next, Due::Fetch(member, fetcher.born));
            }
        }
    }

    /// A fetcher's moment has come.
    pub(super) fn fetch_is_due(&mut self, at: Nanos, member: u32, born: u32) {
        let Some(fetcher) = self.fetchers.one(member, born).filter(|fetcher| fetcher.turn == Turn::Set) else { return };
        fetcher.turn = Turn::Due;
        if self.send_fetch(member, born) && self.plan.poll.is_some_and(|poll| poll.interval.is_some()) {
            let intended = self.instant(at);
            self.recorder.record(self.operations.lateness, intended, intended.elapsed());
        }
    }

    /// A connection stands for which a member's fetchers may wait.
    pub(super) fn fetch_all_due(&mut self, member: u32) {
        let due = self.fetchers.of(member).iter().filter(|fetcher| fetcher.turn == Turn::Due);
        let due: Vec<u32> = due.map(|fetcher| fetcher.born).collect();
        for born in due {
            self.send_fetch(member, born);
        }
    }

    /// A leader could not be reached.
    pub(super) fn fetch_has_no_connection(&mut self, member: u32, broker: u32, error: &CallError) {
        self.failed("fetch_connect", error.code(), Instant::now());
        let due = self.fetchers.of(member).iter();
        let due = due.filter(|fetcher| fetcher.turn == Turn::Due && fetcher.broker == broker);
        let due: Vec<u32> = due.map(|fetcher| fetcher.born).collect();
        for born in due {
            self.fetch_later(member, born);
        }
    }

    /// Tries again in a while, when leaders have been looked up.
    fn fetch_later(&mut self, member: u32, born: u32) {
        self.find_leaders();
        let at = self.now() + MEMBER_PAUSE.as_nanos() as Nanos + self.random.below(MEMBER_PAUSE.as_nanos() as u64);
        if let Some(fetcher) = self.fetchers.one(member, born) {
            (fetcher.turn, fetcher.next) = (Turn::Set, at);
            self.timers.set(at, Due::Fetch(member, born));
        }
    }

    /// Sends what is due, if there is something to fetch and a connection. Whether it was sent.
    fn send_fetch(&mut self, member: u32, born: u32) -> bool {
        let (Some(poll), false) = (self.plan.poll, self.closing) else { return false };
        let Some(fetcher) = self.fetchers.one(member, born) else { return false };
        if fetcher.positions.is_empty() {
            fetcher.turn = Turn::Idle;
            return false;
        }
        let (broker, next) = (fetcher.broker, fetcher.next);
        let Some(place) = self.fetch_place(member, born, broker) else { return false };
        let topics = &self.topics;
        let mut by_topic: Vec<FetchTopic> = Vec::new();
        let Some(fetcher) = self.fetchers.one(member, born) else { return false };
        fetcher.turn = Turn::Out;
        for topic in 0..topics.names.len() {
            let of_topic =
                fetcher.positions.iter().filter(|(number, _)| *number as usize % topics.names.len() == topic);
            let partitions: Vec<FetchPartition> = of_topic
                .map(|(number, offset)| {
                    FetchPartition::default()
                        .with_partition((*number as usize / topics.names.len()) as i32)
                        .with_fetch_offset(*offset)
                        .with_partition_max_bytes(FLEET_FETCH_BYTES)
                })
                .collect();
            if !partitions.is_empty() {
                let asked = FetchTopic::default().with_topic_id(topics.ids[topic]).with_partitions(partitions);
                by_topic.push(asked.with_topic(TopicName(topics.names[topic].clone())));
            }
        }
        let request = FetchRequest::default()
            .with_max_wait_ms(i32::try_from(poll.max_wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(FLEET_FETCH_BYTES)
            // No session.
            .with_session_epoch(-1)
            .with_topics(by_topic);
        let asked = self.asked(member, Ask::Fetch(born), self.instant(next));
        self.send(place, self.versions.fetch, &request, asked);
        true
    }

    pub(super) fn fetched(&mut self, asked: Asked, born: u32, came: Result<Answered, CallError>, known: Instant) {
        let member = asked.member;
        // What is gone with its member is no error of the target's.
        let Some(fetcher) = self.fetchers.one(member, born) else { return };
        let next = fetcher.next;
        let at = asked.intended;
        let answer = came.and_then(|answered| {
            decode::<FetchRequest>(answered.body.clone(), self.versions.fetch).map(|answer| (answered, answer))
        });
        let went_well = match answer {
            Ok((answered, answer)) => {
                record(&self.recorder, &self.operations.fetch, &asked, &answered, at);
                let (records, wrong) = self.take_fetched(member, born, answer);
                if records == 0 {
                    self.recorder.count("fetch.empty", at, 1);
                } else {
                    self.recorder.count("fetch.records", answered.received, records);
                }
                if let Some(code) = wrong {
                    self.failed("fetch", code, at);
                }
                wrong.is_none()
            }
            Err(error) => {
                record_none(&self.recorder, &self.operations.fetch, &asked, &error, at, known);
                false
            }
        };
        if self.closing {
            return;
        }
        if !went_well {
            self.fetch_later(member, born);
            return;
        }
        let now = self.now();
        let interval = self.plan.poll.and_then(|poll| poll.interval).map(|interval| interval.as_nanos() as Nanos);
        let next = interval.map_or(now, |interval| next + interval);
        let Some(fetcher) = self.fetchers.one(member, born) else { return };
        fetcher.next = next;
        if next > now {
            fetcher.turn = Turn::Set;
            self.timers.set(next, Due::Fetch(member, born));
            return;
        }
        // It was due before the last was answered, and keeps its moment.
        fetcher.turn = Turn::Due;
        self.send_fetch(member, born);
    }

    /// Takes in what came: records, and the last error code.
    fn take_fetched(&mut self, member: u32, born: u32, answer: FetchResponse) -> (u64, Option<i16>) {
        let (mut records, mut wrong) = (0, (answer.error_code != 0).then_some(answer.error_code));
        let topics = self.topics.names.len() as u32;
        for of_topic in answer.responses {
            let nameless = of_topic.topic.is_empty();
            let mut known = (0..topics).filter(|topic| match nameless {
                true => self.topics.ids[*topic as usize] == of_topic.topic_id,
                false => self.topics.names[*topic as usize] == *of_topic.topic,
            });
            let Some(topic) = known.next() else { continue };
            for part in of_topic.partitions {
                let Ok(index) = u32::try_from(part.partition_index) else { continue };
                let number = index.saturating_mul(topics).saturating_add(topic);
                match part.error_code {
                    0 => records += self.fetchers.take(member, born, number, part.records.unwrap_or_default()),
                    code => {
                        wrong = Some(code);
                        if code == OFFSET_OUT_OF_RANGE {
                            self.fetchers.forget_position(member, born, number);
                        }
                    }
                }
            }
        }
        (records, wrong)
    }
}
