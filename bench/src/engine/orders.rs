//! One value from the main thread to an executor.

use std::sync::{Arc, Mutex, PoisonError};

use ringgate_runtime::{Notified, Notifier, notifier};

/// The main thread's end.
pub struct Give<T> {
    place: Arc<Mutex<Option<T>>>,
    notifier: Notifier,
}

/// The executor's end. It is made anywhere and used on one executor.
pub struct Take<T> {
    place: Arc<Mutex<Option<T>>>,
    notified: Notified,
}

/// Both ends.
pub fn order<T>() -> (Give<T>, Take<T>) {
    let place = Arc::new(Mutex::new(None));
    let (notifier, notified) = notifier();
    (Give { place: place.clone(), notifier }, Take { place, notified })
}

impl<T> Give<T> {
    /// Hands it over; an earlier one that nobody took is replaced.
    pub fn give(&self, value: T) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.notifier.notify();
    }
}

impl<T> Take<T> {
    /// Waits for it.
    pub async fn take(&self) -> T {
        loop {
            let taken = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
            match taken {
                Some(value) => return value,
                None => self.notified.notified().await,
            }
        }
    }
}
