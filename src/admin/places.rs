//! Places of the admin port's connections, so that whoever asks for health has one whatever the others do.
//!
//! A connection that waits for its client, for a request's head or for it to read its answer, gives its place to the
//! next that comes when there is no other. One whose request is being answered keeps it: answers take a bounded time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// How often clients met the admin port's bounds, for `ringgate_admin_limit_hit_total`.
#[derive(Debug, Default)]
pub struct LimitsMet {
    /// [`ADMIN_CONNECTIONS_MAX`](crate::limits::ADMIN_CONNECTIONS_MAX): a connection gave its place to another.
    pub(super) connections: AtomicU64,
    /// [`ADMIN_QUESTIONS_MAX`](crate::limits::ADMIN_QUESTIONS_MAX) or
    /// [`ADMIN_READINESS_MAX`](crate::limits::ADMIN_READINESS_MAX): a request was refused.
    pub(super) questions: AtomicU64,
}

impl LimitsMet {
    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [("connections", &self.connections), ("questions", &self.questions)]
            .into_iter()
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// All places.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
    /// A place is free, or its connection has come to wait for its client.
    changed: Notify,
    met: Arc<LimitsMet>,
}

#[derive(Default)]
struct Taken {
    /// Counts what happens, so that what happened earlier has the smaller number.
    next: u64,
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    /// When it began to wait for its client, by [`Taken::next`]; `None` while it is being answered.
    waits_since: Option<u64>,
    leave: oneshot::Sender<()>,
}

/// A connection's place; free again when this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
}

/// A request of a connection is being answered, until this is dropped.
pub(super) struct Answering(Arc<Place>);

impl Places {
    /// So many, all of them free.
    pub fn new(most: usize, met: Arc<LimitsMet>) -> Arc<Places> {
        Arc::new(Places { most, taken: Mutex::default(), changed: Notify::new(), met })
    }

    /// A place, and what comes when another connection needs it. Waits only while all are being answered.
    pub async fn take(self: &Arc<Self>) -> (Arc<Place>, oneshot::Receiver<()>) {
        loop {
            // Registered before the look, so that no change between the two is missed.
            let changed = self.changed.notified();
            if let Some(taken) = self.try_take() {
                return taken;
            }
            changed.await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<(Arc<Place>, oneshot::Receiver<()>)> {
        let mut taken = self.lock();
        if taken.connections.len() >= self.most {
            let waiting = taken.connections.iter().filter_map(|(id, one)| Some((one.waits_since?, *id)));
            let (_, longest) = waiting.min()?;
            if let Some(gone) = taken.connections.remove(&longest) {
                // It may be ending by itself.
                let _ = gone.leave.send(());
                self.met.connections.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (leave, left) = oneshot::channel();
        let id = taken.number();
        taken.connections.insert(id, Connection { waits_since: Some(id), leave });
        Some((Arc::new(Place { places: self.clone(), id }), left))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Place {
    /// A request has come and is being answered.
    pub fn answering(self: &Arc<Self>) -> Answering {
        if let Some(connection) = self.places.lock().connections.get_mut(&self.id) {
            connection.waits_since = None;
        }
        Answering(self.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Place { places, id } = &*self.0;
        let mut taken = places.lock();
        let now = taken.number();
        if let Some(connection) = taken.connections.get_mut(id) {
            connection.waits_since = Some(now);
        }
        drop(taken);
        places.changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().connections.remove(&self.id);
        self.places.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn places(most: usize) -> (Arc<Places>, Arc<LimitsMet>) {
        let met = Arc::new(LimitsMet::default());
        (Places::new(most, met.clone()), met)
    }

    #[test]
    fn the_connection_that_has_waited_longest_for_its_client_gives_its_place() {
        let (places, met) = places(2);
        let (first, mut first_left) = places.try_take().unwrap();
        let (second, mut second_left) = places.try_take().unwrap();
        // The first one's client asked something meanwhile, so the second has waited longer.
        drop(first.answering());
        let (third, mut third_left) = places.try_take().unwrap();
        assert!(second_left.try_recv().is_ok() && first_left.try_recv().is_err());
        // What is left of it takes nothing of others.
        drop(second.answering());
        drop(second);
        let (_fourth, _) = places.try_take().unwrap();
        assert!(first_left.try_recv().is_ok() && third_left.try_recv().is_err());
        drop((first, third));
        assert_eq!(met.iter().next(), Some(("connections", 2)));
    }

    #[test]
    fn a_connection_that_is_being_answered_keeps_its_place_until_it_waits_again() {
        let (places, met) = places(1);
        let (only, mut left) = places.try_take().unwrap();
        let answering = only.answering();
        let mut next = std::pin::pin!(places.take());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut cx).is_pending() && left.try_recv().is_err());
        drop(answering);
        let Poll::Ready((place, _)) = next.as_mut().poll(&mut cx) else { panic!("there is a place") };
        assert!(left.try_recv().is_ok());
        drop(place);
        assert!(places.try_take().is_some());
        assert_eq!(met.iter().next(), Some(("connections", 1)), "a place that is free is nobody's loss");
    }
}
