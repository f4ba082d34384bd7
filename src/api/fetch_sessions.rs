//! Fetch sessions (KIP-227): what each incremental fetcher wants, so that it need not say so again.
//!
//! The sessions of one shard, as a value. A session lives on the shard of the connection that made it;
//! its id carries the shard in its top bits, and another shard answers
//! `FETCH_SESSION_ID_NOT_FOUND(70)`, at which clients start over. It ends with the connection that used it
//! last: clients start over on a connection that they had to open again, so nobody would come back for it.
//!
//! Their number and what they remember are bounded: a new one takes the place of the one that was not used
//! for longest, if that was long enough ago, otherwise the fetcher is served without a session. Who opens
//! one after the other on a connection only gives up its own earlier ones.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use indexmap::IndexMap;
use ringgate_group::route::ShardId;
use ringgate_group::{ConnectionId, ErrorCode};
use uuid::Uuid;

use crate::limits::{
    FETCH_SESSION_BYTES_MAX, FETCH_SESSION_IDLE_MIN, FETCH_SESSION_PARTITION_BYTES, FETCH_SESSION_PARTITIONS_MAX,
    FETCH_SESSIONS_PER_CONNECTION_MAX,
};

/// How a session names a topic: by name up to Fetch v12, by id from v13.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicKey {
    /// Fetch up to v12.
    Name(std::rc::Rc<str>),
    /// Fetch from v13.
    Id(Uuid),
}

/// A partition as a fetcher names it.
pub type Key = (TopicKey, i32);

/// What a session that has this partition takes of memory for it: names of which several partitions share
/// one are counted for each.
fn bytes_of(key: &Key) -> usize {
    let name = match &key.0 {
        TopicKey::Name(name) => name.len(),
        TopicKey::Id(_) => 0,
    };
    FETCH_SESSION_PARTITION_BYTES + name
}

/// What a fetcher wants of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The bound on this partition's record bytes.
    pub max_bytes: i32,
    /// -1 for none.
    pub current_leader_epoch: i32,
    /// -1 for none.
    pub last_fetched_epoch: i32,
}

/// What the fetcher was last told of a partition, so that only news is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    high_watermark: i64,
    log_start_offset: i64,
}

struct Session {
    /// Who used it last.
    connection: ConnectionId,
    epoch: i32,
    by_id: bool,
    partitions: IndexMap<Key, (Wanted, Option<Told>)>,
    /// Those that got something in the last answer: they go to the back before the next one. All in one
    /// pass, since moving one costs as much as there are partitions, and a request may name very many.
    served: HashSet<usize>,
    used: Instant,
    /// What it takes of memory, by [`bytes_of`].
    bytes: usize,
}

impl Session {
    /// Puts those that got something behind the others, so that all get their turn under a budget.
    fn take_turns(&mut self) {
        if self.served.is_empty() {
            return;
        }
        let served = std::mem::take(&mut self.served);
        let mut behind = Vec::with_capacity(served.len());
        let mut order = IndexMap::with_capacity(self.partitions.len());
        for (index, (key, wanted)) in std::mem::take(&mut self.partitions).into_iter().enumerate() {
            if served.contains(&index) {
                behind.push((key, wanted));
            } else {
                order.insert(key, wanted);
            }
        }
        order.extend(behind);
        self.partitions = order;
    }
}

/// How a Fetch is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every partition that was asked for; the response carries session id 0.
    Sessionless,
    /// Every partition; the response carries the id of the session just made.
    Full(i32),
    /// Only what is new; the response carries the session's id.
    Incremental(i32),
}

/// The epoch of a request that ends a session, or wants none.
const FINAL_EPOCH: i32 = -1;
/// The epoch of a request that makes a session.
const INITIAL_EPOCH: i32 = 0;

/// What one Fetch request asks of the sessions.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The request's session id, 0 for none.
    pub session_id: i32,
    /// The request's session epoch: 0 makes a session, -1 ends it.
    pub session_epoch: i32,
    /// Whether the request names topics by id (v13 and later).
    pub by_id: bool,
}

/// The sessions of one shard.
pub struct FetchSessions {
    shard: ShardId,
    sessions: HashMap<i32, Session>,
    /// Every session by when it was used.
    by_use: BTreeSet<(Instant, i32)>,
    of_connection: HashMap<ConnectionId, Vec<i32>>,
    /// What all of them take.
    bytes: usize,
    most: usize,
    next: u32,
    refused: u64,
}

/// Bits of a session id below those of its shard.
const SEQUENCE_BITS: u32 = 20;

impl FetchSessions {
    /// No sessions yet, `most` at the most. Ids count up from `first`, which differs from one start of the
    /// gateway to the next, so that nobody goes on with a session that has become somebody else's.
    pub fn new(shard: ShardId, most: usize, first: u32) -> FetchSessions {
        FetchSessions {
            shard,
            sessions: HashMap::new(),
            by_use: BTreeSet::new(),
            of_connection: HashMap::new(),
            bytes: 0,
            most,
            next: first,
            refused: 0,
        }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// How often a fetcher that asked for a session was served without one.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes a request in and says what to read, in order, and how to answer.
    ///
    /// # Errors
    /// `FETCH_SESSION_ID_NOT_FOUND(70)`, `INVALID_FETCH_SESSION_EPOCH(71)`,
    /// `FETCH_SESSION_TOPIC_ID_ERROR(106)`: for the whole response.
    pub fn handle(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        asked: Asked,
        wanted: Vec<(Key, Wanted)>,
        forgotten: &[Key],
    ) -> Result<(Mode, Vec<(Key, Wanted)>), ErrorCode> {
        if matches!(asked.session_epoch, FINAL_EPOCH | INITIAL_EPOCH) {
            self.remove(asked.session_id);
            if asked.session_epoch == FINAL_EPOCH || wanted.is_empty() {
                return Ok((Mode::Sessionless, wanted));
            }
            return Ok((self.begin(now, connection, asked.by_id, &wanted), wanted));
        }
        let session = self.sessions.get_mut(&asked.session_id).ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != asked.session_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.by_id != asked.by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        session.take_turns();
        if !forgotten.is_empty() {
            let forgotten: HashSet<&Key> = forgotten.iter().collect();
            session.partitions.retain(|key, _| !forgotten.contains(key));
        }
        // Those that only move on take no more room, and to forget what it never had makes none.
        let new = wanted.iter().filter(|(key, _)| !session.partitions.contains_key(key)).count();
        if session.partitions.len() + new > FETCH_SESSION_PARTITIONS_MAX {
            return Err(self.outgrown(asked.session_id));
        }
        for (key, wanted) in wanted {
            // What the fetcher was told stays true when it only moves on.
            session.partitions.entry(key).and_modify(|(w, _)| *w = wanted).or_insert((wanted, None));
        }
        if session.partitions.is_empty() {
            self.remove(asked.session_id);
            return Ok((Mode::Sessionless, Vec::new()));
        }
        session.epoch = session.epoch.checked_add(1).unwrap_or(INITIAL_EPOCH + 1);
        let all = session.partitions.iter().map(|(key, (wanted, _))| (key.clone(), *wanted)).collect();
        let bytes = session.partitions.keys().map(bytes_of).sum();
        self.used(now, asked.session_id, connection, bytes);
        while self.bytes > FETCH_SESSION_BYTES_MAX {
            if !self.evict(now) {
                return Err(self.outgrown(asked.session_id));
            }
        }
        Ok((Mode::Incremental(asked.session_id), all))
    }

    /// Ends the sessions that this connection was the last to use.
    pub fn connection_closed(&mut self, connection: ConnectionId) {
        for id in self.of_connection.get(&connection).cloned().unwrap_or_default() {
            self.remove(id);
        }
    }

    /// Ends a session for which there is no room any more. The fetcher asks for everything again, and is
    /// then served without one.
    fn outgrown(&mut self, id: i32) -> ErrorCode {
        self.remove(id);
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
    }

    /// Whether an incremental answer must name the partition, and remembers what it says. A partition
    /// with records or an error is always named.
    pub fn is_news(
        &mut self,
        mode: Mode,
        key: &Key,
        high_watermark: i64,
        log_start_offset: i64,
        has_records_or_error: bool,
    ) -> bool {
        let (id, named) = match mode {
            Mode::Sessionless => return true,
            Mode::Full(id) => (id, true),
            Mode::Incremental(id) => (id, has_records_or_error),
        };
        let Some(entry) = self.sessions.get_mut(&id).and_then(|s| s.partitions.get_full_mut(key)) else {
            return true;
        };
        let (index, _, (_, told)) = entry;
        let now = Told { high_watermark, log_start_offset };
        let news = named || *told != Some(now);
        *told = Some(now);
        if has_records_or_error && let Some(session) = self.sessions.get_mut(&id) {
            session.served.insert(index);
        }
        news
    }

    fn begin(&mut self, now: Instant, connection: ConnectionId, by_id: bool, wanted: &[(Key, Wanted)]) -> Mode {
        let own = self.of_connection.get(&connection).map_or(&[][..], Vec::as_slice);
        if own.len() >= FETCH_SESSIONS_PER_CONNECTION_MAX {
            let oldest = own.iter().copied().min_by_key(|id| self.sessions.get(id).map(|session| session.used));
            oldest.into_iter().for_each(|id| self.remove(id));
        }
        let bytes: usize = wanted.iter().map(|(key, _)| bytes_of(key)).sum();
        if wanted.len() > FETCH_SESSION_PARTITIONS_MAX || bytes > FETCH_SESSION_BYTES_MAX {
            self.refused += 1;
            return Mode::Sessionless;
        }
        while self.sessions.len() >= self.most || self.bytes + bytes > FETCH_SESSION_BYTES_MAX {
            if !self.evict(now) {
                self.refused += 1;
                return Mode::Sessionless;
            }
        }
        let id = loop {
            self.next = self.next.wrapping_add(1) & ((1 << SEQUENCE_BITS) - 1);
            let id = (u32::from(self.shard.0) << SEQUENCE_BITS | self.next) as i32;
            if id != 0 && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let partitions = wanted.iter().map(|(key, wanted)| (key.clone(), (*wanted, None))).collect();
        let epoch = INITIAL_EPOCH + 1;
        let session = Session { connection, epoch, by_id, partitions, served: HashSet::new(), used: now, bytes };
        self.sessions.insert(id, session);
        self.by_use.insert((now, id));
        self.of_connection.entry(connection).or_default().push(id);
        self.bytes += bytes;
        Mode::Full(id)
    }

    /// A connection has used the session, which now takes so many bytes.
    fn used(&mut self, now: Instant, id: i32, connection: ConnectionId, bytes: usize) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        self.by_use.remove(&(session.used, id));
        self.by_use.insert((now, id));
        session.used = now;
        self.bytes = self.bytes - session.bytes + bytes;
        session.bytes = bytes;
        let before = std::mem::replace(&mut session.connection, connection);
        if before != connection {
            self.disown(before, id);
            self.of_connection.entry(connection).or_default().push(id);
        }
    }

    fn remove(&mut self, id: i32) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.by_use.remove(&(session.used, id));
        self.bytes -= session.bytes;
        self.disown(session.connection, id);
    }

    fn disown(&mut self, connection: ConnectionId, id: i32) {
        if let Some(own) = self.of_connection.get_mut(&connection) {
            own.retain(|own| *own != id);
            if own.is_empty() {
                self.of_connection.remove(&connection);
            }
        }
    }

    /// Ends the session that was not used for longest, if that was long enough ago.
    fn evict(&mut self, now: Instant) -> bool {
        match self.by_use.first() {
            Some(&(used, id)) if now.duration_since(used) >= FETCH_SESSION_IDLE_MIN => {
                self.remove(id);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The connection of a test that has one.
    const HERE: ConnectionId = ConnectionId(1);

    fn key(partition: i32) -> Key {
        (TopicKey::Name("t".into()), partition)
    }

    fn from(fetch_offset: i64) -> Wanted {
        Wanted { fetch_offset, max_bytes: 1 << 20, current_leader_epoch: -1, last_fetched_epoch: -1 }
    }

    fn asked(session_id: i32, session_epoch: i32) -> Asked {
        Asked { session_id, session_epoch, by_id: false }
    }

    fn begun(sessions: &mut FetchSessions, now: Instant, partitions: i32) -> i32 {
        let wanted = (0..partitions).map(|p| (key(p), from(0))).collect();
        match sessions.handle(now, HERE, asked(0, 0), wanted, &[]).unwrap().0 {
            Mode::Full(id) => id,
            other => panic!("no session was made: {other:?}"),
        }
    }

    #[test]
    fn a_session_remembers_what_it_was_asked_for() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(5), 10, 7);
        let id = begun(&mut sessions, now, 3);
        assert_eq!(id >> SEQUENCE_BITS, 5);
        let (mode, all) = sessions.handle(now, HERE, asked(id, 1), vec![(key(1), from(7))], &[key(0)]).unwrap();
        assert_eq!(mode, Mode::Incremental(id));
        assert_eq!(all, [(key(1), from(7)), (key(2), from(0))]);
    }

    #[test]
    fn a_session_has_a_bounded_number_of_partitions() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let most = FETCH_SESSION_PARTITIONS_MAX as i32;
        let wanted = |count: i32| (0..count).map(|p| (key(p), from(0))).collect::<Vec<_>>();
        assert_eq!(sessions.handle(now, HERE, asked(0, 0), wanted(most + 1), &[]).unwrap().0, Mode::Sessionless);
        let id = begun(&mut sessions, now, most);
        let (mode, _) = sessions.handle(now, HERE, asked(id, 1), vec![(key(most), from(0))], &[key(0)]).unwrap();
        assert_eq!(mode, Mode::Incremental(id), "one for another");
        let moved_on = (1..=most).map(|p| (key(p), from(5))).collect();
        let (mode, all) = sessions.handle(now, HERE, asked(id, 2), moved_on, &[]).unwrap();
        assert_eq!((mode, all.len() as i32), (Mode::Incremental(id), most), "all of them move on");
        let never_had = [key(most + 7), key(most + 8)];
        let grown = sessions.handle(now, HERE, asked(id, 3), vec![(key(most + 1), from(0))], &never_had);
        assert_eq!(grown.unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_wrong_epoch_is_71_an_unknown_session_70_and_a_change_of_naming_106() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let id = begun(&mut sessions, now, 1);
        let ask = |s: &mut FetchSessions, asked| s.handle(now, HERE, asked, Vec::new(), &[]).unwrap_err();
        assert_eq!(ask(&mut sessions, asked(id, 2)), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        assert_eq!(ask(&mut sessions, asked(id + 1, 1)), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        let by_id = Asked { by_id: true, ..asked(id, 1) };
        assert_eq!(ask(&mut sessions, by_id), ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        assert!(
            sessions.handle(now, HERE, asked(id, 1), Vec::new(), &[]).is_ok(),
            "errors leave the session as it was"
        );
    }

    #[test]
    fn an_incremental_answer_names_only_what_is_new() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let id = begun(&mut sessions, now, 2);
        assert!(sessions.is_news(Mode::Full(id), &key(0), 10, 0, false), "a full answer names all");
        let mode = Mode::Incremental(id);
        assert!(!sessions.is_news(mode, &key(0), 10, 0, false));
        assert!(sessions.is_news(mode, &key(0), 11, 0, false), "the high watermark moved");
        assert!(sessions.is_news(mode, &key(0), 11, 3, false), "the log start offset moved");
        assert!(sessions.is_news(mode, &key(0), 11, 3, true), "there are records");
    }

    #[test]
    fn a_partition_that_got_records_goes_to_the_back() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let id = begun(&mut sessions, now, 3);
        sessions.is_news(Mode::Full(id), &key(0), 10, 0, true);
        let (_, all) = sessions.handle(now, HERE, asked(id, 1), Vec::new(), &[]).unwrap();
        assert_eq!(all.iter().map(|((_, p), _)| *p).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn the_last_epoch_is_followed_by_1() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let id = begun(&mut sessions, now, 1);
        sessions.sessions.get_mut(&id).unwrap().epoch = i32::MAX;
        sessions.handle(now, HERE, asked(id, i32::MAX), Vec::new(), &[]).unwrap();
        assert!(sessions.handle(now, HERE, asked(id, 1), Vec::new(), &[]).is_ok());
    }

    #[test]
    fn epoch_minus_1_ends_a_session_and_epoch_0_starts_over() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let id = begun(&mut sessions, now, 1);
        let strange = sessions.handle(now, HERE, asked(id, -2), Vec::new(), &[]);
        assert_eq!(strange.unwrap_err(), ErrorCode::INVALID_FETCH_SESSION_EPOCH, "no other means anything");
        let (mode, all) = sessions.handle(now, HERE, asked(id, -1), vec![(key(0), from(3))], &[]).unwrap();
        assert_eq!((mode, all.len(), sessions.len()), (Mode::Sessionless, 1, 0));
        let id = begun(&mut sessions, now, 1);
        let (mode, _) = sessions.handle(now, HERE, asked(id, 0), vec![(key(0), from(3))], &[]).unwrap();
        assert!(matches!(mode, Mode::Full(other) if other != id));
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn who_got_something_goes_to_the_back_and_forgetting_keeps_the_order_also_among_very_many() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 10, 7);
        let many = FETCH_SESSION_PARTITIONS_MAX as i32;
        let wanted = (0..many).map(|index| (key(index), from(0))).collect();
        let (mode, all) = sessions.handle(now, HERE, asked(0, 0), wanted, &[]).unwrap();
        let Mode::Full(id) = mode else { panic!("{mode:?}") };
        for (key, _) in &all {
            assert!(sessions.is_news(mode, key, 0, 0, key.1 != 7));
        }
        let forgotten: Vec<Key> = (10..many).map(key).collect();
        let (_, left) = sessions.handle(now, HERE, asked(id, 1), Vec::new(), &forgotten).unwrap();
        let order: Vec<i32> = left.iter().map(|((_, index), _)| *index).collect();
        assert_eq!(order, [7, 0, 1, 2, 3, 4, 5, 6, 8, 9], "the one that got nothing comes first");
    }

    #[test]
    fn at_the_limit_a_new_session_replaces_only_one_that_was_idle_for_long() {
        let start = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 2, 7);
        let first = begun(&mut sessions, start, 1);
        begun(&mut sessions, start + Duration::from_secs(1), 1);
        let wanted = || vec![(key(0), from(0))];
        let soon = sessions.handle(start + Duration::from_secs(2), HERE, asked(0, 0), wanted(), &[]).unwrap();
        assert_eq!((soon.0, sessions.len()), (Mode::Sessionless, 2));
        let later = sessions.handle(start + FETCH_SESSION_IDLE_MIN, HERE, asked(0, 0), wanted(), &[]).unwrap();
        assert!(matches!(later.0, Mode::Full(_)));
        assert!(!sessions.sessions.contains_key(&first), "the one unused for longest made room");
    }

    /// A session on `connection`.
    fn opened(sessions: &mut FetchSessions, now: Instant, connection: u64) -> Option<i32> {
        let wanted = vec![(key(0), from(0))];
        match sessions.handle(now, ConnectionId(connection), asked(0, 0), wanted, &[]).unwrap().0 {
            Mode::Full(id) => Some(id),
            _ => None,
        }
    }

    fn is_empty_inside(sessions: &FetchSessions) -> bool {
        let lists = (sessions.sessions.len(), sessions.by_use.len(), sessions.of_connection.len());
        (lists, sessions.bytes) == ((0, 0, 0), 0)
    }

    #[test]
    fn a_closed_connection_takes_its_sessions_along_and_makes_room_at_once() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 2, 7);
        let (first, second) = (opened(&mut sessions, now, 1).unwrap(), opened(&mut sessions, now, 2).unwrap());
        assert_eq!((opened(&mut sessions, now, 3), sessions.refused()), (None, 1));
        sessions.connection_closed(ConnectionId(1));
        assert!(!sessions.sessions.contains_key(&first) && sessions.sessions.contains_key(&second));
        assert!(opened(&mut sessions, now, 3).is_some());
        for connection in [2, 3, 4] {
            sessions.connection_closed(ConnectionId(connection));
        }
        assert!(is_empty_inside(&sessions));
    }

    #[test]
    fn a_session_belongs_to_the_connection_that_used_it_last() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 2, 7);
        let id = opened(&mut sessions, now, 1).unwrap();
        sessions.handle(now, ConnectionId(2), asked(id, 1), Vec::new(), &[]).unwrap();
        sessions.connection_closed(ConnectionId(1));
        assert!(sessions.handle(now, ConnectionId(2), asked(id, 2), Vec::new(), &[]).is_ok());
        sessions.connection_closed(ConnectionId(2));
        assert!(is_empty_inside(&sessions));
    }

    #[test]
    fn who_opens_one_session_after_the_other_gives_up_its_own() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 1000, 7);
        let other = opened(&mut sessions, now, 2).unwrap();
        let ids: Vec<_> = (0..100).map(|n| opened(&mut sessions, now + Duration::from_millis(n), 1).unwrap()).collect();
        assert_eq!(sessions.len(), 1 + FETCH_SESSIONS_PER_CONNECTION_MAX);
        assert!(sessions.sessions.contains_key(&other));
        let kept = &ids[ids.len() - FETCH_SESSIONS_PER_CONNECTION_MAX..];
        assert!(kept.iter().all(|id| sessions.sessions.contains_key(id)), "the latest");
        sessions.connection_closed(ConnectionId(1));
        sessions.connection_closed(ConnectionId(2));
        assert!(is_empty_inside(&sessions));
    }

    #[test]
    fn what_sessions_remember_is_bounded_also_when_topics_have_long_names() {
        let now = Instant::now();
        let mut sessions = FetchSessions::new(ShardId(0), 1000, 7);
        let name: std::rc::Rc<str> = "n".repeat(i16::MAX as usize).into();
        let long = |count: i32| (0..count).map(|p| ((TopicKey::Name(name.clone()), p), from(0))).collect::<Vec<_>>();
        let open = |s: &mut FetchSessions, connection, count| {
            s.handle(now, ConnectionId(connection), asked(0, 0), long(count), &[]).unwrap().0
        };
        assert_eq!(open(&mut sessions, 1, 3_000), Mode::Sessionless, "more than there is room for in all");
        let Mode::Full(id) = open(&mut sessions, 2, 1_500) else { panic!("there is room") };
        assert_eq!(open(&mut sessions, 3, 1_500), Mode::Sessionless, "no room beside the other");
        assert_eq!(sessions.refused(), 2);
        let grown = sessions.handle(now, ConnectionId(2), asked(id, 1), long(3_000), &[]);
        assert_eq!(grown.unwrap_err(), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        assert!(is_empty_inside(&sessions));
        let Mode::Full(id) = open(&mut sessions, 3, 1_500) else { panic!("there is room again") };
        let forgets: Vec<Key> = long(1_400).into_iter().map(|(key, _)| key).collect();
        sessions.handle(now, ConnectionId(3), asked(id, 1), Vec::new(), &forgets).unwrap();
        assert!(matches!(open(&mut sessions, 4, 1_500), Mode::Full(_)), "what is forgotten makes room");
        let later = now + FETCH_SESSION_IDLE_MIN;
        let new = sessions.handle(later, ConnectionId(5), asked(0, 0), long(1_500), &[]).unwrap().0;
        assert!(matches!(new, Mode::Full(_)), "as does what was not used for long");
    }
}
