//! What a group is, and who is in it.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::join_all;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::consumer_group_describe_response as consumer;
use kafka_protocol::messages::describe_groups_response as classic;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, DescribeGroupsRequest, GroupId, ListGroupsRequest,
};
use kafka_protocol::protocol::{Decodable, StrBytes};
use ringgate_client::{Address, CallError};
use ringgate_wire::counts::check_assignment;
use serde_json::{Value, json};

use crate::cluster::{Cluster, passes, refused};
use crate::limits::{ASSIGNMENT_DECODED_BYTES_MAX, GROUPS_ASKED};
use crate::output::counted;

/// The first version of ListGroups with states, and the first with types.
pub const LIST_STATES: i16 = 4;
/// See [`LIST_STATES`].
pub const LIST_TYPES: i16 = 5;

/// What a classic group of consumers says that it is.
pub const CONSUMER_PROTOCOL: &str = "consumer";

/// Which protocol the members of a group speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JoinGroup and SyncGroup.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
}

impl Kind {
    /// Kafka's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Classic => "classic",
            Kind::Consumer => "consumer",
        }
    }
}

/// A group in a broker's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub group: String,
    /// `classic`, `consumer`, `share`, ...; empty where the broker says none.
    pub kind: String,
    /// Empty where the broker says none.
    pub state: String,
    /// `consumer` of groups that consume.
    pub protocol_type: String,
    /// Who told of it.
    pub coordinator: Address,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Which protocol its members speak.
    pub kind: Kind,
    /// Its state, by Kafka's name.
    pub state: String,
    /// `consumer` of groups that consume; empty of a group without members.
    pub protocol_type: String,
    /// The assignor; empty of a classic group without members.
    pub assignor: String,
    /// The group epoch; a classic group does not tell its generation.
    pub epoch: Option<i32>,
    /// Who coordinates it.
    pub coordinator: Address,
    /// Who is in it.
    pub members: Vec<Member>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// Its static name, when it has one.
    pub instance: Option<String>,
    /// What the client calls itself.
    pub client: String,
    /// Where it connects from, without the slash that brokers put before it.
    pub host: String,
    /// Its partitions by topic.
    pub assigned: BTreeMap<String, Vec<i32>>,
}

impl Member {
    /// `orders(0,1), payments(3)`.
    pub fn assignment(&self) -> String {
        let topic = |(topic, partitions): (&String, &Vec<i32>)| {
            let partitions: Vec<String> = partitions.iter().map(i32::to_string).collect();
            format!("{topic}({})", partitions.join(","))
        };
        self.assigned.iter().map(topic).collect::<Vec<_>>().join(", ")
    }

    /// The member for programs.
    pub fn to_json(&self) -> Value {
        let assigned: Vec<Value> =
            self.assigned.iter().map(|(topic, partitions)| json!({"topic": topic, "partitions": partitions})).collect();
        json!({
            "member": self.id, "instance": self.instance, "client": self.client, "host": self.host,
            "assigned": assigned,
        })
    }
}

impl Description {
    /// Whether offsets may be set and the group be deleted.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && matches!(self.state.as_str(), "Empty" | "Dead")
    }

    /// Why that is not so, in words that say who has to stop.
    pub fn why_not_empty(&self) -> String {
        let members: Vec<String> =
            self.members.iter().take(3).map(|member| format!("{} at {}", member.client, member.host)).collect();
        let more = self.members.len().saturating_sub(members.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (count, members) = (counted(self.members.len(), "member"), members.join(", "));
        format!("it is {} with {count} ({members}{more}): stop them first", self.state)
    }
}

/// The groups of all brokers, by name; and which brokers did not tell, why.
///
/// # Errors
/// The brokers cannot filter by state or type, and that was asked for.
pub async fn list(
    cluster: &Cluster,
    states: &[String],
    types: &[String],
) -> Result<(Vec<Listed>, Vec<(Address, CallError)>), CallError> {
    let version = cluster.version(ApiKey::ListGroups, i16::MAX)?;
    for (asked, since, what) in [(states, LIST_STATES, "states"), (types, LIST_TYPES, "types")] {
        if !asked.is_empty() && version < since {
            let why = format!("ListGroups: the brokers tell no {what}, which they do from version {since} on");
            return Err(CallError::NoVersion(why));
        }
    }
    let texts = |texts: &[String]| texts.iter().map(|text| StrBytes::from_string(text.clone())).collect::<Vec<_>>();
    let request = ListGroupsRequest::default().with_states_filter(texts(states)).with_types_filter(texts(types));
    let asked = cluster.brokers().into_values().map(async |broker| {
        let patience = cluster.patience();
        loop {
            let error = match cluster.call(&broker, version, &request).await {
                Ok(answer) if answer.error_code == 0 => return (broker, Ok(answer.groups)),
                Ok(answer) => refused(answer.error_code, "the list of groups"),
                Err(error) => error,
            };
            if !passes(&error) || !patience.pause().await {
                return (broker, Err(error));
            }
        }
    });
    let mut found: BTreeMap<String, Listed> = BTreeMap::new();
    let mut missing = Vec::new();
    for (broker, groups) in join_all(asked).await {
        match groups {
            Err(error) => missing.push((broker, error)),
            Ok(groups) => found.extend(groups.into_iter().map(|listed| {
                let group = listed.group_id.to_string();
                cluster.coordinates(&broker, &group);
                let listed = Listed {
                    group: group.clone(),
                    kind: listed.group_type.to_lowercase(),
                    state: listed.group_state.to_string(),
                    protocol_type: listed.protocol_type.to_string(),
                    coordinator: broker.clone(),
                };
                (group, listed)
            })),
        }
    }
    Ok((found.into_values().collect(), missing))
}

/// Describes groups; of which kind each is may be known. A group that is not there is
/// [`ResponseError::GroupIdNotFound`].
pub async fn describe(
    cluster: &Cluster,
    groups: &[(String, Option<Kind>)],
) -> HashMap<String, Result<Description, CallError>> {
    let mut came = HashMap::new();
    let (mut classic, mut consumer) = (Vec::new(), Vec::new());
    let has_consumer_groups = cluster.has(ApiKey::ConsumerGroupDescribe);
    for (group, kind) in groups {
        // As Kafka's own tools do: a group that is no consumer group is then asked for as a classic one.
        let first = if has_consumer_groups && *kind != Some(Kind::Classic) { &mut consumer } else { &mut classic };
        first.push(group.clone());
    }
    for (group, described) in describe_consumer(cluster, &consumer).await {
        match described {
            Err(CallError::Kafka { code, .. }) if is_of_another_kind(code) => classic.push(group),
            described => drop(came.insert(group, described)),
        }
    }
    came.extend(describe_classic(cluster, &classic).await);
    came
}

fn is_of_another_kind(code: i16) -> bool {
    [ResponseError::GroupIdNotFound, ResponseError::UnsupportedVersion].iter().any(|error| error.code() == code)
}

/// That there is no such group.
pub fn is_missing(error: &CallError) -> bool {
    matches!(error, CallError::Kafka { code, .. } if *code == ResponseError::GroupIdNotFound.code())
}

fn group_ids(groups: &[String]) -> Vec<GroupId> {
    groups.iter().map(|group| GroupId(StrBytes::from_string(group.clone()))).collect()
}

/// What a coordinator's answer has of one group.
fn told(
    group: &GroupId,
    code: i16,
    description: impl FnOnce() -> Description,
) -> (String, Result<Description, CallError>) {
    let described = if code == 0 { Ok(description()) } else { Err(refused(code, format!("group {}", group.as_str()))) };
    (group.to_string(), described)
}

async fn describe_consumer(cluster: &Cluster, groups: &[String]) -> HashMap<String, Result<Description, CallError>> {
    cluster
        .per_group(groups, GROUPS_ASKED, async |broker, part| {
            let version = cluster.version(ApiKey::ConsumerGroupDescribe, i16::MAX)?;
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(group_ids(part));
            let answer = cluster.call(broker, version, &request).await?;
            Ok(answer
                .groups
                .into_iter()
                .map(|group| told(&group.group_id.clone(), group.error_code, || of_consumer_group(group, broker)))
                .collect())
        })
        .await
}

fn of_consumer_group(group: consumer::DescribedGroup, coordinator: &Address) -> Description {
    let member = |member: consumer::Member| {
        let mut assigned: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for topic in member.assignment.topic_partitions {
            let mut partitions = topic.partitions;
            partitions.sort_unstable();
            assigned.insert(topic.topic_name.to_string(), partitions);
        }
        Member {
            id: member.member_id.to_string(),
            instance: member.instance_id.map(|id| id.to_string()),
            client: member.client_id.to_string(),
            host: without_slash(&member.client_host),
            assigned,
        }
    };
    Description {
        kind: Kind::Consumer,
        state: group.group_state.to_string(),
        protocol_type: CONSUMER_PROTOCOL.into(),
        assignor: group.assignor_name.to_string(),
        epoch: Some(group.group_epoch),
        coordinator: coordinator.clone(),
        members: group.members.into_iter().map(member).collect(),
    }
}

async fn describe_classic(cluster: &Cluster, groups: &[String]) -> HashMap<String, Result<Description, CallError>> {
    cluster
        .per_group(groups, GROUPS_ASKED, async |broker, part| {
            let version = cluster.version(ApiKey::DescribeGroups, i16::MAX)?;
            let request = DescribeGroupsRequest::default().with_groups(group_ids(part));
            let answer = cluster.call(broker, version, &request).await?;
            Ok(answer
                .groups
                .into_iter()
                .map(|group| {
                    let code = match group.error_code {
                        // Before version 6 a group that is not there is a dead one.
                        0 if group.group_state == *"Dead" => ResponseError::GroupIdNotFound.code(),
                        code => code,
                    };
                    told(&group.group_id.clone(), code, || of_classic_group(group, broker))
                })
                .collect())
        })
        .await
}

fn of_classic_group(group: classic::DescribedGroup, coordinator: &Address) -> Description {
    let consumes = group.protocol_type == *CONSUMER_PROTOCOL;
    let member = |member: classic::DescribedGroupMember| Member {
        id: member.member_id.to_string(),
        instance: member.group_instance_id.map(|id| id.to_string()),
        client: member.client_id.to_string(),
        host: without_slash(&member.client_host),
        assigned: if consumes { assigned(&member.member_assignment) } else { BTreeMap::new() },
    };
    Description {
        kind: Kind::Classic,
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        assignor: group.protocol_data.to_string(),
        epoch: None,
        coordinator: coordinator.clone(),
        members: group.members.into_iter().map(member).collect(),
    }
}

/// What a leader assigned; nothing where the bytes are no assignment, as while a group rebalances.
fn assigned(blob: &[u8]) -> BTreeMap<String, Vec<i32>> {
    let decoded = check_assignment(blob, ASSIGNMENT_DECODED_BYTES_MAX).ok().and_then(|version| {
        let mut behind_version = blob.get(2..)?;
        ConsumerProtocolAssignment::decode(&mut behind_version, version).ok()
    });
    let mut assigned: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for topic in decoded.into_iter().flat_map(|assignment| assignment.assigned_partitions) {
        assigned.entry(topic.topic.to_string()).or_default().extend(topic.partitions);
    }
    assigned.values_mut().for_each(|partitions| partitions.sort_unstable());
    assigned
}

fn without_slash(host: &str) -> String {
    host.strip_prefix('/').unwrap_or(host).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_and_what_is_none_is_nothing() {
        // Version 0, one topic "t" with partitions 2 and 0, no user data.
        let blob = [0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(assigned(&blob), BTreeMap::from([("t".to_string(), vec![0, 2])]));
        for wrong in [&[][..], &[0, 0], &blob[..12], &[0, 0, 0x7f, 0xff, 0xff, 0xff]] {
            assert!(assigned(wrong).is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn a_member_tells_its_partitions_by_topic() {
        let assigned = BTreeMap::from([("a".to_string(), vec![0, 1]), ("b".to_string(), vec![3])]);
        let member = Member { id: "m".into(), instance: None, client: "c".into(), host: "127.0.0.1".into(), assigned };
        assert_eq!(member.assignment(), "a(0,1), b(3)");
        assert_eq!(member.to_json()["assigned"][0], json!({"topic": "a", "partitions": [0, 1]}));
    }
}
