//! Where shards wait for each other: one that has nothing left to do still owns what others ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringgate_runtime::{Notified, Notifier, notifier};

/// One shard's place at a point that none passes before all have reached it.
pub(crate) struct Meeting {
    shared: Arc<Shared>,
    notified: Notified,
}

struct Shared {
    missing: AtomicUsize,
    notifiers: Vec<Notifier>,
}

/// A place for each of so many shards.
pub(crate) fn meeting(shards: usize) -> impl Iterator<Item = Meeting> {
    let (notifiers, places): (Vec<Notifier>, Vec<Notified>) = (0..shards).map(|_| notifier()).unzip();
    let shared = Arc::new(Shared { missing: AtomicUsize::new(shards), notifiers });
    places.into_iter().map(move |notified| Meeting { shared: shared.clone(), notified })
}

impl Meeting {
    /// Waits until every shard is here. To be called once.
    pub(crate) async fn of_all(&self) {
        if self.shared.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.notifiers.iter().for_each(Notifier::notify);
        }
        while self.shared.missing.load(Ordering::Acquire) > 0 {
            self.notified.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn nobody_passes_before_the_last_is_there() {
        let places: Vec<Meeting> = meeting(3).collect();
        let mut waiting: Vec<_> = places.iter().map(|place| Box::pin(place.of_all())).collect();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            assert_eq!(waiting[0].as_mut().poll(&mut cx), Poll::Pending);
            assert_eq!(waiting[1].as_mut().poll(&mut cx), Poll::Pending);
        }
        assert_eq!(waiting[2].as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(waiting[0].as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(waiting[1].as_mut().poll(&mut cx), Poll::Ready(()));
    }
}
