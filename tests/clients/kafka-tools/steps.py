"""A day of the command line tools of Apache Kafka: the steps of the matrix by whatever tool does them, and the tools
that no step needs."""

import json
import pathlib
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable

from day import (
    GROUP, KILL_TOPIC, NODES, PARTITIONS, PREFIX, SHARED_TOPIC, TIMES_TOPIC, TOPIC, Account, Day, Record, check,
    equal, turns,
)
from tool import Member, Running, archive_classes, run, table, until_partitions

CODECS = ["gzip", "snappy", "lz4", "zstd"]
NULL = "<null>"
KILL_GROUP = f"{PREFIX}-kill"
SHARED_GROUP = f"{PREFIX}-shared"
home = pathlib.Path(tempfile.mkdtemp(prefix="kafka-tools-"))
lines_sent: list[str] = []


def create(topic: str, partitions: int = PARTITIONS) -> None:
    run("kafka-topics", "--create", "--topic", topic, "--partitions", partitions)


def lines(label: str, count: int) -> list[str]:
    """Records as the console producer reads and the console consumer prints them: headers, key and value."""
    made = []
    for n in range(count):
        headers, key, value = f"n:{n},label:{label}", f"{label}-key-{n}", f"{label}-{n}"
        match n % 10:
            case 1:
                key = NULL
            case 2:
                value = ""
            case 3:
                value = NULL
            case 4:
                headers = "again:1,other:ö,again:2,again:1"
            case 5:
                key = ""
            case 6:
                headers = NULL
            case 7:
                headers = "empty:,ключ:значение"
            case 8:
                headers = f"null:{NULL}"
        made.append(f"{headers}\t{key}\t{value}")
    return made


def send(batch: list[str], *arguments: object) -> None:
    parse = ["parse.key=true", "parse.headers=true", f"null.marker={NULL}"]
    properties = [word for each in parse for word in ("--reader-property", each)]
    run("kafka-console-producer", "--topic", TOPIC, *arguments, *properties,
        stdin="".join(f"{line}\n" for line in batch))
    lines_sent.extend(batch)


def read_lines(group: str, count: int) -> list[tuple[int, int, str]]:
    """Partition, offset and line of so many records that a console consumer of the group reads."""
    shown = ["key", "headers", "partition", "offset"]
    output = run("kafka-console-consumer", "--topic", TOPIC, "--group", group, "--from-beginning", "--max-messages", count,
                 "--formatter-property", f"null.literal={NULL}",
                 *(word for each in shown for word in ("--formatter-property", f"print.{each}=true")))
    found = re.findall(r"^Partition:(\d+)\tOffset:(\d+)\t(.*)$", output, re.MULTILINE)
    equal("records read", len(found), count)
    return [(int(partition), int(offset), line.replace("NO_HEADERS", NULL, 1)) for partition, offset, line in found]


def check_read(found: list[tuple[int, int, str]]) -> None:
    """Everything once; what one partition has is in the order in which it was sent, at offsets without a hole."""
    read, sent = Counter(line for _, _, line in found), Counter(lines_sent)
    equal("lines that were not read, and that were not sent", (list(sent - read), list(read - sent)), ([], []))
    place = {line: n for n, line in enumerate(lines_sent)}
    for partition in range(PARTITIONS):
        mine = sorted((offset, place[line]) for where, offset, line in found if where == partition)
        equal(f"offsets of partition {partition}", [offset for offset, _ in mine], list(range(len(mine))))
        equal(f"order of partition {partition}", [sent for _, sent in mine], sorted(sent for _, sent in mine))


def group_offsets(group: str) -> dict[int, tuple[int, int]]:
    """Committed offset and lag of each partition of a group."""
    rows = table(run("kafka-consumer-groups", "--describe", "--group", group))
    return {int(row["PARTITION"]): (int(row["CURRENT-OFFSET"]), int(row["LAG"]))
            for row in rows if row["CURRENT-OFFSET"] != "-"}


def verifiable(topic: str, count: int, account: Account, *arguments: object) -> None:
    """Has the verifiable producer send numbers and notes each acknowledgement."""
    output = run("kafka-verifiable-producer", "--topic", topic, "--max-messages", count, *arguments)
    events = [json.loads(line) for line in output.splitlines()]
    for event in events:
        acknowledge(event, account)
    equal("acknowledged", events[-1]["acked"], count)


def acknowledge(event: dict, account: Account) -> None:
    if event["name"] == "producer_send_success":
        account.acknowledge(event["partition"], event["offset"], record(event["key"], event["value"]))


def record(key: str | None, value: str) -> Record:
    return Record(None if key is None else key.encode(), value.encode())


def idempotent_config() -> pathlib.Path:
    file = home / "idempotent.properties"
    file.write_text("enable.idempotence=true\nretries=2147483647\n")
    return file


def connect() -> str:
    rows = table(run("kafka-cluster", "list-endpoints"))
    equal("nodes", len({row["ID"] for row in rows}), NODES)
    return f"{NODES} nodes by kafka-cluster; no tool shows the controller"


def create_topic() -> None:
    create(TOPIC)
    described = run("kafka-topics", "--describe", "--topic", TOPIC)
    equal("partitions", re.findall(r"Partition: (\d)\tLeader: \d+", described), ["0", "1", "2"])


def produce() -> str:
    # Its linger of a second would hold up each of the records that are sent one by one.
    send(lines("plain", 300), "--sync", "--timeout", 0)
    for codec in CODECS:
        send(lines(codec, 60), "--compression-codec", codec)
    return ", ".join(CODECS)


def idempotent() -> None:
    account = Account()
    verifiable(TOPIC, 100, account, "--command-config", idempotent_config(), "--value-prefix", 7, "--repeating-keys", 30)
    equal("acknowledged", len(account.sent), 100)
    lines_sent.extend(f"{NULL}\t{n % 30}\t7.{n}" for n in range(100))


def consume() -> str:
    check_read(read_lines(GROUP, len(lines_sent)))
    offsets = group_offsets(GROUP)
    equal("committed in sum", sum(offset for offset, _ in offsets.values()), len(lines_sent))
    equal("lag", {lag for _, lag in offsets.values()}, {0})
    return f"{len(lines_sent)} records"


def rebalance() -> str:
    create(SHARED_TOPIC)
    account = Account()
    reading = account.read()
    began: list[tuple[Member, int, int, str | None, str]] = []

    def read(what: str, members: list[Member]) -> None:
        for _ in turns(what):
            quiet = not any([member.turn() for member in members])
            while began:
                reader, partition, offset, key, value = began.pop(0)
                reading.add(partition, offset, record(key, value), reader)
            if quiet and reading.complete():
                break

    def take(*read: object) -> None:
        began.append(read)

    first = Member(SHARED_GROUP, SHARED_TOPIC, take)
    until_partitions("the first member has all partitions", [first])
    second = Member(SHARED_GROUP, SHARED_TOPIC, take)
    until_partitions("both members have partitions", [first, second])
    shared = table(run("kafka-consumer-groups", "--describe", "--group", SHARED_GROUP, "--members", "--verbose"))
    equal("partitions of the members", sorted(int(row["#PARTITIONS"]) for row in shared), [1, 2])
    state = run("kafka-consumer-groups", "--describe", "--group", SHARED_GROUP, "--state")
    check(re.search(r"\bStable\s+2\b", state) is not None, f"state of the group: {state}")
    verifiable(SHARED_TOPIC, 90, account, "--repeating-keys", 20)
    read("both members read what was produced", [first, second])
    refusal = run("kafka-consumer-groups", "--delete", "--group", SHARED_GROUP, refused=True)
    check("GroupNotEmptyException" in refusal, f"deleting a group in use: {refusal}")
    second.stop()
    until_partitions("the first member has all partitions back", [first])
    verifiable(SHARED_TOPIC, 90, account, "--repeating-keys", 20)
    read("the first member reads all partitions", [first])
    first.stop()
    return "two verifiable consumers, --members --verbose and --state of their group, --delete refused"


def commit() -> None:
    group, some = f"{PREFIX}-commit", 123
    found = read_lines(group, some)
    offsets = group_offsets(group)
    ends = {p: max(offset for where, offset, _ in found if where == p) + 1 for p in {where for where, _, _ in found}}
    equal("committed", {p: offset for p, (offset, _) in offsets.items() if offset}, ends)
    check_read(found + read_lines(group, len(lines_sent) - some))


def kill_9() -> str:
    create(KILL_TOPIC)
    account, many, read = Account(), 400, {}

    def take(_: Member, partition: int, offset: int, key: str | None, value: str) -> None:
        known = read.setdefault((partition, offset), record(key, value))
        equal(f"partition {partition} offset {offset} read again", record(key, value), known)

    member = Member(KILL_GROUP, KILL_TOPIC, take)
    until_partitions("the consumer has all partitions", [member])
    to = Running("kafka-verifiable-producer", "--topic", KILL_TOPIC, "--max-messages", many, "--throughput", 100,
                 "--command-config", idempotent_config(), "--repeating-keys", 20)
    ended = None

    def turn() -> None:
        nonlocal ended
        while (event := to.event()) is not None:
            check(event["name"] != "producer_send_error", f"the producer: {event}")
            acknowledge(event, account)
            ended = event if event["name"] == "tool_data" else ended
            if ended is None and len(account.sent) % 50 == 0:
                break
        member.turn()

    for _ in turns("records before the kill"):
        turn()
        if len(account.sent) >= 100 and len(read) >= 50:
            break
    before = group_offsets(KILL_GROUP)
    Day.kill()
    after = group_offsets(KILL_GROUP)
    check(all(after.get(p, (0, 0))[0] >= offset for p, (offset, _) in before.items()), f"commits {before} became {after}")
    check(ended is None, "the producer ended before the kill")
    for _ in turns("everything is acknowledged and read"):
        turn()
        if ended is not None and len(read) >= many:
            break
    equal("acknowledged", (ended["acked"], len(account.sent)), (many, many))
    equal("read", read, account.sent)
    member.stop()
    offsets = group_offsets(KILL_GROUP)
    equal("committed", {p: offset for p, (offset, _) in offsets.items()}, account.ends())
    check_read(read_lines(f"{PREFIX}-again", len(lines_sent)))
    return f"{many} records through the kill by kafka-verifiable-producer and -consumer"


def offsets() -> str:
    create(TIMES_TOPIC, 1)
    early, hour = 1_700_000_000_000, 3_600_000
    for created in (early, early + hour):
        verifiable(TIMES_TOPIC, 5, Account(), "--message-create-time", created)

    def listed(time: int) -> int | None:
        output = run("kafka-get-offsets", "--topic", TIMES_TOPIC, "--time", time).strip()
        return int(output.removeprefix(f"{TIMES_TOPIC}:0:") or -1) if output else None

    equal("earliest", listed(-2), 0)
    equal("latest", listed(-1), 10)
    check(listed(-3) in range(5, 10), "max timestamp is in the later half")
    equal("at a timestamp", listed(early), 0)
    equal("between two timestamps", listed(early + hour // 2), 5)
    check(listed(early + 2 * hour) in (None, -1), "beyond the last timestamp")
    return "kafka-get-offsets: earliest, latest, max timestamp, by time"


def api_versions() -> str:
    output = run("kafka-broker-api-versions")
    equal("nodes", len(re.findall(r"^\S+ \(id: \d+ ", output, re.MULTILINE)), NODES)
    usable = re.findall(r"(\w+)\(\d+\): .*\[usable: (\d+)\]", output)
    return f"{len(set(usable))} APIs"


def cluster() -> str:
    output = run("kafka-cluster", "cluster-id")
    check(re.fullmatch(r"Cluster ID: [\w-]{22}", output.strip()) is not None, output)
    return "cluster-id, list-endpoints"


def groups() -> str:
    rows = {row["GROUP"]: row for row in table(run("kafka-groups", "--list"))}
    equal("protocol", rows[GROUP]["PROTOCOL"], "consumer")
    check(KILL_GROUP in rows, f"groups: {sorted(rows)}")
    return "--list"


def consumer_groups() -> str:
    tool, topic = "kafka-consumer-groups", ("--topic", KILL_TOPIC)
    check({GROUP, KILL_GROUP} <= set(run(tool, "--list").split()), "--list lacks groups")
    states = {row["GROUP"]: row["STATE"] for row in table(run(tool, "--list", "--state"))}
    equal("state", states[KILL_GROUP], "Empty")
    before = group_offsets(KILL_GROUP)
    planned = table(run(tool, "--reset-offsets", "--group", KILL_GROUP, *topic, "--to-earliest", "--dry-run"))
    equal("planned", sorted((int(row["PARTITION"]), int(row["NEW-OFFSET"])) for row in planned), [(0, 0), (1, 0), (2, 0)])
    equal("offsets after a dry run", group_offsets(KILL_GROUP), before)
    run(tool, "--reset-offsets", "--group", KILL_GROUP, "--topic", f"{KILL_TOPIC}:1", "--to-offset", 7, "--execute")
    equal("offset after a reset", group_offsets(KILL_GROUP)[1][0], 7)
    run(tool, "--delete-offsets", "--group", KILL_GROUP, "--topic", f"{KILL_TOPIC}:2")
    equal("partitions with an offset", sorted(group_offsets(KILL_GROUP)), [0, 1])
    run(tool, "--delete", "--group", KILL_GROUP)
    check(KILL_GROUP not in run(tool, "--list").split(), "the deleted group is listed")
    return "--list, --state, --describe, --reset-offsets (dry run, execute), --delete-offsets, --delete"


def configs() -> str:
    def topic(*arguments: object) -> str:
        return run("kafka-configs", "--entity-type", "topics", "--entity-name", TOPIC, *arguments)

    topic("--alter", "--add-config", "retention.ms=3600000")
    check("retention.ms=3600000" in topic("--describe"), "retention.ms is not what was set")
    topic("--alter", "--delete-config", "retention.ms")
    check("retention.ms" not in topic("--describe"), "retention.ms is there after it was deleted")
    check("cleanup.policy=delete" in topic("--describe", "--all"), "no cleanup.policy")
    node = table(run("kafka-cluster", "list-endpoints"))[0]["ID"]
    described = run("kafka-configs", "--entity-type", "brokers", "--entity-name", node, "--describe", "--all")
    check(f"broker.id={node}" in described, f"settings of node {node}: {described}")
    return "topics: add, delete, describe; brokers: describe"


def delete_records() -> str:
    file = home / "delete.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "offset": 10}]}))
    check("low_watermark: 10" in run("kafka-delete-records", "--offset-json-file", file), "the low watermark is not 10")
    equal("earliest", run("kafka-get-offsets", "--topic-partitions", f"{TOPIC}:0", "--time", -2).strip(), f"{TOPIC}:0:10")
    return "--offset-json-file"


def perf_test() -> str:
    topic, many = f"{PREFIX}-perf", 20000
    create(topic)
    sent = run("kafka-producer-perf-test", "--topic", topic, "--num-records", many, "--record-size", 100, "--throughput", -1)
    check(f"{many} records sent" in sent, sent)
    read = run("kafka-consumer-perf-test", "--topic", topic, "--num-records", many, "--hide-header")
    check(int(read.split(", ")[4]) == many, read)
    return f"{many} records"


def topics() -> str:
    check({TOPIC, SHARED_TOPIC, KILL_TOPIC} <= set(run("kafka-topics", "--list").split()), "--list lacks topics")
    refusal = run("kafka-topics", "--create", "--topic", TOPIC, refused=True)
    check("TopicExistsException" in refusal, f"creating a topic again: {refusal}")
    run("kafka-topics", "--alter", "--topic", SHARED_TOPIC, "--partitions", 6)
    for _ in turns("six partitions"):
        if "PartitionCount: 6" in run("kafka-topics", "--describe", "--topic", SHARED_TOPIC):
            break
    run("kafka-topics", "--delete", "--topic", TIMES_TOPIC)
    for _ in turns("a deleted topic is gone"):
        if TIMES_TOPIC not in run("kafka-topics", "--list").split():
            break
    return "--list, --create refused, --alter --partitions 6, --describe, --delete"


def main() -> None:
    day = Day()
    archive_classes()
    day.step("connect", connect)
    day.step("create-topic", create_topic)
    day.step("produce", produce)
    day.step("idempotent", idempotent)
    day.step("consume", consume)
    day.step("rebalance", rebalance)
    day.step("commit", commit)
    day.step("kill-9", kill_9)
    day.step("offsets", offsets)
    day.step("perf-test", perf_test)
    tools: dict[str, Callable[[], str]] = {
        "kafka-broker-api-versions": api_versions,
        "kafka-cluster": cluster,
        "kafka-groups": groups,
        "kafka-consumer-groups": consumer_groups,
        "kafka-configs": configs,
        "kafka-delete-records": delete_records,
        "kafka-topics": topics,
    }
    went_well: list[str] = []

    def noted(name: str) -> str:
        detail = tools[name]()
        went_well.append(name)
        return detail

    for name in tools:
        day.step(name, lambda name=name: noted(name))

    def admin() -> str:
        equal("tools that did their work", went_well, list(tools))
        return "the tools above"

    day.step("admin", admin)
    shutil.rmtree(home)
    day.end()


main()
