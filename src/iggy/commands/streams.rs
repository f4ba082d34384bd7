//! Streams: get, list, create and delete.

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::requests::streams::{CreateStreamRequest, DeleteStreamRequest, GetStreamRequest};
use iggy_binary_protocol::responses::streams::StreamResponse;
use iggy_binary_protocol::responses::streams::get_stream::GetStreamResponse;
use iggy_binary_protocol::{WireDecode, WireEncode, WireOptions};
use ringgate_shards::call::{IggyChange, IggyChanged};
use ringgate_shards::catalogue::{Catalogue, Stream};
use ringgate_shards::iggy_code::IggyCode;

use super::super::frames::{Answer, Request};
use super::super::link::Link;
use super::change;
use super::stats::{Stats, Sum};
use super::topics;
use super::{list_of, resolve};

/// A stream with its topics; an empty body when there is none.
pub async fn get(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = GetStreamRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let catalogue = link.shard.catalogue();
    let Ok(stream) = resolve::stream(&catalogue, &asked.stream_id) else { return Ok(Answer::Read(Vec::new())) };
    let of: Vec<_> = catalogue.topics_of(stream.number).cloned().collect();
    let stats = Stats::of(&link.shard, &of).await;
    let (stream, catalogue, defaults) = (stream.clone(), catalogue.clone(), link.settings.topic_defaults);
    let listed = list_of(&link.shard, of.len() + stats.len(), move || {
        let topics = of.iter().map(|topic| topics::header(topic, stats.topic(topic), defaults));
        let topics = topics.collect::<Result<_, IggyCode>>()?;
        let sum = of.iter().map(|topic| stats.topic(topic)).sum();
        Ok(GetStreamResponse { stream: header(&catalogue, &stream, sum)?, topics }.to_bytes())
    });
    listed.await.map(Answer::read)
}

/// All streams.
pub async fn list(link: &Link) -> Result<Answer, IggyCode> {
    let catalogue = link.shard.catalogue();
    let stats = Stats::of(&link.shard, catalogue.all_topics()).await;
    let count = catalogue.stream_count() + stats.len();
    let listed = list_of(&link.shard, count, move || {
        let mut body = BytesMut::new();
        for stream in catalogue.streams() {
            let sum = catalogue.topics_of(stream.number).map(|topic| stats.topic(topic)).sum();
            header(&catalogue, stream, sum)?.encode(&mut body);
        }
        Ok(body.freeze())
    });
    listed.await.map(Answer::read)
}

/// Makes a stream.
pub async fn create(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = CreateStreamRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    // Encryption is all that a stream's options are about.
    if asked.options.iter().next().is_some() {
        return Err(IggyCode::INVALID_OPTION_VALUE);
    }
    let answer = change::once(link, request, |shard| async move {
        let name = asked.name.as_str().into();
        match change::ask(&shard, IggyChange::CreateStream { name }).await? {
            IggyChanged::Stream(stream) => {
                let response =
                    GetStreamResponse { stream: header(&shard.catalogue(), &stream, Sum::default())?, topics: vec![] };
                Ok(response.to_bytes())
            }
            _ => Err(IggyCode::ERROR),
        }
    });
    Ok(answer.await)
}

/// Deletes a stream and its topics.
pub async fn delete(link: &Link, request: &Request) -> Result<Answer, IggyCode> {
    let asked = DeleteStreamRequest::decode_from(&request.body).map_err(|_| IggyCode::INVALID_COMMAND)?;
    let answer = change::once(link, request, |shard| async move {
        let stream = resolve::stream(&shard.catalogue(), &asked.stream_id)?.number;
        change::ask(&shard, IggyChange::DeleteStream { stream }).await.map(|_| Bytes::new())
    });
    Ok(answer.await)
}

fn header(catalogue: &Catalogue, stream: &Stream, sum: Sum) -> Result<StreamResponse, IggyCode> {
    Ok(StreamResponse {
        id: stream.number,
        created_at: resolve::micros(stream.created_at_ms),
        topics_count: u32::try_from(catalogue.topic_count(stream.number)).unwrap_or(u32::MAX),
        size_bytes: sum.bytes,
        messages_count: sum.messages,
        name: resolve::wire_name(&stream.name)?,
        options: WireOptions::empty(),
        derived_options: WireOptions::empty(),
    })
}
