//! Which of Kafka's errors an answer carries, as a metric counts them: every code but 0 of its whole, of its topics,
//! partitions, groups, members and resources, each time that it stands there. Kafka counts them in the same way (its
//! `errorCounts`, from which `ErrorsPerSec` comes), so that one Produce to ten partitions that are gone is ten errors.

use kafka_protocol::messages::*;

/// How often each code is in one answer, or was in many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorCounts(Vec<(i16, u64)>);

impl ErrorCounts {
    /// Those of an answer.
    pub fn of(answer: &impl ErrorCodes) -> ErrorCounts {
        let mut counts = ErrorCounts::default();
        answer.tell(&mut |code| counts.count(code));
        counts
    }

    /// One more; 0 is no error.
    pub fn count(&mut self, code: i16) {
        if code != 0 {
            self.count_times(code, 1);
        }
    }

    fn count_times(&mut self, code: i16, times: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += times,
            None => self.0.push((code, times)),
        }
    }

    /// As many more as there are in others.
    pub fn add(&mut self, others: ErrorCounts) {
        others.0.into_iter().for_each(|(code, times)| self.count_times(code, times));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each code with how often it was there.
    pub fn iter(&self) -> impl Iterator<Item = (i16, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// An answer that carries Kafka's error codes.
pub trait ErrorCodes {
    /// Tells each code of it, 0 included.
    fn tell(&self, tell: &mut impl FnMut(i16));
}

macro_rules! tell {
    ($it:expr, $tell:expr,) => {};
    ($it:expr, $tell:expr, $list:ident { $($each:tt)* } $($rest:tt)*) => {
        for each in &$it.$list {
            tell!(each, $tell, $($each)*);
        }
        tell!($it, $tell, $($rest)*);
    };
    ($it:expr, $tell:expr, $code:ident $($rest:tt)*) => {
        $tell($it.$code);
        tell!($it, $tell, $($rest)*);
    };
}

macro_rules! codes {
    ($($response:ident { $($codes:tt)* })*) => {$(
        impl ErrorCodes for $response {
            fn tell(&self, tell: &mut impl FnMut(i16)) {
                tell!(self, tell, $($codes)*);
            }
        }
    )*};
}

// Fetch is written by hand and counted where that is done.
codes! {
    ProduceResponse { responses { partition_responses { error_code } } }
    ListOffsetsResponse { topics { partitions { error_code } } }
    MetadataResponse { error_code topics { error_code partitions { error_code } } }
    OffsetCommitResponse { topics { partitions { error_code } } }
    OffsetFetchResponse {
        error_code
        topics { partitions { error_code } }
        groups { error_code topics { partitions { error_code } } }
    }
    FindCoordinatorResponse { error_code coordinators { error_code } }
    JoinGroupResponse { error_code }
    HeartbeatResponse { error_code }
    LeaveGroupResponse { error_code members { error_code } }
    SyncGroupResponse { error_code }
    DescribeGroupsResponse { groups { error_code } }
    ListGroupsResponse { error_code }
    ApiVersionsResponse { error_code }
    CreateTopicsResponse { topics { error_code } }
    DeleteTopicsResponse { responses { error_code } }
    DeleteRecordsResponse { topics { partitions { error_code } } }
    InitProducerIdResponse { error_code }
    OffsetForLeaderEpochResponse { topics { partitions { error_code } } }
    DescribeConfigsResponse { results { error_code } }
    AlterConfigsResponse { responses { error_code } }
    CreatePartitionsResponse { results { error_code } }
    DeleteGroupsResponse { results { error_code } }
    IncrementalAlterConfigsResponse { responses { error_code } }
    OffsetDeleteResponse { error_code topics { partitions { error_code } } }
    DescribeClusterResponse { error_code }
    DescribeProducersResponse { topics { partitions { error_code } } }
    ConsumerGroupHeartbeatResponse { error_code }
    ConsumerGroupDescribeResponse { groups { error_code } }
    DescribeTopicPartitionsResponse { topics { error_code partitions { error_code } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
    };

    #[test]
    fn every_code_of_an_answer_counts_wherever_it_stands_and_no_error_is_none() {
        let partition = |code| OffsetFetchResponsePartitions::default().with_error_code(code);
        let topic = OffsetFetchResponseTopics::default().with_partitions([0, 3, 0, 3, 9].map(partition).into());
        let group = |code, topics| OffsetFetchResponseGroup::default().with_error_code(code).with_topics(topics);
        let response = OffsetFetchResponse::default()
            .with_groups(vec![group(16, Vec::new()), group(0, vec![topic.clone(), topic])]);
        let mut counts = ErrorCounts::of(&response);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(16, 1), (3, 4), (9, 2)]);
        counts.add(ErrorCounts::of(&HeartbeatResponse::default().with_error_code(16)));
        assert_eq!(counts.iter().next(), Some((16, 2)));
        assert!(ErrorCounts::of(&HeartbeatResponse::default()).is_empty());
    }
}
