//! `groups describe`: offsets and lag, members, or a line of each group.

use std::io::Write;

use futures_util::stream::{self, StreamExt};
use ringgate_client::CallError;
use serde_json::Map;

use super::list::coordinator_text;
use super::report::{Report, reports};
use crate::cli::DescribeGroups;
use crate::cluster::{Cluster, is_not_there};
use crate::group::{self, CONSUMER_PROTOCOL, Kind, is_missing};
use crate::limits::{BATCHES, GROUPS_ASKED};
use crate::output::{Failure, Output, Table, counted, or_dash, without_subject};

/// Describes them, in order, as they come.
pub async fn describe<W: Write>(args: &DescribeGroups, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    let mut missing = Vec::new();
    let groups: Vec<(String, Option<Kind>)> = if args.all {
        let (listed, silent) = group::list(cluster, &[], &[]).await?;
        missing = silent;
        listed
            .into_iter()
            .filter(|listed| listed.protocol_type.is_empty() || listed.protocol_type == CONSUMER_PROTOCOL)
            .filter_map(|listed| match listed.kind.as_str() {
                "classic" => Some((listed.group, Some(Kind::Classic))),
                "consumer" => Some((listed.group, Some(Kind::Consumer))),
                "" => Some((listed.group, None)),
                // Share and streams groups: their offsets are not these.
                _ => None,
            })
            .collect()
    } else {
        args.groups.iter().map(|group| (group.clone(), None)).collect()
    };
    out.begin(Map::new(), "groups")?;
    let mut view = View::new(args);
    let mut batches = stream::iter(groups.chunks(GROUPS_ASKED).map(|batch| reports(cluster, batch))).buffered(BATCHES);
    while let Some(batch) = batches.next().await {
        for (group, report) in batch? {
            match report {
                Ok(report) => view.show(report, cluster, out)?,
                // It went since it was listed.
                Err(error) if args.all && is_missing(&error) => {}
                Err(error) if is_missing(&error) => out.error(&format!("group {group}"), "there is no such group")?,
                Err(error) => out.error(&format!("group {group}"), &error.to_string())?,
            }
        }
        view.batch_is_over(out)?;
    }
    if view.shown == 0 && missing.is_empty() && !out.has_errors() {
        out.nothing(if args.min_lag.is_some() {
            "no group is so far behind"
        } else {
            "there is no group that consumes"
        });
    }
    for (broker, error) in missing {
        out.error(&format!("broker {broker}"), &format!("its groups are missing: {error}"))?;
    }
    Ok(())
}

/// What is shown of each group.
struct View<'a> {
    args: &'a DescribeGroups,
    /// Lines of all groups, where each has one.
    table: Table,
    /// How many were shown.
    shown: usize,
}

impl<'a> View<'a> {
    fn new(args: &'a DescribeGroups) -> View<'a> {
        let table =
            Table::new(&["GROUP", "TYPE", "STATE", "ASSIGNOR", "COORDINATOR", ">MEMBERS", ">PARTITIONS", ">LAG"]);
        View { args, table, shown: 0 }
    }

    fn show<W: Write>(&mut self, mut report: Report, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
        if let Some(least) = self.args.min_lag {
            let behind = |lag: Option<i64>| lag.is_some_and(|lag| lag >= least);
            if self.args.state {
                if !behind(report.lag) {
                    return Ok(());
                }
            } else {
                report.rows.retain(|row| behind(row.lag()));
                if report.rows.is_empty() {
                    return Ok(());
                }
            }
        }
        self.unknown_ends(&report, out)?;
        self.shown += 1;
        if out.is_json() {
            return out.element(&report.to_json(cluster));
        }
        if self.args.state {
            self.table.row(vec![
                report.group.clone(),
                report.described.kind.name().into(),
                report.described.state.clone(),
                report.described.assignor.clone(),
                coordinator_text(cluster, &report.described.coordinator),
                report.described.members.len().to_string(),
                report.rows.len().to_string(),
                or_dash(report.lag),
            ]);
            return Ok(());
        }
        if self.shown > 1 {
            out.text("\n")?;
        }
        out.text(&title(&report, cluster))?;
        if self.args.members { members(&report, out) } else { partitions(&report, out) }
    }

    /// A topic that was deleted has no end, which is no error: a leader that does not answer is one.
    fn unknown_ends<W: Write>(&self, report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
        let mut told: Option<&CallError> = None;
        for row in &report.rows {
            if let Some(why) = row.no_end.as_ref().filter(|why| !is_not_there(why))
                && told != Some(why)
            {
                told = Some(why);
                let subject = format!("group {}", report.group);
                let what = format!("partition {} of topic {}", row.partition, row.topic);
                let why = why.to_string();
                out.error(&subject, &format!("the end of {what} is not known: {}", without_subject(&why, &what)))?;
            }
        }
        Ok(())
    }

    fn batch_is_over<W: Write>(&mut self, out: &mut Output<W>) -> Result<(), Failure> {
        out.text(&self.table.take())?;
        out.flush()
    }
}

/// `group billing: Stable, classic, assignor range, coordinator 127.0.0.1:9093 (1000), 3 members, lag 17`.
fn title(report: &Report, cluster: &Cluster) -> String {
    let described = &report.described;
    let assignor =
        if described.assignor.is_empty() { String::new() } else { format!(", assignor {}", described.assignor) };
    let title = format!(
        "group {}: {}, {}{assignor}, coordinator {}, {}, lag {}",
        report.group,
        described.state,
        described.kind.name(),
        coordinator_text(cluster, &described.coordinator),
        counted(described.members.len(), "member"),
        or_dash(report.lag),
    );
    format!("{}\n", crate::output::printable(&title))
}

fn partitions<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let head =
        &["TOPIC", ">PARTITION", ">CURRENT-OFFSET", ">LOG-END-OFFSET", ">LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"];
    let mut table = Table::new(head);
    for row in &report.rows {
        let member = row.member.and_then(|at| report.described.members.get(at));
        table.row(vec![
            row.topic.clone(),
            row.partition.to_string(),
            or_dash(row.committed.as_ref().map(|committed| committed.offset)),
            or_dash(row.end),
            or_dash(row.lag()),
            or_dash(member.map(|member| &member.id)),
            or_dash(member.map(|member| &member.host)),
            or_dash(member.map(|member| &member.client)),
        ]);
    }
    out.text(&table.take())
}

fn members<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    let mut table = Table::new(&["CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", ">PARTITIONS", "ASSIGNMENT"]);
    for member in &report.described.members {
        table.row(vec![
            member.id.clone(),
            or_dash(member.instance.as_ref()),
            member.host.clone(),
            member.client.clone(),
            member.assigned.values().map(Vec::len).sum::<usize>().to_string(),
            member.assignment(),
        ]);
    }
    out.text(&table.take())
}
