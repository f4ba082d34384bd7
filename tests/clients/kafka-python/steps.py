"""A day of kafka-python: one configuration as its users have it, and every step of the matrix."""

import queue
import threading
from collections.abc import Iterator

from kafka import (
    ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition,
)
from kafka.admin import ConfigResource, OffsetSpec
from kafka.consumer.fetcher import ConsumerRecord
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from day import (
    BOOTSTRAP, GROUP, KILL_TOPIC, NODES, PARTITIONS, PREFIX, SHARED_TOPIC, TIMES_TOPIC, TOPIC, WAIT_SECONDS_MAX,
    Account, Chores, Day, Record, check, equal, records, turns,
)

CODECS = ["gzip", "snappy", "lz4", "zstd"]

CLIENT = {"bootstrap_servers": BOOTSTRAP, "client_id": PREFIX}
admin = KafkaAdminClient(**CLIENT)
sent = Account()


def producer(**settings: object) -> KafkaProducer:
    return KafkaProducer(**CLIENT | {"acks": "all", "enable_idempotence": False} | settings)


def member(
    group: str, topic: str, listener: ConsumerRebalanceListener | None = None, **settings: object
) -> KafkaConsumer:
    own = {"group_id": group, "auto_offset_reset": "earliest", "session_timeout_ms": 10000}
    consumer = KafkaConsumer(**CLIENT | own | settings)
    consumer.subscribe([topic], listener=listener)
    return consumer


def create(topic: str, partitions: int = PARTITIONS) -> None:
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})


def made(label: str, count: int) -> list[Record]:
    # A header without a value is refused by the client itself.
    return records(label, count, null_headers=False)


def send(to: KafkaProducer, topic: str, account: Account, batch: list[Record]) -> None:
    """Produces to all partitions in turn and waits until each record is acknowledged."""
    settle(account, enqueue(to, topic, batch))


def enqueue(to: KafkaProducer, topic: str, batch: list[Record]) -> list[tuple[Record, object]]:
    return [
        (record, to.send(topic, record.value, record.key, list(record.headers), partition=n % PARTITIONS))
        for n, record in enumerate(batch)
    ]


def settle(account: Account, futures: list[tuple[Record, object]]) -> None:
    for record, future in futures:
        acknowledged = future.get(WAIT_SECONDS_MAX)
        account.acknowledge(acknowledged.partition, acknowledged.offset, record)


def poll(consumer: KafkaConsumer) -> Iterator[ConsumerRecord]:
    for batch in consumer.poll(timeout_ms=200).values():
        yield from batch


def record_of(message: ConsumerRecord) -> Record:
    return Record(message.key, message.value, tuple(message.headers))


def partitions(consumer: KafkaConsumer) -> set[int]:
    return {assigned.partition for assigned in consumer.assignment()}


def read_all(what: str, consumer: KafkaConsumer, account: Account) -> int:
    reading = account.read()
    for _ in turns(what):
        quiet = True
        for message in poll(consumer):
            quiet = False
            reading.add(message.partition, message.offset, record_of(message))
        if quiet and reading.complete():
            break
    consumer.close()
    return len(reading.seen)


def connect() -> str:
    found = admin.describe_cluster()
    nodes = [each["broker_id"] for each in found["brokers"]]
    equal("nodes", len(nodes), NODES)
    check(found["controller_id"] in nodes, f"controller {found['controller_id']} is none of {nodes}")
    return f"{NODES} nodes, controller {found['controller_id']}"


def create_topic() -> None:
    create(TOPIC)
    [found] = admin.describe_topics([TOPIC])
    equal("partitions", sorted(each["partition_index"] for each in found["partitions"]), list(range(PARTITIONS)))


def produce() -> str:
    to = producer()
    send(to, TOPIC, sent, made("plain", 300))
    to.close()
    for codec in CODECS:
        to = producer(compression_type=codec, linger_ms=50)
        send(to, TOPIC, sent, made(codec, 60))
        to.close()
    return ", ".join(CODECS)


def idempotent() -> None:
    to = producer(enable_idempotence=True)
    send(to, TOPIC, sent, made("idempotent", 100))
    to.close()


def consume() -> str:
    return f"{read_all('reading everything back', member(GROUP, TOPIC), sent)} records"


class Member(threading.Thread):
    """A member of a group that is polled in a thread of its own, as beside others each in its process.

    Two in one thread, polled in turn for a moment each, do not get along: the client drops an answer to JoinGroup
    that comes while it is not polled, and joins again.
    """

    def __init__(self, group: str, topic: str, listener: ConsumerRebalanceListener | None = None, **settings: object):
        super().__init__(daemon=True)
        self.consumer = member(group, topic, listener, **settings)
        self.assigned: frozenset[int] = frozenset()
        self.came: queue.Queue[ConsumerRecord | Exception] = queue.Queue()
        self.leaving = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                for message in poll(self.consumer):
                    self.came.put(message)
                self.assigned = frozenset(partitions(self.consumer))
            self.consumer.close()
        except Exception as error:
            self.came.put(error)

    def messages(self) -> Iterator[ConsumerRecord]:
        """What came since, after a short wait for it."""
        try:
            while True:
                message = self.came.get(timeout=0.1)
                if isinstance(message, Exception):
                    raise message
                yield message
        except queue.Empty:
            pass

    def leave(self) -> None:
        self.leaving.set()
        self.join(WAIT_SECONDS_MAX)
        check(not self.is_alive(), "the member does not leave")
        equal("what came at the end", list(self.messages()), [])


def shared_out(members: list[Member]) -> bool:
    """Whether each member has partitions, no two the same, and together all."""
    assigned = [each.assigned for each in members]
    return all(assigned) and sorted(partition for each in assigned for partition in each) == [0, 1, 2]


def await_shared_out(members: list[Member]) -> None:
    for _ in turns(f"{len(members)} members have all partitions"):
        equal("what came", [message for each in members for message in each.messages()], [])
        if shared_out(members):
            break


def rebalance() -> None:
    create(SHARED_TOPIC)
    group, to, account = f"{PREFIX}-shared", producer(), Account()
    first = Member(group, SHARED_TOPIC)
    await_shared_out([first])
    second = Member(group, SHARED_TOPIC)
    await_shared_out([first, second])
    reading = account.read()

    def read(what: str, members: list[Member]) -> None:
        for _ in turns(what):
            quiet = True
            for each in members:
                for message in each.messages():
                    quiet = False
                    check(message.partition in each.assigned, "read a partition of the other member")
                    reading.add(message.partition, message.offset, record_of(message), each)
            if quiet and reading.complete():
                break

    send(to, SHARED_TOPIC, account, made("shared", 90))
    read("both members read what was produced", [first, second])
    second.leave()
    await_shared_out([first])
    send(to, SHARED_TOPIC, account, made("alone", 90))
    read("the first member reads all partitions", [first])
    first.leave()
    to.close()


class Revoked(ConsumerRebalanceListener):
    """Notes the partitions that are taken away."""

    def __init__(self) -> None:
        self.partitions: list[int] = []

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.partitions.extend(each.partition for each in revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


def static_member() -> str:
    """A member with a group.instance.id is away for a moment: same partitions, no rebalance for the other."""
    group, revoked, latest = f"{PREFIX}-static", Revoked(), {"auto_offset_reset": "latest"}
    steady = Member(group, SHARED_TOPIC, revoked, group_instance_id="steady", **latest)
    away = Member(group, SHARED_TOPIC, group_instance_id="away", **latest)
    await_shared_out([steady, away])
    had, kept = away.assigned, steady.assigned
    revoked.partitions.clear()
    away.leave()
    away = Member(group, SHARED_TOPIC, group_instance_id="away", **latest)
    await_shared_out([steady, away])
    equal("partitions of the member that was away", away.assigned, had)
    equal("partitions of the other", steady.assigned, kept)
    equal("partitions that were revoked from the other", revoked.partitions, [])
    steady.leave()
    away.leave()
    return "back with the same partitions, no rebalance"


def incremental_assign() -> str:
    """Cooperative rebalancing: the first member keeps the partitions that it need not give away."""
    group, revoked = f"{PREFIX}-cooperative", Revoked()
    cooperative = {"partition_assignment_strategy": [CooperativeStickyAssignor], "auto_offset_reset": "latest"}
    first = Member(group, SHARED_TOPIC, revoked, **cooperative)
    await_shared_out([first])
    second = Member(group, SHARED_TOPIC, **cooperative)
    await_shared_out([first, second])
    given = sorted(revoked.partitions)
    equal("partitions that were revoked", given, sorted(second.assigned))
    second.leave()
    await_shared_out([first])
    first.leave()
    return f"cooperative-sticky, {len(given)} of 3 revoked"


def commit() -> None:
    group, offsets = f"{PREFIX}-commit", {0: 50, 1: 20, 2: 30}
    consumer = member(group, TOPIC, enable_auto_commit=False)
    for _ in turns("a member that reads"):
        if list(poll(consumer)):
            break
    consumer.commit({
        TopicPartition(TOPIC, partition): OffsetAndMetadata(offset, f"at {offset}", -1)
        for partition, offset in offsets.items()
    })
    consumer.close()
    consumer = member(group, TOPIC, enable_auto_commit=False)
    found = {partition: consumer.committed(TopicPartition(TOPIC, partition), metadata=True) for partition in offsets}
    equal("committed", {partition: (kept.offset, kept.metadata) for partition, kept in found.items()},
          {partition: (offset, f"at {offset}") for partition, offset in offsets.items()})
    first: dict[int, int] = {}
    for _ in turns("a record of each partition"):
        for message in poll(consumer):
            first.setdefault(message.partition, message.offset)
        if len(first) == PARTITIONS:
            break
    equal("first offsets of the new member", first, offsets)
    consumer.close()


def kill_9() -> str:
    create(KILL_TOPIC)
    account, to = Account(), producer(enable_idempotence=True)
    consumer = member(f"{PREFIX}-kill", KILL_TOPIC, enable_auto_commit=False)
    reading = account.read()

    def read(what: str) -> None:
        for _ in turns(what):
            quiet = True
            for message in poll(consumer):
                quiet = False
                reading.add(message.partition, message.offset, record_of(message))
            if quiet and reading.complete():
                break

    send(to, KILL_TOPIC, account, made("before", 150))
    read("reading before the kill")
    consumer.commit()
    ends = account.ends()
    during = enqueue(to, KILL_TOPIC, made("during", 150))
    Day.kill()
    settle(account, during)
    send(to, KILL_TOPIC, account, made("after", 150))
    equal("acknowledged", len(account.sent), 450)
    read("reading on after the kill")
    kept = {partition: consumer.committed(TopicPartition(KILL_TOPIC, partition)) for partition in ends}
    equal("commits made before", kept, ends)
    consumer.commit()
    consumer.close()
    to.close()
    read_all("reading what was acknowledged hours before", member(f"{PREFIX}-again", TOPIC), sent)
    return f"{len(account.sent)} records through the kill, each read once"


def offsets() -> None:
    create(TIMES_TOPIC, 1)
    to, began = producer(), 1_700_000_000_000
    for future in [to.send(TIMES_TOPIC, str(n).encode(), timestamp_ms=began + n * 1000) for n in range(10)]:
        future.get(WAIT_SECONDS_MAX)
    to.close()
    there = TopicPartition(TIMES_TOPIC, 0)
    consumer = KafkaConsumer(**CLIENT)
    equal("earliest", consumer.beginning_offsets([there]), {there: 0})
    equal("latest", consumer.end_offsets([there]), {there: 10})
    equal("at a timestamp", consumer.offsets_for_times({there: began + 5000})[there].offset, 5)
    equal("between two timestamps", consumer.offsets_for_times({there: began + 5001})[there].offset, 6)
    equal("beyond the last timestamp", consumer.offsets_for_times({there: began + 9001})[there], None)
    consumer.close()

    def listed(spec: OffsetSpec | int) -> int:
        return admin.list_partition_offsets({there: spec})[there].offset

    equal("earliest by the admin client", listed(OffsetSpec.EARLIEST), 0)
    equal("latest by the admin client", listed(OffsetSpec.LATEST), 10)
    equal("max timestamp", listed(OffsetSpec.MAX_TIMESTAMP), 9)
    equal("at a timestamp by the admin client", listed(began + 5000), 5)


def administer() -> str:
    chores, group = Chores(), f"{PREFIX}-kill"
    live = member(f"{PREFIX}-live", TOPIC)
    for _ in turns("a live member"):
        list(poll(live))
        if partitions(live):
            break

    def describe_cluster() -> None:
        check(bool(admin.describe_cluster()["cluster_id"]), "no cluster id")

    def listed_groups() -> dict[str, str]:
        found = admin.list_groups()
        states = {each["group_id"]: each["group_state"] for each in found}
        equal("groups listed twice", len(found) - len(states), 0)
        return states

    def list_groups() -> None:
        states = listed_groups()
        equal("state of a group that is used", states.get(f"{PREFIX}-live"), "Stable")
        equal("state of a group without members", states.get(group), "Empty")

    def describe_groups() -> None:
        found = admin.describe_groups([f"{PREFIX}-live"])[f"{PREFIX}-live"]
        equal("state", found["group_state"], "Stable")
        [only] = found["members"]
        equal("client id", only["client_id"], PREFIX)

    def configs(kind: str, name: str) -> dict[str, dict]:
        resource = ConfigResource(kind, name)
        return admin.describe_configs([resource], config_filter="all")[kind.lower()][name]

    def describe_topic_configs() -> None:
        found = configs("TOPIC", TOPIC)
        for name in ("retention.ms", "cleanup.policy", "max.message.bytes"):
            check(name in found, f"no {name} in {sorted(found)}")

    def describe_node_configs() -> None:
        node = str(admin.describe_cluster()["controller_id"])
        check(bool(configs("BROKER", node)), "the node has no settings")

    def alter_configs(incremental: bool, value: str) -> None:
        admin.alter_configs([ConfigResource("TOPIC", TOPIC, {"retention.ms": value})], incremental=incremental)
        equal("retention.ms", configs("TOPIC", TOPIC)["retention.ms"]["value"], value)

    def create_partitions() -> None:
        admin.create_partitions({SHARED_TOPIC: 6})
        for _ in turns("six partitions in the metadata"):
            [found] = admin.describe_topics([SHARED_TOPIC])
            if len(found["partitions"]) == 6:
                break
        to = producer()
        placed = to.send(SHARED_TOPIC, b"to the last", partition=5).get(WAIT_SECONDS_MAX)
        equal("offset in a partition that was added", placed.offset, 0)
        to.close()

    def delete_records() -> None:
        until = TopicPartition(TOPIC, 0)
        equal("low watermark", admin.delete_records({until: 10})[until]["low_watermark"], 10)
        earliest = admin.list_partition_offsets({until: OffsetSpec.EARLIEST})[until].offset
        equal("earliest", earliest, 10)

    def group_offsets() -> dict[int, int]:
        return {at.partition: kept.offset for at, kept in admin.list_group_offsets(group)[group].items()}

    def list_group_offsets() -> None:
        equal("offsets of the group", group_offsets(), {0: 150, 1: 150, 2: 150})

    def alter_group_offsets() -> None:
        changed = TopicPartition(KILL_TOPIC, 1)
        answer = admin.alter_group_offsets(group, {changed: OffsetAndMetadata(7, "", -1)})
        equal("the answer", answer[changed].__name__, "NoError")
        equal("offsets of the group", group_offsets(), {0: 150, 1: 7, 2: 150})

    def delete_group_offsets() -> None:
        gone = TopicPartition(KILL_TOPIC, 2)
        equal("the answer", admin.delete_group_offsets(group, [gone])[gone].__name__, "NoError")
        equal("offsets of the group", group_offsets(), {0: 150, 1: 7})

    def delete_group() -> None:
        equal("the answer", admin.delete_groups([group]), {group: "OK"})
        check(group not in listed_groups(), "the deleted group is listed")
        equal("its offsets", group_offsets(), {})

    def delete_topic() -> None:
        admin.delete_topics([TIMES_TOPIC])
        for _ in turns("a deleted topic is gone"):
            if TIMES_TOPIC not in admin.list_topics():
                break

    chores.do("describe cluster", describe_cluster)
    chores.do("list groups", list_groups)
    chores.do("describe groups", describe_groups)
    chores.do("describe topic configs", describe_topic_configs)
    chores.do("describe node configs", describe_node_configs)
    chores.do("incremental alter configs", lambda: alter_configs(True, "3600000"))
    chores.do("alter configs", lambda: alter_configs(False, "7200000"))
    chores.do("create partitions", create_partitions)
    chores.do("delete records", delete_records)
    chores.do("list group offsets", list_group_offsets)
    chores.do("alter group offsets", alter_group_offsets)
    chores.do("delete group offsets", delete_group_offsets)
    live.close()
    chores.do("delete group", delete_group)
    chores.do("delete topic", delete_topic)
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
    day.step("commit", commit)
    day.step("kill-9", kill_9)
    day.step("offsets", offsets)
    day.step("admin", administer)
    day.end()


main()
