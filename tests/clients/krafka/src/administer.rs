//! What the admin client has: one call that fails does not keep the others from being tried.

use std::collections::BTreeMap;

use krafka::KrafkaError;
use krafka::admin::{
    AlterConsumerGroupOffsetsOptions, ConfigEntry, ConfigOp, ConfigResource, ConsumerGroupDescription,
    CreatePartitionsOptions, DeleteConsumerGroupOffsetsOptions, DeleteConsumerGroupsOptions, DeleteRecordsOptions,
    DeleteTopicsOptions, DescribeClusterOptions, DescribeConfigsOptions, DescribeConsumerGroupsOptions,
    IncrementalAlterConfigsOptions, ListConsumerGroupsOptions, ListTopicsOptions, OffsetSpec,
};
use krafka::consumer::TopicPartition;
use krafka::error::ErrorCode;

use crate::day::{Outcome, check, equal, eventually, within};
use crate::member::Member;
use crate::records::Reading;
use crate::{Steps, each, has_all};

/// The many small calls of one step.
#[derive(Default)]
struct Chores {
    done: Vec<&'static str>,
    failed: Vec<String>,
}

impl Chores {
    fn did(&mut self, name: &'static str, outcome: Outcome) {
        match outcome {
            Ok(()) => self.done.push(name),
            Err(error) => self.failed.push(format!("{name} ({error})")),
        }
    }
}

impl Steps {
    pub async fn administer(&self) -> Outcome<String> {
        let mut chores = Chores::default();
        let live = Member::join(&self.member("live", "records"), &Reading::default()).await?;
        has_all(&live).await?;
        chores.did("describe cluster", self.describe_cluster().await);
        chores.did("list groups", self.list_groups().await);
        chores.did("describe groups", self.describe_groups().await);
        chores.did("describe topic configs", self.describe_topic_configs().await);
        chores.did("describe node configs", self.describe_node_configs().await);
        chores.did("incremental alter configs", self.incremental_alter_configs().await);
        chores.did("create partitions", self.create_partitions().await);
        chores.did("delete records", self.delete_records().await);
        chores.did("list group offsets", self.list_group_offsets().await);
        chores.did("alter group offsets", self.alter_group_offsets().await);
        chores.did("delete group offsets", self.delete_group_offsets().await);
        chores.did("refuse to delete a group in use", self.refuse_to_delete_a_used_group().await);
        live.close().await?;
        chores.did("delete group", self.delete_group().await);
        chores.did("delete topic", self.delete_topic().await);
        check!(chores.failed.is_empty(), "{}", chores.failed.join("; "));
        Ok(format!("{}; not in the client: alter configs", chores.done.join(", ")))
    }

    async fn describe_cluster(&self) -> Outcome {
        let found = within("call", self.admin.describe_cluster(DescribeClusterOptions::default())).await?;
        check!(!found.cluster_id.is_empty(), "no cluster id");
        Ok(())
    }

    /// Groups and their states. Each node lists its own, except in gateway mode.
    async fn groups(&self) -> Outcome<BTreeMap<String, String>> {
        let mut groups = BTreeMap::new();
        for (_, found) in
            within("list groups", self.admin.list_consumer_groups(ListConsumerGroupsOptions::default())).await?
        {
            for group in found? {
                let before = groups.insert(group.group_id.clone(), group.state.unwrap_or_default());
                check!(before.is_none(), "{} is listed twice", group.group_id);
            }
        }
        Ok(groups)
    }

    async fn list_groups(&self) -> Outcome {
        let found = self.groups().await?;
        let state = |group: &str| found.get(&self.named(group)).map(String::as_str);
        equal("a group that is used", state("live"), Some("Stable"))?;
        equal("a group without members", state("kill"), Some("Empty"))
    }

    async fn group(&self, group: &str) -> Outcome<ConsumerGroupDescription> {
        let group = self.named(group);
        let asked = self.admin.describe_consumer_groups([&group], DescribeConsumerGroupsOptions::default());
        let mut found = within("describe groups", asked).await?;
        Ok(found.remove(&group).ok_or("the group is not described")??)
    }

    async fn describe_groups(&self) -> Outcome {
        let found = self.group("live").await?;
        equal("state", found.state.as_str(), "Stable")?;
        equal("members", found.members.len(), 1)?;
        equal("client id", &found.members[0].client_id, &self.prefix)?;
        let assigned = found.members[0].assignment.as_deref().unwrap_or_default();
        equal("assigned topics", assigned.len(), 1)?;
        let mut partitions = assigned[0].partitions.clone();
        partitions.sort_unstable();
        equal("assigned", partitions, vec![0, 1, 2])
    }

    async fn settings(&self, of: ConfigResource) -> Outcome<BTreeMap<String, ConfigEntry>> {
        let asked = self.admin.describe_configs([of.clone()], DescribeConfigsOptions::default());
        let mut found = within("describe configs", asked).await?;
        let entries = found.remove(&of).ok_or("the resource is not described")??;
        Ok(entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect())
    }

    async fn describe_topic_configs(&self) -> Outcome {
        let found = self.settings(ConfigResource::topic(self.named("records"))).await?;
        for name in ["retention.ms", "cleanup.policy", "max.message.bytes"] {
            let entry = found.get(name).ok_or_else(|| format!("no {name}"))?;
            // The flag is of version 0; since then a default is known by its source.
            let default = entry.is_default || entry.config_source == 5;
            check!(default && entry.value.is_some(), "{name} is no default before it was set: {entry:?}");
        }
        Ok(())
    }

    async fn describe_node_configs(&self) -> Outcome {
        let cluster =
            within("describe cluster", self.admin.describe_cluster(DescribeClusterOptions::default())).await?;
        check!(
            !self.settings(ConfigResource::broker(cluster.controller_id)).await?.is_empty(),
            "the node has no settings"
        );
        Ok(())
    }

    async fn incremental_alter_configs(&self) -> Outcome {
        let topic = ConfigResource::topic(self.named("records"));
        let change = (topic.clone(), vec![ConfigOp::set("retention.ms", "3600000")]);
        let asked = self.admin.incremental_alter_configs([change], IncrementalAlterConfigsOptions::default());
        each("alter", within("call", asked).await?)?;
        let found = self.settings(topic).await?;
        equal("retention.ms", found.get("retention.ms").and_then(|entry| entry.value.as_deref()), Some("3600000"))
    }

    async fn create_partitions(&self) -> Outcome {
        let topic = self.named("shared");
        let asked = self.admin.create_partitions([(&topic, 6)], CreatePartitionsOptions::default());
        each("create", within("call", asked).await?)?;
        eventually("six partitions", async || Ok(self.partitions_of(&topic).await? == 6)).await
    }

    async fn delete_records(&self) -> Outcome {
        let until = (TopicPartition::new(self.named("records"), 0), 10);
        let asked = self.admin.delete_records([until.clone()], DeleteRecordsOptions::default());
        equal("low watermark", within("call", asked).await?.remove(&until.0).ok_or("no answer")??, 10)?;
        equal("earliest", self.offset("records", 0, OffsetSpec::Earliest).await?, 10)
    }

    async fn group_offsets(&self) -> Outcome<BTreeMap<i32, i64>> {
        let found = self.committed("kill", "kill").await?;
        Ok(found.into_iter().map(|(partition, (offset, _))| (partition, offset)).collect())
    }

    async fn list_group_offsets(&self) -> Outcome {
        equal("partitions with an offset", self.group_offsets().await?.len(), 3)
    }

    async fn alter_group_offsets(&self) -> Outcome {
        let mut expected = self.group_offsets().await?;
        expected.insert(1, 7);
        let change = (TopicPartition::new(self.named("kill"), 1), 7);
        let options = AlterConsumerGroupOffsetsOptions::default();
        each(
            "alter",
            within("call", self.admin.alter_consumer_group_offsets(self.named("kill"), [change], options)).await?,
        )?;
        equal("offsets of the group", self.group_offsets().await?, expected)
    }

    async fn delete_group_offsets(&self) -> Outcome {
        let mut expected = self.group_offsets().await?;
        expected.remove(&1);
        let gone = TopicPartition::new(self.named("kill"), 1);
        let options = DeleteConsumerGroupOffsetsOptions::default();
        each(
            "delete",
            within("call", self.admin.delete_consumer_group_offsets(self.named("kill"), [gone], options)).await?,
        )?;
        equal("offsets of the group", self.group_offsets().await?, expected)
    }

    async fn deleted(&self, group: &str) -> Outcome<krafka::Result<()>> {
        let group = self.named(group);
        let asked = self.admin.delete_consumer_groups([&group], DeleteConsumerGroupsOptions::default());
        Ok(within("call", asked).await?.remove(&group).ok_or("no answer")?)
    }

    async fn refuse_to_delete_a_used_group(&self) -> Outcome {
        match self.deleted("live").await? {
            Err(KrafkaError::Broker { code: ErrorCode::NonEmptyGroup, .. }) => Ok(()),
            answer => Err(format!("the answer is {answer:?}").into()),
        }
    }

    async fn delete_group(&self) -> Outcome {
        self.deleted("kill").await??;
        check!(!self.groups().await?.contains_key(&self.named("kill")), "the deleted group is listed");
        Ok(())
    }

    async fn delete_topic(&self) -> Outcome {
        let topic = self.named("times");
        let asked = self.admin.delete_topics([&topic], DeleteTopicsOptions::default());
        each("delete", within("call", asked).await?)?;
        eventually("a deleted topic is gone", async || {
            let found = within("list topics", self.admin.list_topics(ListTopicsOptions::default())).await?;
            Ok(!found.contains(&topic))
        })
        .await
    }
}
