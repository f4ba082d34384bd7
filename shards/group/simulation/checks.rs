//! What must be true at every step, judged from what goes into coordinators, what comes out of them, and what
//! the store has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ringgate_group::request::OffsetFetchRequest;
use ringgate_group::response::JoinGroupResponse;
use ringgate_group::{DeletedTopic, ErrorCode, PartitionSet, Record, Request, Response, Text, TopicIdPartition};

use super::population::MIXED;
use super::wire::Given;

/// Generations of a group whose owners are remembered.
const GENERATIONS_KEPT: usize = 8;

/// Within this every shard knows what has become of topics, also where the machine stands still, us.
const NEWS_US: u64 = 30_000_000;

/// How long after a request to delete something it may take effect, us.
const DELETION_US: u64 = 60_000_000;

type Key = (Text, Text, i32);

/// What is remembered of a request until it is answered.
#[derive(Debug)]
pub struct Asked {
    pub group: Text,
    life: u64,
    /// The highest generation that anybody had been told.
    told: i32,
    member_id: Text,
    instance: Option<Text>,
    generation: i32,
    /// The member had been replaced, or had left.
    gone: bool,
    commits: Vec<(Key, i64)>,
    floors: Vec<(Key, Option<usize>)>,
    leaving: Vec<Text>,
    pub parks: bool,
}

/// All that was asked to be written of one offset, in order.
#[derive(Debug, Default)]
struct History {
    /// Each with when it was; -1 for a tombstone.
    values: Vec<(i64, u64)>,
    /// As far as the store has it.
    durable: Option<usize>,
    acknowledged: Option<usize>,
}

impl History {
    fn position(&self, offset: i64) -> Option<usize> {
        self.values.iter().rposition(|(value, _)| *value == offset)
    }
}

#[derive(Debug, Default)]
struct Group {
    /// Grows when the group begins anew.
    life: u64,
    told: i32,
    /// It has classic members alone.
    is_classic: bool,
    /// The last generation that anybody was told to be complete.
    synced: i32,
    owners: BTreeMap<i32, HashMap<(Text, i32), Text>>,
    rosters: BTreeMap<i32, HashSet<Text>>,
    /// Who has an instance id, and all who ever had one.
    instances: HashMap<Text, Text>,
    statics: HashSet<Text>,
    gone: HashSet<Text>,
    /// The group's epoch as last written, and those that members were told (KIP-848).
    epoch: i32,
    epochs: HashMap<Text, i32>,
    placed: HashMap<TopicIdPartition, Text>,
    deleted_us: Option<u64>,
}

impl Group {
    fn begin_anew(&mut self) {
        let (life, epoch, deleted_us) = (self.life + 1, self.epoch, self.deleted_us);
        let placed = std::mem::take(&mut self.placed);
        *self = Group { life, epoch, deleted_us, placed, ..Group::default() };
    }
}

/// Everything that is checked while the world runs.
#[derive(Debug, Default)]
pub struct Checks {
    pub failure: Option<(&'static str, String)>,
    /// How often a group with members went from one protocol to the other.
    pub migrations: u64,
    retention_us: u64,
    /// All clients do what they should and nothing fails: nothing that is subscribed to expires.
    pub is_settled: bool,
    /// In order, so that whatever is found first is found first every time.
    histories: BTreeMap<Key, History>,
    /// When topics of these names were deleted last, us.
    deleted_topics: BTreeMap<Text, u64>,
    /// Their ids.
    dead: HashSet<u128>,
    groups: BTreeMap<Text, Group>,
    evicted: HashSet<(Text, Text)>,
    holders: HashMap<(Text, TopicIdPartition), (usize, Text)>,
    held_by: HashMap<usize, (Text, Text, PartitionSet)>,
}

impl Checks {
    pub fn new(retention_us: u64) -> Checks {
        Checks { retention_us, ..Checks::default() }
    }

    pub fn fail(&mut self, invariant: &'static str, details: String) {
        self.failure.get_or_insert((invariant, details));
    }

    fn expect(&mut self, holds: bool, invariant: &'static str, details: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some((invariant, details()));
        }
    }

    fn group(&mut self, group: &Text) -> &mut Group {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), Group::default());
        }
        self.groups.get_mut(group).expect("was put in")
    }

    pub fn group_ids(&self) -> BTreeSet<Text> {
        self.groups.keys().cloned().chain(self.histories.keys().map(|key| key.0.clone())).collect()
    }

    /// A topic is gone, and what was committed for it.
    pub fn topic_deleted(&mut self, now_us: u64, topic: &DeletedTopic) {
        self.deleted_topics.insert(topic.name.clone(), now_us);
        self.dead.insert(topic.topic_id);
    }

    pub fn has_deleted_topics(&self) -> bool {
        !self.deleted_topics.is_empty()
    }

    /// A request reaches its coordinator.
    pub fn asked(&mut self, now_us: u64, request: &Request) -> Asked {
        let mut asked = Asked {
            group: Text::EMPTY,
            life: 0,
            told: 0,
            member_id: Text::EMPTY,
            instance: None,
            generation: -1,
            gone: false,
            commits: Vec::new(),
            floors: Vec::new(),
            leaving: Vec::new(),
            parks: false,
        };
        let (group, member_id, instance, generation) = match request {
            Request::Join(it) => (&it.group_id, &it.member_id, &it.group_instance_id, -1),
            Request::Sync(it) => (&it.group_id, &it.member_id, &it.group_instance_id, it.generation_id),
            Request::Heartbeat(it) => (&it.group_id, &it.member_id, &it.group_instance_id, it.generation_id),
            Request::OffsetCommit(it) => {
                (&it.group_id, &it.member_id, &it.group_instance_id, it.generation_id_or_member_epoch)
            }
            Request::Leave(it) => (&it.group_id, &Text::EMPTY, &None, -1),
            Request::OffsetFetch(it) => (&it.group_id, &Text::EMPTY, &None, -1),
            Request::ConsumerGroupHeartbeat(it) => (&it.group_id, &it.member_id, &it.instance_id, it.member_epoch),
            Request::DeleteGroup(it) => (&it.group_id, &Text::EMPTY, &None, -1),
            Request::OffsetDelete(it) => (&it.group_id, &Text::EMPTY, &None, -1),
            Request::DescribeGroup(it) => (&it.group_id, &Text::EMPTY, &None, -1),
            Request::ConsumerGroupDescribe(it) => (it, &Text::EMPTY, &None, -1),
            Request::ListGroups(_) => return asked,
        };
        asked.group = group.clone();
        asked.member_id = member_id.clone();
        asked.instance = instance.clone();
        asked.generation = generation;
        asked.parks = matches!(request, Request::Join(_) | Request::Sync(_));
        match request {
            Request::OffsetCommit(it) => {
                for topic in &it.topics {
                    for partition in &topic.partitions {
                        let key = (it.group_id.clone(), topic.name.clone(), partition.partition_index);
                        asked.commits.push((key, partition.committed_offset));
                    }
                }
            }
            Request::OffsetFetch(OffsetFetchRequest { topics: Some(topics), .. }) => {
                for topic in topics {
                    for partition in &topic.partition_indexes {
                        let key = (group.clone(), topic.name.clone(), *partition);
                        let floor = self.histories.get(&key).and_then(|history| history.acknowledged);
                        asked.floors.push((key, floor));
                    }
                }
            }
            Request::OffsetFetch(OffsetFetchRequest { topics: None, .. }) => {
                let from = (group.clone(), Text::EMPTY, i32::MIN);
                let of_group = self.histories.range(from..).take_while(|(key, _)| key.0 == *group);
                asked.floors.extend(of_group.map(|(key, history)| (key.clone(), history.acknowledged)));
            }
            Request::Leave(it) => asked.leaving = it.members.iter().map(|member| member.member_id.clone()).collect(),
            Request::DeleteGroup(_) | Request::OffsetDelete(_) => self.group(group).deleted_us = Some(now_us),
            _ => {}
        }
        if let Some(known) = self.groups.get(group) {
            asked.life = known.life;
            asked.told = known.told;
            asked.gone = known.gone.contains(member_id);
        }
        asked
    }

    /// The coordinator has something written.
    pub fn persisted(&mut self, now_us: u64, records: &[Record]) {
        for record in records {
            match record {
                Record::Offset { key, value } => {
                    let key = (key.group_id.clone(), key.topic.clone(), key.partition);
                    let history = self.histories.entry(key).or_default();
                    history.values.push((value.offset, now_us));
                }
                Record::OffsetTombstone { key } => {
                    let key = (key.group_id.clone(), key.topic.clone(), key.partition);
                    self.expect(self.may_be_gone(now_us, &key), "no offset is given up before its time", || {
                        format!("{key:?}")
                    });
                    self.histories.entry(key).or_default().values.push((-1, now_us));
                }
                Record::GroupTombstone { group_id } => {
                    let group = self.group(group_id);
                    group.begin_anew();
                    group.epoch = 0;
                }
                Record::Group(metadata) => {
                    let has_members = !metadata.members.is_empty();
                    let group = self.group(&metadata.group_id);
                    let before = std::mem::replace(&mut group.epoch, 0);
                    let was_classic = std::mem::replace(&mut group.is_classic, has_members);
                    self.migrations += u64::from(has_members && before > 0 && !was_classic);
                }
                Record::ConsumerGroup(metadata) => {
                    let group = self.group(&metadata.group_id);
                    if group.told > 0 {
                        group.begin_anew();
                    }
                    let before = std::mem::replace(&mut group.epoch, metadata.epoch);
                    self.migrations += u64::from(std::mem::take(&mut self.group(&metadata.group_id).is_classic));
                    self.expect(metadata.epoch >= before, "the epoch of a group only grows", || {
                        format!("{} from {before} to {}", metadata.group_id, metadata.epoch)
                    });
                }
                Record::ConsumerMember { group_id, member } => {
                    self.evicted.remove(&(group_id.clone(), member.member_id.clone()));
                    self.group(group_id).placed.retain(|_, with| *with != member.member_id);
                }
                Record::ConsumerMemberTombstone { group_id, member_id } => {
                    self.evicted.insert((group_id.clone(), member_id.clone()));
                    let group = self.group(group_id);
                    group.placed.retain(|_, with| with != member_id);
                    group.epochs.remove(member_id);
                }
            }
        }
        for record in records {
            let Record::ConsumerMember { group_id, member } = record else { continue };
            for partition in member.assigned.iter().chain(member.revoking.iter()) {
                let other = self.group(group_id).placed.insert(partition, member.member_id.clone());
                self.expect(other.is_none(), "a partition is with one member", || {
                    format!("{group_id}: {partition:?} of {other:?} is also with {}", member.member_id)
                });
            }
        }
    }

    /// Whether an offset may be none any more: somebody wanted that, or its time is over, which counts from the last
    /// write that anybody was told of: of later ones, which failed, memory need know nothing.
    fn may_be_gone(&self, now_us: u64, key: &Key) -> bool {
        let asked = self.groups.get(&key.0).and_then(|group| group.deleted_us);
        let told = self.histories.get(key).and_then(|history| history.values.get(history.acknowledged?));
        let written_us = told.map_or(0, |(_, written_us)| *written_us);
        let deleted_us = self.deleted_topics.get(&key.1);
        deleted_us.is_some_and(|deleted_us| written_us < deleted_us + NEWS_US)
            || asked.is_some_and(|then| now_us < then + DELETION_US)
            || !self.is_settled && now_us.saturating_sub(written_us) + 1_000_000 >= self.retention_us
    }

    /// The place of a tombstone that goes out in a batch now.
    pub fn last_tombstone(&self, record: &Record) -> Option<usize> {
        let Record::OffsetTombstone { key } = record else { return None };
        let key = (key.group_id.clone(), key.topic.clone(), key.partition);
        self.histories.get(&key)?.position(-1)
    }

    /// The store has a record for good.
    pub fn durable(&mut self, record: &Record, tombstone: Option<usize>) {
        let (key, place) = match record {
            Record::Offset { key, value } => (key, Some(value.offset)),
            Record::OffsetTombstone { key } => (key, None),
            _ => return,
        };
        let key = (key.group_id.clone(), key.topic.clone(), key.partition);
        let Some(history) = self.histories.get_mut(&key) else { return };
        let place = place.map_or(tombstone, |offset| history.position(offset));
        history.durable = history.durable.max(place);
    }

    /// A request is answered.
    pub fn answered(&mut self, now_us: u64, asked: &Asked, response: &Response) {
        match response {
            Response::Join(answer) if answer.error_code == ErrorCode::NONE => self.joined(asked, answer),
            Response::Sync(answer) if answer.error_code == ErrorCode::NONE => {
                self.accepted(asked, "sync");
                if let Some(given) = Given::read(&answer.assignment) {
                    self.given(asked, &given);
                }
            }
            Response::Heartbeat(ErrorCode::NONE) => self.accepted(asked, "heartbeat"),
            Response::OffsetCommit(answer) => {
                let codes = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|(_, code)| *code);
                let codes: Vec<ErrorCode> = codes.collect();
                self.expect(codes.len() == asked.commits.len(), "a commit is answered in full", || {
                    format!("{asked:?} with {codes:?}")
                });
                if codes.contains(&ErrorCode::NONE) {
                    self.accepted(asked, "commit");
                }
                for ((key, offset), code) in asked.commits.iter().zip(codes) {
                    if code == ErrorCode::NONE {
                        self.acknowledged(key, *offset);
                    }
                }
            }
            Response::OffsetFetch(answer) if answer.error_code == ErrorCode::NONE => {
                let mut found: HashMap<Key, i64> = HashMap::new();
                // What is of a topic that is gone is left out by whoever tells the client.
                for topic in answer.topics.iter().filter(|topic| !self.dead.contains(&topic.topic_id)) {
                    for partition in &topic.partitions {
                        let key = (answer.group_id.clone(), topic.name.clone(), partition.partition_index);
                        found.insert(key, partition.committed_offset);
                    }
                }
                for (key, floor) in &asked.floors {
                    self.fetched(now_us, key, *floor, found.get(key).copied().unwrap_or(-1));
                }
            }
            Response::Leave(answer) if !answer.error_code.is_err() => {
                let group = self.group(&asked.group);
                if answer.members.is_empty() {
                    group.gone.extend(asked.leaving.iter().filter(|id| !id.is_empty()).cloned());
                }
                for member in answer.members.iter().filter(|member| !member.error_code.is_err()) {
                    group.gone.insert(member.member_id.clone());
                }
            }
            Response::ConsumerGroupHeartbeat(answer) if answer.error_code == ErrorCode::NONE => {
                let Some(member_id) = &answer.member_id else { return };
                let (said, told) = (asked.generation, answer.member_epoch);
                let group = self.group(&asked.group);
                let before = group.epochs.insert(member_id.clone(), told);
                let grows = said <= 0 || before.is_none_or(|before| before < 0 || told >= before);
                self.expect(grows && told >= said.min(told.max(-2)), "the epoch of a member only grows", || {
                    format!("{} {member_id} from {before:?} to {told}", asked.group)
                });
            }
            _ => {}
        }
    }

    fn joined(&mut self, asked: &Asked, answer: &JoinGroupResponse) {
        // A classic member's generation is its own epoch while its group is a consumer group.
        if asked.group == MIXED {
            return;
        }
        let group = self.group(&asked.group);
        if let Some(instance) = &asked.instance {
            group.statics.insert(answer.member_id.clone());
            let before = group.instances.insert(instance.clone(), answer.member_id.clone());
            if let Some(before) = before.filter(|before| *before != answer.member_id) {
                group.gone.insert(before);
            }
        }
        group.gone.remove(&answer.member_id);
        let told = group.told;
        group.told = told.max(answer.generation_id);
        if !answer.members.is_empty() {
            let roster = answer.members.iter().map(|member| member.member_id.clone()).collect();
            group.rosters.insert(answer.generation_id, roster);
            while group.rosters.len() > GENERATIONS_KEPT {
                group.rosters.pop_first();
            }
        }
        let names = |id: &Text| answer.members.is_empty() || answer.members.iter().any(|m| m.member_id == *id);
        let (generation, leader) = (answer.generation_id, &answer.leader);
        self.expect(generation >= told, "generations only grow", || format!("{asked:?}: {generation} after {told}"));
        self.expect(answer.skip_assignment || names(leader), "the leader is a member", || {
            format!("{}: {leader} leads {:?}", asked.group, answer.members)
        });
    }

    /// Somebody spoke as a member, and was taken for one.
    fn accepted(&mut self, asked: &Asked, what: &str) {
        let Some(group) = self.groups.get_mut(&asked.group) else { return };
        if group.life != asked.life || asked.generation < 0 || asked.group == MIXED {
            return;
        }
        if what == "sync" {
            group.synced = group.synced.max(asked.generation);
        }
        let is_known = group
            .rosters
            .get(&asked.generation)
            .is_none_or(|roster| roster.contains(&asked.member_id) || group.statics.contains(&asked.member_id));
        let is_current = asked.generation >= asked.told;
        let is_gone = asked.gone;
        self.expect(is_current && !is_gone && is_known, "nobody that was fenced is taken for a member", || {
            format!("{what} of {asked:?}: current {is_current}, gone {is_gone}, of its generation {is_known}")
        });
    }

    fn given(&mut self, asked: &Asked, given: &Given) {
        let is_its_own = given.generation == asked.generation
            && (given.member_id == asked.member_id || given.instance.is_some() && given.instance == asked.instance);
        self.expect(is_its_own, "a member gets what its leader gave it in its generation", || {
            format!("{asked:?} got {given:?}")
        });
        let holder = given.instance.as_ref().unwrap_or(&given.member_id).clone();
        let group = self.group(&asked.group);
        let owners = group.owners.entry(given.generation).or_default();
        let mut twice = None;
        for partition in &given.partitions {
            let before = owners.insert(partition.clone(), holder.clone());
            if let Some(before) = before.filter(|before| *before != holder) {
                twice = Some((partition.clone(), before));
            }
        }
        while group.owners.len() > GENERATIONS_KEPT {
            group.owners.pop_first();
        }
        self.expect(twice.is_none(), "a partition has one owner in a generation", || {
            format!("{} generation {}: {twice:?} and {holder}", asked.group, given.generation)
        });
    }

    fn acknowledged(&mut self, key: &Key, offset: i64) {
        let history = self.histories.entry(key.clone()).or_default();
        let place = history.position(offset);
        history.acknowledged = history.acknowledged.max(place);
        let durable = history.durable;
        self.expect(place.is_some() && durable >= place, "what is acknowledged is durable", || {
            format!("{key:?} {offset}: write {place:?}, durable up to {durable:?}")
        });
    }

    fn fetched(&mut self, now_us: u64, key: &Key, floor: Option<usize>, offset: i64) {
        let gone = self.may_be_gone(now_us, key);
        let Some(history) = self.histories.get(key) else { return };
        let (place, durable) = (history.position(offset), history.durable);
        let holds = match offset {
            -1 => floor.is_none() || place > floor || gone,
            _ => place.is_some() && place >= floor && place <= durable,
        };
        let last = history.values.len();
        let deleted_us = self.deleted_topics.get(&key.1).copied().unwrap_or_default();
        let is_of_old = offset >= 0 && place.is_some_and(|place| history.values[place].1 < deleted_us);
        self.expect(
            !is_of_old || now_us < deleted_us + NEWS_US,
            "what was committed for a deleted topic is gone",
            || format!("{key:?} is {offset}, the topic was deleted at {deleted_us} us"),
        );
        self.expect(holds, "no acknowledged commit is lost or overtaken, none is shown that is not durable", || {
            format!("{key:?} is {offset}, write {place:?} of {last}; acknowledged {floor:?}, durable {durable:?}")
        });
    }

    /// What a client of the consumer protocol has from now on.
    pub fn holds(&mut self, client: usize, group: &Text, member_id: Text, has: PartitionSet) {
        if let Some((group, _, before)) = self.held_by.remove(&client) {
            for partition in before.iter() {
                let place = (group.clone(), partition);
                if self.holders.get(&place).is_some_and(|(holder, _)| *holder == client) {
                    self.holders.remove(&place);
                }
            }
        }
        // One that was given up and has not heard of it yet has nothing that others could not have.
        let has = match self.evicted.contains(&(group.clone(), member_id.clone())) {
            true => PartitionSet::EMPTY,
            false => has,
        };
        for partition in has.iter() {
            let before = self.holders.insert((group.clone(), partition), (client, member_id.clone()));
            let Some((_, other)) = before else { continue };
            let is_evicted = self.evicted.contains(&(group.clone(), other.clone()));
            self.expect(is_evicted, "no partition is with two members at once", || {
                format!("{group} {partition:?} is with {other} and with {member_id}")
            });
        }
        self.held_by.insert(client, (group.clone(), member_id, has));
    }

    /// The process has died; `kept` is what the store has.
    pub fn crashed<'a>(&mut self, kept: impl Iterator<Item = &'a Record>) {
        let mut found: HashMap<Key, i64> = HashMap::new();
        for group in self.groups.values_mut() {
            group.told = group.synced;
            group.gone.clear();
            group.instances.clear();
            group.placed.clear();
            group.epoch = 0;
        }
        for record in kept {
            match record {
                Record::Offset { key, value } => {
                    found.insert((key.group_id.clone(), key.topic.clone(), key.partition), value.offset);
                }
                Record::ConsumerGroup(metadata) => self.group(&metadata.group_id).epoch = metadata.epoch,
                Record::ConsumerMember { group_id, member } => {
                    self.evicted.remove(&(group_id.clone(), member.member_id.clone()));
                    let group = self.group(group_id);
                    for partition in member.assigned.iter().chain(member.revoking.iter()) {
                        group.placed.insert(partition, member.member_id.clone());
                    }
                }
                _ => {}
            }
        }
        let mut lost = None;
        for (key, history) in &self.histories {
            let offset = found.get(key).copied().unwrap_or(-1);
            let place = history.position(offset);
            if history.acknowledged.is_some() && place < history.acknowledged {
                lost.get_or_insert((key.clone(), offset, place, history.acknowledged));
            }
        }
        self.expect(lost.is_none(), "no acknowledged commit is lost in a crash", || format!("{lost:?}"));
    }
}
