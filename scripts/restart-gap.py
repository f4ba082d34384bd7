#!/usr/bin/env python3
"""Times what clients see of a restart: the longest gap of a producer and of a group member.

    scripts/restart-gap.py [--binary target/release/ringgate] [--restarts 5] [--kill]

It starts a gateway on the embedded engine in a temporary directory, on loopback, and lets one producer
(acks=all, one request in flight) and one member of a group (a heartbeat at a time) work as fast as they are
answered. It restarts the gateway again and again, by SIGTERM or with --kill by SIGKILL, and prints the longest time
between two successes of each. The member must keep its generation throughout. Plain Python, no packages.
"""

import argparse
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HOST = "127.0.0.1"
TOPIC, GROUP = b"restart-gap", b"restart-gap"


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def string(text):
    return struct.pack(">h", len(text)) + text


def blob(data):
    return struct.pack(">i", len(data)) + data


def batch(value):
    record = bytes([0, 0, 0, 1]) + bytes([len(value) << 1]) + value + bytes([0])
    records = bytes([len(record) << 1]) + record
    now = int(time.time() * 1000)
    covered = struct.pack(">hiqqqhii", 0, 0, now, now, -1, -1, -1, 1) + records
    tail = struct.pack(">ibI", -1, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(tail)) + tail


class Client:
    """One connection that is made anew whenever it breaks."""

    def __init__(self, port):
        self.port, self.socket, self.correlation = port, None, 0

    def call(self, key, version, body):
        if self.socket is None:
            self.socket = socket.create_connection((HOST, self.port), timeout=10)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.correlation += 1
            header = struct.pack(">hhi", key, version, self.correlation) + string(b"restart-gap")
            self.socket.sendall(blob(header + body))
            (size,) = struct.unpack(">i", self.exactly(4))
            return self.exactly(size)[4:]
        except OSError:
            self.socket.close()
            self.socket = None
            raise

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("closed")
            data += part
        return data


class Worker(threading.Thread):
    """Calls `step` until told to stop and keeps the longest time between two successes."""

    def __init__(self, name, step):
        super().__init__(name=name, daemon=True)
        self.step, self.stop, self.gaps, self.done, self.failure = step, threading.Event(), [0.0], 0, None
        self.last = time.monotonic()

    def run(self):
        try:
            while not self.stop.is_set():
                try:
                    worked = self.step()
                except OSError:
                    worked = False
                now = time.monotonic()
                if worked:
                    self.gaps[-1] = max(self.gaps[-1], now - self.last)
                    self.last, self.done = now, self.done + 1
                else:
                    time.sleep(0.002)
        except Exception as failure:  # Shown by the main thread.
            self.failure = failure


def producer(port):
    client = Client(port)

    def step():
        data = string(TOPIC) + struct.pack(">ii", 1, 0) + blob(batch(b"x" * 40))
        answer = client.call(0, 3, struct.pack(">hhii", -1, -1, 10_000, 1) + data)
        at = 4 + 2 + len(TOPIC) + 4 + 4
        (code,) = struct.unpack(">h", answer[at : at + 2])
        if code not in (0, 3, 5, 6):
            raise RuntimeError(f"Produce was answered {code}")
        return code == 0

    return step


class Member:
    def __init__(self, port):
        self.client = Client(port)
        self.member, self.generation = b"", -1
        while self.generation < 0:
            self.join()

    def join(self):
        metadata = struct.pack(">hi", 0, 1) + string(TOPIC) + struct.pack(">i", -1)
        body = string(GROUP) + struct.pack(">ii", 30_000, 30_000) + string(self.member) + string(b"consumer")
        answer = self.client.call(11, 2, body + struct.pack(">i", 1) + string(b"range") + blob(metadata))
        code, generation = struct.unpack(">hi", answer[4:10])
        if code != 0:
            raise RuntimeError(f"JoinGroup was answered {code}")
        rest = answer[10:]
        for _ in range(3):
            (length,) = struct.unpack(">h", rest[:2])
            field, rest = rest[2 : 2 + length], rest[2 + length :]
        self.member = field
        body = string(GROUP) + struct.pack(">i", generation) + string(self.member)
        answer = self.client.call(14, 1, body + struct.pack(">i", 1) + string(self.member) + blob(b"all"))
        if struct.unpack(">h", answer[4:6])[0] == 0:
            self.generation = generation

    def step(self):
        answer = self.client.call(12, 1, string(GROUP) + struct.pack(">i", self.generation) + string(self.member))
        (code,) = struct.unpack(">h", answer[4:6])
        if code not in (0, 14, 15, 16):
            raise RuntimeError(f"Heartbeat was answered {code}: the group did not live through the restart")
        return code == 0


def start(options, data):
    ready = os.path.join(data, "ready.json")
    if os.path.exists(ready):
        os.remove(ready)
    command = [options.binary, "serve", "--data", os.path.join(data, "store"), "--listen", f"{HOST}:{options.port}"]
    command += ["--advertise", "gateway", "--ready-file", ready, "--initial-rebalance-delay", "0", "--log-level", "warn"]
    gateway = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not os.path.exists(ready):
        if gateway.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the gateway did not start: {' '.join(command)}")
        time.sleep(0.001)
    return gateway


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--binary", default="target/release/ringgate")
    options.add_argument("--restarts", type=int, default=5, choices=range(1, 101), metavar="1..100")
    options.add_argument("--port", type=int, default=19292)
    options.add_argument("--kill", action="store_true", help="SIGKILL instead of SIGTERM")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as data:
        gateway = start(options, data)
        try:
            # Metadata makes the topic.
            Client(options.port).call(3, 1, struct.pack(">i", 1) + string(TOPIC))
            workers = [Worker("producer", producer(options.port)), Worker("member", Member(options.port).step)]
            for worker in workers:
                worker.start()
            time.sleep(1)
            steady = [max(worker.gaps) for worker in workers]
            for _ in range(options.restarts):
                for worker in workers:
                    worker.gaps.append(0.0)
                before = [worker.done for worker in workers]
                gateway.send_signal(signal.SIGKILL if options.kill else signal.SIGTERM)
                gateway.wait(timeout=60)
                gateway = start(options, data)
                deadline = time.monotonic() + 60
                while any(worker.done <= done + 1 for worker, done in zip(workers, before)):
                    if time.monotonic() > deadline or any(worker.failure for worker in workers):
                        sys.exit(f"clients did not come back: {[worker.failure for worker in workers]}")
                    time.sleep(0.01)
                time.sleep(0.5)
            for worker in workers:
                worker.stop.set()
            for worker in workers:
                worker.join(timeout=30)
                if worker.failure:
                    sys.exit(f"{worker.name}: {worker.failure}")
        finally:
            gateway.kill()
            gateway.wait()
    how = "SIGKILL" if options.kill else "SIGTERM"
    for worker, calm in zip(workers, steady):
        gaps = sorted(gap * 1000 for gap in worker.gaps[1:])
        print(
            f"{worker.name}: {worker.done} successes, longest gap of each of {len(gaps)} restarts by {how}: "
            f"min {gaps[0]:.0f} ms, median {gaps[len(gaps) // 2]:.0f} ms, max {gaps[-1]:.0f} ms "
            f"(without a restart {calm * 1000:.1f} ms)"
        )


if __name__ == "__main__":
    main()
