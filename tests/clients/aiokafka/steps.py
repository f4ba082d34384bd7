"""A day of aiokafka: one configuration as its users have it, and every step of the matrix."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from day import (
    BOOTSTRAP, GROUP, KILL_TOPIC, NODES, PARTITIONS, PREFIX, SHARED_TOPIC, TIMES_TOPIC, TOPIC, WAIT_SECONDS_MAX,
    Account, Chores, Day, Record, check, equal, records, turns,
)

CODECS = ["gzip", "snappy", "lz4", "zstd"]

CLIENT = {"bootstrap_servers": BOOTSTRAP, "client_id": PREFIX}
sent = Account()


async def producer(**settings: object) -> AIOKafkaProducer:
    to = AIOKafkaProducer(**CLIENT | {"acks": "all"} | settings)
    await to.start()
    return to


async def member(group: str, topic: str, **settings: object) -> AIOKafkaConsumer:
    own = {"group_id": group, "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(topic, **CLIENT | own | settings)
    await consumer.start()
    return consumer


@contextlib.asynccontextmanager
async def administrator() -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client for a while."""
    admin = AIOKafkaAdminClient(**CLIENT)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create(topic: str, partitions: int = PARTITIONS) -> None:
    async with administrator() as admin:
        answer = await admin.create_topics([NewTopic(topic, partitions, 1)])
        equal("the answer", [error[:2] for error in answer.topic_errors], [(topic, 0)])


async def send(to: AIOKafkaProducer, topic: str, account: Account, batch: list[Record]) -> None:
    """Produces to all partitions in turn and waits until each record is acknowledged."""
    await settle(account, await enqueue(to, topic, batch))


async def enqueue(to: AIOKafkaProducer, topic: str, batch: list[Record]) -> list[tuple[Record, Awaitable]]:
    return [
        (record, await to.send(topic, record.value, record.key, n % PARTITIONS, headers=list(record.headers)))
        for n, record in enumerate(batch)
    ]


async def settle(account: Account, futures: list[tuple[Record, Awaitable]]) -> None:
    for record, future in futures:
        acknowledged = await asyncio.wait_for(future, WAIT_SECONDS_MAX)
        account.acknowledge(acknowledged.partition, acknowledged.offset, record)


async def poll(consumer: AIOKafkaConsumer) -> list[ConsumerRecord]:
    return [message for batch in (await consumer.getmany(timeout_ms=200)).values() for message in batch]


def record_of(message: ConsumerRecord) -> Record:
    return Record(message.key, message.value, tuple(message.headers))


def partitions(consumer: AIOKafkaConsumer) -> set[int]:
    return {assigned.partition for assigned in consumer.assignment()}


async def read_all(what: str, consumer: AIOKafkaConsumer, account: Account) -> int:
    reading = account.read()
    for _ in turns(what):
        came = await poll(consumer)
        for message in came:
            reading.add(message.partition, message.offset, record_of(message))
        if not came and reading.complete():
            break
    await consumer.stop()
    return len(reading.seen)


async def connect() -> str:
    async with administrator() as admin:
        found = await admin.describe_cluster()
    nodes = [each["node_id"] for each in found["brokers"]]
    equal("nodes", len(nodes), NODES)
    check(found["controller_id"] in nodes, f"controller {found['controller_id']} is none of {nodes}")
    return f"{NODES} nodes, controller {found['controller_id']}"


async def create_topic() -> None:
    await create(TOPIC)
    async with administrator() as admin:
        [found] = await admin.describe_topics([TOPIC])
    equal("partitions", sorted(each["partition"] for each in found["partitions"]), list(range(PARTITIONS)))


async def produce() -> str:
    to = await producer()
    await send(to, TOPIC, sent, records("plain", 300))
    await to.stop()
    for codec in CODECS:
        to = await producer(compression_type=codec, linger_ms=50)
        await send(to, TOPIC, sent, records(codec, 60))
        await to.stop()
    return ", ".join(CODECS)


async def idempotent() -> None:
    to = await producer(enable_idempotence=True)
    await send(to, TOPIC, sent, records("idempotent", 100))
    await to.stop()


async def consume() -> str:
    return f"{await read_all('reading everything back', await member(GROUP, TOPIC), sent)} records"


async def await_shared_out(members: list[AIOKafkaConsumer]) -> None:
    """Until each member has partitions, no two the same, and together all; nothing may come meanwhile."""
    for _ in turns(f"{len(members)} members have all partitions"):
        equal("what came", [message for each in members for message in await poll(each)], [])
        assigned = [partitions(each) for each in members]
        if all(assigned) and sorted(partition for each in assigned for partition in each) == [0, 1, 2]:
            break


async def rebalance() -> None:
    await create(SHARED_TOPIC)
    group, to, account = f"{PREFIX}-shared", await producer(), Account()
    first = await member(group, SHARED_TOPIC)
    await await_shared_out([first])
    second = await member(group, SHARED_TOPIC)
    await await_shared_out([first, second])
    reading = account.read()

    async def read(what: str, members: list[AIOKafkaConsumer]) -> None:
        for _ in turns(what):
            quiet = True
            for consumer in members:
                for message in await poll(consumer):
                    quiet = False
                    check(message.partition in partitions(consumer), "read a partition of the other member")
                    reading.add(message.partition, message.offset, record_of(message), consumer)
            if quiet and reading.complete():
                break

    await send(to, SHARED_TOPIC, account, records("shared", 90))
    await read("both members read what was produced", [first, second])
    await second.stop()
    await await_shared_out([first])
    await send(to, SHARED_TOPIC, account, records("alone", 90))
    await read("the first member reads all partitions", [first])
    await first.stop()
    await to.stop()


async def static_member() -> str:
    """A member with a group.instance.id is away for a moment and gets the same partitions again."""
    group, latest = f"{PREFIX}-static", {"auto_offset_reset": "latest"}
    steady, away = await asyncio.gather(
        member(group, SHARED_TOPIC, group_instance_id="steady", **latest),
        member(group, SHARED_TOPIC, group_instance_id="away", **latest),
    )
    await await_shared_out([steady, away])
    had, kept = partitions(away), partitions(steady)
    await away.stop()
    away = await member(group, SHARED_TOPIC, group_instance_id="away", **latest)
    await await_shared_out([steady, away])
    equal("partitions of the member that was away", partitions(away), had)
    equal("partitions of the other", partitions(steady), kept)
    await steady.stop()
    await away.stop()
    return "back with the same partitions"


async def commit() -> None:
    group, offsets = f"{PREFIX}-commit", {0: 50, 1: 20, 2: 30}
    consumer = await member(group, TOPIC, enable_auto_commit=False)
    for _ in turns("a member that reads"):
        if await poll(consumer):
            break
    await consumer.commit({TopicPartition(TOPIC, at): (offset, f"at {offset}") for at, offset in offsets.items()})
    await consumer.stop()
    consumer = await member(group, TOPIC, enable_auto_commit=False)
    found = {at: await consumer.committed(TopicPartition(TOPIC, at)) for at in offsets}
    equal("committed", found, offsets)
    first: dict[int, int] = {}
    for _ in turns("a record of each partition"):
        for message in await poll(consumer):
            first.setdefault(message.partition, message.offset)
        if len(first) == PARTITIONS:
            break
    equal("first offsets of the new member", first, offsets)
    await consumer.stop()
    async with administrator() as admin:
        kept = await admin.list_consumer_group_offsets(group)
    equal("with their metadata", {at.partition: value.metadata for at, value in kept.items()},
          {at: f"at {offset}" for at, offset in offsets.items()})


async def kill_9() -> str:
    await create(KILL_TOPIC)
    account, to = Account(), await producer(enable_idempotence=True)
    consumer = await member(f"{PREFIX}-kill", KILL_TOPIC, enable_auto_commit=False)
    reading = account.read()

    async def read(what: str) -> None:
        for _ in turns(what):
            came = await poll(consumer)
            for message in came:
                reading.add(message.partition, message.offset, record_of(message))
            if not came and reading.complete():
                break

    await send(to, KILL_TOPIC, account, records("before", 150))
    await read("reading before the kill")
    await consumer.commit()
    ends = account.ends()
    during = await enqueue(to, KILL_TOPIC, records("during", 150))
    await asyncio.to_thread(Day.kill)
    await settle(account, during)
    await send(to, KILL_TOPIC, account, records("after", 150))
    equal("acknowledged", len(account.sent), 450)
    await read("reading on after the kill")
    kept = {partition: await consumer.committed(TopicPartition(KILL_TOPIC, partition)) for partition in ends}
    equal("commits made before", kept, ends)
    await consumer.commit()
    await consumer.stop()
    await to.stop()
    await read_all("reading what was acknowledged hours before", await member(f"{PREFIX}-again", TOPIC), sent)
    return f"{len(account.sent)} records through the kill, each read once"


async def offsets() -> None:
    await create(TIMES_TOPIC, 1)
    to, began = await producer(), 1_700_000_000_000
    for n in range(10):
        await to.send_and_wait(TIMES_TOPIC, str(n).encode(), timestamp_ms=began + n * 1000)
    await to.stop()
    there = TopicPartition(TIMES_TOPIC, 0)
    consumer = AIOKafkaConsumer(**CLIENT)
    await consumer.start()
    equal("earliest", await consumer.beginning_offsets([there]), {there: 0})
    equal("latest", await consumer.end_offsets([there]), {there: 10})
    equal("at a timestamp", (await consumer.offsets_for_times({there: began + 5000}))[there].offset, 5)
    equal("between two timestamps", (await consumer.offsets_for_times({there: began + 5001}))[there].offset, 6)
    equal("beyond the last timestamp", (await consumer.offsets_for_times({there: began + 9001}))[there], None)
    await consumer.stop()


async def administer() -> str:
    chores, group = Chores(), f"{PREFIX}-kill"

    async def do(name: str, work: Callable[[AIOKafkaAdminClient], Coroutine]) -> None:
        try:
            await asyncio.wait_for(work(admin), WAIT_SECONDS_MAX)
        except Exception as error:
            chores.note_failure(name, error)
        else:
            chores.done.append(name)

    async def describe_cluster(admin: AIOKafkaAdminClient) -> None:
        check(bool((await admin.describe_cluster())["cluster_id"]), "no cluster id")

    async def list_groups(admin: AIOKafkaAdminClient) -> None:
        found = [each[0] for each in await admin.list_consumer_groups()]
        for name in (group, f"{PREFIX}-live"):
            equal(f"times that {name} is listed", found.count(name), 1)

    async def describe_groups(admin: AIOKafkaAdminClient) -> None:
        [answer] = await admin.describe_consumer_groups([f"{PREFIX}-live"])
        [found] = answer.to_object()["groups"]
        equal("error and state", (found["error_code"], found["state"]), (0, "Stable"))
        equal("members' client ids", [each["client_id"] for each in found["members"]], [PREFIX])

    async def configs(admin: AIOKafkaAdminClient, kind: ConfigResourceType, name: str) -> dict[str, str | None]:
        [answer] = await admin.describe_configs([ConfigResource(kind, name)])
        [(code, message, _, _, entries)] = answer.resources
        equal("error", (code, message or ""), (0, ""))
        return {entry[0]: entry[1] for entry in entries}

    async def describe_topic_configs(admin: AIOKafkaAdminClient) -> None:
        found = await configs(admin, ConfigResourceType.TOPIC, TOPIC)
        for name in ("retention.ms", "cleanup.policy", "max.message.bytes"):
            check(name in found, f"no {name} in {sorted(found)}")

    async def describe_node_configs(admin: AIOKafkaAdminClient) -> None:
        node = (await admin.describe_cluster())["controller_id"]
        check(bool(await configs(admin, ConfigResourceType.BROKER, str(node))), "the node has no settings")

    async def alter_configs(admin: AIOKafkaAdminClient) -> None:
        change = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "3600000"})
        [answer] = await admin.alter_configs([change])
        equal("errors", [each[0] for each in answer.resources], [0])
        equal("retention.ms", (await configs(admin, ConfigResourceType.TOPIC, TOPIC))["retention.ms"], "3600000")

    async def create_partitions(admin: AIOKafkaAdminClient) -> None:
        await admin.create_partitions({SHARED_TOPIC: NewPartitions(6)})
        for _ in turns("six partitions in the metadata"):
            [found] = await admin.describe_topics([SHARED_TOPIC])
            if len(found["partitions"]) == 6:
                break
        to = await producer()
        placed = await to.send_and_wait(SHARED_TOPIC, b"to the last", partition=5)
        equal("offset in a partition that was added", placed.offset, 0)
        await to.stop()

    async def delete_records(admin: AIOKafkaAdminClient) -> None:
        until = TopicPartition(TOPIC, 0)
        equal("low watermarks", await admin.delete_records({until: RecordsToDelete(10)}), {until: 10})
        equal("earliest", await live.beginning_offsets([until]), {until: 10})

    async def list_group_offsets(admin: AIOKafkaAdminClient) -> None:
        found = await admin.list_consumer_group_offsets(group)
        equal("offsets of the group", {at.partition: kept.offset for at, kept in found.items()},
              {0: 150, 1: 150, 2: 150})

    async def delete_topic(admin: AIOKafkaAdminClient) -> None:
        answer = await admin.delete_topics([TIMES_TOPIC])
        equal("the answer", [error[:2] for error in answer.topic_error_codes], [(TIMES_TOPIC, 0)])
        for _ in turns("a deleted topic is gone"):
            if TIMES_TOPIC not in await admin.list_topics():
                break

    live = await member(f"{PREFIX}-live", TOPIC)
    for _ in turns("a live member"):
        if await poll(live):
            break
    async with administrator() as admin:
        await do("describe cluster", describe_cluster)
        await do("list groups", list_groups)
        await do("describe groups", describe_groups)
        await do("describe topic configs", describe_topic_configs)
        await do("describe node configs", describe_node_configs)
        await do("alter configs", alter_configs)
        await do("create partitions", create_partitions)
        await do("delete records", delete_records)
        await do("list group offsets", list_group_offsets)
        await do("delete topic", delete_topic)
    await live.stop()
    chores.lacks("incremental alter configs", "alter group offsets", "delete group offsets", "delete group")
    return chores.detail()


def main() -> None:
    day = Day()

    def step(name: str, work: Callable[[], Coroutine]) -> None:
        day.step(name, lambda: asyncio.run(work()))

    step("connect", connect)
    step("create-topic", create_topic)
    step("produce", produce)
    step("idempotent", idempotent)
    step("consume", consume)
    step("rebalance", rebalance)
    step("static-member", static_member)
    step("commit", commit)
    step("kill-9", kill_9)
    step("offsets", offsets)
    step("admin", administer)
    day.end()


main()
