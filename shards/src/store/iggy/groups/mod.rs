//! Groups and committed offsets in Iggy.
//!
//! A committed offset is the `ExternalGroup` offset of Iggy's consumer group `kafka.cg.<group>`. What does not fit
//! there lies in the side topic `__ringgate_groups`: groups and their members, commits with a metadata string,
//! groups that are being deleted, and the lease of the one gateway that coordinates. [`side_message`] is what a
//! message of it says, [`Replay`] what all of them come to, [`Writes`] in which order the writes of a shard go
//! out, and [`Lease`] who may answer groups. These four are pure values: no I/O, no clock. The rest carries out what
//! they say: [`open`] takes the lease and reads the side topic, a shard's [`GroupLog`] writes and loads.
//!
//! What must stay true: an offset is acknowledged when Iggy has it; nothing that is lost with the side topic is
//! an offset; no two gateways answer groups at one time.

mod compact;
mod external;
mod holder;
pub(super) mod lease;
mod log;
mod replay;
mod side_message;
mod side_topic;
mod start;
mod writes;

pub(crate) use holder::Holding;
use lease::{Lease, Owner};
pub(crate) use log::GroupLog;
pub(crate) use replay::Loaded;
use replay::Replay;
use side_message::SideMessage;
pub use start::OpenGroupsError;
pub(crate) use start::{OpenGroups, open, release};
use writes::Writes;

/// The side topic's name.
pub const SIDE_TOPIC: &str = "__ringgate_groups";

/// Its partitions. A group's is `hash(group) mod 16`, however many shards there are.
pub const SIDE_PARTITIONS: u16 = 16;

/// The partition of a group's messages.
pub fn side_partition(group_id: &str) -> u16 {
    (ringgate_group::route::hash(group_id.as_bytes()) % u64::from(SIDE_PARTITIONS)) as u16
}

/// The name of a Kafka group in Iggy. Ids are at most 246 bytes, so that it fits.
pub fn iggy_group_name(group_id: &str) -> String {
    format!("{IGGY_GROUP_PREFIX}{group_id}")
}

/// The Kafka group that has this name in Iggy, if one does.
pub fn kafka_group_id(iggy_name: &str) -> Option<&str> {
    iggy_name.strip_prefix(IGGY_GROUP_PREFIX).filter(|group| !group.is_empty())
}

const IGGY_GROUP_PREFIX: &str = "kafka.cg.";
