//! `/api`: what the page shows, as JSON. Version 1 of its shapes: fields are added, and none changes what it means.
//!
//! Times are ms since the epoch, durations ms unless named otherwise, and what is not known is `null`. Every list is
//! bounded. Nothing can be changed here. Nobody is asked who they are, so a browser must not be led here by a name that
//! somebody else controls (DNS rebinding): the `Host` of a request must be an IP address, `localhost`, or one of
//! `admin_hosts`. `/metrics`, `/healthz` and `/readyz` answer to any name, since scrapers and probes use whatever theirs is.

mod group;
mod groups;
mod hosts;
mod overview;
mod query;
mod topic;
mod topics;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

pub use hosts::{Hosts, known_host};

use crate::limits::API_TIMEOUT;
use crate::watch::Watch;
use crate::watch::detail::Unanswered;

/// Why there is no answer.
pub(super) enum Refused {
    /// The request makes no sense: 400.
    Bad(String),
    /// There is no such thing: 404.
    Missing(String),
    /// Nothing here takes another method than GET: 405.
    NotAllowed,
    /// Shards do not answer: 503.
    Unavailable,
}

impl From<Unanswered> for Refused {
    fn from(_: Unanswered) -> Self {
        Refused::Unavailable
    }
}

type Answer = Result<Value, Refused>;

/// The routes; `hosts` are the names by which they may be asked.
pub fn router(watch: Arc<Watch>, hosts: Arc<Hosts>) -> Router {
    Router::new()
        .route("/api/overview", get(overview_page))
        .route("/api/groups", get(groups_page))
        .route("/api/group", get(group_by_id))
        .route("/api/groups/", get(async |state, query| group_page(Ok(Path(String::new())), state, query).await))
        .route("/api/groups/{group}", get(group_page))
        .route("/api/topics", get(topics_page))
        .route("/api/topics/{topic}", get(topic_page))
        .route("/api", get(nothing))
        .route("/api/", get(nothing))
        .route("/api/{*other}", get(nothing))
        .method_not_allowed_fallback(async || respond(Err(Refused::NotAllowed)))
        .layer(from_fn(in_time))
        .layer(from_fn_with_state(hosts, known_host))
        .with_state(watch)
}

/// A shard that does not answer keeps nobody's place for good.
async fn in_time(request: Request, next: Next) -> Response {
    tokio::time::timeout(API_TIMEOUT, next.run(request)).await.unwrap_or_else(|_| respond(Err(Refused::Unavailable)))
}

async fn overview_page(State(watch): State<Arc<Watch>>, RawQuery(query): RawQuery) -> Response {
    respond(query::Query::parse(query.as_deref(), &[]).map_err(Refused::Bad).and_then(|_| overview::overview(&watch)))
}

async fn groups_page(State(watch): State<Arc<Watch>>, RawQuery(query): RawQuery) -> Response {
    respond(groups::groups(&watch, query.as_deref()).await)
}

/// Of any name, also of those that a path cannot have in it: clients take `.` and `..` out of paths, however encoded.
async fn group_by_id(State(watch): State<Arc<Watch>>, RawQuery(query): RawQuery) -> Response {
    let asked = query::Query::parse(query.as_deref(), &["id"]).and_then(|query| {
        let missing = || "id is missing: /api/group?id=GROUP".to_string();
        query.given("id").map(str::to_string).ok_or_else(missing)
    });
    respond(match asked {
        Ok(group) => group::group(&watch, &group).await,
        Err(why) => Err(Refused::Bad(why)),
    })
}

async fn group_page(name: Named, State(watch): State<Arc<Watch>>, RawQuery(query): RawQuery) -> Response {
    respond(match named(name, query.as_deref()) {
        Ok(group) => group::group(&watch, &group).await,
        Err(refused) => Err(refused),
    })
}

async fn topics_page(State(watch): State<Arc<Watch>>, RawQuery(query): RawQuery) -> Response {
    respond(topics::topics(&watch, query.as_deref()).await)
}

async fn topic_page(name: Named, State(watch): State<Arc<Watch>>, RawQuery(query): RawQuery) -> Response {
    respond(match named(name, query.as_deref()) {
        Ok(topic) => topic::topic(&watch, &topic).await,
        Err(refused) => Err(refused),
    })
}

/// The name at the end of a path, if it can be read.
type Named = Result<Path<String>, PathRejection>;

/// That name, where the path has no query.
fn named(name: Named, query: Option<&str>) -> Result<String, Refused> {
    query::Query::parse(query, &[]).map_err(Refused::Bad)?;
    let wrong = |_| Refused::Bad("the name in the path is not percent-encoded UTF-8".into());
    name.map(|Path(name)| name).map_err(wrong)
}

async fn nothing() -> Response {
    let there = "there are /api/overview, /api/groups, /api/groups/GROUP, /api/group?id=GROUP, /api/topics and \
                 /api/topics/TOPIC";
    respond(Err(Refused::Missing(there.into())))
}

/// 503, and why.
pub(super) fn unavailable(why: &str) -> Response {
    answered(StatusCode::SERVICE_UNAVAILABLE, json!({"error": why}))
}

fn respond(answer: Answer) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(Refused::Bad(why)) => (StatusCode::BAD_REQUEST, json!({"error": why})),
        Err(Refused::Missing(why)) => (StatusCode::NOT_FOUND, json!({"error": why})),
        Err(Refused::NotAllowed) => (StatusCode::METHOD_NOT_ALLOWED, json!({"error": "only GET is answered here"})),
        Err(Refused::Unavailable) => return unavailable("shards do not answer: see /readyz"),
    };
    answered(status, body)
}

fn answered(status: StatusCode, body: Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body.to_string()).into_response()
}

/// A number that is finite, to two digits behind the point; `null` for one that is not known.
pub(super) fn number(value: impl Into<Option<f64>>) -> Value {
    value.into().filter(|value| value.is_finite()).map_or(Value::Null, |value| json!((value * 100.0).round() / 100.0))
}

#[cfg(test)]
mod tests {
    use ringgate_runtime::FileThreads;
    use ringgate_shards::open_files::OpenFiles;

    use super::*;
    use crate::desks::Desks;
    use crate::net::accept::ConnectionCount;
    use crate::readiness::Readiness;
    use crate::scrape::Scrapes;
    use crate::watch::{About, WatchSettings};

    #[tokio::test]
    async fn what_shards_that_are_gone_do_not_tell_is_not_said_to_be_missing() {
        let desks = Arc::new(Desks::new(0));
        let scrapes = Arc::new(Scrapes::new(desks.clone(), Vec::new(), FileThreads::start(1).unwrap()));
        let counts = Arc::new(ConnectionCount::new(Arc::new(OpenFiles::new(100, 1)), 1, 0));
        let settings = WatchSettings { census_interval: None, group_series_max: 1, partition_lag: false };
        let watch = Watch::new(desks, scrapes, counts, Arc::new(Readiness::new(0)), settings);
        watch.serves(About {
            cluster_id: "c".into(),
            advertise: "shards",
            store: "embedded",
            location: "d".into(),
            fsync: None,
            nodes: Vec::new(),
        });
        for answer in [group::group(&watch, "g").await, topic::topic(&watch, "t").await] {
            assert_eq!(respond(answer).status(), StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}
