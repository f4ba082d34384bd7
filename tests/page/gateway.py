"""A gateway of one's own: two shards, ports that are free, an admin port."""
import json
import pathlib
import re
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
        log = (self.home / "log").open("wb")
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", "127.0.0.1:0", "--shards", "2", "--data", self.home / "data", "--ready-file", ready,
             "--admin-listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + DEADLINE_S
        # The ready file has no admin port, but the banner does.
        while not (ready.exists() and (admin := re.search(r"(http://\S+)/ for people", (self.home / "log").read_text()))):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"the gateway does not serve: {(self.home / 'log').read_text()}")
            time.sleep(0.05)
        self.admin = admin[1]
        listener = json.loads(ready.read_text())["listeners"][0]
        self.bootstrap, self.nodes = listener["bootstrap"], [node["addr"] for node in listener["nodes"]]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(DEADLINE_S)
