"""A gateway of one's own: two shards, ports that were free a moment ago, an admin port."""
import json
import pathlib
import socket
import subprocess
import time

DEADLINE_S = 60


class Gateway:
    """Serves from `with` to its end."""

    def __init__(self, binary, home):
        self.binary, self.home = pathlib.Path(binary).resolve(), home

    def __enter__(self):
        self.home.mkdir()
        ready = self.home / "ready.json"
        # The ready file has no admin port, so that one is chosen here.
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.admin = f"http://127.0.0.1:{port}"
        log = (self.home / "log").open("wb")
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", "127.0.0.1:0", "--shards", "2", "--data", self.home / "data", "--ready-file", ready,
             "--admin-listen", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + DEADLINE_S
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"the gateway does not serve: {(self.home / 'log').read_text()}")
            time.sleep(0.05)
        listener = json.loads(ready.read_text())["listeners"][0]
        self.bootstrap, self.nodes = listener["bootstrap"], [node["addr"] for node in listener["nodes"]]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(DEADLINE_S)
