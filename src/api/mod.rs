//! The Kafka APIs: a file for each, which says what it needs and turns a request into calls on the
//! owning shards.
//!
//! [`dispatch`] is the one way in. A handler is first polled when its request starts and runs up to
//! its first wait at once: what it submits before that enters the owners in request order. A handler
//! never panics on what a client sent; a refused request is an answer with Kafka's code, or
//! [`Outcome::Close`] where the protocol has none.
//!
//! A handler plans from a [`View`], submits, and builds the response. The first and the last are plain
//! functions with tests of their own; where a request may name very many partitions they give way now and then
//! (`Turn`), which nobody overtakes: only Produce and Fetch start before what is ahead of them is answered. A response is built for its version: the codec refuses a field that
//! the version lacks.

mod alter_configs;
mod api_versions;
mod by_owner;
mod codec;
mod config_changes;
mod config_entries;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_producers;
mod describe_topic_partitions;
mod dispatch;
mod error_codes;
mod fetch;
pub mod fetch_sessions;
mod find_coordinator;
mod groups;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod stored_batches;
mod sync_group;
#[cfg(test)]
mod testing;
mod topics;

pub use topics::name_error as topic_name_error;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::protocol::Encodable;
use ringgate_group::route::Route;
use ringgate_shards::ShardHandle;
use ringgate_shards::catalogue::Catalogue;

pub use dispatch::{Serving, dispatch, heartbeat_seen};
pub use error_codes::{ErrorCodes, ErrorCounts};

use crate::config::BrokerSettings;
use crate::net::advertise::Advertised;
use crate::net::connection::Connection;
use crate::net::limit_hits::{Limit, LimitHits};

/// What a handler knows about the request at hand.
pub struct RequestContext {
    /// The connection it came on.
    pub connection: Rc<Connection>,
    /// The API's key.
    pub api_key: i16,
    /// The version of request and response.
    pub api_version: i16,
    /// Goes back with the response.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<String>,
    /// Set when the request has begun to wait for something that may take long.
    pub parked: Rc<Cell<bool>>,
}

/// How a request ends.
pub enum Outcome {
    /// These segments, frame length and header included, go out at the request's turn.
    Respond(Vec<Bytes>),
    /// Nothing goes out (a Produce with acks=0).
    Silent,
    /// The connection closes; the reason is logged.
    Close(String),
    /// The same because of a limit, which is counted.
    CloseAtLimit(Limit, String),
}

impl Outcome {
    fn encoded(frame: Result<Bytes, ringgate_wire::EncodeError>) -> Outcome {
        match frame {
            Ok(frame) => Outcome::Respond(vec![frame]),
            Err(error) => Outcome::Close(format!("response cannot be encoded: {error}")),
        }
    }
}

/// What a request does to a resource, as Kafka's ACLs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read records, or take part in a group.
    Read,
    /// Append records.
    Write,
    /// Make a topic.
    Create,
    /// Remove a topic or group.
    Delete,
    /// See that it exists.
    Describe,
    /// Produce with idempotence.
    IdempotentWrite,
    /// Add partitions.
    Alter,
    /// Change settings.
    AlterConfigs,
    /// See settings.
    DescribeConfigs,
}

/// What a request touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The cluster as a whole.
    Cluster,
    /// A consumer group.
    Group(&'a str),
    /// A topic.
    Topic(&'a str),
}

/// Says who may do what; every handler asks before it tells or changes anything.
pub trait Authorizer {
    /// Whether the client may do this.
    fn allowed(&self, operation: Operation, resource: Resource<'_>) -> bool;
}

impl Authorizer for RequestContext {
    /// Everybody may do everything until authentication exists.
    fn allowed(&self, operation: Operation, resource: Resource<'_>) -> bool {
        let _ = (operation, resource, &self.connection.principal);
        true
    }
}

/// The gateway as a request sees it at one moment.
pub struct View<'a> {
    /// The version of request and response.
    pub version: i16,
    /// What topics there are.
    pub catalogue: Arc<Catalogue>,
    /// Who owns what.
    pub route: Route,
    /// What clients are told of nodes.
    pub advertised: &'a Advertised,
    /// The address that the client reached.
    pub local: SocketAddr,
    /// The leader epoch of every partition.
    pub leader_epoch: i32,
    /// The configuration.
    pub settings: &'a ApiSettings,
    /// Who may do what.
    pub authorizer: &'a dyn Authorizer,
    /// Where limits are counted that a request meets.
    pub limit_hits: &'a LimitHits,
}

impl View<'_> {
    /// Whether the client may do this.
    pub fn allowed(&self, operation: Operation, resource: Resource<'_>) -> bool {
        self.authorizer.allowed(operation, resource)
    }
}

impl RequestContext {
    /// The gateway as it is now.
    pub fn view(&self) -> View<'_> {
        View {
            version: self.api_version,
            catalogue: self.shard().catalogue(),
            route: self.shard().route(),
            advertised: &self.connection.advertised,
            local: self.connection.local,
            leader_epoch: self.shard().leader_epoch(),
            settings: &self.connection.settings,
            authorizer: self,
            limit_hits: &self.connection.limit_hits,
        }
    }

    /// The shard that the connection lives on.
    pub fn shard(&self) -> &ShardHandle {
        &self.connection.shard
    }

    /// The request waits for records to arrive; requests behind it may start.
    pub fn waiting(&self) {
        self.parked.set(true);
    }

    /// Whether the client may do this.
    pub fn allowed(&self, operation: Operation, resource: Resource<'_>) -> bool {
        Authorizer::allowed(self, operation, resource)
    }

    /// The response, ready to go out.
    pub fn respond(&self, response: &(impl Encodable + ErrorCodes)) -> Outcome {
        self.count_errors(ErrorCounts::of(response));
        Outcome::encoded(ringgate_wire::encode_response(self.api_key, self.api_version, self.correlation_id, response))
    }
}

impl RequestContext {
    /// The answer carries these errors.
    fn count_errors(&self, errors: ErrorCounts) {
        self.connection.requests.errors(self.api_key, errors);
    }
}

/// The part of the configuration that handlers use.
#[derive(Debug, Clone)]
pub struct ApiSettings {
    /// Kafka's `cluster.id`.
    pub cluster_id: String,
    /// Whether Metadata makes topics that are missing.
    pub auto_create_topics: bool,
    /// Partitions of a topic that does not say how many.
    pub num_partitions: i32,
    /// The most partitions that one topic may have.
    pub max_partitions_per_topic: i32,
    /// Whether a replication factor above 1 is taken (and ignored) rather than refused.
    pub accept_any_replication_factor: bool,
    /// What topics have where they say nothing.
    pub topic_defaults: ringgate_shards::topic_config::TopicDefaults,
    /// The gateway's settings as DescribeConfigs lists them.
    pub broker_settings: BrokerSettings,
    /// Bound on what one request's counts may decode to.
    pub max_decoded_bytes: usize,
    /// Milliseconds a Fetch may wait, whatever it asks.
    pub max_fetch_wait_ms: i32,
    /// Record bytes in one Fetch response, whatever it asks.
    pub max_fetch_bytes: usize,
    /// Bytes of unsent answers of a shard above which a Fetch gets one batch only.
    pub max_unsent_bytes: usize,
}
