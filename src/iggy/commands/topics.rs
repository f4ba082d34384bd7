//! Topics and their partitions: get, list, create, delete, and more partitions.

use std::sync::Arc;

use bytes::Bytes;
use iggy_binary_protocol::requests::partitions::CreatePartitionsRequest;
use iggy_binary_protocol::requests::segments::DeleteSegmentsRequest;
use iggy_binary_protocol::requests::system::{ResourceTarget, UpdateResourceRequest};
use iggy_binary_protocol::requests::topics::{
    CreateTopicRequest, DeleteTopicRequest, GetTopicRequest, GetTopicsRequest,
};
use iggy_binary_protocol::responses::streams::get_stream::TopicHeader;
use iggy_binary_protocol::responses::topics::get_topic::{GetTopicResponse, PartitionResponse};
use iggy_binary_protocol::responses::topics::get_topics::GetTopicsResponse;
use iggy_binary_protocol::{MAX_PARTITIONS_PER_REQUEST, PartitionContext, WireDecode, WireEncode};
use ringgate_shards::ShardHandle;
use ringgate_shards::call::{DeleteSegmentsCall, IggyChange, IggyChanged};
use ringgate_shards::catalogue::{KAFKA, NewIggyTopic, Topic};
use ringgate_shards::iggy_code::IggyCode;
use ringgate_shards::topic_config::{ConfigChange, TopicDefaults};

use super::super::frames::{Answer, Request};
use super::super::link::Link;
use super::change;
use super::cluster::REPLICA;
use super::options;
use super::stats::{Stats, Sum};
use super::{list_of, resolve};
use crate::api::topic_name_error;

/// A topic with its partitions; an empty body when there is none.
pub async fn get(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetTopicRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let Ok(topic) = resolve::topic(&catalogue, &asked.stream_id, &asked.topic_id) else {
        return Ok(Answer::Read(Vec::new()));
    };
    Ok(Answer::read(details(&link.shard, topic, link.settings.topic_defaults).await?))
}

/// The topics of a stream.
pub async fn list(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetTopicsRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let stream = resolve::stream(&catalogue, &asked.stream_id)?;
    let of: Vec<_> = catalogue.topics_of(stream.number).cloned().collect();
    let stats = Stats::of(&link.shard, &of).await;
    let defaults = link.settings.topic_defaults;
    let listed = list_of(&link.shard, of.len() + stats.len(), move || {
        let topics = of.iter().map(|topic| header(topic, stats.topic(topic), defaults));
        Ok(GetTopicsResponse { topics: topics.collect::<Result<_, IggyCode>>()? }.to_bytes())
    });
    listed.await.map(Answer::read)
}

/// Makes a topic. In the stream of Kafka's topics its name must be one of Kafka's.
pub async fn create(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = CreateTopicRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let most = link.settings.max_partitions_per_topic;
    let partitions = i32::try_from(asked.partitions_count).ok().filter(|count| (1..=most).contains(count));
    let partitions = partitions.ok_or(IggyCode::INVALID_PARTITIONS_COUNT)?;
    let given = options::read(&asked.options, asked.partitions_count)?;
    let defaults = link.settings.topic_defaults;
    let answer = change::once(link, request, move |shard| async move {
        let stream = resolve::stream(&shard.catalogue(), &asked.stream_id)?.number;
        if stream == KAFKA && topic_name_error(asked.name.as_str()).is_some() {
            return Err(IggyCode::INVALID_TOPIC_NAME);
        }
        let new = NewIggyTopic {
            stream,
            name: asked.name.as_str().into(),
            partitions,
            config: given.config,
            options: given.options,
        };
        match change::ask(&shard, IggyChange::CreateTopic(new)).await? {
            IggyChanged::Topic(topic) => details(&shard, &topic, defaults).await,
            _ => Err(IggyCode::ERROR),
        }
    });
    Ok(answer.await)
}

/// Deletes a topic.
pub async fn delete(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = DeleteTopicRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let answer = change::once(link, request, |shard| async move {
        let topic = resolve::topic(&shard.catalogue(), &asked.stream_id, &asked.topic_id)?.id;
        change::ask(&shard, IggyChange::DeleteTopic { topic }).await.map(|_| Bytes::new())
    });
    Ok(answer.await)
}

/// Sets and resets options of a topic. Its name stays, and streams have no options.
pub async fn update(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = UpdateResourceRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let ResourceTarget::Topic { stream_id, topic_id } = asked.target else {
        return Err(IggyCode::FEATURE_UNAVAILABLE);
    };
    let reset: Vec<String> = asked.reset.iter().map(|name| name.as_str().to_owned()).collect();
    let answer = change::once(link, request, move |shard| async move {
        let topic = resolve::topic(&shard.catalogue(), &stream_id, &topic_id)?.clone();
        let given = options::read(&asked.options, u32::try_from(topic.partitions).unwrap_or(1))?;
        let (mut config, mut options) = (topic.config.clone(), topic.options.clone());
        config.extend(given.config);
        options.extend(given.options);
        options::reset(&reset, &mut config, &mut options)?;
        let config = ConfigChange::Replace(config);
        change::ask(&shard, IggyChange::UpdateTopic { topic: topic.id, config, options }).await.map(|_| Bytes::new())
    });
    Ok(answer.await)
}

/// Adds partitions to a topic.
pub async fn create_partitions(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = CreatePartitionsRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let count = asked.partitions_count;
    if !(1..=MAX_PARTITIONS_PER_REQUEST).contains(&count) {
        return Err(IggyCode::INVALID_PARTITIONS_COUNT);
    }
    let most = link.settings.max_partitions_per_topic;
    let answer = change::once(link, request, move |shard| async move {
        let topic = resolve::topic(&shard.catalogue(), &asked.stream_id, &asked.topic_id)?.clone();
        let more = i32::try_from(count).map_err(|_| IggyCode::INVALID_PARTITIONS_COUNT)?;
        if topic.partitions.saturating_add(more) > most {
            return Err(IggyCode::INVALID_PARTITIONS_COUNT);
        }
        change::ask(&shard, IggyChange::CreatePartitions { topic: topic.id, count }).await.map(|_| Bytes::new())
    });
    Ok(answer.await)
}

/// Removes the oldest closed segments of a partition.
pub async fn delete_segments(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = DeleteSegmentsRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let answer = change::once(link, request, |shard| async move {
        let topic = resolve::topic(&shard.catalogue(), &asked.stream_id, &asked.topic_id)?.clone();
        let at = resolve::partition(&topic, asked.partition_id)?;
        let call = DeleteSegmentsCall { at, count: asked.segments_count };
        let deleted = shard.submit_to(topic.owner(shard.route(), at.partition), call).await.0;
        deleted.map(|()| Bytes::new()).map_err(|refusal| refusal.code)
    });
    Ok(answer.await)
}

async fn details(shard: &ShardHandle, topic: &Arc<Topic>, defaults: TopicDefaults) -> Result<Bytes, IggyCode> {
    let stats = Stats::of(shard, [topic]).await;
    let created_at = resolve::micros(topic.created_at_ms);
    let metadata_op = shard.ops().current();
    let (topic, count) = (topic.clone(), topic.partitions.unsigned_abs() as usize);
    let described = list_of(shard, count, move || {
        let partitions = (0..topic.partitions).map(|partition| {
            let stats = stats.partition(&topic, partition);
            PartitionResponse {
                id: partition.unsigned_abs(),
                created_at,
                segments_count: u32::try_from(stats.segments).unwrap_or(u32::MAX),
                current_offset: stats.high_watermark.saturating_sub(1),
                size_bytes: stats.bytes,
                messages_count: stats.high_watermark - stats.log_start_offset.min(stats.high_watermark),
                context: PartitionContext { incarnation: topic.incarnation(), owner_generation: 0, metadata_op },
                members: vec![REPLICA],
                in_sync_members: vec![REPLICA],
            }
        });
        let partitions = partitions.collect();
        let response = GetTopicResponse { topic: header(&topic, stats.topic(&topic), defaults)?, partitions };
        Ok(response.to_bytes())
    });
    described.await
}

/// A topic without its partitions.
pub fn header(topic: &Topic, sum: Sum, defaults: TopicDefaults) -> Result<TopicHeader, IggyCode> {
    let (options, derived_options) = options::of(topic, defaults)?;
    Ok(TopicHeader {
        id: topic.number,
        created_at: resolve::micros(topic.created_at_ms),
        partitions_count: topic.partitions.unsigned_abs(),
        size_bytes: sum.bytes,
        messages_count: sum.messages,
        name: resolve::wire_name(&topic.name)?,
        options,
        derived_options,
    })
}
