//! What each part of the gateway needs of the configuration.

use std::net::SocketAddr;
use std::time::Duration;

use ringgate_group::GroupConfig;
use ringgate_runtime::Placement;
use ringgate_shards::settings::{Fsync, ShardSettings};
use ringgate_shards::store::embedded::EngineConfig;
use ringgate_shards::store::embedded::coordinator_log::CoordinatorLogConfig;
use ringgate_shards::store::embedded::partition::PartitionConfig;
use ringgate_shards::topic_config::TopicDefaults;

use crate::api::ApiSettings;
use crate::config::{BrokerSettings, Config, duration_text};
use crate::limits::{DESCRIPTORS_PER_LISTENER, DESCRIPTORS_PER_SHARD, DESCRIPTORS_RESERVED};
use crate::net::advertise::{Advertise, Advertised};
use crate::net::connection::ConnectionLimits;
use crate::ready_file::{host_port, reachable};
use crate::watch::{About, WatchSettings};

impl Config {
    /// For the executors.
    pub fn executors(&self) -> ringgate_runtime::Config {
        ringgate_runtime::Config { shards: self.shards, placement: self.placement.clone(), spin: self.spin }
    }

    /// The CPU of each shard, where connections are to follow the one that their packets come in on; none otherwise.
    pub fn incoming_cpus(&self) -> &[usize] {
        match &self.placement {
            Placement::Cpus(cpus) if self.incoming_cpu => cpus,
            _ => &[],
        }
    }

    /// For every shard and its store.
    pub fn shard_settings(&self) -> ShardSettings {
        ShardSettings {
            fsync: self.fsync,
            offset_linger: self.offset_linger,
            tail_cache_bytes: self.tail_cache_bytes,
            topic_defaults: self.topic_defaults(),
            retention_check_interval: self.retention_check_interval,
            offsets_retention_check_interval: self.offsets_retention_check_interval,
            max_decompressed_bytes: self.max_decompressed_bytes,
            max_partitions: self.max_partitions,
            group: GroupConfig {
                min_session_timeout: self.min_session_timeout,
                max_session_timeout: self.max_session_timeout,
                max_rebalance_timeout: self.max_rebalance_timeout,
                initial_rebalance_delay: self.initial_rebalance_delay,
                max_members_per_group: self.max_members_per_group,
                max_member_blob_bytes: self.max_member_blob_bytes,
                max_groups: self.max_groups,
                max_total_members: self.max_total_members,
                max_group_memory: self.max_group_memory,
                max_total_patterns: self.max_total_patterns,
                offset_metadata_max: self.offset_metadata_max_bytes,
                offsets_retention: self.offsets_retention,
                consumer_session_timeout: self.consumer_session_timeout,
                consumer_heartbeat_interval: self.consumer_heartbeat_interval,
                consumer_assignment_interval: self.consumer_assignment_interval,
                consumer_regex_refresh_interval: self.consumer_regex_refresh_interval,
                consumer_migration_policy: self.consumer_migration_policy,
            },
        }
    }

    /// For the watch.
    pub fn watch(&self) -> WatchSettings {
        WatchSettings {
            census_interval: Some(self.census_interval).filter(|interval| !interval.is_zero()),
            group_series_max: self.metrics_group_series_max,
            partition_lag: self.metrics_partition_lag,
        }
    }

    /// What the watch tells of the gateway.
    pub fn about(&self, cluster_id: &str, listeners: &[(SocketAddr, Advertised)]) -> About {
        let nodes = listeners.first().map(|(bootstrap, advertised)| advertised.nodes(reachable(*bootstrap)));
        let nodes = nodes.into_iter().flatten().zip(0u16..);
        About {
            cluster_id: cluster_id.to_string(),
            advertise: match self.advertise {
                Advertise::Shards => "shards",
                Advertise::Gateway => "gateway",
            },
            store: if self.iggy.is_some() { "iggy" } else { "embedded" },
            location: match &self.iggy {
                Some(iggy) => iggy.servers.join(","),
                None => self.data.display().to_string(),
            },
            fsync: self.iggy.is_none().then(|| match self.fsync {
                Fsync::Always => "always".into(),
                Fsync::Interval(every) => duration_text(every),
                Fsync::Never => "never".into(),
            }),
            nodes: nodes.map(|(node, shard)| (node.id, shard, host_port(&node))).collect(),
        }
    }

    /// For the store.
    pub fn engine(&self) -> EngineConfig {
        let producer_expiration_ms = i64::try_from(self.producer_id_expiration.as_millis()).unwrap_or(i64::MAX);
        EngineConfig {
            shards: self.shards,
            describe: ringgate_shards::describe,
            partition: PartitionConfig {
                producers: self.max_producers_per_partition,
                producer_expiration_ms,
                ..PartitionConfig::with_segment_bytes(self.segment_bytes)
            },
            coordinator: CoordinatorLogConfig::default(),
        }
    }

    /// For the API handlers.
    pub fn api_settings(&self, cluster_id: &str) -> ApiSettings {
        ApiSettings {
            cluster_id: cluster_id.to_string(),
            auto_create_topics: self.auto_create_topics,
            num_partitions: self.num_partitions,
            max_partitions_per_topic: self.max_partitions_per_topic,
            accept_any_replication_factor: self.accept_any_replication_factor,
            topic_defaults: self.topic_defaults(),
            broker_settings: BrokerSettings::of(self, self.topic_defaults()),
            max_decoded_bytes: self.max_decoded_bytes,
            max_fetch_wait_ms: milliseconds(self.max_fetch_wait),
            max_fetch_bytes: self.max_fetch_bytes,
            // What comes in and what goes out have the same bound.
            max_unsent_bytes: self.max_in_flight_bytes,
        }
    }

    /// Open files of the gateway's own, beside partitions and client connections.
    pub fn own_open_files(&self) -> u64 {
        let further_listeners = self.listen.len().saturating_sub(1) as u64;
        let iggy_socket = u64::from(self.iggy_listen.is_some());
        let per_shard = DESCRIPTORS_PER_SHARD + DESCRIPTORS_PER_LISTENER * further_listeners + iggy_socket;
        DESCRIPTORS_RESERVED + u64::from(self.shards) * per_shard
    }

    /// For every connection.
    pub fn connection_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            max_frame_size: self.max_frame_size,
            max_requests_in_flight: self.max_requests_in_flight,
            idle_timeout: self.idle_timeout,
            frame_timeout: self.frame_timeout,
            send_timeout: self.send_timeout,
            send_timeout_at_stop: self.send_timeout.min(self.shutdown_timeout / 2),
        }
    }

    fn topic_defaults(&self) -> TopicDefaults {
        // 0 is "no bound" in the settings; Kafka's topic settings say -1.
        let bound = |limit: i64| if limit == 0 { -1 } else { limit };
        TopicDefaults {
            segment_bytes: self.segment_bytes,
            max_message_bytes: self.message_max_bytes,
            retention_ms: bound(i64::try_from(self.log_retention.as_millis()).unwrap_or(i64::MAX)),
            retention_bytes: bound(i64::try_from(self.log_retention_bytes).unwrap_or(i64::MAX)),
        }
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
