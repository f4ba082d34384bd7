//! What a fleet asks for: the series of each operation, and the versions in use.

use std::time::Instant;

use kafka_protocol::messages::ApiKey;
use ringgate_client::{Answered, CallError, Target};

use super::inbox::Asked;
use super::plan::{Plan, Protocol};
use crate::engine::LATENESS;
use crate::measure::{Recorder, SeriesId};

/// The highest version of Fetch that is asked: nothing of what later ones bring is used.
const FETCH_VERSION_MAX: i16 = 17;

/// An operation's series.
pub(super) struct Operation {
    pub name: &'static str,
    requests: &'static str,
    pub rt: SeriesId,
    st: SeriesId,
    wt: SeriesId,
}

impl Operation {
    fn new(recorder: &Recorder, name: &'static str, [requests, rt, st, wt]: [&'static str; 4]) -> Operation {
        Operation { name, requests, rt: recorder.series(rt), st: recorder.series(st), wt: recorder.series(wt) }
    }
}

pub(super) struct Operations {
    pub join: Operation,
    /// A join that came back with a member id and nothing else.
    pub join_id: Operation,
    pub sync: Operation,
    pub heartbeat: Operation,
    /// A heartbeat beside the schedule.
    pub extra_heartbeat: Operation,
    pub commit: Operation,
    pub leave: Operation,
    pub fetch: Operation,
    pub stable: SeriesId,
    pub settle: SeriesId,
    pub recovery: SeriesId,
    pub lateness: SeriesId,
}

impl Operations {
    pub fn new(recorder: &Recorder) -> Operations {
        macro_rules! operation {
            ($name:literal) => {
                Operation::new(
                    recorder,
                    $name,
                    [concat!($name, ".requests"), concat!($name, ".rt"), concat!($name, ".st"), concat!($name, ".wt")],
                )
            };
        }
        Operations {
            join: operation!("join"),
            join_id: operation!("join_id"),
            sync: operation!("sync"),
            heartbeat: operation!("heartbeat"),
            extra_heartbeat: operation!("extra_heartbeat"),
            commit: operation!("commit"),
            leave: operation!("leave"),
            fetch: operation!("fetch"),
            stable: recorder.series("stable"),
            settle: recorder.series("settle"),
            recovery: recorder.series("recovery"),
            lateness: recorder.series(LATENESS),
        }
    }
}

/// Versions in use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Versions {
    pub join: i16,
    pub sync: i16,
    pub heartbeat: i16,
    pub commit: i16,
    pub leave: i16,
    pub consumer: i16,
    pub fetch: i16,
}

impl Versions {
    pub fn new(target: &Target, plan: &Plan) -> Result<Versions, CallError> {
        // From version 10 on a commit names topics by id.
        let commit = target.version_up_to(ApiKey::OffsetCommit, 9)?;
        let fetch = match plan.poll {
            Some(_) => target.version_up_to(ApiKey::Fetch, FETCH_VERSION_MAX)?,
            None => 0,
        };
        Ok(match plan.protocol {
            Protocol::Classic => Versions {
                join: target.version(ApiKey::JoinGroup)?,
                sync: target.version(ApiKey::SyncGroup)?,
                heartbeat: target.version(ApiKey::Heartbeat)?,
                leave: target.version(ApiKey::LeaveGroup)?,
                commit,
                consumer: 0,
                fetch,
            },
            Protocol::Consumer => Versions {
                consumer: target.version(ApiKey::ConsumerGroupHeartbeat)?,
                commit,
                fetch,
                ..Versions::default()
            },
        })
    }
}

/// Records an answer; on a schedule where it was meant for, otherwise as measured.
pub(super) fn record(recorder: &Recorder, operation: &Operation, asked: &Asked, answered: &Answered, at: Instant) {
    let span = |from: Instant, to: Instant| to.saturating_duration_since(from);
    recorder.record(operation.rt, at, span(asked.intended, answered.received));
    recorder.record(operation.st, at, span(answered.sent, answered.received));
    recorder.record(operation.wt, at, span(asked.intended, answered.sent));
    recorder.count(operation.requests, at, 1);
}

/// Records that there was no answer.
pub(super) fn record_none(
    recorder: &Recorder,
    operation: &Operation,
    asked: &Asked,
    error: &CallError,
    at: Instant,
    known: Instant,
) {
    recorder.record_unanswered(operation.rt, at, known.saturating_duration_since(asked.intended));
    recorder.count(operation.requests, at, 1);
    recorder.error(operation.name, error.code(), at);
}
