//! Which groups have committed offsets of topics.

use std::collections::BTreeMap;
use std::io::Write;

use futures_util::stream::{self, StreamExt};

use crate::cluster::Cluster;
use crate::group::{self, Listed};
use crate::limits::{BATCHES, GROUPS_ASKED};
use crate::offsets::{ByPartition, Committed, Partitions, committed};
use crate::output::{Failure, Output};

/// A group that has committed offsets of a topic.
pub struct Reader {
    /// Its name.
    pub group: String,
    /// Its state; empty where the broker tells none.
    pub state: String,
    /// Records between what it has committed and the ends; nothing when no end is known.
    pub lag: Option<i64>,
}

/// What each of some groups has committed.
pub type Commits = Vec<(Listed, ByPartition<Committed>)>;

/// What groups have committed of these partitions: every group is asked for.
pub async fn commits<W: Write>(
    cluster: &Cluster,
    wanted: &Partitions,
    out: &mut Output<W>,
) -> Result<Commits, Failure> {
    let (listed, missing) = group::list(cluster, &[], &[]).await?;
    for (broker, error) in missing {
        out.error(&format!("broker {broker}"), &format!("its groups are missing: {error}"))?;
    }
    let mut all = Commits::new();
    let batches = listed.chunks(GROUPS_ASKED).map(async |batch| {
        let names: Vec<String> = batch.iter().map(|listed| listed.group.clone()).collect();
        (batch, committed(cluster, &names, Some(wanted)).await)
    });
    let mut batches = stream::iter(batches).buffered(BATCHES);
    while let Some((batch, mut came)) = batches.next().await {
        for listed in batch {
            match came.remove(&listed.group) {
                Some(Ok(offsets)) if !offsets.is_empty() => all.push((listed.clone(), offsets)),
                Some(Err(error)) if !group::is_missing(&error) => {
                    out.error(&format!("group {}", listed.group), &error.to_string())?;
                }
                _ => {}
            }
        }
    }
    Ok(all)
}

/// Those that read a topic whose partitions end there.
pub fn readers(commits: &Commits, topic: &str, ends: &BTreeMap<i32, i64>) -> Vec<Reader> {
    let reader = |(listed, offsets): &(Listed, ByPartition<Committed>)| {
        let of_topic = offsets.get(topic)?;
        let lag = |(partition, committed): (&i32, &Committed)| Some((ends.get(partition)? - committed.offset).max(0));
        let lags: Vec<i64> = of_topic.iter().filter_map(lag).collect();
        let lag = if lags.is_empty() { None } else { Some(lags.iter().sum()) };
        Some(Reader { group: listed.group.clone(), state: listed.state.clone(), lag })
    };
    commits.iter().filter_map(reader).collect()
}
