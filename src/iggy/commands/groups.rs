//! Consumer groups of topics, as names for offsets: get, list, create and delete. Nobody joins one here.

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::requests::consumer_groups::{
    CreateConsumerGroupRequest, DeleteConsumerGroupRequest, GetConsumerGroupRequest, GetConsumerGroupsRequest,
};
use iggy_binary_protocol::responses::consumer_groups::{ConsumerGroupDetailsResponse, ConsumerGroupResponse};
use iggy_binary_protocol::{WireDecode, WireEncode};
use ringgate_shards::call::{IggyChange, IggyChanged};
use ringgate_shards::catalogue::{ConsumerGroup, Topic};
use ringgate_shards::iggy_code::IggyCode;

use super::super::frames::{Answer, Request};
use super::super::link::Link;
use super::change;
use super::{list_of, resolve};

/// A group; an empty body when there is none.
pub fn get(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetConsumerGroupRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?;
    match resolve::group(&catalogue, topic, &asked.group_id) {
        Ok(group) => Ok(Answer::read(details(topic, group)?)),
        Err(_) => Ok(Answer::Read(Vec::new())),
    }
}

/// The groups of a topic.
pub async fn list(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetConsumerGroupsRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?.clone();
    let count = catalogue.groups(topic.id).len();
    let listed = list_of(&link.shard, count, move || {
        let mut body = BytesMut::new();
        for group in catalogue.groups(topic.id).iter() {
            header(&topic, group)?.encode(&mut body);
        }
        Ok(body.freeze())
    });
    listed.await.map(Answer::read)
}

/// Makes a group.
pub async fn create(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = CreateConsumerGroupRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let answer = change::once(link, request, |shard| async move {
        let topic = resolve::topic(&shard.catalogue(), &asked.stream_id, &asked.topic_id)?.clone();
        let name = asked.name.as_str().into();
        match change::ask(&shard, IggyChange::CreateGroup { topic: topic.id, name }).await? {
            IggyChanged::Group(group) => details(&topic, &group),
            _ => Err(IggyCode::ERROR),
        }
    });
    Ok(answer.await)
}

/// Deletes a group and its offsets.
pub async fn delete(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = DeleteConsumerGroupRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let answer = change::once(link, request, |shard| async move {
        let catalogue = shard.catalogue();
        let topic = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id)?;
        let group = resolve::group(&catalogue, topic, &asked.group_id)?.id;
        change::ask(&shard, IggyChange::DeleteGroup { topic: topic.id, group }).await.map(|_| Bytes::new())
    });
    Ok(answer.await)
}

fn details(topic: &Topic, group: &ConsumerGroup) -> Result<Bytes, IggyCode> {
    Ok(ConsumerGroupDetailsResponse { group: header(topic, group)?, members: Vec::new() }.to_bytes())
}

fn header(topic: &Topic, group: &ConsumerGroup) -> Result<ConsumerGroupResponse, IggyCode> {
    Ok(ConsumerGroupResponse {
        id: group.id,
        partitions_count: topic.partitions.unsigned_abs(),
        members_count: 0,
        name: resolve::wire_name(&group.name)?,
    })
}
