//! Ending a run from outside.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::EXIT_INTERRUPTED;

/// Tells a run, from any thread, to end and keep what there is.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Inner>);

type Listener = Box<dyn Fn() + Send>;

#[derive(Default)]
struct Inner {
    told: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

impl Interrupt {
    /// Not told yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// One that SIGINT and SIGTERM tell. A second signal ends the process at once.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn by_signals() -> io::Result<Interrupt> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let interrupt = Interrupt::new();
        let told = interrupt.clone();
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                if told.is_told() {
                    std::process::exit(EXIT_INTERRUPTED.into());
                }
                told.tell();
            }
        })?;
        Ok(interrupt)
    }

    /// Ends the run.
    pub fn tell(&self) {
        self.0.told.store(true, Ordering::SeqCst);
        for listener in self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            listener();
        }
    }

    /// Whether it was told.
    pub fn is_told(&self) -> bool {
        self.0.told.load(Ordering::SeqCst)
    }

    /// Has this called when it is told; at once if it was.
    pub fn listen(&self, listener: impl Fn() + Send + 'static) {
        let mut listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_told() {
            listener();
        }
        listeners.push(Box::new(listener));
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Interrupt").field(&self.is_told()).finish()
    }
}
