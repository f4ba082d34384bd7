//! What a Fetch asks for, as a session remembers it (KIP-227).

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::fetcher::Settings;
use crate::producer::TopicRef;

/// A session with one broker, about the partitions that it leads.
#[derive(Debug)]
pub struct Session {
    id: i32,
    epoch: i32,
    /// Partitions, and the offset that the broker knows of each.
    told: Vec<(usize, Option<i64>)>,
}

impl Session {
    /// About these; the broker knows of none yet.
    pub fn new(partitions: &[usize]) -> Session {
        Session { id: 0, epoch: 0, told: partitions.iter().map(|partition| (*partition, None)).collect() }
    }

    /// The next request: everything when the session begins, what has changed later.
    pub fn request(
        &mut self,
        settings: &Settings,
        topics: &[TopicRef],
        per_topic: usize,
        offsets: &[i64],
    ) -> FetchRequest {
        if self.id == 0 {
            self.forget();
        }
        let mut asked: Vec<FetchTopic> = Vec::new();
        let mut last = None;
        for (partition, told) in &mut self.told {
            let offset = offsets[*partition];
            if *told == Some(offset) {
                continue;
            }
            *told = Some(offset);
            let (topic, index) = (*partition / per_topic, (*partition % per_topic) as i32);
            if last != Some(topic) {
                last = Some(topic);
                let name = TopicName(StrBytes::from_string(topics[topic].name.clone()));
                asked.push(FetchTopic::default().with_topic(name).with_topic_id(topics[topic].id));
            }
            if let Some(topic) = asked.last_mut() {
                topic.partitions.push(
                    FetchPartition::default()
                        .with_partition(index)
                        .with_fetch_offset(offset)
                        .with_partition_max_bytes(settings.partition_bytes),
                );
            }
        }
        FetchRequest::default()
            .with_max_wait_ms(settings.max_wait.as_millis() as i32)
            .with_min_bytes(settings.min_bytes)
            .with_max_bytes(settings.max_bytes)
            .with_session_id(self.id)
            .with_session_epoch(self.epoch)
            .with_topics(asked)
    }

    /// The broker has answered, and says under which id it remembers; 0 when it does not.
    pub fn answered(&mut self, id: i32) {
        if id == 0 {
            self.forget();
        } else {
            self.id = id;
            // Epoch 0 is for beginnings.
            self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        }
    }

    /// The broker has forgotten it: the next request says everything.
    pub fn forget(&mut self) {
        (self.id, self.epoch) = (0, 0);
        self.told.iter_mut().for_each(|(_, told)| *told = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use uuid::Uuid;

    fn asked(session: &mut Session, offsets: &[i64]) -> (i32, i32, Vec<(String, i32, i64)>) {
        let settings = Settings { max_wait: Duration::from_millis(5), ..Settings::default() };
        let topics = ["a", "b"].map(|name| TopicRef { name: name.into(), id: Uuid::nil() });
        let request = session.request(&settings, &topics, 2, offsets);
        let parts = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|part| (topic.topic.to_string(), part.partition, part.fetch_offset))
        });
        (request.session_id, request.session_epoch, parts.collect())
    }

    #[test]
    fn a_session_begins_with_everything_and_goes_on_with_what_changed() {
        let mut session = Session::new(&[0, 1, 3]);
        let all = vec![("a".to_string(), 0, 0), ("a".to_string(), 1, 0), ("b".to_string(), 1, 0)];
        assert_eq!(asked(&mut session, &[0; 4]), (0, 0, all));
        session.answered(77);
        assert_eq!(asked(&mut session, &[0, 9, 0, 0]), (77, 1, vec![("a".to_string(), 1, 9)]));
        session.answered(77);
        assert_eq!(asked(&mut session, &[0, 9, 5, 0]), (77, 2, vec![]), "partition 2 is not this session's");
    }

    #[test]
    fn what_the_broker_has_forgotten_is_said_again() {
        let mut session = Session::new(&[0]);
        asked(&mut session, &[3]);
        session.answered(5);
        session.forget();
        assert_eq!(asked(&mut session, &[3]), (0, 0, vec![("a".to_string(), 0, 3)]));
    }

    #[test]
    fn a_broker_without_sessions_is_told_everything_each_time() {
        let mut session = Session::new(&[0]);
        for _ in 0..3 {
            assert_eq!(asked(&mut session, &[3]), (0, 0, vec![("a".to_string(), 0, 3)]));
            session.answered(0);
        }
    }
}
