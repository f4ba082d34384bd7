//! What the APIs' tests share: a gateway of two shards without threads, and responses as a client reads them.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use kafka_protocol::protocol::{Decodable, Encodable};
use ringgate_group::route::Route;
use ringgate_shards::catalogue::{Catalogue, KAFKA, KAFKA_NAME, Topic};
use ringgate_shards::topic_config::TopicDefaults;
use uuid::Uuid;

use super::{ApiSettings, Authorizer, Operation, Resource, View};
use crate::config::{Flags, Host};
use crate::net::advertise::{Advertise, Advertised};
use crate::net::limit_hits::LimitHits;

/// Two shards, as nodes 1000 and 1001, and some topics.
pub(super) struct World {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) advertised: Advertised,
    pub(super) settings: ApiSettings,
    pub(super) authorizer: Rules,
    pub(super) limit_hits: LimitHits,
}

/// Allows all but what is named here.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) denied_topic: Option<(Operation, &'static str)>,
    pub(super) denied_group: Option<(Operation, &'static str)>,
    pub(super) cluster_denied: Option<Operation>,
}

impl Authorizer for Rules {
    fn allowed(&self, operation: Operation, resource: Resource<'_>) -> bool {
        let is = |denied: Option<(Operation, &str)>, name: &str| denied.is_some_and(|d| d == (operation, name));
        match resource {
            Resource::Topic(name) => !is(self.denied_topic, name),
            Resource::Group(name) => !is(self.denied_group, name),
            Resource::Cluster => self.cluster_denied != Some(operation),
        }
    }
}

/// The topic's id in a [`World`].
pub(super) fn id_of(nth: usize) -> Uuid {
    Uuid::from_u128(nth as u128 + 1)
}

impl World {
    /// Topics with these names and numbers of partitions; the ids are [`id_of`] in this order.
    pub(super) fn with(topics: &[(&str, i32)]) -> World {
        let topics = topics.iter().enumerate().map(|(nth, &(name, partitions))| {
            let topic = Topic::new(id_of(nth), nth as u32, (KAFKA, KAFKA_NAME), name.into());
            Arc::new(Topic { partitions, ..topic })
        });
        let host = Host { allowed_cpus: vec![0, 1], open_files: 20_000 };
        let config = crate::config::load(&Flags::default(), None, &[], &host).expect("the defaults").config;
        World {
            catalogue: Arc::new(Catalogue::new(1, topics)),
            advertised: Advertised {
                mode: Advertise::Shards,
                gateway_id: 1,
                host: None,
                gateway_port: None,
                bootstrap_port: 9092,
                shard_ports: vec![9093, 9094],
            },
            settings: ApiSettings {
                cluster_id: "the-cluster".into(),
                auto_create_topics: true,
                num_partitions: 3,
                max_partitions_per_topic: 100,
                accept_any_replication_factor: false,
                topic_defaults: TopicDefaults {
                    segment_bytes: 1 << 30,
                    max_message_bytes: 1_048_588,
                    retention_ms: 604_800_000,
                    retention_bytes: -1,
                },
                broker_settings: config.api_settings("").broker_settings,
                max_decoded_bytes: 1 << 26,
                max_fetch_wait_ms: 60_000,
                max_fetch_bytes: 1 << 26,
                max_unsent_bytes: 1 << 28,
            },
            authorizer: Rules::default(),
            limit_hits: LimitHits::default(),
        }
    }

    /// What a request of this version sees.
    pub(super) fn view(&self, version: i16) -> View<'_> {
        View {
            version,
            catalogue: self.catalogue.clone(),
            route: Route::new(2),
            advertised: &self.advertised,
            local: ([10, 0, 0, 7], 9092).into(),
            leader_epoch: 5,
            settings: &self.settings,
            authorizer: &self.authorizer,
            limit_hits: &self.limit_hits,
        }
    }
}

/// A response as a client reads it: written in a version, read to its last byte.
pub(super) fn as_read<R: Encodable + Decodable>(version: i16, response: &R) -> R {
    let mut bytes = BytesMut::new();
    response.encode(&mut bytes, version).unwrap_or_else(|error| panic!("version {version}: {error}"));
    let mut bytes = bytes.freeze();
    let read = R::decode(&mut bytes, version).unwrap_or_else(|error| panic!("version {version}: {error}"));
    assert!(bytes.is_empty(), "version {version}: {} bytes are left", bytes.len());
    read
}

/// The versions in which an API is served.
pub(super) fn versions(api_key: i16) -> std::ops::RangeInclusive<i16> {
    ringgate_wire::versions::served(api_key).expect("the API is served").versions.clone()
}

/// What a future comes to that waits for nothing but its turn, and how often it let others have theirs.
pub(super) fn turns<T>(future: impl Future<Output = T>) -> (usize, T) {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut turns = 0;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return (turns, output),
            Poll::Pending => turns += 1,
        }
    }
}

/// What such a future comes to.
pub(super) fn finish<T>(future: impl Future<Output = T>) -> T {
    turns(future).1
}
