//! Topics that a run makes for itself.

use std::time::Instant;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{ApiKey, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};

use super::{CallError, ClientError, Target};
use crate::limits::{CONTROL_PAUSE, TOPIC_CHANGE_TIMEOUT};

/// Kafka's code of a broker that is not the controller and does not forward.
const NOT_CONTROLLER: i16 = 41;

fn name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.into()))
}

impl Target {
    /// Makes a topic with the target's default replication, and waits until every partition has a leader.
    ///
    /// # Errors
    /// It is there already, the target refuses, or partitions have no leader within the request timeout.
    pub async fn create_topic(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) -> Result<(), ClientError> {
        let failed = |why: String| ClientError(format!("topic {topic} cannot be created: {why}"));
        let version = self.version(ApiKey::CreateTopics)?;
        let entry = |(name, value): &(&str, &str)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string((*name).into()))
                .with_value(Some(StrBytes::from_string((*value).into())))
        };
        let asked = CreatableTopic::default()
            .with_name(name(topic))
            .with_num_partitions(partitions)
            // "The broker's default" is from version 4.
            .with_replication_factor(if version >= 4 { -1 } else { 1 })
            .with_configs(config.iter().map(entry).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![asked]).with_timeout_ms(timeout_ms());
        let answer = self.change(version, &request, |answer| {
            answer.topics.first().map(|topic| (topic.error_code, topic.error_message.clone()))
        });
        answer.await.map_err(|error| failed(error.to_string()))?;
        self.forget_topic(topic);
        let made = self.topic(topic).await.map_err(|error| failed(error.to_string()))?;
        match i32::try_from(made.leaders.len()) {
            Ok(made) if made == partitions => Ok(()),
            _ => Err(failed(format!("it has {} partitions instead of {partitions}", made.leaders.len()))),
        }
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// The target refuses.
    pub async fn delete_topic(&self, topic: &str) -> Result<(), ClientError> {
        let version = self.version(ApiKey::DeleteTopics)?;
        let request = DeleteTopicsRequest::default().with_timeout_ms(timeout_ms());
        let request = if version >= 6 {
            request.with_topics(vec![DeleteTopicState::default().with_name(Some(name(topic)))])
        } else {
            request.with_topic_names(vec![name(topic)])
        };
        let answer = self.change(version, &request, |answer| {
            answer.responses.first().map(|topic| (topic.error_code, topic.error_message.clone()))
        });
        answer.await.map_err(|error| ClientError(format!("topic {topic} cannot be deleted: {error}")))?;
        self.forget_topic(topic);
        Ok(())
    }

    /// Brings a topic to `partitions` in all, and waits until each has a leader.
    ///
    /// # Errors
    /// The target refuses, or the partitions are not there within the request timeout.
    pub async fn add_partitions(&self, topic: &str, partitions: i32) -> Result<(), ClientError> {
        let failed = |why: String| ClientError(format!("topic {topic} cannot be given {partitions} partitions: {why}"));
        let version = self.version(ApiKey::CreatePartitions)?;
        let asked =
            CreatePartitionsTopic::default().with_name(name(topic)).with_count(partitions).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![asked]).with_timeout_ms(timeout_ms());
        let answer = self.change(version, &request, |answer| {
            answer.results.first().map(|topic| (topic.error_code, topic.error_message.clone()))
        });
        answer.await.map_err(|error| failed(error.to_string()))?;
        let until = Instant::now() + self.0.timeout;
        loop {
            self.forget_topic(topic);
            let made = self.topic(topic).await.map_err(|error| failed(error.to_string()))?;
            if i32::try_from(made.leaders.len()).is_ok_and(|made| made >= partitions) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(failed(format!("it still has {}", made.leaders.len())));
            }
            ringgate_runtime::sleep(CONTROL_PAUSE).await;
        }
    }

    /// Asks for a change, of the controller when nobody else takes it.
    async fn change<R: Request>(
        &self,
        version: i16,
        request: &R,
        outcome: impl Fn(&R::Response) -> Option<(i16, Option<StrBytes>)>,
    ) -> Result<(), CallError> {
        let silent = || CallError::BadResponse("the answer names no topic".into());
        let mut came = outcome(&self.ask(version, request).await?).ok_or_else(silent)?;
        if came.0 == NOT_CONTROLLER
            && let Some(controller) = self.controller().await?
        {
            let mut connection = self.connect(&controller).await?;
            came = outcome(&connection.call(version, request).await?).ok_or_else(silent)?;
        }
        match came {
            (0, _) => Ok(()),
            (code, why) => {
                let what = why.map_or_else(|| format!("API {}", R::KEY), |why| why.to_string());
                Err(CallError::Kafka { code, what })
            }
        }
    }
}

fn timeout_ms() -> i32 {
    i32::try_from(TOPIC_CHANGE_TIMEOUT.as_millis()).unwrap_or(i32::MAX)
}
