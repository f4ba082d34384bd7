//! DeleteTopics (API 20).

use std::collections::HashMap;

use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use ringgate_group::ErrorCode;
use ringgate_shards::call::{DeleteTopicsCall, TopicResult};
use ringgate_shards::controller::CONTROLLER;
use uuid::Uuid;

use super::topics::topic_name;
use super::{Operation, Outcome, RequestContext, Resource, View};

/// The first version that says why.
const MESSAGE_SINCE: i16 = 5;
/// The first version that takes ids (KIP-516).
const TOPIC_IDS_SINCE: i16 = 6;

/// One topic of the answer, and why it is not deleted, if that is known already.
#[derive(Debug)]
struct Slot {
    name: Option<TopicName>,
    id: Uuid,
    by_id: bool,
    refused: Option<(ErrorCode, String)>,
}

/// Serves a DeleteTopics.
pub async fn handle(ctx: &RequestContext, request: DeleteTopicsRequest) -> Outcome {
    let slots = plan(&ctx.view(), request);
    let topics: Vec<Uuid> = slots.iter().filter(|slot| slot.refused.is_none()).map(|slot| slot.id).collect();
    let deleted = if topics.is_empty() {
        Vec::new()
    } else {
        ctx.shard().submit_to(CONTROLLER, DeleteTopicsCall { topics }).await.0
    };
    ctx.respond(&response(ctx.api_version, slots, deleted))
}

fn plan(view: &View<'_>, request: DeleteTopicsRequest) -> Vec<Slot> {
    let named: Vec<(Option<TopicName>, Uuid)> = if view.version >= TOPIC_IDS_SINCE {
        request.topics.into_iter().map(|t| (t.name, t.topic_id)).collect()
    } else {
        request.topic_names.into_iter().map(|name| (Some(name), Uuid::nil())).collect()
    };
    let mut slots = Vec::with_capacity(named.len());
    // Where each topic that may go stands among the slots.
    let mut at: HashMap<Uuid, usize> = HashMap::new();
    for (name, id) in named {
        let slot = resolve(view, name, id);
        if slot.refused.is_none()
            && let Some(&first) = at.get(&slot.id)
        {
            // A topic that is named twice stays and is answered once, as in Kafka.
            let first: &mut Slot = &mut slots[first];
            first.refused = Some((ErrorCode::INVALID_REQUEST, "Duplicate topic name or topic id.".to_string()));
            continue;
        }
        if slot.refused.is_none() {
            at.insert(slot.id, slots.len());
        }
        slots.push(slot);
    }
    slots
}

fn resolve(view: &View<'_>, name: Option<TopicName>, id: Uuid) -> Slot {
    let may_delete = |name: &str| view.allowed(Operation::Delete, Resource::Topic(name));
    let denied = || (ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to delete the topic".to_string());
    let malformed = |why: &str| Some((ErrorCode::INVALID_REQUEST, why.to_string()));
    let Some(name) = name else {
        let refused = match view.catalogue.topic_by_id(id) {
            None if id.is_nil() => malformed("Neither topic name nor topic id were specified."),
            None => Some(unknown(true)),
            Some(topic) if !may_delete(&topic.name) => Some(denied()),
            Some(topic) => return Slot { name: Some(topic_name(&topic.name)), id, by_id: true, refused: None },
        };
        return Slot { name: None, id, by_id: true, refused };
    };
    if !id.is_nil() {
        let refused = malformed("You may not specify both topic name and topic id.");
        return Slot { name: Some(name), id, by_id: false, refused };
    }
    let refused = match view.catalogue.topic(&name) {
        _ if !may_delete(&name) => denied(),
        None => unknown(false),
        Some(topic) => return Slot { name: Some(name), id: topic.id, by_id: false, refused: None },
    };
    Slot { name: Some(name), id, by_id: false, refused: Some(refused) }
}

fn unknown(by_id: bool) -> (ErrorCode, String) {
    if by_id {
        (ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID.".to_string())
    } else {
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.".to_string())
    }
}

/// The answer: the request's topics in its order.
fn response(version: i16, slots: Vec<Slot>, deleted: Vec<TopicResult>) -> DeleteTopicsResponse {
    let mut deleted = deleted.into_iter();
    let unanswered = || Err((ErrorCode::UNKNOWN_SERVER_ERROR, "the controller did not answer".to_string()));
    let topics = slots.into_iter().map(|Slot { name, id, by_id, refused }| {
        let failed = refused.or_else(|| deleted.next().unwrap_or_else(unanswered).err());
        let mut response = DeletableTopicResult::default();
        response = if version >= TOPIC_IDS_SINCE {
            response.with_name(name).with_topic_id(id)
        } else {
            response.with_name(Some(name.unwrap_or_default()))
        };
        if let Some((error, message)) = failed {
            // The controller knows ids alone; who asked by name hears of names.
            let gone = error == ErrorCode::UNKNOWN_TOPIC_ID && !by_id;
            let (error, message) = if gone { unknown(false) } else { (error, message) };
            response = response.with_error_code(error.0);
            if version >= MESSAGE_SINCE {
                response = response.with_error_message(Some(StrBytes::from_string(message)));
            }
        }
        response
    });
    DeleteTopicsResponse::default().with_responses(topics.collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, as_read, id_of, versions};
    use super::*;
    use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
    use std::sync::Arc;

    /// Topics by name, in whatever field the version has for them.
    fn named(version: i16, names: &[&str]) -> DeleteTopicsRequest {
        let names = names.iter().map(|name| topic_name(name));
        if version >= TOPIC_IDS_SINCE {
            let topics = names.map(|name| DeleteTopicState::default().with_name(Some(name)));
            DeleteTopicsRequest::default().with_topics(topics.collect())
        } else {
            DeleteTopicsRequest::default().with_topic_names(names.collect())
        }
    }

    fn states(topics: &[(Option<&str>, Uuid)]) -> DeleteTopicsRequest {
        let state = |(name, id): &(Option<&str>, Uuid)| {
            DeleteTopicState::default().with_name(name.map(topic_name)).with_topic_id(*id)
        };
        DeleteTopicsRequest::default().with_topics(topics.iter().map(state).collect())
    }

    /// The controller deletes whatever it is asked to.
    fn served(world: &World, version: i16, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
        let slots = plan(&world.view(version), request);
        let topic = |id: Uuid| Ok(Arc::clone(world.catalogue.topic_by_id(id).expect("known")));
        let deleted = slots.iter().filter(|s| s.refused.is_none()).map(|s| topic(s.id)).collect();
        as_read(version, &response(version, slots, deleted))
    }

    fn told(response: &DeleteTopicsResponse) -> Vec<(Option<&str>, i16)> {
        response.responses.iter().map(|r| (r.name.as_ref().map(|n| n.as_str()), r.error_code)).collect()
    }

    #[test]
    fn every_version_deletes_by_name_and_says_what_is_unknown() {
        let world = World::with(&[("a", 1), ("b", 1)]);
        for version in versions(20) {
            let response = served(&world, version, named(version, &["b", "no", "a"]));
            assert_eq!(told(&response), [(Some("b"), 0), (Some("no"), 3), (Some("a"), 0)], "version {version}");
            let ids: Vec<_> = response.responses.iter().map(|r| r.topic_id).collect();
            let expected = if version >= 6 { [id_of(1), Uuid::nil(), id_of(0)] } else { [Uuid::nil(); 3] };
            assert_eq!(ids, expected, "version {version}");
            assert_eq!(response.responses[1].error_message.is_some(), version >= 5, "version {version}");
        }
    }

    #[test]
    fn topics_are_deleted_by_id_and_an_unknown_one_is_answered_100() {
        let world = World::with(&[("a", 1)]);
        let response = served(&world, 6, states(&[(None, id_of(0)), (None, id_of(7)), (None, Uuid::nil())]));
        assert_eq!(told(&response), [(Some("a"), 0), (None, 100), (None, 42)]);
        let both = served(&world, 6, states(&[(Some("a"), id_of(0))]));
        assert_eq!(told(&both), [(Some("a"), 42)]);
    }

    #[test]
    fn a_topic_that_is_named_twice_stays_and_is_refused_once() {
        let world = World::with(&[("a", 1), ("b", 1)]);
        for version in versions(20) {
            let response = served(&world, version, named(version, &["a", "b", "a"]));
            assert_eq!(told(&response), [(Some("a"), 42), (Some("b"), 0)], "version {version}");
        }
        let response = served(&world, 6, states(&[(Some("a"), Uuid::nil()), (None, id_of(0))]));
        assert_eq!(told(&response), [(Some("a"), 42)], "by name and by id");
    }

    #[test]
    fn a_topic_that_somebody_else_deleted_first_is_unknown() {
        let world = World::with(&[("a", 1)]);
        for (version, request, code) in
            [(5, named(5, &["a"]), 3), (6, named(6, &["a"]), 3), (6, states(&[(None, id_of(0))]), 100)]
        {
            let slots = plan(&world.view(version), request);
            let gone = vec![Err((ErrorCode::UNKNOWN_TOPIC_ID, String::new()))];
            assert_eq!(told(&as_read(version, &response(version, slots, gone))), [(Some("a"), code)]);
        }
    }

    #[test]
    fn who_may_not_delete_learns_neither_existence_nor_name() {
        let mut world = World::with(&[("a", 1)]);
        world.authorizer.denied_topic = Some((Operation::Delete, "a"));
        assert_eq!(told(&served(&world, 6, named(6, &["a"]))), [(Some("a"), 29)]);
        assert_eq!(told(&served(&world, 6, states(&[(None, id_of(0))]))), [(None, 29)]);
        world.authorizer.denied_topic = Some((Operation::Delete, "no"));
        assert_eq!(told(&served(&world, 6, named(6, &["no"]))), [(Some("no"), 29)]);
    }
}
