//! Keeping the side topic small: what is live is said again, and then the segments before it go.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::super::limits::{LEASE_CALL_TIMEOUT, SIDE_COMPACT_INTERVAL};
use super::super::{Clients, Failure};
use super::holder::{Holding, LEASE_PARTITION};
use super::lease::LeaseRecord;
use super::replay::COMPACT_BYTES_MIN;
use super::side_message::Stamp;
use super::side_topic::{self, NotAppended};
use super::writes::SIDE_BATCH_BYTES;
use super::{Owner, Replay, SIDE_PARTITIONS, SideMessage};

/// The writer that restates.
const RESTATES: u16 = u16::MAX;

/// Looks after the side topic for as long as the gateway holds the lease, and the runtime runs.
pub(super) async fn keep_small(clients: Arc<Clients>, me: Owner, holding: Holding) {
    let mut sequences = [0; SIDE_PARTITIONS as usize];
    while holding.lost_to().is_none() {
        let deadline = Instant::now() + clients.settings().timeout;
        match side_topic::sizes(&clients, deadline).await {
            Ok(sizes) => {
                for (partition, bytes, segments) in sizes {
                    let Some(sequence) = sequences.get_mut(usize::from(partition)) else { continue };
                    if bytes <= COMPACT_BYTES_MIN || segments < 2 || !holding.is_valid() {
                        continue;
                    }
                    match compact(&clients, &me, &holding, partition, (bytes, segments), sequence).await {
                        Ok(Some(restated)) => {
                            tracing::info!(partition, bytes, restated, "compacted a partition of the side topic");
                        }
                        Ok(None) => {}
                        Err(why) => tracing::warn!(partition, why, "the side topic is not compacted"),
                    }
                }
            }
            Err(failure) => tracing::warn!(%failure, "the side topic cannot be looked at"),
        }
        tokio::time::sleep(SIDE_COMPACT_INTERVAL).await;
    }
}

/// Compacts a partition whose size was looked at before, if that is worth while. How many messages say what is live.
async fn compact(
    clients: &Clients,
    me: &Owner,
    holding: &Holding,
    partition: u16,
    (bytes, segments): (u64, u32),
    sequence: &mut u64,
) -> Result<Option<u64>, String> {
    let said = |failure: Failure| failure.to_string();
    let not_appended = |why: NotAppended| format!("{why:?}");
    let term = holding.term();
    if partition == LEASE_PARTITION {
        // Behind the segments that go there is a record that counts, so that claims can be judged without them.
        let renewal = SideMessage::Lease(LeaseRecord::Renewal { owner: me.clone(), term }).encode();
        let deadline = Instant::now() + LEASE_CALL_TIMEOUT;
        side_topic::append(clients, partition, u64::from(partition), &[renewal], deadline)
            .await
            .map_err(not_appended)?;
    }
    let timeout = clients.settings().timeout;
    let mut replay = Replay::default();
    let read = side_topic::read(clients, partition, 0, Instant::now() + timeout).await.map_err(said)?;
    for (offset, message) in read.messages {
        replay.take(offset, message);
    }
    if !replay.is_worth_compacting(bytes, segments) || replay.next() == 0 {
        return Ok(None);
    }
    let as_of = Some(replay.next() - 1);
    let mut restated = 0;
    let mut batch: Vec<Bytes> = Vec::new();
    let mut batch_bytes = 0;
    let mut snapshot = replay.snapshot().peekable();
    while let Some(what) = snapshot.next() {
        let stamp = Stamp { term, writer: RESTATES, sequence: *sequence };
        *sequence += 1;
        restated += 1;
        let payload = SideMessage::Kept { stamp, as_of, what }.encode();
        batch_bytes += payload.len();
        batch.push(payload);
        if batch_bytes < SIDE_BATCH_BYTES && snapshot.peek().is_some() {
            continue;
        }
        if !holding.is_valid() {
            return Err("the lease is not held any more".into());
        }
        let deadline = Instant::now() + timeout;
        side_topic::append(clients, partition, u64::from(partition), &std::mem::take(&mut batch), deadline)
            .await
            .map_err(not_appended)?;
        batch_bytes = 0;
    }
    // Those that were closed when the size was looked at: all that is in them was read.
    side_topic::delete_segments(clients, partition, segments - 1, Instant::now() + timeout).await.map_err(said)?;
    Ok(Some(restated))
}
