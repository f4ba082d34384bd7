//! The end of a day: faults end, what is left comes to rest and stays so, everybody goes, and nothing is left.

use std::collections::{BTreeMap, BTreeSet};

use ringgate_group::limits::PARTITION_BYTES;
use ringgate_group::request::DeleteGroupRequest;
use ringgate_group::{ErrorCode, Request, Response, Text, TimerKey, Totals};

use super::client::Status;
use super::event::Event;
use super::world::World;

/// From the end of all faults until everything has to be at rest: connections that nobody noticed to be gone,
/// then sessions, join phases and syncs one after the other.
const COMES_TO_REST_US: u64 = 180_000_000;

/// How long it then has to stay so. Longer than offsets are retained.
const STAYS_AT_REST_US: u64 = 100_000_000;

/// From the last client's leave until nothing is left.
const EMPTIES_US: u64 = 120_000_000;

impl World {
    /// From now on nothing goes wrong.
    pub fn calm_down(&mut self) {
        self.trace(|| "calms down".to_owned());
        self.is_calm = true;
        self.store_fails_percent = 0;
        self.store_slow_percent = 0;
        self.delays.slow_percent = 0;
        let was_tight = self.gateway.config != self.gateway.wide;
        self.gateway.config = self.gateway.wide.clone();
        if self.gateway.is_up && (was_tight || self.gateway.shards.iter().any(|shard| shard.log_is_closed)) {
            self.die();
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, io| client.calm(io));
        }
        self.queue.add(self.now_us + COMES_TO_REST_US, Event::AtRest);
    }

    fn statuses(&self) -> Vec<Status> {
        self.clients.iter().filter_map(|place| place.client.as_ref()?.status()).collect()
    }

    /// All groups are at rest, and everything that is subscribed to is with somebody.
    fn check_rest(&mut self) -> BTreeMap<Text, i32> {
        let statuses = self.statuses();
        let mut generations = BTreeMap::new();
        for group in statuses.iter().map(|status| status.group.clone()).collect::<BTreeSet<_>>() {
            let members: Vec<&Status> = statuses.iter().filter(|status| status.group == group).collect();
            let generation = members[0].generation;
            if !members.iter().all(|member| member.is_stable && member.generation == generation) {
                self.checks.fail("groups come to rest when faults end", format!("{group}: {members:#?}"));
            }
            let mut wanted: BTreeSet<(Text, i32)> = BTreeSet::new();
            for member in &members {
                let by_prefix = member.prefix.iter().flat_map(|prefix| self.catalogue.named(prefix)).map(Text::from);
                for topic in member.topics.iter().cloned().chain(by_prefix) {
                    let all = self.catalogue.partitions_of(topic.as_str());
                    wanted.extend((0..all).map(|partition| (topic.clone(), partition)));
                }
            }
            let ids: BTreeSet<&Text> = members.iter().map(|member| &member.member_id).collect();
            if ids.len() != members.len() {
                self.checks.fail("every member has an id of its own", format!("{group}: {ids:?}"));
            }
            let had: Vec<(Text, i32)> = members.iter().flat_map(|member| member.partitions.clone()).collect();
            let distinct: BTreeSet<(Text, i32)> = had.iter().cloned().collect();
            if distinct.len() != had.len() || distinct != wanted {
                let details = format!("{group}: has {had:?}, wants {wanted:?}");
                self.checks.fail("at rest every partition is with one member", details);
            }
            generations.insert(group, generation);
        }
        generations
    }

    pub fn is_at_rest(&mut self) {
        self.at_rest = self.check_rest();
        self.checks.is_settled = true;
        self.fetch_all();
        self.queue.add(self.now_us + STAYS_AT_REST_US, Event::StillAtRest);
    }

    pub fn is_still_at_rest(&mut self) {
        let now = self.check_rest();
        if now != self.at_rest {
            let details = format!("{:?} became {now:?}", self.at_rest);
            self.checks.fail("what is at rest stays so", details);
        }
        self.fetch_all();
        let (counted, recounted) = (self.gateway.totals.clone(), self.recount());
        let of = |totals: &Totals| (totals.groups(), totals.members(), totals.bytes() - totals.pattern_topics_bytes());
        let can_tell = self.gateway.open.is_empty() && !self.gateway.has_unknown_writes;
        // Of a topic that goes a consumer group keeps the room that its partitions had, until it assigns again.
        let (mut counted, kept) = (of(&counted), of(&recounted));
        if self.checks.has_deleted_topics() && counted.2.saturating_sub(kept.2).is_multiple_of(PARTITION_BYTES) {
            counted.2 = counted.2.min(kept.2);
        }
        if can_tell && counted != kept {
            let details = format!("(groups, members, bytes) {counted:?}, but {kept:?}");
            self.checks.fail("memory is counted as what there is", details);
        }
        self.queue.add(self.now_us, Event::Farewell);
    }

    pub fn farewell(&mut self) {
        self.checks.is_settled = false;
        for client in 0..self.clients.len() {
            self.with_client(client, |client, io| client.farewell(io));
        }
        self.queue.add(self.now_us + EMPTIES_US, Event::Delete);
    }

    pub fn delete_groups(&mut self) {
        self.check_all_answered();
        self.gateway.answers_to_nobody.clear();
        for group in self.checks.group_ids() {
            self.ask(group.as_str(), Request::DeleteGroup(DeleteGroupRequest { group_id: group.clone() }));
        }
        self.queue.add(self.now_us + 10_000_000, Event::End);
    }

    fn check_all_answered(&mut self) {
        if let Some((token, open)) = self.gateway.open.first_key_value() {
            let details = format!("{token} of connection {} is not: {:?}", open.connection, open.asked);
            self.checks.fail("every request is answered", details);
        }
    }

    pub fn end(&mut self) {
        self.check_all_answered();
        let refused = |response: &&Response| matches!(response, Response::DeleteGroup(code) if ![ErrorCode::NONE, ErrorCode::GROUP_ID_NOT_FOUND].contains(code));
        let refused = self.gateway.answers_to_nobody.values().find(refused).cloned();
        if let Some(response) = refused {
            self.checks.fail("a group is empty when all have gone", format!("{response:?}"));
        }
        let totals = &self.gateway.totals;
        if (totals.groups(), totals.members(), totals.bytes()) != (0, 0, 0) {
            self.checks.fail("nothing is left of what is gone", format!("{totals:?}"));
        }
        let timers: Vec<&TimerKey> = self.gateway.shards.iter().flat_map(|shard| shard.timers.keys()).collect();
        if !timers.is_empty() {
            let details = format!("{timers:?}");
            self.checks.fail("no timer is left of what is gone", details);
        }
        self.is_over = true;
    }
}
