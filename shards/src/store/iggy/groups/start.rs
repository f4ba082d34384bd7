//! From an Iggy that was reached to the groups of each shard.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ringgate_group::Text;
use ringgate_group::route::{Route, ShardId};

use super::super::limits::LEASE_CALL_TIMEOUT;
use super::super::{Clients, Failure, Lane};
use super::compact::keep_small;
use super::holder::{self, Holding, LEASE_PARTITION};
use super::lease::LeaseRecord;
use super::replay::Loaded;
use super::{Lease, Replay, SIDE_PARTITIONS, SideMessage, side_topic};

/// How often somebody who waits for the lease is asked whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// The lease, and what the side topic holds for each shard.
pub(crate) struct OpenGroups {
    pub(crate) holding: Holding,
    pub(crate) loaded: Vec<Loaded>,
}

/// Why groups are not coordinated here.
#[derive(Debug, thiserror::Error)]
pub enum OpenGroupsError {
    /// Another gateway coordinates.
    #[error("another gateway coordinates the groups of this Iggy: {0}")]
    HeldBy(String),
    /// Whoever waited does so no longer.
    #[error("the gateway was stopped while it waited for the lease")]
    Stopped,
}

/// Takes the lease and reads the side topic; blocks until that is done or refused. `lost` is called when the lease is
/// lost to somebody else, at any time from then on.
///
/// # Errors
/// Another gateway holds the lease, or `go_on` says no.
pub(crate) fn open(
    lane: &Lane,
    gateway: &str,
    route: Route,
    timeout: Duration,
    go_on: impl Fn() -> bool,
    lost: impl Fn() + Send + 'static,
) -> Result<OpenGroups, OpenGroupsError> {
    let me = holder::me(gateway);
    let holding = Holding::new();
    let (owner, held) = (me.clone(), holding.clone());
    let opened = lane.call_from_thread(move |clients| async move {
        let mut lease = Lease::new(owner.clone());
        wait_for_topic(&clients, timeout).await;
        if let Err(other) = holder::take(&clients, &mut lease, &held).await {
            return Ok(Err(other));
        }
        // Reading may take longer than the lease lasts.
        tokio::spawn(holder::keep(clients.clone(), lease, held.clone(), lost));
        let replays = loop {
            match read_all(&clients, &owner, &held, timeout).await {
                Ok(replays) => break replays,
                Err(why) => {
                    tracing::warn!(why, "waiting for the groups that Iggy keeps");
                    tokio::time::sleep(LOOK).await;
                }
            }
            if let Some(other) = held.lost_to() {
                return Ok(Err(other));
            }
        };
        let of_shard = |shard: ShardId| {
            let mut all = Loaded::default();
            for replay in &replays {
                let Loaded { records, commits, unfinished } =
                    replay.load(|group: &Text| route.group(group.as_str()) == shard);
                all.records.extend(records);
                all.commits.extend(commits);
                all.unfinished.extend(unfinished);
            }
            all
        };
        let loaded: Vec<Loaded> = route.all().map(of_shard).collect();
        tokio::spawn(keep_small(clients, owner, held));
        Ok(Ok(loaded))
    });
    loop {
        match opened.recv_timeout(LOOK) {
            Ok(Ok(Ok(loaded))) => return Ok(OpenGroups { holding, loaded }),
            Ok(Ok(Err(other))) => return Err(OpenGroupsError::HeldBy(other)),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(OpenGroupsError::Stopped),
            Err(RecvTimeoutError::Timeout) if !go_on() => {
                // That the lease is lost stops the gateway too.
                return Err(holding.lost_to().map_or(OpenGroupsError::Stopped, OpenGroupsError::HeldBy));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Gives the lease back, so that the next gateway need not wait for it to end. Whether that was done in time.
pub(crate) fn release(lane: &Lane, holding: &Holding, timeout: Duration) -> bool {
    holder::release(lane, holding, timeout)
}

async fn wait_for_topic(clients: &Clients, timeout: Duration) {
    while let Err(why) = side_topic::ensure(clients, Instant::now() + timeout).await {
        tracing::warn!(why, "waiting for Iggy");
        tokio::time::sleep(LOOK).await;
    }
}

/// Reads every partition. Each is fenced first: what a former holder of the lease writes late comes behind a message of
/// this one's, and does not count.
async fn read_all(
    clients: &Arc<Clients>,
    me: &super::Owner,
    holding: &Holding,
    timeout: Duration,
) -> Result<Vec<Replay>, String> {
    let fence = SideMessage::Lease(LeaseRecord::Renewal { owner: me.clone(), term: holding.term() }).encode();
    let mut replays = Vec::new();
    for partition in 0..SIDE_PARTITIONS {
        if partition != LEASE_PARTITION {
            let deadline = Instant::now() + LEASE_CALL_TIMEOUT;
            let appended =
                side_topic::append(clients, partition, u64::from(partition), std::slice::from_ref(&fence), deadline)
                    .await;
            appended.map_err(|why| format!("{why:?}"))?;
        }
        let read = side_topic::read(clients, partition, 0, Instant::now() + timeout.max(LEASE_CALL_TIMEOUT));
        let read = read.await.map_err(|failure: Failure| failure.to_string())?;
        let mut replay = Replay::default();
        for (offset, message) in read.messages {
            replay.take(offset, message);
        }
        if replay.late() > 0 {
            tracing::warn!(partition, late = replay.late(), "left out what was written by who had lost the lease");
        }
        replays.push(replay);
    }
    Ok(replays)
}
