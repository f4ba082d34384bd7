//! Which APIs are served, in which versions: those that request and response of the codec share.

use std::ops::RangeInclusive;

/// One API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Kafka's number of the API.
    pub api_key: i16,
    /// Kafka's name of it.
    pub name: &'static str,
    /// The versions that are served.
    pub versions: RangeInclusive<i16>,
}

const fn api(api_key: i16, name: &'static str, min: i16, max: i16) -> Served {
    Served { api_key, name, versions: min..=max }
}

/// All that are served, by number.
pub static SERVED: [Served; 30] = [
    api(0, "Produce", 3, 13),
    api(1, "Fetch", 4, 18),
    api(2, "ListOffsets", 1, 10),
    api(3, "Metadata", 0, 13),
    api(8, "OffsetCommit", 2, 9),
    api(9, "OffsetFetch", 1, 9),
    api(10, "FindCoordinator", 0, 6),
    api(11, "JoinGroup", 0, 9),
    api(12, "Heartbeat", 0, 4),
    api(13, "LeaveGroup", 0, 5),
    api(14, "SyncGroup", 0, 5),
    api(15, "DescribeGroups", 0, 6),
    api(16, "ListGroups", 0, 5),
    api(18, "ApiVersions", 0, 4),
    api(19, "CreateTopics", 2, 7),
    api(20, "DeleteTopics", 1, 6),
    api(21, "DeleteRecords", 0, 2),
    api(22, "InitProducerId", 0, 5),
    api(23, "OffsetForLeaderEpoch", 2, 4),
    api(32, "DescribeConfigs", 1, 4),
    api(33, "AlterConfigs", 0, 2),
    api(37, "CreatePartitions", 0, 3),
    api(42, "DeleteGroups", 0, 2),
    api(44, "IncrementalAlterConfigs", 0, 1),
    api(47, "OffsetDelete", 0, 0),
    api(60, "DescribeCluster", 0, 2),
    api(61, "DescribeProducers", 0, 0),
    api(68, "ConsumerGroupHeartbeat", 0, 1),
    api(69, "ConsumerGroupDescribe", 0, 1),
    api(75, "DescribeTopicPartitions", 0, 0),
];

/// Where an API lies in [`SERVED`], by its number.
static POSITIONS: [Option<u8>; SERVED[SERVED.len() - 1].api_key as usize + 1] = {
    let mut positions = [None; SERVED[SERVED.len() - 1].api_key as usize + 1];
    let mut nth = 0;
    while nth < SERVED.len() {
        positions[SERVED[nth].api_key as usize] = Some(nth as u8);
        nth += 1;
    }
    positions
};

/// Where the API with this number lies in [`SERVED`], when it is served.
pub fn position(api_key: i16) -> Option<usize> {
    let position = POSITIONS.get(usize::try_from(api_key).ok()?)?;
    position.map(usize::from)
}

/// The API with this number, when it is served.
pub fn served(api_key: i16) -> Option<&'static Served> {
    position(api_key).map(|nth| &SERVED[nth])
}
