//! The shapes of the requests and of the consumer protocol's blobs, as Kafka's message definitions have them.

/// A message: API, first flexible version, fields.
pub(super) type Message = (i16, i16, &'static str);

/// The version that never comes: messages that have no flexible one.
pub(super) const NOT_FLEXIBLE: i16 = i16::MAX;

/// All requests that can be checked.
pub(super) const REQUESTS: &[Message] = &[
    (
        0, // Produce
        9,
        "transactional_id:nstr acks:i16 timeout_ms:i32 topic_data:[ name:str/0-12 topic_id:uuid/13
         partition_data:[ index:i32 records:nbytes ] ]",
    ),
    (
        1, // Fetch
        12,
        "replica_id:i32/0-14 max_wait_ms:i32 min_bytes:i32 max_bytes:i32 isolation_level:i8
         session_id:i32/7 session_epoch:i32/7
         topics:[ topic:str/0-12 topic_id:uuid/13
           partitions:[ partition:i32 current_leader_epoch:i32/9 fetch_offset:i64
             last_fetched_epoch:i32/12 log_start_offset:i64/5 partition_max_bytes:i32
             replica_directory_id:uuid@0/17 high_watermark:i64@1/18 ] ]
         forgotten_topics_data:[ topic:str/0-12 topic_id:uuid/13 partitions:[ :i32 ] ]/7
         rack_id:str/11
         cluster_id:nstr@0/12 replica_state:{ replica_id:i32 replica_epoch:i64 }@1/15",
    ),
    (
        2, // ListOffsets
        6,
        "replica_id:i32 isolation_level:i8/2
         topics:[ name:str partitions:[ partition_index:i32 current_leader_epoch:i32/4 timestamp:i64 ] ]
         timeout_ms:i32/10",
    ),
    (
        3, // Metadata
        9,
        "topics:n1[ topic_id:uuid/10 name:n10str ] allow_auto_topic_creation:bool/4
         include_cluster_authorized_operations:bool/8-10 include_topic_authorized_operations:bool/8",
    ),
    (
        8, // OffsetCommit
        8,
        "group_id:str generation_id:i32 member_id:str group_instance_id:nstr/7 retention_time_ms:i64/2-4
         topics:[ name:str partitions:[ partition_index:i32 committed_offset:i64
           committed_leader_epoch:i32/6 committed_metadata:nstr ] ]",
    ),
    (
        9, // OffsetFetch
        6,
        "group_id:str/0-7 topics:n2[ name:str partition_indexes:[ :i32 ] ]/0-7
         groups:[ group_id:str member_id:nstr/9 member_epoch:i32/9
           topics:n[ name:str partition_indexes:[ :i32 ] ] ]/8
         require_stable:bool/7",
    ),
    (
        10, // FindCoordinator
        3,
        "key:str/0-3 key_type:i8/1 coordinator_keys:[ :str ]/4",
    ),
    (
        11, // JoinGroup
        6,
        "group_id:str session_timeout_ms:i32 rebalance_timeout_ms:i32/1 member_id:str
         group_instance_id:nstr/5 protocol_type:str protocols:[ name:str metadata:bytes ] reason:nstr/8",
    ),
    (
        12, // Heartbeat
        4,
        "group_id:str generation_id:i32 member_id:str group_instance_id:nstr/3",
    ),
    (
        13, // LeaveGroup
        4,
        "group_id:str member_id:str/0-2
         members:[ member_id:str group_instance_id:nstr reason:nstr/5 ]/3",
    ),
    (
        14, // SyncGroup
        4,
        "group_id:str generation_id:i32 member_id:str group_instance_id:nstr/3 protocol_type:nstr/5
         protocol_name:nstr/5 assignments:[ member_id:str assignment:bytes ]",
    ),
    (
        15, // DescribeGroups
        5,
        "groups:[ :str ] include_authorized_operations:bool/3",
    ),
    (
        16, // ListGroups
        3,
        "states_filter:[ :str ]/4 types_filter:[ :str ]/5",
    ),
    (
        18, // ApiVersions
        3,
        "client_software_name:str/3 client_software_version:str/3",
    ),
    (
        19, // CreateTopics
        5,
        "topics:[ name:str num_partitions:i32 replication_factor:i16
           assignments:[ partition_index:i32 broker_ids:[ :i32 ] ]
           configs:[ name:str value:nstr ] ]
         timeout_ms:i32 validate_only:bool/1",
    ),
    (
        20, // DeleteTopics
        4,
        "topics:[ name:nstr topic_id:uuid ]/6 topic_names:[ :str ]/0-5 timeout_ms:i32",
    ),
    (
        21, // DeleteRecords
        2,
        "topics:[ name:str partitions:[ partition_index:i32 offset:i64 ] ] timeout_ms:i32",
    ),
    (
        22, // InitProducerId
        2,
        "transactional_id:nstr transaction_timeout_ms:i32 producer_id:i64/3 producer_epoch:i16/3
         enable_2_pc:bool/6 keep_prepared_txn:bool/6",
    ),
    (
        23, // OffsetForLeaderEpoch
        4,
        "replica_id:i32/3 topics:[ topic:str partitions:[ partition:i32 current_leader_epoch:i32/2
           leader_epoch:i32 ] ]",
    ),
    (
        32, // DescribeConfigs
        4,
        "resources:[ resource_type:i8 resource_name:str configuration_keys:n[ :str ] ]
         include_synonyms:bool/1 include_documentation:bool/3",
    ),
    (
        33, // AlterConfigs
        2,
        "resources:[ resource_type:i8 resource_name:str configs:[ name:str value:nstr ] ]
         validate_only:bool",
    ),
    (
        37, // CreatePartitions
        2,
        "topics:[ name:str count:i32 assignments:n[ broker_ids:[ :i32 ] ] ] timeout_ms:i32
         validate_only:bool",
    ),
    (
        42, // DeleteGroups
        2,
        "groups_names:[ :str ]",
    ),
    (
        44, // IncrementalAlterConfigs
        1,
        "resources:[ resource_type:i8 resource_name:str
           configs:[ name:str config_operation:i8 value:nstr ] ]
         validate_only:bool",
    ),
    (
        47, // OffsetDelete
        NOT_FLEXIBLE,
        "group_id:str topics:[ name:str partitions:[ partition_index:i32 ] ]",
    ),
    (
        60, // DescribeCluster
        0,
        "include_cluster_authorized_operations:bool endpoint_type:i8/1 include_fenced_brokers:bool/2",
    ),
    (
        61, // DescribeProducers
        0,
        "topics:[ name:str partition_indexes:[ :i32 ] ]",
    ),
    (
        68, // ConsumerGroupHeartbeat
        0,
        "group_id:str member_id:str member_epoch:i32 instance_id:nstr rack_id:nstr
         rebalance_timeout_ms:i32 subscribed_topic_names:n[ :str ] subscribed_topic_regex:nstr/1
         server_assignor:nstr topic_partitions:n[ topic_id:uuid partitions:[ :i32 ] ]",
    ),
    (
        69, // ConsumerGroupDescribe
        0,
        "group_ids:[ :str ] include_authorized_operations:bool",
    ),
    (
        75, // DescribeTopicPartitions
        0,
        "topics:[ name:str ] response_partition_limit:i32
         cursor:n{ topic_name:str partition_index:i32 }",
    ),
];

/// A member's subscription, behind its version.
pub(super) const SUBSCRIPTION: &str = "topics:[ :str ] user_data:nbytes
    owned_partitions:[ topic:str partitions:[ :i32 ] ]/1 generation_id:i32/2 rack_id:nstr/3";

/// A member's assignment, behind its version.
pub(super) const ASSIGNMENT: &str = "assigned_partitions:[ topic:str partitions:[ :i32 ] ] user_data:nbytes";

/// The newest version of both. A newer one begins with the same fields and is read as this one.
pub(super) const CONSUMER_PROTOCOL_NEWEST: i16 = 3;
