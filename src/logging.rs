//! Logs: one line per notable event, on stderr, through a thread of their own, so that no shard ever waits
//! for a terminal.

use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::config::LogFormat;
use crate::limits::LOG_LINES_QUEUED;

/// What keeps the writer going. Here and not in a [`LogGuard`], so that whoever ends the process can end it.
static WRITER: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// Counts the lines that found the queue full.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Writes what is queued when it is dropped: keep it until the end of `main`.
#[must_use = "log lines are lost once this is dropped"]
pub struct LogGuard(());

impl Drop for LogGuard {
    fn drop(&mut self) {
        finish();
    }
}

/// Writes what is queued, for a second at most; later lines are lost. For who is about to end the process.
pub fn finish() {
    drop(WRITER.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Lines that are lost, since stderr took them more slowly than they came.
pub fn lines_dropped() -> u64 {
    DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64)
}

/// Starts logging for the whole process. A second call changes nothing.
pub fn start(format: LogFormat, level: tracing::Level) -> LogGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LOG_LINES_QUEUED)
        .thread_name("logs")
        .finish(std::io::stderr());
    let _ = DROPPED.set(writer.error_counter());
    let layer = fmt::layer().with_writer(writer);
    let layer = match format {
        LogFormat::Text => layer.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // Fails only when a subscriber is set already, as in tests.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter(level))).try_init();
    WRITER.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(guard);
    LogGuard(())
}

/// Ringgate's own events at `level`; those of its libraries only when they are warnings. The Iggy SDK has a line for
/// every link and attempt to connect: an outage is told by the store, and the rest is for who debugs.
fn filter(level: tracing::Level) -> Targets {
    let level = LevelFilter::from_level(level);
    let links = if level >= LevelFilter::DEBUG { LevelFilter::WARN } else { LevelFilter::OFF };
    let libraries = level.min(LevelFilter::WARN);
    Targets::new().with_default(libraries).with_target("iggy::links", links).with_target("ringgate", level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn libraries_are_heard_only_when_they_warn() {
        let info = filter(Level::INFO);
        assert!(info.would_enable("ringgate::net", &Level::INFO));
        assert!(info.would_enable("ringgate_shards::store", &Level::INFO));
        assert!(!info.would_enable("ringgate", &Level::DEBUG));
        assert!(info.would_enable("glommio", &Level::WARN));
        assert!(!info.would_enable("hyper", &Level::INFO));
        assert!(!filter(Level::ERROR).would_enable("hyper", &Level::WARN));
    }

    #[test]
    fn an_outage_of_iggy_is_told_by_the_store_and_not_by_every_link() {
        let info = filter(Level::INFO);
        assert!(info.would_enable("iggy::consumer", &Level::WARN));
        assert!(!info.would_enable("iggy::links::dial", &Level::ERROR));
        assert!(filter(Level::DEBUG).would_enable("iggy::links::dial", &Level::ERROR));
    }
}
