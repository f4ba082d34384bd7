//! What a shard tells whoever watches it: its groups and what partitions hold, in slices.
//!
//! Nothing here is on the path of a request, and nothing is changed by it.

use std::rc::Rc;
use std::sync::Arc;

use ringgate_group::{SurveyCursor, SurveyPage, Text};

use crate::Shard;
use crate::call::TopicPartition;
use crate::catalogue::Topic;
use crate::store::Store;

/// What a partition holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionSeen {
    /// The first offset that is still there; unknown where only the end is.
    pub log_start_offset: Option<i64>,
    /// The end of what can be read.
    pub high_watermark: i64,
    /// Bytes that it takes in the store, where it says so.
    pub bytes: Option<u64>,
    /// A failed write has closed its log until the next start.
    pub is_closed: bool,
}

impl Shard {
    /// A slice of the groups that the shard coordinates, from the cursor on.
    pub fn survey_groups(&self, from: SurveyCursor) -> SurveyPage {
        self.groups.survey(from)
    }

    /// A slice of one group that the shard coordinates; `None` where there is none of this name.
    pub fn survey_group(&self, group_id: &Text, from: SurveyCursor) -> Option<SurveyPage> {
        self.groups.survey_group(group_id, from)
    }

    /// Whether what partitions hold is known by [`Shard::measure`]; else it is asked for with
    /// [`Shard::measure_topic`].
    pub fn keeps_records(&self) -> bool {
        matches!(self.store, Store::Embedded { .. })
    }

    /// What partitions of this shard hold, in their order; `None` where one is unknown or its files could not be
    /// opened. Of a store that is not this gateway's, what it has learnt of it by serving clients.
    pub async fn measure(self: &Rc<Self>, partitions: Vec<TopicPartition>) -> Vec<Option<PartitionSeen>> {
        match &self.store {
            Store::Embedded { partitions: owned, .. } => owned.measure(partitions).await,
            Store::Iggy(iggy) => partitions.into_iter().map(|at| iggy.known(at)).collect(),
        }
    }

    /// What all partitions of a topic hold, asked of Iggy in one request, by partition; `None` where it does not say, and
    /// for a store that [keeps its records](Shard::keeps_records) here.
    pub async fn measure_topic(self: &Rc<Self>, topic: &Arc<Topic>) -> Option<Vec<Option<PartitionSeen>>> {
        match &self.store {
            Store::Embedded { .. } => None,
            Store::Iggy(iggy) => iggy.measure_topic(topic).await,
        }
    }
}
