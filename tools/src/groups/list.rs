//! `groups list`: every broker is asked once.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::cli::ListGroups;
use crate::cluster::Cluster;
use crate::group;
use crate::output::{Failure, Output, Table, text_or_null};

/// Lists them.
pub async fn list<W: Write>(args: &ListGroups, cluster: &Cluster, out: &mut Output<W>) -> Result<(), Failure> {
    let (mut groups, missing) = group::list(cluster, &args.state, &args.types).await?;
    if let Some(text) = &args.search {
        groups.retain(|listed| listed.group.contains(text.as_str()));
    }
    out.begin(Map::new(), "groups")?;
    let found_none = groups.is_empty() && missing.is_empty();
    let mut table = Table::new(&["GROUP", "TYPE", "STATE", "PROTOCOL-TYPE", "COORDINATOR"]);
    for listed in groups {
        if !out.is_json() {
            let coordinator = coordinator_text(cluster, &listed.coordinator);
            table.row(vec![listed.group, listed.kind, listed.state, listed.protocol_type, coordinator]);
            continue;
        }
        out.element(&json!({
            "group": listed.group, "type": text_or_null(&listed.kind),
            "state": text_or_null(&listed.state),
            "protocol_type": text_or_null(&listed.protocol_type), "coordinator": coordinator_json(cluster, &listed.coordinator),
        }))?;
    }
    out.text(&table.take())?;
    if found_none {
        let is_filtered = args.search.is_some() || !args.state.is_empty() || !args.types.is_empty();
        out.nothing(if is_filtered { "no group is like that" } else { "there is no group" });
    }
    for (broker, error) in missing {
        out.error(&format!("broker {broker}"), &format!("its groups are missing: {error}"))?;
    }
    Ok(())
}

/// `127.0.0.1:9093 (1000)`.
pub fn coordinator_text(cluster: &Cluster, broker: &ringgate_client::Address) -> String {
    match cluster.id_of(broker) {
        Some(id) => format!("{broker} ({id})"),
        None => broker.to_string(),
    }
}

/// The same for programs.
pub fn coordinator_json(cluster: &Cluster, broker: &ringgate_client::Address) -> Value {
    json!({"id": cluster.id_of(broker), "addr": broker.to_string()})
}
