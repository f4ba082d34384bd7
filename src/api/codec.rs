//! The codec works on a whole request or response in one go: large ones away from the shard, so that everything
//! else on it gets its turn.

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::{Outcome, RequestContext};
use crate::limits::{DECODE_HERE_BYTES, ENCODE_HERE_PARTITIONS};

impl RequestContext {
    /// Decodes this request's body; a large one away from the shard, since the codec does it all in one go. Produce
    /// and Fetch are decoded at once: they enter the partitions in request order.
    pub(super) async fn decode<R>(&self, mut body: Bytes) -> Result<R, String>
    where
        R: Decodable + Send + 'static,
    {
        let (version, length) = (self.api_version, body.len());
        let mut decode = move || R::decode(&mut body, version).map_err(|error| error.to_string());
        let is_ordered = self.api_key == ApiKey::Produce as i16 || self.api_key == ApiKey::Fetch as i16;
        if length <= DECODE_HERE_BYTES || is_ordered { decode() } else { self.shard().elsewhere(decode).await }
    }

    /// As [`respond`](RequestContext::respond), for a response of so many partitions: a large one is encoded away
    /// from the shard.
    pub(super) async fn respond_to_many(
        &self,
        partitions: usize,
        response: impl Encodable + Send + 'static,
    ) -> Outcome {
        if partitions <= ENCODE_HERE_PARTITIONS {
            return self.respond(&response);
        }
        let (key, version, correlation_id) = (self.api_key, self.api_version, self.correlation_id);
        let encode = move || ringgate_wire::encode_response(key, version, correlation_id, &response);
        Outcome::encoded(self.shard().elsewhere(encode).await)
    }
}
