//! The codec works on a whole request or response in one go: large ones away from the shard, so that everything
//! else on it gets its turn.

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::{ErrorCodes, ErrorCounts, Outcome, RequestContext};
use crate::limits::{DECODE_HERE_BYTES, ENCODE_HERE_PARTITIONS, MEMBERS_HERE};

impl RequestContext {
    /// Decodes this request's body; a large one away from the shard, since the codec does it all in one go. Produce
    /// and Fetch are decoded at once: they enter the partitions in request order.
    pub(super) async fn decode<R>(&self, mut body: Bytes) -> Result<R, String>
    where
        R: Decodable + Send + 'static,
    {
        let (version, here) = (self.api_version, self.decodes_here(body.len()));
        let mut decode = move || R::decode(&mut body, version).map_err(|error| error.to_string());
        if here { decode() } else { self.shard().elsewhere(decode).await }
    }

    /// Whether a body of so many bytes is checked and decoded on the shard itself.
    pub(super) fn decodes_here(&self, length: usize) -> bool {
        let is_ordered = self.api_key == ApiKey::Produce as i16 || self.api_key == ApiKey::Fetch as i16;
        length <= DECODE_HERE_BYTES || is_ordered
    }

    /// As [`respond`](RequestContext::respond), for a response of so many partitions: a large one is encoded away
    /// from the shard.
    pub(super) async fn respond_to_many(
        &self,
        partitions: usize,
        response: impl Encodable + ErrorCodes + Send + 'static,
    ) -> Outcome {
        if partitions <= ENCODE_HERE_PARTITIONS {
            return self.respond(&response);
        }
        self.respond_elsewhere(move || response).await
    }

    /// As [`respond`](RequestContext::respond), for a response that names so many members or groups: a large one is
    /// made and encoded away from the shard.
    pub(super) async fn respond_with_members<R>(
        &self,
        members: usize,
        response: impl FnOnce() -> R + Send + 'static,
    ) -> Outcome
    where
        R: Encodable + ErrorCodes,
    {
        if members <= MEMBERS_HERE { self.respond(&response()) } else { self.respond_elsewhere(response).await }
    }

    async fn respond_elsewhere<R>(&self, response: impl FnOnce() -> R + Send + 'static) -> Outcome
    where
        R: Encodable + ErrorCodes,
    {
        let (key, version, correlation_id) = (self.api_key, self.api_version, self.correlation_id);
        let encode = move || {
            let response = response();
            let frame = ringgate_wire::encode_response(key, version, correlation_id, &response);
            (frame, ErrorCounts::of(&response))
        };
        let (frame, errors) = self.shard().elsewhere(encode).await;
        self.count_errors(errors);
        Outcome::encoded(frame)
    }

    /// Turns a request that names so many members into what the coordinator takes; a large one away from the shard.
    pub(super) async fn taken_in<R, T>(&self, members: usize, request: R, to_group: fn(i16, &R) -> T) -> T
    where
        R: Send + 'static,
        T: Send + 'static,
    {
        let version = self.api_version;
        if members <= MEMBERS_HERE {
            return to_group(version, &request);
        }
        self.shard().elsewhere(move || to_group(version, &request)).await
    }
}
