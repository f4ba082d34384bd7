//! Who has signed in: sessions outlive their links, so that a client that comes back over another link goes on
//! with what it had asked.
//!
//! Sessions of all shards are one table, touched when a link is bound or closed and when metadata changes, never
//! on the way of a message.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringgate_shards::op_counter::OpCounter;
use ringgate_shards::request_window::{Attempt, RequestWindow};
use subtle::ConstantTimeEq;

use super::limits::SESSION_ANSWERS_MAX;

/// Bytes of the secret by which a client binds a further link to its session.
pub const BIND_SECRET_BYTES: usize = 32;

/// A session as a link and its requests name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The number that the client chose for itself; not 0.
    pub client: u128,
    /// The session's own, given out once in the life of a data directory; not 0.
    pub session: u64,
}

/// A client that signs in.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The number that the client chose for itself.
    pub client: u128,
    /// Names this attempt to sign in, so that it can be made again when its answer was lost.
    pub attempt: u128,
    /// What later links show.
    pub secret: [u8; BIND_SECRET_BYTES],
}

/// Why nobody can sign in.
#[derive(Debug, PartialEq, Eq)]
pub enum Unregistered {
    /// There are as many sessions as there may be, and each has a link.
    TooMany,
    /// This start has no numbers left.
    OutOfNumbers,
}

/// What a committed change of metadata was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub operation: u64,
    /// The body of the reply.
    pub body: Bytes,
}

/// Whether a session has ended, for the links that are bound to it: they ask with every request.
#[derive(Debug, Clone, Default)]
pub struct Ended(Arc<AtomicBool>);

impl Ended {
    /// It has.
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct Session {
    client: u128,
    attempt: u128,
    secret: [u8; BIND_SECRET_BYTES],
    ended: Ended,
    links: usize,
    /// When it ends; while it has a link, never.
    ends: Option<Instant>,
    changes: RequestWindow<Committed>,
}

/// All sessions.
pub struct Sessions {
    sessions: HashMap<u64, Session>,
    by_client: HashMap<u128, u64>,
    without_link: BTreeSet<(Instant, u64)>,
    most: usize,
    lease: Duration,
}

impl Sessions {
    /// No session; at most `most`, each of which outlives its last link by `lease`.
    pub fn new(most: usize, lease: Duration) -> Sessions {
        Sessions { sessions: HashMap::new(), by_client: HashMap::new(), without_link: BTreeSet::new(), most, lease }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// A client whose password was right signs in on a new link. The same attempt once more gives the same
    /// session; another one ends the client's session before. Also gives the sessions that ended for it.
    ///
    /// # Errors
    /// There can be no further session.
    pub fn register(
        &mut self,
        registration: &Registration,
        numbers: &OpCounter,
    ) -> Result<(Identity, Option<u64>), Unregistered> {
        let client = registration.client;
        let before = self.by_client.get(&client).copied();
        if let Some(session) = before
            && let Some(found) = self.sessions.get(&session)
            && found.attempt == registration.attempt
            && secrets_equal(&found.secret, &registration.secret)
        {
            self.linked(session);
            return Ok((Identity { client, session }, None));
        }
        let mut ended = before;
        if ended.is_none() && self.sessions.len() >= self.most {
            ended = self.without_link.first().map(|(_, session)| *session);
            if ended.is_none() {
                return Err(Unregistered::TooMany);
            }
        }
        let session = numbers.next().ok_or(Unregistered::OutOfNumbers)?;
        if let Some(ended) = ended {
            self.end(ended);
        }
        let Registration { attempt, secret, .. } = *registration;
        let changes = RequestWindow::new(SESSION_ANSWERS_MAX);
        self.sessions.insert(
            session,
            Session { client, attempt, secret, ended: Ended::default(), links: 1, ends: None, changes },
        );
        self.by_client.insert(client, session);
        Ok((Identity { client, session }, ended))
    }

    /// A further link shows a session's secret. Session 0 stands for the client's own, whose answer was lost.
    pub fn bind(&mut self, identity: Identity, secret: &[u8; BIND_SECRET_BYTES]) -> Option<Identity> {
        let session = match identity.session {
            0 => *self.by_client.get(&identity.client)?,
            session => session,
        };
        let found = self.sessions.get(&session)?;
        if found.client != identity.client || !secrets_equal(&found.secret, secret) {
            return None;
        }
        self.linked(session);
        Some(Identity { client: identity.client, session })
    }

    fn linked(&mut self, session: u64) {
        if let Some(found) = self.sessions.get_mut(&session) {
            found.links += 1;
            if let Some(ends) = found.ends.take() {
                self.without_link.remove(&(ends, session));
            }
        }
    }

    /// A link that was bound to the session is gone.
    pub fn link_closed(&mut self, session: u64, now: Instant) {
        if let Some(found) = self.sessions.get_mut(&session) {
            found.links = found.links.saturating_sub(1);
            if found.links == 0 {
                let ends = now + self.lease;
                found.ends = Some(ends);
                self.without_link.insert((ends, session));
            }
        }
    }

    /// Ends a session: its client has signed out.
    pub fn end(&mut self, session: u64) {
        if let Some(ended) = self.sessions.remove(&session) {
            ended.ended.0.store(true, Ordering::Release);
            if self.by_client.get(&ended.client) == Some(&session) {
                self.by_client.remove(&ended.client);
            }
            if let Some(ends) = ended.ends {
                self.without_link.remove(&(ends, session));
            }
        }
    }

    /// What tells links of the session's end; `None`: it has ended.
    pub fn ended(&self, session: u64) -> Option<Ended> {
        Some(self.sessions.get(&session)?.ended.clone())
    }

    /// Whether the session is there.
    pub fn lives(&self, session: u64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Ends one session whose lease is over, and says which.
    pub fn poll_expired(&mut self, now: Instant) -> Option<u64> {
        let (ends, session) = *self.without_link.first()?;
        if ends > now {
            return None;
        }
        self.end(session);
        Some(session)
    }

    /// A session asks for a change of metadata; `None`: it is gone.
    pub fn begin_change(&mut self, session: u64, request: u64) -> Option<Attempt<Committed>> {
        Some(self.sessions.get_mut(&session)?.changes.begin(request))
    }

    /// What became of it; `None`: nothing was changed.
    pub fn end_change(&mut self, session: u64, request: u64, answer: Option<Committed>) {
        if let Some(found) = self.sessions.get_mut(&session) {
            found.changes.end(request, answer);
        }
    }
}

/// Takes the same time wherever they differ.
fn secrets_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter() -> OpCounter {
        OpCounter::of_start(1)
    }

    fn registration(client: u128, attempt: u128) -> Registration {
        Registration { client, attempt, secret: [client as u8; BIND_SECRET_BYTES] }
    }

    fn sessions(most: usize) -> Sessions {
        Sessions::new(most, Duration::from_secs(60))
    }

    #[test]
    fn a_sign_in_that_is_tried_again_gives_the_same_session() {
        let (mut sessions, numbers) = (sessions(9), counter());
        let (first, _) = sessions.register(&registration(7, 1), &numbers).unwrap();
        assert_eq!(sessions.register(&registration(7, 1), &numbers), Ok((first, None)));
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn a_new_sign_in_of_a_client_ends_its_session_before() {
        let (mut sessions, numbers) = (sessions(9), counter());
        let (first, _) = sessions.register(&registration(7, 1), &numbers).unwrap();
        let (second, ended) = sessions.register(&registration(7, 2), &numbers).unwrap();
        assert!(second.session > first.session);
        assert_eq!(ended, Some(first.session));
        assert_eq!(sessions.bind(first, &[7; BIND_SECRET_BYTES]), None);
        assert_eq!(sessions.bind(second, &[7; BIND_SECRET_BYTES]), Some(second));
    }

    #[test]
    fn links_learn_of_their_sessions_end_and_of_no_other() {
        let (mut sessions, numbers) = (sessions(9), counter());
        let (one, _) = sessions.register(&registration(7, 1), &numbers).unwrap();
        let (other, _) = sessions.register(&registration(8, 1), &numbers).unwrap();
        let [of_one, of_other] = [one, other].map(|it| sessions.ended(it.session).unwrap());
        assert!(!of_one.is_so());
        sessions.end(one.session);
        assert!(of_one.is_so() && !of_other.is_so() && sessions.ended(one.session).is_none());
        sessions.register(&registration(8, 2), &numbers).unwrap();
        assert!(of_other.is_so(), "its client has signed in anew");
    }

    #[test]
    fn a_link_is_bound_by_client_session_and_secret_together() {
        let (mut sessions, numbers) = (sessions(9), counter());
        let (own, _) = sessions.register(&registration(7, 1), &numbers).unwrap();
        let secret = [7; BIND_SECRET_BYTES];
        assert_eq!(sessions.bind(own, &[8; BIND_SECRET_BYTES]), None);
        assert_eq!(sessions.bind(Identity { client: 8, ..own }, &secret), None);
        assert_eq!(sessions.bind(Identity { session: own.session + 1, ..own }, &secret), None);
        assert_eq!(sessions.bind(Identity { session: 0, ..own }, &secret), Some(own));
    }

    #[test]
    fn a_session_ends_when_its_lease_is_over_and_no_link_came() {
        let (mut sessions, numbers) = (sessions(9), counter());
        let (own, _) = sessions.register(&registration(7, 1), &numbers).unwrap();
        let gone = Instant::now();
        sessions.link_closed(own.session, gone);
        assert_eq!(sessions.poll_expired(gone + Duration::from_secs(59)), None);
        assert_eq!(sessions.bind(own, &[7; BIND_SECRET_BYTES]), Some(own));
        assert_eq!(sessions.poll_expired(gone + Duration::from_secs(61)), None);
        sessions.link_closed(own.session, gone);
        assert_eq!(sessions.poll_expired(gone + Duration::from_secs(60)), Some(own.session));
        assert!(sessions.is_empty() && !sessions.lives(own.session));
    }

    #[test]
    fn a_full_table_makes_room_only_of_sessions_without_a_link() {
        let (mut sessions, numbers) = (sessions(2), counter());
        let (first, _) = sessions.register(&registration(1, 1), &numbers).unwrap();
        sessions.register(&registration(2, 1), &numbers).unwrap();
        assert_eq!(sessions.register(&registration(3, 1), &numbers), Err(Unregistered::TooMany));
        sessions.link_closed(first.session, Instant::now());
        let (_, ended) = sessions.register(&registration(3, 1), &numbers).unwrap();
        assert_eq!((ended, sessions.len()), (Some(first.session), 2));
    }

    #[test]
    fn a_change_that_comes_again_is_answered_as_before_and_only_in_its_session() {
        let (mut sessions, numbers) = (sessions(9), counter());
        let (own, _) = sessions.register(&registration(7, 1), &numbers).unwrap();
        let answer = Committed { operation: 5, body: Bytes::from_static(b"made") };
        assert_eq!(sessions.begin_change(own.session, 3), Some(Attempt::First));
        assert_eq!(sessions.begin_change(own.session, 3), Some(Attempt::UnderWay));
        sessions.end_change(own.session, 3, Some(answer.clone()));
        assert_eq!(sessions.begin_change(own.session, 3), Some(Attempt::Answered(answer)));
        sessions.end(own.session);
        assert_eq!(sessions.begin_change(own.session, 3), None);
    }
}
