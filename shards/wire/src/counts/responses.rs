//! The shapes of the responses, as Kafka's message definitions have them.

use super::shapes::{Message, NOT_FLEXIBLE};

/// All responses that can be checked.
pub(super) const RESPONSES: &[Message] = &[
    (
        0, // Produce
        9,
        "responses:[ name:str/0-12 topic_id:uuid/13
           partition_responses:[ index:i32 error_code:i16 base_offset:i64 log_append_time_ms:i64/2
             log_start_offset:i64/5 record_errors:[ batch_index:i32 batch_index_error_message:nstr ]/8
             error_message:nstr/8 current_leader:{ leader_id:i32 leader_epoch:i32 }@0/10 ] ]
         throttle_time_ms:i32/1
         node_endpoints:[ node_id:i32 host:str port:i32 rack:nstr ]@0/10",
    ),
    (
        1, // Fetch
        12,
        "throttle_time_ms:i32 error_code:i16/7 session_id:i32/7
         responses:[ topic:str/0-12 topic_id:uuid/13
           partitions:[ partition_index:i32 error_code:i16 high_watermark:i64 last_stable_offset:i64/4
             log_start_offset:i64/5 aborted_transactions:n[ producer_id:i64 first_offset:i64 ]/4
             preferred_read_replica:i32/11 records:nbytes
             diverging_epoch:{ epoch:i32 end_offset:i64 }@0/12
             current_leader:{ leader_id:i32 leader_epoch:i32 }@1/12
             snapshot_id:{ end_offset:i64 epoch:i32 }@2/12 ] ]
         node_endpoints:[ node_id:i32 host:str port:i32 rack:nstr ]@0/16",
    ),
    (
        2, // ListOffsets
        6,
        "throttle_time_ms:i32/2
         topics:[ name:str partitions:[ partition_index:i32 error_code:i16 timestamp:i64 offset:i64
           leader_epoch:i32/4 ] ]",
    ),
    (
        3, // Metadata
        9,
        "throttle_time_ms:i32/3 brokers:[ node_id:i32 host:str port:i32 rack:nstr/1 ] cluster_id:nstr/2
         controller_id:i32/1
         topics:[ error_code:i16 name:n12str topic_id:uuid/10 is_internal:bool/1
           partitions:[ error_code:i16 partition_index:i32 leader_id:i32 leader_epoch:i32/7
             replica_nodes:[ :i32 ] isr_nodes:[ :i32 ] offline_replicas:[ :i32 ]/5 ]
           topic_authorized_operations:i32/8 ]
         cluster_authorized_operations:i32/8-10 error_code:i16/13",
    ),
    (
        8, // OffsetCommit
        8,
        "throttle_time_ms:i32/3 topics:[ name:str partitions:[ partition_index:i32 error_code:i16 ] ]",
    ),
    (
        9, // OffsetFetch
        6,
        "throttle_time_ms:i32/3
         topics:[ name:str partitions:[ partition_index:i32 committed_offset:i64
           committed_leader_epoch:i32/5 metadata:nstr error_code:i16 ] ]/0-7
         error_code:i16/2-7
         groups:[ group_id:str topics:[ name:str partitions:[ partition_index:i32 committed_offset:i64
           committed_leader_epoch:i32 metadata:nstr error_code:i16 ] ] error_code:i16 ]/8",
    ),
    (
        10, // FindCoordinator
        3,
        "throttle_time_ms:i32/1 error_code:i16/0-3 error_message:nstr/1-3 node_id:i32/0-3 host:str/0-3
         port:i32/0-3
         coordinators:[ key:str node_id:i32 host:str port:i32 error_code:i16 error_message:nstr ]/4",
    ),
    (
        11, // JoinGroup
        6,
        "throttle_time_ms:i32/2 error_code:i16 generation_id:i32 protocol_type:nstr/7
         protocol_name:n7str leader:str skip_assignment:bool/9 member_id:str
         members:[ member_id:str group_instance_id:nstr/5 metadata:bytes ]",
    ),
    (
        12, // Heartbeat
        4,
        "throttle_time_ms:i32/1 error_code:i16",
    ),
    (
        13, // LeaveGroup
        4,
        "throttle_time_ms:i32/1 error_code:i16
         members:[ member_id:str group_instance_id:nstr error_code:i16 ]/3",
    ),
    (
        14, // SyncGroup
        4,
        "throttle_time_ms:i32/1 error_code:i16 protocol_type:nstr/5 protocol_name:nstr/5
         assignment:bytes",
    ),
    (
        15, // DescribeGroups
        5,
        "throttle_time_ms:i32/1
         groups:[ error_code:i16 error_message:nstr/6 group_id:str group_state:str protocol_type:str
           protocol_data:str
           members:[ member_id:str group_instance_id:nstr/4 client_id:str client_host:str
             member_metadata:bytes member_assignment:bytes ]
           authorized_operations:i32/3 ]",
    ),
    (
        16, // ListGroups
        3,
        "throttle_time_ms:i32/1 error_code:i16
         groups:[ group_id:str protocol_type:str group_state:str/4 group_type:str/5 ]",
    ),
    (
        17, // SaslHandshake
        NOT_FLEXIBLE,
        "error_code:i16 mechanisms:[ :str ]",
    ),
    (
        18, // ApiVersions
        3,
        "error_code:i16 api_keys:[ api_key:i16 min_version:i16 max_version:i16 ] throttle_time_ms:i32/1
         supported_features:[ name:str min_version:i16 max_version:i16 ]@0/3
         finalized_features_epoch:i64@1/3
         finalized_features:[ name:str max_version_level:i16 min_version_level:i16 ]@2/3
         zk_migration_ready:bool@3/3",
    ),
    (
        19, // CreateTopics
        5,
        "throttle_time_ms:i32/2
         topics:[ name:str topic_id:uuid/7 error_code:i16 error_message:nstr/1
           topic_config_error_code:i16@0/5 num_partitions:i32/5 replication_factor:i16/5
           configs:n5[ name:str value:nstr read_only:bool config_source:i8 is_sensitive:bool ]/5 ]",
    ),
    (
        20, // DeleteTopics
        4,
        "throttle_time_ms:i32/1
         responses:[ name:n6str topic_id:uuid/6 error_code:i16 error_message:nstr/5 ]",
    ),
    (
        21, // DeleteRecords
        2,
        "throttle_time_ms:i32
         topics:[ name:str partitions:[ partition_index:i32 low_watermark:i64 error_code:i16 ] ]",
    ),
    (
        22, // InitProducerId
        2,
        "throttle_time_ms:i32 error_code:i16 producer_id:i64 producer_epoch:i16",
    ),
    (
        23, // OffsetForLeaderEpoch
        4,
        "throttle_time_ms:i32/2
         topics:[ topic:str partitions:[ error_code:i16 partition:i32 leader_epoch:i32/1
           end_offset:i64 ] ]",
    ),
    (
        32, // DescribeConfigs
        4,
        "throttle_time_ms:i32
         results:[ error_code:i16 error_message:nstr resource_type:i8 resource_name:str
           configs:[ name:str value:nstr read_only:bool config_source:i8/1 is_sensitive:bool
             synonyms:[ name:str value:nstr source:i8 ]/1 config_type:i8/3 documentation:nstr/3 ] ]",
    ),
    (
        33, // AlterConfigs
        2,
        "throttle_time_ms:i32
         responses:[ error_code:i16 error_message:nstr resource_type:i8 resource_name:str ]",
    ),
    (
        36, // SaslAuthenticate
        2,
        "error_code:i16 error_message:nstr auth_bytes:bytes session_lifetime_ms:i64/1",
    ),
    (
        37, // CreatePartitions
        2,
        "throttle_time_ms:i32 results:[ name:str error_code:i16 error_message:nstr ]",
    ),
    (
        42, // DeleteGroups
        2,
        "throttle_time_ms:i32 results:[ group_id:str error_code:i16 ]",
    ),
    (
        44, // IncrementalAlterConfigs
        1,
        "throttle_time_ms:i32
         responses:[ error_code:i16 error_message:nstr resource_type:i8 resource_name:str ]",
    ),
    (
        47, // OffsetDelete
        NOT_FLEXIBLE,
        "error_code:i16 throttle_time_ms:i32
         topics:[ name:str partitions:[ partition_index:i32 error_code:i16 ] ]",
    ),
    (
        60, // DescribeCluster
        0,
        "throttle_time_ms:i32 error_code:i16 error_message:nstr endpoint_type:i8/1 cluster_id:str
         controller_id:i32 brokers:[ broker_id:i32 host:str port:i32 rack:nstr is_fenced:bool/2 ]
         cluster_authorized_operations:i32",
    ),
    (
        61, // DescribeProducers
        0,
        "throttle_time_ms:i32
         topics:[ name:str partitions:[ partition_index:i32 error_code:i16 error_message:nstr
           active_producers:[ producer_id:i64 producer_epoch:i32 last_sequence:i32 last_timestamp:i64
             coordinator_epoch:i32 current_txn_start_offset:i64 ] ] ]",
    ),
    (
        68, // ConsumerGroupHeartbeat
        0,
        "throttle_time_ms:i32 error_code:i16 error_message:nstr member_id:nstr member_epoch:i32
         heartbeat_interval_ms:i32
         assignment:n{ topic_partitions:[ topic_id:uuid partitions:[ :i32 ] ] }",
    ),
    (
        69, // ConsumerGroupDescribe
        0,
        "throttle_time_ms:i32
         groups:[ error_code:i16 error_message:nstr group_id:str group_state:str group_epoch:i32
           assignment_epoch:i32 assignor_name:str
           members:[ member_id:str instance_id:nstr rack_id:nstr member_epoch:i32 client_id:str
             client_host:str subscribed_topic_names:[ :str ] subscribed_topic_regex:nstr
             assignment:{ topic_partitions:[ topic_id:uuid topic_name:str partitions:[ :i32 ] ] }
             target_assignment:{ topic_partitions:[ topic_id:uuid topic_name:str
               partitions:[ :i32 ] ] }
             member_type:i8/1 ]
           authorized_operations:i32 ]",
    ),
    (
        75, // DescribeTopicPartitions
        0,
        "throttle_time_ms:i32
         topics:[ error_code:i16 name:nstr topic_id:uuid is_internal:bool
           partitions:[ error_code:i16 partition_index:i32 leader_id:i32 leader_epoch:i32
             replica_nodes:[ :i32 ] isr_nodes:[ :i32 ] eligible_leader_replicas:n[ :i32 ]
             last_known_elr:n[ :i32 ] offline_replicas:[ :i32 ] ]
           topic_authorized_operations:i32 ]
         next_cursor:n{ topic_name:str partition_index:i32 }",
    ),
];
