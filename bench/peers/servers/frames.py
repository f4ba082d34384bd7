"""Kafka's protocol in raw frames: enough to ask whether a server is ready, and to measure what no scenario of the load
generator does. Only versions without tagged fields."""

import socket
import struct

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, FIND_COORDINATOR = 0, 1, 3, 8, 10
JOIN_GROUP, HEARTBEAT, SYNC_GROUP, LIST_GROUPS, API_VERSIONS, CREATE_TOPICS = 11, 12, 14, 16, 18, 19
# Of one answer; the largest that is asked for has 1 MiB of records.
FRAME_BYTES_MAX = 8 << 20
ANSWER_SECONDS_MAX = 60


class Refused(Exception):
    """The server answers with an error, or with something else than Kafka's protocol."""


class Reader:
    """Reads the fields of a response one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(f">{layout}", self.data, self.at)
        self.at += struct.calcsize(f">{layout}")
        return value

    def string(self) -> str | None:
        size = self.number("h")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def check(self, what: str) -> None:
        """Takes an error code, which must be 0."""
        if error := self.number("h"):
            raise Refused(f"{what} is answered with error {error}")


class Connection:
    """One connection; requests may be sent ahead of the answers to earlier ones."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_) -> None:
        self.socket.close()

    def call(self, key: int, version: int, body: bytes) -> Reader:
        self.socket.sendall(request(key, version, body))
        return self.answer()

    def answer(self) -> Reader:
        (size,) = struct.unpack(">i", self._exactly(4))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise Refused(f"an answer of {size} bytes")
        return Reader(self._exactly(size)[4:])

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("it closed the connection")
            data += part
        return bytes(data)


def request(key: int, version: int, body: bytes) -> bytes:
    """A whole frame."""
    return blob(struct.pack(">hhi", key, version, 1) + string("ringgate-peers") + body)


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def batch(records: int, record_bytes: int) -> bytes:
    """A batch of so many records with values of so many bytes, without keys, uncompressed."""
    def varint(number: int) -> bytes:
        number <<= 1
        parts = bytearray()
        while number > 0x7F:
            parts.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*parts, number])

    body = bytearray()
    for at in range(records):
        record = b"\0" + varint(0) + varint(at) + b"\x01" + varint(record_bytes) + b"v" * record_bytes + varint(0)
        body += varint(len(record)) + record
    now = 1_700_000_000_000
    covered = struct.pack(">hiqqqhii", 0, records - 1, now, now, -1, -1, -1, records) + body
    tail = struct.pack(">ibI", -1, 2, _crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(tail)) + tail


def _crc32c(data: bytes) -> int:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# What rows ask for.

def create_topic(connection: Connection, topic: str, partitions: int) -> None:
    """Returns when it is made."""
    body = array([string(topic) + struct.pack(">ih", partitions, 1) + array([]) + array([])])
    answer = connection.call(CREATE_TOPICS, 2, body + struct.pack(">ib", ANSWER_SECONDS_MAX * 1000, 0))
    answer.number("i"), answer.number("i"), answer.string()
    answer.check(f"CreateTopics of {topic}")


def produce_body(topic: str, partition: int, records: bytes, acks: int) -> bytes:
    """Of Produce v3."""
    return (string_or_null(None) + struct.pack(">hi", acks, ANSWER_SECONDS_MAX * 1000)
            + array([string(topic) + array([struct.pack(">i", partition) + blob(records)])]))


def check_produced(answer: Reader) -> None:
    answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
    answer.check("Produce")


def fetch_body(topic: str, partition: int, offset: int, bytes_max: int) -> bytes:
    """Of Fetch v4, which waits for nothing."""
    return (struct.pack(">iiiib", -1, 0, 1, bytes_max, 0)
            + array([string(topic) + array([struct.pack(">iqi", partition, offset, bytes_max)])]))


def join_body(group: str, member: str, metadata: bytes) -> bytes:
    """Of JoinGroup v3, which needs no id of a member first."""
    return (string(group) + struct.pack(">ii", 300_000, 300_000) + string(member) + string("consumer")
            + array([string("range") + blob(metadata)]))


def joined(answer: Reader) -> tuple[int, str]:
    """Generation and member id."""
    answer.number("i")
    answer.check("JoinGroup")
    generation = answer.number("i")
    answer.string(), answer.string()
    return generation, answer.string()


def sync_body(group: str, generation: int, member: str, assignment: bytes) -> bytes:
    """Of SyncGroup v2, of a leader that is alone."""
    return string(group) + struct.pack(">i", generation) + string(member) + array([string(member) + blob(assignment)])


def heartbeat_body(group: str, generation: int, member: str) -> bytes:
    """Of Heartbeat v2."""
    return string(group) + struct.pack(">i", generation) + string(member)


def commit_body(group: str, generation: int, member: str, topic: str, partition: int, offset: int) -> bytes:
    """Of OffsetCommit v2."""
    return (string(group) + struct.pack(">i", generation) + string(member) + struct.pack(">q", -1)
            + array([string(topic) + array([struct.pack(">iq", partition, offset) + string("")])]))


def subscription(topic: str) -> bytes:
    """What a member of the classic protocol says of itself."""
    return struct.pack(">h", 0) + array([string(topic)]) + blob(b"")


def string_or_null(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else string(text)
