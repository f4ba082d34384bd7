//! `GET /api/groups?search=&state=&sort=lag|name|members&after=&limit=50`: groups, as of the last census.

use ringgate_group::State;
use serde_json::{Value, json};

use super::query::{Mark, Query, page};
use super::{Answer, Refused};
use crate::watch::Watch;
use crate::watch::census::GroupSeen;

pub(super) async fn groups(watch: &Watch, query: Option<&str>) -> Answer {
    let query = Query::parse(query, &["search", "state", "sort", "after", "limit"]).map_err(Refused::Bad)?;
    let sort = query.choice("sort", &["lag", "name", "members"]).map_err(Refused::Bad)?;
    // A dead group is one that is not there: nobody has that state, and to ask for it is no mistake.
    let states: Vec<&str> = State::ALL.map(State::name).into_iter().chain(["Dead"]).collect();
    let state = match query.get("state") {
        None => None,
        Some(_) => Some(query.choice("state", &states).map_err(Refused::Bad)?),
    };
    let (limit, after) = (query.limit().map_err(Refused::Bad)?, query.after().map_err(Refused::Bad)?);
    let census = watch.census().await.ok_or(Refused::Unavailable)?;
    let passes = |group: &&GroupSeen| {
        let found = query.get("search").is_none_or(|text| group.group.as_str().contains(text));
        found && state.is_none_or(|state| group.state.name() == state)
    };
    let mark = |group: &GroupSeen| Mark {
        rank: match sort {
            // The largest first, and last those of which it is not known.
            "lag" => group.lag.map_or(u64::MAX, |lag| u64::MAX - 1 - lag.min(u64::MAX - 1)),
            "members" => u64::MAX - group.members as u64,
            _ => 0,
        },
        name: group.group.as_str().into(),
    };
    let (groups, total, next) = page(census.groups.iter().filter(passes), mark, after.as_ref(), limit);
    Ok(json!({
        "groups": groups.into_iter().map(row).collect::<Vec<Value>>(),
        "total": total,
        "next": next,
        "at": census.at_ms,
    }))
}

fn row(group: &GroupSeen) -> Value {
    json!({
        "group": group.group.as_str(),
        "state": group.state.name(),
        "state_since": group.state_since_ms,
        "type": group_type(group.is_consumer),
        "protocol": group.protocol.as_ref().map(|protocol| protocol.as_str()),
        "members": group.members,
        "lag": group.lag,
        "since": group.trend.lagging_since_ms,
        "shard": group.shard,
        "generation": group.generation,
    })
}

/// As ListGroups says it.
pub(super) fn group_type(is_consumer: bool) -> &'static str {
    if is_consumer { "consumer" } else { "classic" }
}
