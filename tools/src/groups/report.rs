//! A group with what it has committed and how far behind it is.

use std::collections::{BTreeMap, HashMap};

use ringgate_client::CallError;
use serde_json::{Value, json};

use super::list::coordinator_json;
use crate::cluster::Cluster;
use crate::group::{self, Description, Kind, is_missing};
use crate::offsets::{ByPartition, Committed, Partitions, Which, committed, offsets};
use crate::output::text_or_null;

/// A group and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub group: String,
    /// What it is.
    pub described: Description,
    /// A row for each partition of which an offset is committed or that is assigned to a member.
    pub rows: Vec<Row>,
    /// The lag of all partitions of which it is known.
    pub lag: Option<i64>,
}

/// A partition of a group's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// What is committed.
    pub committed: Option<Committed>,
    /// The next offset that will be written.
    pub end: Option<i64>,
    /// Why the end is not known.
    pub no_end: Option<CallError>,
    /// Whose it is, by its place among the members.
    pub member: Option<usize>,
}

impl Row {
    /// Records between what is committed and the end; below 0 when the log was cut below what is committed.
    pub fn lag(&self) -> Option<i64> {
        Some(self.end? - self.committed.as_ref()?.offset)
    }
}

impl Report {
    /// The report for programs.
    pub fn to_json(&self, cluster: &Cluster) -> Value {
        let member = |row: &Row| row.member.and_then(|at| self.described.members.get(at));
        let partitions: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "topic": row.topic, "partition": row.partition,
                    "committed": row.committed.as_ref().map(|committed| committed.offset),
                    "metadata": row.committed.as_ref().map(|committed| committed.metadata.as_str()),
                    "end": row.end, "lag": row.lag(), "error": row.no_end.as_ref().map(ToString::to_string),
                    "member": member(row).map(|member| &member.id),
                    "client": member(row).map(|member| &member.client),
                    "host": member(row).map(|member| &member.host),
                })
            })
            .collect();
        let described = &self.described;
        let members: Vec<Value> = described.members.iter().map(group::Member::to_json).collect();
        json!({
            "group": self.group, "type": described.kind.name(), "state": described.state,
            "protocol_type": text_or_null(&described.protocol_type),
            "assignor": text_or_null(&described.assignor), "epoch": described.epoch,
            "coordinator": coordinator_json(cluster, &described.coordinator), "lag": self.lag,
            "members": members, "partitions": partitions,
        })
    }
}

/// A group, and what it has committed.
type Known = Result<(Description, ByPartition<Committed>), CallError>;

/// Reports of groups, in their order; why there is none of some.
///
/// # Errors
/// No broker answers.
pub async fn reports(
    cluster: &Cluster,
    groups: &[(String, Option<Kind>)],
) -> Result<Vec<(String, Result<Report, CallError>)>, CallError> {
    let names: Vec<String> = groups.iter().map(|(group, _)| group.clone()).collect();
    let mut described = group::describe(cluster, groups).await;
    let mut offsets_of = committed(cluster, &names, None).await;
    // Ends are asked for last, so that nothing that is committed meanwhile lies behind them.
    let mut known: Vec<(String, Known)> = Vec::new();
    let mut wanted = Partitions::new();
    for group in names {
        let (described, committed) = (described.remove(&group), offsets_of.remove(&group));
        let both = match (described, committed) {
            // A group of which offsets are committed and nothing else.
            (Some(Err(error)), Some(Ok(committed))) if is_missing(&error) && !committed.is_empty() => {
                match cluster.coordinator(&group) {
                    Some(coordinator) => Ok((without_members(coordinator), committed)),
                    None => Err(error),
                }
            }
            (Some(Err(error)), _) | (_, Some(Err(error))) => Err(error),
            (Some(Ok(described)), Some(Ok(committed))) => Ok((described, committed)),
            _ => Err(CallError::BadResponse("the answer leaves the group out".into())),
        };
        if let Ok((described, committed)) = &both {
            for (topic, partitions) in committed {
                wanted.entry(topic.clone()).or_default().extend(partitions.keys());
            }
            for (topic, partitions) in described.members.iter().flat_map(|member| &member.assigned) {
                wanted.entry(topic.clone()).or_default().extend(partitions);
            }
        }
        known.push((group, both));
    }
    let ends = if wanted.is_empty() { BTreeMap::new() } else { offsets(cluster, &wanted, Which::Latest).await? };
    let report = |(group, both): (String, Known)| {
        let report = both.map(|(described, committed)| report(&group, described, committed, &ends));
        (group, report)
    };
    Ok(known.into_iter().map(report).collect())
}

fn without_members(coordinator: ringgate_client::Address) -> Description {
    Description {
        kind: Kind::Classic,
        state: "Empty".into(),
        protocol_type: String::new(),
        assignor: String::new(),
        epoch: None,
        coordinator,
        members: Vec::new(),
    }
}

fn report(
    group: &str,
    described: Description,
    mut committed: ByPartition<Committed>,
    ends: &ByPartition<Result<Option<i64>, CallError>>,
) -> Report {
    let mut owners: HashMap<(&str, i32), usize> = HashMap::new();
    for (at, member) in described.members.iter().enumerate() {
        for (topic, partitions) in &member.assigned {
            owners.extend(partitions.iter().map(|partition| ((topic.as_str(), *partition), at)));
        }
    }
    let mut all = Partitions::new();
    for (topic, partitions) in &committed {
        all.entry(topic.clone()).or_default().extend(partitions.keys());
    }
    for (topic, partition) in owners.keys() {
        all.entry((*topic).to_string()).or_default().insert(*partition);
    }
    let mut rows = Vec::new();
    for (topic, partitions) in all {
        for partition in partitions {
            let end = ends.get(&topic).and_then(|partitions| partitions.get(&partition));
            rows.push(Row {
                partition,
                committed: committed.get_mut(&topic).and_then(|partitions| partitions.remove(&partition)),
                end: end.and_then(|end| end.as_ref().ok().copied().flatten()),
                no_end: end.and_then(|end| end.as_ref().err().cloned()),
                member: owners.get(&(topic.as_str(), partition)).copied(),
                topic: topic.clone(),
            });
        }
    }
    let known: Vec<i64> = rows.iter().filter_map(Row::lag).collect();
    // A log that was cut below what is committed makes up for no other's lag.
    let lag = if known.is_empty() { None } else { Some(known.iter().map(|lag| (*lag).max(0)).sum()) };
    Report { group: group.into(), described, rows, lag }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Member;

    fn description(assigned: &[(&str, &[i32])]) -> Description {
        let member = Member {
            id: "m".into(),
            instance: None,
            client: "c".into(),
            host: "h".into(),
            assigned: assigned.iter().map(|(topic, parts)| ((*topic).to_string(), parts.to_vec())).collect(),
        };
        Description { members: vec![member], ..without_members("h:1".parse().expect("an address")) }
    }

    #[test]
    fn a_partition_is_shown_when_it_is_committed_or_assigned_and_lag_needs_both_ends() {
        let at = |offset| Committed { offset, metadata: String::new() };
        let committed = BTreeMap::from([("t".to_string(), BTreeMap::from([(0, at(4)), (1, at(9)), (3, at(1))]))]);
        let gone = Err(CallError::TimedOut);
        let ends =
            BTreeMap::from([("t".to_string(), BTreeMap::from([(0, Ok(Some(10))), (1, Ok(Some(7))), (3, gone)]))]);
        let report = report("g", description(&[("t", &[0, 2])]), committed, &ends);
        let rows: Vec<_> = report.rows.iter().map(|row| (row.partition, row.lag(), row.member)).collect();
        assert_eq!(rows, [(0, Some(6), Some(0)), (1, Some(-2), None), (2, None, Some(0)), (3, None, None)]);
        assert_eq!(report.lag, Some(6), "a log that was cut takes nothing off what others are behind");
        assert!(report.rows[3].no_end.is_some());
    }

    #[test]
    fn a_lag_of_which_nothing_is_known_is_no_zero() {
        assert_eq!(report("g", description(&[("t", &[0])]), BTreeMap::new(), &BTreeMap::new()).lag, None);
    }
}
