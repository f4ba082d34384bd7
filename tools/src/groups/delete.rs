//! `groups delete`: shows what would go, deletes it with `--execute`.

use std::collections::HashMap;
use std::io::Write;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{ApiKey, DeleteGroupsRequest, GroupId};
use kafka_protocol::protocol::StrBytes;
use ringgate_client::CallError;
use serde_json::{Map, json};

use crate::cli::DeleteGroups;
use crate::cluster::{Cluster, refused};
use crate::group::{self, Description, is_missing};
use crate::limits::GROUPS_ASKED;
use crate::offsets::committed;
use crate::output::{Failure, Output, Table};

/// Shows them, and deletes them.
pub async fn delete<W: Write>(args: &DeleteGroups, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    let asked: Vec<_> = args.groups.iter().map(|group| (group.clone(), None)).collect();
    let described = group::describe(cluster, &asked).await;
    let mut offsets = committed(cluster, &args.groups, None).await;
    let mut deleted = if args.execute { carry_out(cluster, &args.groups).await } else { HashMap::new() };
    out.begin(Map::from_iter([("executed".to_string(), args.execute.into())]), "groups")?;
    let mut table = Table::new(&["GROUP", "STATE", ">MEMBERS", ">OFFSETS", "RESULT"]);
    let (mut failed, mut going) = (Vec::new(), 0);
    for group in &args.groups {
        let described = described.get(group);
        let came = if args.execute {
            deleted.remove(group).unwrap_or_else(|| Err(CallError::BadResponse("no answer".into())))
        } else {
            would(described)
        };
        let known = described.and_then(|described| described.as_ref().ok());
        let state = known.map_or_else(String::new, |known| known.state.clone());
        let members = known.map_or(0, |known| known.members.len());
        let count = match offsets.remove(group) {
            Some(Ok(offsets)) => offsets.values().map(|partitions| partitions.len()).sum(),
            _ => 0,
        };
        let why = came.err().map(|error| why(&error, known));
        if out.is_json() {
            out.element(&json!({
                "group": group, "state": known.map(|known| known.state.as_str()), "members": members, "offsets": count,
                "deleted": args.execute && why.is_none(), "error": why,
            }))?;
        } else {
            table.row(vec![
                group.clone(),
                state,
                members.to_string(),
                count.to_string(),
                outcome(why.is_some(), args.execute).into(),
            ]);
        }
        going += usize::from(why.is_none());
        failed.extend(why.map(|why| (group, why)));
    }
    out.text(&table.take())?;
    if !args.execute {
        out.note(dry_run(going))?;
    }
    for (group, why) in failed {
        out.error(&format!("group {group}"), &why)?;
    }
    Ok(())
}

/// That nothing is gone yet, where so much would be deleted.
pub fn dry_run(going: usize) -> &'static str {
    if going > 0 { "dry run: nothing was deleted; --execute deletes it" } else { "dry run: nothing was deleted" }
}

/// A row's last column; why something is refused is told behind the table.
pub fn outcome(is_refused: bool, executed: bool) -> &'static str {
    match (is_refused, executed) {
        (true, true) => "refused",
        (true, false) => "would be refused",
        (false, true) => "deleted",
        (false, false) => "would be deleted",
    }
}

/// What the coordinator would say, by what is known now.
fn would(described: Option<&Result<Description, CallError>>) -> Result<(), CallError> {
    match described {
        Some(Ok(described)) if !described.is_empty() => {
            Err(refused(ResponseError::NonEmptyGroup.code(), "it cannot be deleted"))
        }
        Some(Err(error)) => Err(error.clone()),
        _ => Ok(()),
    }
}

fn why(error: &CallError, known: Option<&Description>) -> String {
    match (error, known) {
        (CallError::Kafka { code, .. }, Some(known)) if *code == ResponseError::NonEmptyGroup.code() => {
            format!("NON_EMPTY_GROUP: {}", known.why_not_empty())
        }
        (error, _) if is_missing(error) => "there is no such group".into(),
        (error, _) => error.to_string(),
    }
}

async fn carry_out(cluster: &Cluster, groups: &[String]) -> HashMap<String, Result<(), CallError>> {
    cluster
        .per_group(groups, GROUPS_ASKED, async |broker, part| {
            let version = cluster.version(ApiKey::DeleteGroups, i16::MAX)?;
            let names = part.iter().map(|group| GroupId(StrBytes::from_string(group.clone()))).collect();
            let request = DeleteGroupsRequest::default().with_groups_names(names);
            let answer = cluster.call(broker, version, &request).await?;
            Ok(answer
                .results
                .into_iter()
                .map(|result| {
                    let group = result.group_id.to_string();
                    let came = match result.error_code {
                        0 => Ok(()),
                        code => Err(refused(code, "it was not deleted")),
                    };
                    (group, came)
                })
                .collect())
        })
        .await
}
