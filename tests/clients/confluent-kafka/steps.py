"""A day of confluent-kafka (librdkafka): one configuration as its users have it, and every step of the matrix."""

from collections.abc import Callable

from confluent_kafka import (
    Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, Message, OFFSET_INVALID,
    Producer, TopicCollection, TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType,
)

from day import (
    BOOTSTRAP, GROUP, KILL_TOPIC, NODES, PARTITIONS, PREFIX, SHARED_TOPIC, TIMES_TOPIC, TOPIC, WAIT_SECONDS_MAX,
    Account, Chores, Day, Record, check, equal, records, turns,
)

CODECS = ["gzip", "snappy", "lz4", "zstd"]

CLIENT = {"bootstrap.servers": BOOTSTRAP, "client.id": PREFIX}
admin = AdminClient(CLIENT)
sent = Account()


def producer(**settings: object) -> Producer:
    return Producer(CLIENT | {"acks": "all"} | {name.replace("_", "."): value for name, value in settings.items()})


def member(group: str, topic: str, on_revoke: Callable | None = None, **settings: object) -> Consumer:
    own = {"group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": 10000}
    consumer = Consumer(CLIENT | own | {name.replace("_", "."): value for name, value in settings.items()})
    consumer.subscribe([topic], **({"on_revoke": on_revoke} if on_revoke else {}))
    return consumer


def create(topic: str, partitions: int = PARTITIONS) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_SECONDS_MAX)


def send(to: Producer, topic: str, account: Account, batch: list[Record]) -> None:
    """Produces to all partitions in turn and waits until each record is acknowledged."""
    enqueue(to, topic, account, batch)
    equal("records without an acknowledgement", to.flush(WAIT_SECONDS_MAX), 0)


def enqueue(to: Producer, topic: str, account: Account, batch: list[Record]) -> None:
    def acknowledged(record: Record):
        def take(error: KafkaError | None, message: Message) -> None:
            # An exception here comes out of flush() or poll().
            if error is not None:
                raise KafkaException(error)
            account.acknowledge(message.partition(), message.offset(), record)
        return take

    for n, record in enumerate(batch):
        to.produce(topic, record.value, record.key, n % PARTITIONS, headers=list(record.headers),
                   on_delivery=acknowledged(record))


def poll(consumer: Consumer, seconds: float = 0.2) -> Message | None:
    """What came, to be compared with None: a message with an empty value is false."""
    message = consumer.poll(seconds)
    if message is not None and message.error():
        raise KafkaException(message.error())
    return message


def record_of(message: Message) -> Record:
    return Record(message.key(), message.value(), tuple(message.headers() or ()))


def partitions(consumer: Consumer) -> set[int]:
    return {assigned.partition for assigned in consumer.assignment()}


def connect() -> str:
    metadata = admin.list_topics(timeout=WAIT_SECONDS_MAX)
    equal("nodes", len(metadata.brokers), NODES)
    check(metadata.controller_id in metadata.brokers, f"controller {metadata.controller_id} is no node")
    return f"{NODES} nodes, controller {metadata.controller_id}"


def create_topic() -> None:
    create(TOPIC)
    found = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(WAIT_SECONDS_MAX)
    equal("partitions", [partition.id for partition in found.partitions], list(range(PARTITIONS)))


def produce() -> str:
    send(producer(), TOPIC, sent, records("plain", 300))
    for codec in CODECS:
        send(producer(compression_type=codec, linger_ms=50), TOPIC, sent, records(codec, 60))
    return ", ".join(CODECS)


def idempotent() -> None:
    send(producer(enable_idempotence=True), TOPIC, sent, records("idempotent", 100))


def consume() -> str:
    consumer = member(GROUP, TOPIC)
    reading = sent.read()
    for _ in turns("reading everything back"):
        if (message := poll(consumer)) is not None:
            reading.add(message.partition(), message.offset(), record_of(message))
        elif reading.complete():
            break
    consumer.close()
    return f"{len(reading.seen)} records"


def rebalance() -> None:
    create(SHARED_TOPIC)
    group, to, account = f"{PREFIX}-shared", producer(), Account()
    first = member(group, SHARED_TOPIC)
    for _ in turns("the first member has all partitions"):
        poll(first)
        if partitions(first) == {0, 1, 2}:
            break
    second = member(group, SHARED_TOPIC)
    for _ in turns("both members have partitions"):
        poll(first)
        poll(second)
        one, two = partitions(first), partitions(second)
        if one and two and one | two == {0, 1, 2} and not one & two:
            break
    reading = account.read()

    def read(what: str, members: list[Consumer]) -> None:
        for _ in turns(what):
            quiet = True
            for consumer in members:
                if (message := poll(consumer)) is not None:
                    quiet = False
                    check(message.partition() in partitions(consumer), "read a partition of the other member")
                    reading.add(message.partition(), message.offset(), record_of(message), consumer)
            if quiet and reading.complete():
                break

    send(to, SHARED_TOPIC, account, records("shared", 90))
    read("both members read what was produced", [first, second])
    second.close()
    for _ in turns("the first member has all partitions back"):
        check(poll(first) is None, "read again what the second member had read")
        if partitions(first) == {0, 1, 2}:
            break
    send(to, SHARED_TOPIC, account, records("alone", 90))
    read("the first member reads all partitions", [first])
    first.close()


def static_member() -> str:
    """A member with a group.instance.id is away for a moment: same partitions, no rebalance for the other."""
    group, revoked = f"{PREFIX}-static", []
    settings = {"partition_assignment_strategy": "range"}
    steady = member(group, SHARED_TOPIC, lambda _, gone: revoked.extend(gone), group_instance_id="steady", **settings)
    away = member(group, SHARED_TOPIC, group_instance_id="away", **settings)
    for _ in turns("both static members have partitions"):
        poll(steady)
        poll(away)
        if partitions(steady) and partitions(away) and partitions(steady) | partitions(away) == {0, 1, 2}:
            break
    had, kept = partitions(away), partitions(steady)
    revoked.clear()
    away.close()
    away = member(group, SHARED_TOPIC, group_instance_id="away", **settings)
    for _ in turns("the static member is back"):
        poll(steady)
        poll(away)
        if partitions(away):
            break
    equal("partitions of the member that was away", partitions(away), had)
    equal("partitions of the other", partitions(steady), kept)
    equal("partitions that were revoked from the other", revoked, [])
    for consumer in (steady, away):
        consumer.close()
    return "back with the same partitions, no rebalance"


def incremental_assign() -> str:
    """Cooperative rebalancing: the first member keeps the partitions that it need not give away."""
    group, revoked, lost = f"{PREFIX}-cooperative", [], []
    first = Consumer(CLIENT | {"group.id": group, "partition.assignment.strategy": "cooperative-sticky"})
    first.subscribe([SHARED_TOPIC], on_revoke=lambda _, gone: revoked.extend(p.partition for p in gone),
                    on_lost=lambda _, gone: lost.extend(gone))
    for _ in turns("the first member has all partitions"):
        poll(first)
        if partitions(first) == {0, 1, 2}:
            break
    second = member(group, SHARED_TOPIC, partition_assignment_strategy="cooperative-sticky")
    for _ in turns("the second member has a partition"):
        poll(first)
        poll(second)
        if len(partitions(first)) + len(partitions(second)) == 3 and partitions(second):
            break
    given = sorted(revoked)
    equal("partitions that were revoked", given, sorted(partitions(second)))
    equal("partitions that were lost", lost, [])
    second.close()
    for _ in turns("the first member has all partitions back"):
        poll(first)
        if partitions(first) == {0, 1, 2}:
            break
    first.close()
    return f"cooperative-sticky, {len(given)} of 3 revoked"


def consumer_protocol() -> str:
    """The group protocol of KIP-848: members share, are served by pattern, and commit with their epochs."""
    topic, account = f"{PREFIX}-kip-848", Account()
    create(topic)
    own = {"group.id": topic, "group.protocol": "consumer", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    first, reading, to = Consumer(CLIENT | own), account.read(), producer()

    def read(members: list[Consumer], what: str) -> None:
        for _ in turns(what):
            for consumer in members:
                if (message := poll(consumer)) is not None:
                    reading.add(message.partition(), message.offset(), record_of(message), consumer)
            if reading.complete():
                return

    def until_shared(members: list[Consumer], what: str) -> None:
        for _ in turns(what):
            for consumer in members:
                poll(consumer)
            shares = [partitions(consumer) for consumer in members]
            if all(shares) and sum(map(len, shares)) == PARTITIONS and set().union(*shares) == {0, 1, 2}:
                return

    first.subscribe([f"^{topic}.*"])
    until_shared([first], "the first member has all partitions")
    second = Consumer(CLIENT | own)
    second.subscribe([topic])
    until_shared([first, second], "both members have partitions")
    send(to, topic, account, records("shared", 90))
    read([first, second], "both members read what was produced")
    for consumer in (first, second):
        consumer.commit(asynchronous=False)
    second.close()
    until_shared([first], "the first member has all partitions back")
    found = first.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], WAIT_SECONDS_MAX)
    equal("committed", [entry.offset for entry in found], [30, 30, 30])
    send(to, topic, account, records("alone", 90))
    read([first], "the first member reads all partitions")
    first.close()
    return "by name and by pattern"


def commit() -> None:
    group, offsets = f"{PREFIX}-commit", {0: 50, 1: 20, 2: 30}
    consumer = member(group, TOPIC, enable_auto_commit=False)
    for _ in turns("a member that reads"):
        if poll(consumer) is not None:
            break
    asked = [TopicPartition(TOPIC, partition, offset, f"at {offset}") for partition, offset in offsets.items()]
    for answer in consumer.commit(offsets=asked, asynchronous=False):
        check(answer.error is None, f"commit: {answer.error}")
    consumer.close()
    consumer = member(group, TOPIC, enable_auto_commit=False)
    found = consumer.committed([TopicPartition(TOPIC, partition) for partition in offsets], WAIT_SECONDS_MAX)
    equal("committed", {entry.partition: (entry.offset, entry.metadata) for entry in found},
          {partition: (offset, f"at {offset}") for partition, offset in offsets.items()})
    first: dict[int, int] = {}
    for _ in turns("a record of each partition"):
        if (message := poll(consumer)) is not None:
            first.setdefault(message.partition(), message.offset())
        if len(first) == PARTITIONS:
            break
    equal("first offsets of the new member", first, offsets)
    consumer.close()


def kill_9() -> str:
    create(KILL_TOPIC)
    group, account = f"{PREFIX}-kill", Account()
    to = producer(enable_idempotence=True)
    # Its own pause of up to 10 s before it connects again is as long as its session, which must not end.
    consumer = member(group, KILL_TOPIC, enable_auto_commit=False, reconnect_backoff_max_ms=1000)
    reading = account.read()

    def read(what: str) -> None:
        for _ in turns(what):
            message = consumer.poll(0.2)
            if message is None:
                if reading.complete():
                    break
            elif message.error():
                # That brokers were away is told as an event; the client goes on by itself.
                check(message.error().retriable() or message.error().code() == KafkaError._ALL_BROKERS_DOWN,
                      f"the consumer: {message.error()}")
            else:
                reading.add(message.partition(), message.offset(), record_of(message))

    send(to, KILL_TOPIC, account, records("before", 150))
    read("reading before the kill")
    ends = [TopicPartition(KILL_TOPIC, partition, end) for partition, end in account.ends().items()]
    consumer.commit(offsets=ends, asynchronous=False)
    enqueue(to, KILL_TOPIC, account, records("during", 150))
    Day.kill()
    send(to, KILL_TOPIC, account, records("after", 150))
    equal("acknowledged", len(account.sent), 450)
    read("reading on after the kill")
    kept = consumer.committed([TopicPartition(KILL_TOPIC, p) for p in range(PARTITIONS)], WAIT_SECONDS_MAX)
    equal("commits made before", {p.partition: p.offset for p in kept}, {p.partition: p.offset for p in ends})
    consumer.commit(asynchronous=False)
    consumer.close()
    reading = sent.read()
    consumer = member(f"{PREFIX}-again", TOPIC)
    for _ in turns("reading what was acknowledged hours before"):
        if (message := poll(consumer)) is not None:
            reading.add(message.partition(), message.offset(), record_of(message))
        elif reading.complete():
            break
    consumer.close()
    return f"{len(account.sent)} records through the kill, each read once"


def offsets() -> None:
    create(TIMES_TOPIC, 1)
    to, began = producer(), 1_700_000_000_000
    for n in range(10):
        to.produce(TIMES_TOPIC, str(n), partition=0, timestamp=began + n * 1000)
    equal("records without an acknowledgement", to.flush(WAIT_SECONDS_MAX), 0)
    there = TopicPartition(TIMES_TOPIC, 0)

    def listed(spec: OffsetSpec) -> int:
        answer = admin.list_offsets({there: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        return answer[there].result(WAIT_SECONDS_MAX).offset

    equal("earliest", listed(OffsetSpec.earliest()), 0)
    equal("latest", listed(OffsetSpec.latest()), 10)
    equal("max timestamp", listed(OffsetSpec.max_timestamp()), 9)
    equal("at a timestamp", listed(OffsetSpec.for_timestamp(began + 5000)), 5)
    equal("between two timestamps", listed(OffsetSpec.for_timestamp(began + 5001)), 6)
    equal("beyond the last timestamp", listed(OffsetSpec.for_timestamp(began + 9001)), -1)
    consumer = Consumer(CLIENT | {"group.id": GROUP})
    equal("watermarks", consumer.get_watermark_offsets(there, WAIT_SECONDS_MAX), (0, 10))
    [found] = consumer.offsets_for_times([TopicPartition(TIMES_TOPIC, 0, began + 3500)], WAIT_SECONDS_MAX)
    equal("offsets_for_times", found.offset, 4)
    consumer.close()


def administer() -> str:
    chores, group = Chores(), f"{PREFIX}-kill"
    seconds = {"request_timeout": WAIT_SECONDS_MAX}
    topic, node = ConfigResource(ResourceType.TOPIC, TOPIC), None
    live = member(f"{PREFIX}-live", TOPIC)
    for _ in turns("a live member"):
        poll(live)
        if partitions(live):
            break

    def describe_cluster() -> None:
        nonlocal node
        found = admin.describe_cluster(**seconds).result(WAIT_SECONDS_MAX)
        equal("nodes", len(found.nodes), NODES)
        check(bool(found.cluster_id), "no cluster id")
        check(found.controller.id in [each.id for each in found.nodes], "the controller is no node")
        node = found.controller.id

    def list_groups() -> None:
        found = admin.list_consumer_groups(**seconds).result(WAIT_SECONDS_MAX)
        equal("errors", found.errors, [])
        states = {each.group_id: each.state.name for each in found.valid}
        equal("state of a group that is used", states.get(f"{PREFIX}-live"), "STABLE")
        equal("state of a group without members", states.get(group), "EMPTY")
        equal("groups listed twice", len(found.valid) - len(states), 0)

    def describe_groups() -> None:
        found = admin.describe_consumer_groups([f"{PREFIX}-live"], **seconds)[f"{PREFIX}-live"].result(WAIT_SECONDS_MAX)
        equal("state", found.state.name, "STABLE")
        [only] = found.members
        equal("client id", only.client_id, PREFIX)
        equal("assigned", sorted(p.partition for p in only.assignment.topic_partitions), [0, 1, 2])

    def configs(resource: ConfigResource) -> dict[str, ConfigEntry]:
        return admin.describe_configs([resource], **seconds)[resource].result(WAIT_SECONDS_MAX)

    def describe_topic_configs() -> None:
        found = configs(topic)
        for name in ("retention.ms", "cleanup.policy", "max.message.bytes"):
            check(name in found, f"no {name} in {sorted(found)}")
        check(found["retention.ms"].is_default, "retention.ms is no default before it was set")

    def describe_node_configs() -> None:
        check(bool(configs(ConfigResource(ResourceType.BROKER, str(node)))), "the node has no settings")

    def incremental_alter_configs() -> None:
        change = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[change])
        admin.incremental_alter_configs([resource], **seconds)[resource].result(WAIT_SECONDS_MAX)
        equal("retention.ms", configs(topic)["retention.ms"].value, "3600000")

    def alter_configs() -> None:
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, set_config={"retention.ms": "7200000"})
        admin.alter_configs([resource], **seconds)[resource].result(WAIT_SECONDS_MAX)
        equal("retention.ms", configs(topic)["retention.ms"].value, "7200000")

    def create_partitions() -> None:
        admin.create_partitions([NewPartitions(SHARED_TOPIC, 6)], **seconds)[SHARED_TOPIC].result(WAIT_SECONDS_MAX)
        for _ in turns("six partitions in the metadata"):
            if len(admin.list_topics(SHARED_TOPIC, WAIT_SECONDS_MAX).topics[SHARED_TOPIC].partitions) == 6:
                break
        placed: list[int] = []
        to = producer()
        to.produce(SHARED_TOPIC, b"to the last", partition=5, on_delivery=lambda error, message: placed.append(
            -1 if error else message.offset()))
        to.flush(WAIT_SECONDS_MAX)
        equal("offset in a partition that was added", placed, [0])

    def delete_records() -> None:
        until = TopicPartition(TOPIC, 0, 10)
        deleted = admin.delete_records([until], **seconds)[until].result(WAIT_SECONDS_MAX)
        equal("low watermark", deleted.low_watermark, 10)
        # ListOffsets sends the leader epoch that librdkafka has cached, here from before the kill.
        admin.list_topics(TOPIC, WAIT_SECONDS_MAX)
        earliest = admin.list_offsets({until: OffsetSpec.earliest()})[until].result(WAIT_SECONDS_MAX)
        equal("earliest", earliest.offset, 10)

    def group_offsets() -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        found = admin.list_consumer_group_offsets(asked, **seconds)[group].result(WAIT_SECONDS_MAX)
        return {p.partition: p.offset for p in found.topic_partitions}

    def list_group_offsets() -> None:
        equal("offsets of the group", group_offsets(), {0: 150, 1: 150, 2: 150})

    def alter_group_offsets() -> None:
        changed = ConsumerGroupTopicPartitions(group, [TopicPartition(KILL_TOPIC, 1, 7)])
        answer = admin.alter_consumer_group_offsets([changed], **seconds)[group].result(WAIT_SECONDS_MAX)
        check(answer.topic_partitions[0].error is None, f"{answer.topic_partitions[0].error}")
        equal("offsets of the group", group_offsets(), {0: 150, 1: 7, 2: 150})

    def delete_group() -> None:
        admin.delete_consumer_groups([group], **seconds)[group].result(WAIT_SECONDS_MAX)
        found = admin.list_consumer_groups(**seconds).result(WAIT_SECONDS_MAX)
        check(group not in [each.group_id for each in found.valid], "the deleted group is listed")
        asked = [TopicPartition(KILL_TOPIC, 0)]
        consumer = Consumer(CLIENT | {"group.id": group})
        equal("its offset", consumer.committed(asked, WAIT_SECONDS_MAX)[0].offset, OFFSET_INVALID)
        consumer.close()

    def delete_used_group() -> None:
        try:
            admin.delete_consumer_groups([f"{PREFIX}-live"], **seconds)[f"{PREFIX}-live"].result(WAIT_SECONDS_MAX)
        except KafkaException as refused:
            equal("the refusal", refused.args[0].code(), KafkaError.NON_EMPTY_GROUP)
        else:
            raise AssertionError("a group with a member was deleted")

    def delete_topic() -> None:
        admin.delete_topics([TIMES_TOPIC], **seconds)[TIMES_TOPIC].result(WAIT_SECONDS_MAX)
        for _ in turns("a deleted topic is gone"):
            if TIMES_TOPIC not in admin.list_topics(timeout=WAIT_SECONDS_MAX).topics:
                break

    chores.do("describe cluster", describe_cluster)
    chores.do("list groups", list_groups)
    chores.do("describe groups", describe_groups)
    chores.do("describe topic configs", describe_topic_configs)
    chores.do("describe node configs", describe_node_configs)
    chores.do("incremental alter configs", incremental_alter_configs)
    chores.do("alter configs", alter_configs)
    chores.do("create partitions", create_partitions)
    chores.do("delete records", delete_records)
    chores.do("list group offsets", list_group_offsets)
    chores.do("alter group offsets", alter_group_offsets)
    chores.do("refuse to delete a group in use", delete_used_group)
    live.close()
    chores.do("delete group", delete_group)
    chores.do("delete topic", delete_topic)
    chores.lacks("delete group offsets")
    return chores.detail()


def main() -> None:
    day = Day()
    day.step("connect", connect)
    day.step("create-topic", create_topic)
    day.step("produce", produce)
    day.step("idempotent", idempotent)
    day.step("consume", consume)
    day.step("rebalance", rebalance)
    day.step("static-member", static_member)
    day.step("incremental-assign", incremental_assign)
    day.step("consumer-protocol", consumer_protocol)
    day.step("commit", commit)
    day.step("kill-9", kill_9)
    day.step("offsets", offsets)
    day.step("admin", administer)
    day.end()


main()
