//! `GET /api/topics?search=&sort=name|partitions|records_in&after=&limit=50`: topics, as of the last census.

use serde_json::{Value, json};

use super::query::{Mark, Query, page};
use super::{Answer, Refused, number};
use crate::watch::Watch;
use crate::watch::census::TopicSeen;

pub(super) async fn topics(watch: &Watch, query: Option<&str>) -> Answer {
    let query = Query::parse(query, &["search", "sort", "after", "limit"]).map_err(Refused::Bad)?;
    let sort = query.choice("sort", &["name", "partitions", "records_in"]).map_err(Refused::Bad)?;
    let (limit, after) = (query.limit().map_err(Refused::Bad)?, query.after().map_err(Refused::Bad)?);
    let census = watch.census().await.ok_or(Refused::Unavailable)?;
    let passes = |seen: &&TopicSeen| query.get("search").is_none_or(|text| seen.topic.name.contains(text));
    let mark = |seen: &TopicSeen| Mark {
        rank: match sort {
            "partitions" => u64::MAX - u64::try_from(seen.topic.partitions).unwrap_or(0),
            // The largest first, to a thousandth of a record a second, and last those of which it is not known.
            "records_in" => seen.records_in.map_or(u64::MAX, |rate| u64::MAX - 1 - (rate * 1000.0) as u64),
            _ => 0,
        },
        name: seen.topic.name.to_string(),
    };
    let (topics, total, next) = page(census.topics.iter().filter(passes), mark, after.as_ref(), limit);
    Ok(json!({
        "topics": topics.into_iter().map(row).collect::<Vec<Value>>(),
        "total": total,
        "next": next,
        "at": census.at_ms,
    }))
}

fn row(seen: &TopicSeen) -> Value {
    json!({
        "topic": &*seen.topic.name,
        "id": seen.topic.id.to_string(),
        "partitions": seen.topic.partitions,
        "records": seen.records,
        "records_in": number(seen.records_in),
        "bytes": seen.bytes,
        "groups": seen.groups,
    })
}
