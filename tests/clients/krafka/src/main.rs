//! A day of krafka: every step of the matrix, with its own producer, consumer and admin client.

mod administer;
mod day;
mod member;
mod records;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use krafka::admin::{
    AdminClient, CreateTopicsOptions, DescribeClusterOptions, DescribeTopicsOptions, ListConsumerGroupOffsetsOptions,
    ListOffsetsOptions, NewTopic, OffsetSpec,
};
use krafka::consumer::{PartitionAssignmentStrategy, TopicPartition};
use krafka::producer::{Acks, Producer};
use krafka::{Compression, Kafka};

use day::{Day, Outcome, check, equal, eventually, told, within};
use member::{Member, Options};
use records::{Account, Reading, Sent, records};

/// Partitions of every topic that holds records.
const PARTITIONS: usize = 3;

/// What the steps hand on to later ones.
struct Steps {
    kafka: Kafka,
    admin: AdminClient,
    prefix: String,
    nodes: usize,
    /// What lies on the topic of records.
    sent: Account,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let mut steps = match Steps::begin().await {
        Ok(steps) => steps,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut day = Day::default();
    day.step("connect", steps.connect().await);
    day.step("create-topic", steps.create_topic().await);
    day.step("produce", steps.produce().await);
    day.step("idempotent", steps.idempotent().await);
    day.step("consume", steps.consume().await);
    day.step("rebalance", steps.rebalance().await);
    day.step("static-member", steps.static_member().await);
    day.step("incremental-assign", steps.incremental_assign().await);
    day.step("commit", steps.commit().await);
    day.step("kill-9", steps.kill_9().await);
    day.step("offsets", steps.offsets().await);
    day.step("admin", steps.administer().await);
    if day.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A handle with connections of its own.
async fn connect() -> Outcome<Kafka> {
    within("connect", Kafka::builder(told("BOOTSTRAP")?).client_id(told("PREFIX")?).connect()).await
}

impl Steps {
    async fn begin() -> Outcome<Steps> {
        let (prefix, nodes, kafka) = (told("PREFIX")?, told("NODES")?.parse()?, connect().await?);
        Ok(Steps { admin: kafka.admin(), kafka, prefix, nodes, sent: Account::default() })
    }

    /// A topic or group of this day.
    fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn member(&self, group: &str, topic: &str) -> Options {
        Options {
            group: self.named(group),
            topic: self.named(topic),
            instance: None,
            strategy: PartitionAssignmentStrategy::Range,
            heartbeat: Duration::from_millis(500),
        }
    }

    async fn connect(&self) -> Outcome<String> {
        let found = within("describe cluster", self.admin.describe_cluster(DescribeClusterOptions::default())).await?;
        equal("nodes", found.brokers.len(), self.nodes)?;
        let controller = found.controller_id;
        check!(found.brokers.iter().any(|node| node.id == controller), "the controller {controller} is no node");
        Ok(format!("{} nodes, controller {controller}", self.nodes))
    }

    async fn create(&self, topic: &str, partitions: usize) -> Outcome {
        let topic = self.named(topic);
        let asked = NewTopic::new(&topic, i32::try_from(partitions)?, 1)?;
        each("create", within("create", self.admin.create_topics([asked], CreateTopicsOptions::default())).await?)?;
        eventually("the partitions", async || Ok(self.partitions_of(&topic).await? == partitions)).await
    }

    async fn partitions_of(&self, topic: &str) -> Outcome<usize> {
        let asked = self.admin.describe_topics([topic], DescribeTopicsOptions::default());
        let mut found = within("describe topics", asked).await?;
        Ok(found.remove(topic).ok_or("the topic is not described")??.partitions.len())
    }

    async fn create_topic(&self) -> Outcome<String> {
        self.create("records", PARTITIONS).await?;
        Ok(format!("{PARTITIONS} partitions"))
    }

    async fn producer(&self, idempotent: bool, compression: Compression) -> Outcome<Producer> {
        let builder = self.kafka.producer().acks(Acks::All).idempotent(idempotent).compression(compression);
        within("producer", builder.build()).await
    }

    /// Sends all, and waits for every acknowledgement.
    async fn send(&self, producer: &Producer, topic: &str, made: Vec<Sent>, to: &mut Account) -> Outcome {
        let topic = self.named(topic);
        let mut handles = Vec::new();
        for record in &made {
            handles.push(within("enqueue", producer.enqueue(record.to(&topic))).await?);
        }
        for (record, handle) in made.into_iter().zip(handles) {
            let placed = within("acknowledgement", handle).await?;
            to.acknowledge((placed.partition, placed.offset), record)?;
        }
        Ok(())
    }

    /// Sends with a producer that is closed afterwards.
    async fn send_records(&mut self, idempotent: bool, compression: Compression, made: Vec<Sent>) -> Outcome {
        let producer = self.producer(idempotent, compression).await?;
        let mut sent = std::mem::take(&mut self.sent);
        let outcome = self.send(&producer, "records", made, &mut sent).await;
        self.sent = sent;
        outcome?;
        within("close", producer.close()).await
    }

    async fn produce(&mut self) -> Outcome<String> {
        self.send_records(false, Compression::None, records("plain", 300)).await?;
        equal("partitions with records", self.sent.ends().len(), PARTITIONS)?;
        let codecs = [
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ];
        for (name, codec) in codecs {
            self.send_records(false, codec, records(name, 50)).await?;
        }
        Ok(format!("300 records; codecs {}", codecs.map(|(name, _)| name).join(", ")))
    }

    async fn idempotent(&mut self) -> Outcome<String> {
        self.send_records(true, Compression::None, records("idempotent", 100)).await?;
        Ok("100 records".into())
    }

    async fn consume(&self) -> Outcome<String> {
        let reading = Reading::default();
        let member = Member::join(&self.member("group", "records"), &reading).await?;
        reading.complete("everything read", &self.sent).await?;
        member.commit(&reading.next(), "").await?;
        member.close().await?;
        Ok(format!("{} records, each once, in order, unchanged", self.sent.sent.len()))
    }

    async fn rebalance(&self) -> Outcome<String> {
        self.create("shared", PARTITIONS).await?;
        let (options, reading, mut sent) = (self.member("shared", "shared"), Reading::default(), Account::default());
        let producer = self.producer(true, Compression::None).await?;
        let first = Member::join(&options, &reading).await?;
        has_all(&first).await?;
        self.send(&producer, "shared", records("alone", 60), &mut sent).await?;
        reading.complete("alone", &sent).await?;
        first.commit(&reading.next(), "").await?;

        let second = Member::join(&options, &reading).await?;
        shared(&first, &second).await?;
        let split = format!("{} and {} partitions", first.assigned().await.len(), second.assigned().await.len());
        self.send(&producer, "shared", records("together", 60), &mut sent).await?;
        reading.complete("together", &sent).await?;
        for member in [&first, &second] {
            let (assigned, next) = (member.assigned().await, reading.next());
            member
                .commit(&next.into_iter().filter(|(partition, _)| assigned.contains(partition)).collect(), "")
                .await?;
        }
        second.close().await?;
        has_all(&first).await?;
        self.send(&producer, "shared", records("alone again", 60), &mut sent).await?;
        reading.complete("alone again", &sent).await?;
        first.commit(&reading.next(), "").await?;
        first.close().await?;
        within("close", producer.close()).await?;
        Ok(format!("{split}, and all back"))
    }

    /// A member with an instance id is away for a moment: same partitions, no rebalance for the other.
    async fn static_member(&self) -> Outcome<String> {
        let (reading, options) = (Reading::default(), self.member("static", "shared"));
        let named = |instance: &str| Options { instance: Some(instance.to_owned()), ..options.clone() };
        let steady = Member::join(&named("steady"), &reading).await?;
        let away = Member::join(&named("away"), &reading).await?;
        shared(&steady, &away).await?;
        let (had, kept) = (away.assigned().await, steady.assigned().await);
        steady.revoked.take();
        away.close().await?;
        let away = Member::join(&named("away"), &Reading::default()).await?;
        eventually("the static member is back", async || Ok(!away.assigned().await.is_empty())).await?;
        equal("partitions of the member that was away", away.assigned().await, had)?;
        equal("partitions of the other", steady.assigned().await, kept)?;
        equal("partitions that were revoked from the other", steady.revoked.take(), vec![])?;
        steady.close().await?;
        away.close().await?;
        Ok("back with the same partitions, no rebalance".into())
    }

    /// The first member keeps the partitions that it need not give away. A cooperative member of krafka goes on with its
    /// Heartbeats behind a JoinGroup of its own, where the ended generation that they name is refused. So the first
    /// member, which joins again before the second one does, sends few, and the second one soon hears that it must.
    async fn incremental_assign(&self) -> Outcome<String> {
        let options = Options {
            strategy: PartitionAssignmentStrategy::CooperativeSticky,
            ..self.member("cooperative", "shared")
        };
        let often = |heartbeat: Duration| Options { heartbeat, ..options.clone() };
        let reading = Reading::default();
        let first = Member::join(&often(Duration::from_secs(5)), &reading).await?;
        has_all(&first).await?;
        let second = Member::join(&often(Duration::from_millis(200)), &reading).await?;
        shared(&first, &second).await?;
        let given = first.revoked.take();
        equal("partitions that were revoked", &given, &second.assigned().await)?;
        second.close().await?;
        has_all(&first).await?;
        first.close().await?;
        Ok(format!("cooperative-sticky, {} of {PARTITIONS} revoked", given.len()))
    }

    /// The offsets of a group on one topic, with their metadata.
    async fn committed(&self, group: &str, topic: &str) -> Outcome<BTreeMap<i32, (i64, String)>> {
        let asked =
            self.admin.list_consumer_group_offsets(self.named(group), ListConsumerGroupOffsetsOptions::default());
        let mut committed = BTreeMap::new();
        for (place, found) in within("list group offsets", asked).await? {
            let found = found?;
            if let (true, Some(offset)) = (place.topic() == self.named(topic), found.offset) {
                committed.insert(place.partition(), (offset, found.metadata.unwrap_or_default()));
            }
        }
        Ok(committed)
    }

    async fn commit(&self) -> Outcome<String> {
        let offsets: BTreeMap<i32, i64> =
            self.sent.ends().into_iter().map(|(partition, end)| (partition, end / i64::from(partition + 2))).collect();
        let options = self.member("commit", "records");
        let member = Member::join(&options, &Reading::default()).await?;
        has_all(&member).await?;
        member.commit(&offsets, "a note").await?;
        member.close().await?;
        let expected = offsets.iter().map(|(partition, offset)| (*partition, (*offset, "a note".to_owned()))).collect();
        equal("committed", self.committed("commit", "records").await?, expected)?;

        let reading = Reading::default();
        let member = Member::join(&options, &reading).await?;
        reading.begins_at(&offsets).await?;
        member.close().await?;
        Ok("offsets with metadata".into())
    }

    async fn kill_9(&self) -> Outcome<String> {
        self.create("kill", PARTITIONS).await?;
        let (reading, mut sent) = (Reading::default(), Account::default());
        let producer = self.producer(true, Compression::None).await?;
        let member = Member::join(&self.member("kill", "kill"), &reading).await?;
        self.send(&producer, "kill", records("before", 150), &mut sent).await?;
        reading.complete("reading before the kill", &sent).await?;
        let kept = reading.next();
        member.commit(&kept, "").await?;

        let (topic, during) = (self.named("kill"), records("during", 150));
        let mut handles = Vec::new();
        for record in &during {
            handles.push(within("enqueue", producer.enqueue(record.to(&topic))).await?);
        }
        day::kill()?;
        for (record, handle) in during.into_iter().zip(handles) {
            let placed = within("acknowledgement through the kill", handle).await?;
            sent.acknowledge((placed.partition, placed.offset), record)?;
        }
        self.send(&producer, "kill", records("after", 150), &mut sent).await?;
        reading.complete("reading on after the kill", &sent).await?;
        let found = self.committed("kill", "kill").await?;
        let found: BTreeMap<i32, i64> = found.into_iter().map(|(partition, (offset, _))| (partition, offset)).collect();
        equal("commits made before", found, kept)?;
        member.commit(&reading.next(), "").await?;
        member.close().await?;
        within("close", producer.close()).await?;

        let again = Reading::default();
        let member = Member::join(&self.member("again", "records"), &again).await?;
        again.complete("reading what was acknowledged before", &self.sent).await?;
        member.close().await?;
        Ok(format!("{} records through the kill, each read once", sent.sent.len()))
    }

    async fn offset(&self, topic: &str, partition: i32, at: OffsetSpec) -> Outcome<i64> {
        let place = TopicPartition::new(self.named(topic), partition);
        let asked = self.admin.list_offsets([(place.clone(), at)], ListOffsetsOptions::default());
        let mut found = within("list offsets", asked).await?;
        Ok(found.remove(&place).ok_or("the partition is not answered")??.offset)
    }

    async fn offsets(&self) -> Outcome<String> {
        const BEGAN: i64 = 1_700_000_000_000;
        self.create("times", 1).await?;
        let producer = self.producer(true, Compression::None).await?;
        for (n, record) in records("times", 10).iter().enumerate() {
            let record = record.to(&self.named("times")).timestamp(BEGAN + 1000 * i64::try_from(n)?);
            let placed = within("send", producer.send(record)).await?;
            check!(placed.is_success(), "{placed:?}");
        }
        within("close", producer.close()).await?;
        for (what, at, expected) in [
            ("earliest", OffsetSpec::Earliest, 0),
            ("latest", OffsetSpec::Latest, 10),
            ("max timestamp", OffsetSpec::MaxTimestamp, 9),
            ("at a timestamp", OffsetSpec::Timestamp(BEGAN + 5000), 5),
            ("between two timestamps", OffsetSpec::Timestamp(BEGAN + 5001), 6),
        ] {
            equal(what, self.offset("times", 0, at).await?, expected)?;
        }
        Ok("earliest, latest, max timestamp, by timestamp".into())
    }
}

/// Every answer of a call about several things must be good.
fn each<K, T>(what: &str, answers: impl IntoIterator<Item = (K, krafka::Result<T>)>) -> Outcome {
    for (_, answer) in answers {
        answer.map_err(|error| format!("{what}: {error}"))?;
    }
    Ok(())
}

/// Waits until two members have all partitions between them.
async fn shared(first: &Member, second: &Member) -> Outcome {
    eventually("two members share the partitions", async || {
        let (one, other) = (first.assigned().await, second.assigned().await);
        let mut all = [one.clone(), other.clone()].concat();
        all.sort_unstable();
        Ok(!one.is_empty() && !other.is_empty() && all == [0, 1, 2])
    })
    .await
}

async fn has_all(member: &Member) -> Outcome {
    eventually("one member has all partitions", async || Ok(member.assigned().await.len() == PARTITIONS)).await
}
