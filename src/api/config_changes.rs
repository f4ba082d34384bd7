//! What AlterConfigs and IncrementalAlterConfigs share: which resources can be changed, and what each is answered.
//!
//! Topics alone have settings that can change. A node's are those that the gateway was started with: any change
//! of them is answered `INVALID_CONFIG(40)`. Each resource is changed as a whole or refused, on its own.

use std::collections::{HashMap, HashSet};

use ringgate_group::ErrorCode;
use ringgate_shards::call::{AlterConfigsCall, TopicResult};
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::topic_config::{ConfigChange, shown};
use ringgate_shards::turn::Turn;
use uuid::Uuid;

use super::config_entries::{self, resource};
use super::topics::name_error;
use super::{Operation, RequestContext, Resource, View};
use crate::limits::ALTERED_SETTINGS_MAX;
use crate::net::limit_hits::Limit;

/// Kafka's code and what is wrong.
pub(super) type Refusal = (ErrorCode, String);

/// A resource and what is to become of its settings.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Asked<'a> {
    pub(super) resource_type: i8,
    pub(super) name: &'a str,
    /// Settings that are named, of any kind of resource.
    pub(super) settings: usize,
    /// Or what is wrong with the request.
    pub(super) change: Result<ConfigChange, Refusal>,
}

/// Changes resources, each read by `asked`; what each is answered, in their order.
pub(super) async fn alter<'a, R>(
    ctx: &RequestContext,
    resources: &'a [R],
    asked: impl Fn(&'a R) -> Asked<'a>,
    validate_only: bool,
) -> Vec<Result<(), Refusal>> {
    let Plan { slots, sound } = plan(&ctx.view(), resources, asked).await;
    let altered = if sound.is_empty() {
        Vec::new()
    } else {
        ctx.shard().submit_to(CONTROLLER, AlterConfigsCall { topics: sound, validate_only }).await.0
    };
    answers(slots, altered).await
}

struct Plan {
    /// What is answered here; `None`: what the controller says.
    slots: Vec<Option<Result<(), Refusal>>>,
    /// For the controller.
    sound: Vec<(Uuid, ConfigChange)>,
}

async fn plan<'a, R>(view: &View<'_>, resources: &'a [R], read: impl Fn(&'a R) -> Asked<'a>) -> Plan {
    let mut times: HashMap<(i8, &str), usize> = HashMap::new();
    let mut asked = Vec::with_capacity(resources.len());
    let mut turn = Turn::default();
    for resource in resources {
        turn.partition().await;
        let one = read(resource);
        *times.entry((one.resource_type, one.name)).or_default() += 1;
        asked.push(one);
    }
    let mut plan = Plan { slots: Vec::with_capacity(asked.len()), sound: Vec::new() };
    for one in asked {
        turn.partition().await;
        let slot = if times.get(&(one.resource_type, one.name)).is_some_and(|&times| times > 1) {
            Some(Err((ErrorCode::INVALID_REQUEST, "Each resource must appear at most once.".to_string())))
        } else {
            match check(view, one) {
                Ok(Some(sound)) => {
                    plan.sound.push(sound);
                    None
                }
                Ok(None) => Some(Ok(())),
                Err(refusal) => Some(Err(refusal)),
            }
        };
        plan.slots.push(slot);
    }
    plan
}

/// The topic and its change; `None` when there is nothing to do.
fn check(view: &View<'_>, asked: Asked<'_>) -> Result<Option<(Uuid, ConfigChange)>, Refusal> {
    let name = asked.name;
    let refuse = |error: ErrorCode, why: &str| Err((error, why.to_string()));
    if asked.settings > ALTERED_SETTINGS_MAX {
        view.limit_hits.count(Limit::AlteredSettings);
    }
    match asked.resource_type {
        resource::TOPIC => {
            if !view.allowed(Operation::AlterConfigs, Resource::Topic(name)) {
                return refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed to change the topic's settings");
            }
            let change = asked.change?;
            if name.is_empty() {
                return refuse(ErrorCode::INVALID_REQUEST, "Default topic resources are not allowed.");
            }
            if let Some(why) = name_error(name) {
                return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, why));
            }
            let Some(topic) = view.catalogue.topic(name) else {
                let why = format!("The topic '{name}' does not exist.");
                return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, why));
            };
            Ok(Some((topic.id, change)))
        }
        resource::BROKER => {
            if !view.allowed(Operation::AlterConfigs, Resource::Cluster) {
                return refuse(ErrorCode::CLUSTER_AUTHORIZATION_FAILED, "not allowed to change the nodes' settings");
            }
            asked.change?;
            if !name.is_empty() {
                config_entries::node_of(view, name).map_err(|why| (ErrorCode::INVALID_REQUEST, why))?;
            }
            if asked.settings == 0 {
                return Ok(None);
            }
            let why = "A node's settings are those that the gateway was started with (flags, environment, TOML file): \
                       they change at a restart.";
            refuse(ErrorCode::INVALID_CONFIG, why)
        }
        resource::BROKER_LOGGER => refuse(ErrorCode::INVALID_REQUEST, "Log levels change at a restart (log_level)."),
        resource::CLIENT_METRICS => refuse(ErrorCode::INVALID_REQUEST, "Clients' metrics are not collected."),
        resource::GROUP => refuse(ErrorCode::INVALID_REQUEST, "Groups have no settings; the gateway's hold for all."),
        other => Err((ErrorCode::INVALID_REQUEST, format!("Unknown resource type {other}"))),
    }
}

async fn answers(slots: Vec<Option<Result<(), Refusal>>>, altered: Vec<TopicResult>) -> Vec<Result<(), Refusal>> {
    let mut altered = altered.into_iter();
    let unanswered = || Err((ErrorCode::UNKNOWN_SERVER_ERROR, "the controller did not answer".to_string()));
    let mut turn = Turn::default();
    let mut answers = Vec::with_capacity(slots.len());
    for slot in slots {
        turn.partition().await;
        answers.push(slot.unwrap_or_else(|| altered.next().map_or_else(unanswered, |result| result.map(|_| ()))));
    }
    answers
}

/// Whether no setting is named twice, and not more of them than anything could have; the answer is otherwise
/// `INVALID_REQUEST(42)`.
pub(super) fn each_once<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Refusal> {
    let given = names.len();
    if given > ALTERED_SETTINGS_MAX {
        let why = format!("{given} settings of one resource; allowed are {ALTERED_SETTINGS_MAX}");
        return Err((ErrorCode::INVALID_REQUEST, why));
    }
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            let why = format!("Error due to duplicate config keys: {}", shown(name));
            return Err((ErrorCode::INVALID_REQUEST, why));
        }
    }
    Ok(())
}

/// The refusal of a setting without a value.
pub(super) fn null_value(name: &str) -> Refusal {
    (ErrorCode::INVALID_REQUEST, format!("Null value not supported for: {}", shown(name)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::testing::{Rules, World, finish, id_of, turns};
    use super::*;

    /// What the resources are answered by a controller that takes every change, and the topics that it changes.
    pub(in super::super) fn altered<'a, R>(
        world: &World,
        resources: &'a [R],
        read: impl Fn(&'a R) -> Asked<'a>,
    ) -> (Vec<Result<(), Refusal>>, Vec<Uuid>) {
        let Plan { slots, sound } = finish(plan(&world.view(0), resources, read));
        let topics: Vec<Uuid> = sound.iter().map(|(id, _)| *id).collect();
        let results = topics.iter().map(|&id| Ok(world.catalogue.topic_by_id(id).unwrap().clone())).collect();
        (finish(answers(slots, results)), topics)
    }

    fn asked(resource_type: i8, name: &str) -> Asked<'_> {
        Asked { resource_type, name, settings: 1, change: Ok(ConfigChange::Replace(Default::default())) }
    }

    fn codes(world: &World, all: Vec<Asked<'_>>) -> Vec<i16> {
        altered(world, &all, Asked::clone)
            .0
            .into_iter()
            .map(|result| result.err().map_or(0, |(code, _)| code.0))
            .collect()
    }

    #[test]
    fn each_resource_is_answered_on_its_own_and_topics_alone_change() {
        let world = World::with(&[("a", 1), ("b", 1)]);
        let nothing = Asked { settings: 0, ..asked(4, "1000") };
        let wrong = Asked { change: Err(null_value("x")), ..asked(2, "b") };
        let all = vec![
            asked(2, "a"),
            asked(2, "no"),
            asked(2, ""),
            asked(2, "a/b"),
            wrong,
            asked(4, ""),
            asked(4, "1001"),
            asked(4, "1002"),
            asked(4, "x"),
            nothing,
            asked(8, "1000"),
            asked(16, "m"),
            asked(32, "g"),
            asked(99, "u"),
        ];
        assert_eq!(altered(&world, &[asked(2, "no"), asked(2, "b")], Asked::clone).1, [id_of(1)]);
        assert_eq!(codes(&world, all), [0, 3, 42, 17, 42, 40, 40, 42, 42, 0, 42, 42, 42, 42]);
    }

    #[test]
    fn a_resource_that_stands_there_twice_is_refused_twice_and_the_others_change() {
        let world = World::with(&[("a", 1), ("b", 1)]);
        let all = || vec![asked(2, "a"), asked(2, "b"), asked(2, "a")];
        assert_eq!(codes(&world, all()), [42, 0, 42]);
        assert_eq!(altered(&world, &all(), Asked::clone).1, [id_of(1)]);
    }

    #[test]
    fn who_may_not_change_settings_learns_not_whether_the_topic_exists() {
        let mut world = World::with(&[("a", 1)]);
        world.authorizer = Rules {
            denied_topic: Some((Operation::AlterConfigs, "a")),
            cluster_denied: Some(Operation::AlterConfigs),
            ..Rules::default()
        };
        assert_eq!(codes(&world, vec![asked(2, "a"), asked(2, "b"), asked(4, "")]), [29, 3, 31]);
    }

    #[test]
    fn who_names_very_many_resources_lets_others_take_turns() {
        let world = World::with(&[("a", 1)]);
        let names: Vec<String> = (0..20_000).map(|nth| format!("no-{nth}")).collect();
        let (planned, Plan { slots, .. }) = turns(plan(&world.view(0), &names, |name| asked(2, name)));
        let (told, answers) = turns(answers(slots, Vec::new()));
        assert_eq!(answers.len(), 20_000);
        assert!(planned > 2 && told > 1, "{planned} and {told} turns");
    }

    #[test]
    fn a_resource_with_more_settings_than_anything_has_is_refused() {
        let names: Vec<String> = (0..=ALTERED_SETTINGS_MAX).map(|nth| nth.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(each_once(names[1..].iter().copied()), Ok(()));
        assert_eq!(each_once(names.iter().copied()).unwrap_err().0, ErrorCode::INVALID_REQUEST);
    }
}
