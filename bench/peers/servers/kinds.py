"""Every server: what it is, how it is installed, and what starts it."""

import json
import os
import pathlib
import secrets
import socket
import subprocess

from . import process

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
HOST = "127.0.0.1"
# A registry that does not answer must not hold a run up for ever.
INSTALL_SECONDS_MAX = 900
# What a freshly formatted broker of Kafka's takes, several times over.
FORMAT_SECONDS_MAX = 120
KAFKA_HEAP = "1g"


class Server:
    """A kind of server. `options` of a start are its own: flags of ringgate's, settings of Kafka's as `key=value`."""

    name = ""
    about = ""
    durability = ""

    def install(self, cache: pathlib.Path) -> str:
        """Makes it ready to start, offline when that was done before; gives its version."""
        raise NotImplementedError

    def launch(self, cache: pathlib.Path, home: pathlib.Path, options: list[str]) -> int:
        """Starts it with all that it keeps below `home`; gives its pid at once."""
        raise NotImplementedError

    def bootstrap(self, home: pathlib.Path) -> str | None:
        """Its address, as soon as it has one."""
        raise NotImplementedError

    def details(self, home: pathlib.Path) -> dict[str, str]:
        """Further addresses, by name, once it serves."""
        return {}


class Kafka(Server):
    """One node, broker and controller, with the settings of `kafka/server.properties`."""

    def __init__(self, name: str, settings: dict[str, str], about: str, durability: str) -> None:
        self.name, self.settings, self.about, self.durability = name, settings, about, durability

    def install(self, cache: pathlib.Path) -> str:
        pom, directory = HERE / "kafka" / "pom.xml", cache / "kafka"
        installed = directory / "installed.xml"
        if not installed.exists() or installed.read_bytes() != pom.read_bytes():
            directory.mkdir(parents=True, exist_ok=True)
            for jar in (directory / "jars").glob("*.jar"):
                jar.unlink()
            _run(["mvn", "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies",
                  f"-DoutputDirectory={directory / 'jars'}", "-DincludeScope=runtime"])
            installed.write_bytes(pom.read_bytes())
        (jar,) = (directory / "jars").glob("kafka_2.13-*.jar")
        return jar.stem.removeprefix("kafka_2.13-")

    def launch(self, cache: pathlib.Path, home: pathlib.Path, options: list[str]) -> int:
        client_port, controller_port = free_ports(2)
        settings = _properties((HERE / "kafka" / "server.properties").read_text()) | self.settings
        settings |= _properties("\n".join(options)) | {
            "listeners": f"PLAINTEXT://{HOST}:{client_port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{client_port}",
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "log.dirs": str(home / "data"),
        }
        config = home / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        (home / "bootstrap").write_text(f"{HOST}:{client_port}")
        java = ["java", f"-Xms{KAFKA_HEAP}", f"-Xmx{KAFKA_HEAP}",
                # As kafka-server-start.sh has them.
                "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
                "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{cache / 'kafka' / 'jars'}/*"]
        # The id of a cluster is 22 characters of URL-safe base 64, and the tool takes a dash in front for a flag.
        cluster = "r" + secrets.token_urlsafe(16)[:20] + "A"
        format_log = home / "format.log"
        with format_log.open("wb") as log:
            formatted = subprocess.run([*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=FORMAT_SECONDS_MAX)
        if formatted.returncode != 0:
            raise process.Died(f"formatting ended with {formatted.returncode}\n{process.tail(format_log)}")
        return process.start([*java, "kafka.Kafka", str(config)], home / "log")

    def bootstrap(self, home: pathlib.Path) -> str | None:
        return (home / "bootstrap").read_text()


class Kfake(Server):
    name = "kfake"
    about = "franz-go's fake cluster: one broker, a Go program"
    durability = "none: everything is held in memory"

    def install(self, cache: pathlib.Path) -> str:
        source = HERE / "kfake"
        (cache / "kfake").mkdir(parents=True, exist_ok=True)
        _run(["go", "build", "-mod=readonly", "-o", str(cache / "kfake" / "kfake"), "."], cwd=source)
        listed = _run(["go", "list", "-mod=readonly", "-m", "-f", "{{.Version}}",
                       "github.com/twmb/franz-go/pkg/kfake"], cwd=source)
        return listed.strip().removeprefix("v")

    def launch(self, cache: pathlib.Path, home: pathlib.Path, options: list[str]) -> int:
        return process.start([str(cache / "kfake" / "kfake"), *options], home / "log", out=home / "address")

    def bootstrap(self, home: pathlib.Path) -> str | None:
        address = (home / "address").read_text()
        return address.strip() if address.endswith("\n") else None


class Ringgate(Server):
    durability = "acks=all and commits are answered once they are on disk (`--fsync always`); acks=1 once written"

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about

    def binary(self) -> pathlib.Path:
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        return pathlib.Path(os.environ.get("PEERS_RINGGATE", target / "release" / "ringgate")).resolve()

    def install(self, cache: pathlib.Path) -> str:
        if "PEERS_RINGGATE" not in os.environ:
            _run(["cargo", "build", "--release", "--locked", "--quiet", "--package", "ringgate"], cwd=ROOT)
        return _run([str(self.binary()), "--version"]).split()[-1]

    def launch(self, cache: pathlib.Path, home: pathlib.Path, options: list[str]) -> int:
        command = [str(self.binary()), "serve", "--listen", f"{HOST}:0", "--ready-file", str(home / "ready.json")]
        if "--admin-listen" not in options:
            (port,) = free_ports(1)
            command += ["--admin-listen", f"{HOST}:{port}"]
            (home / "admin").write_text(f"{HOST}:{port}")
        if "--store" not in options:
            command += ["--data", str(home / "data")]
        return process.start([*command, *options], home / "log")

    def bootstrap(self, home: pathlib.Path) -> str | None:
        if not (home / "ready.json").exists():
            return None
        return json.loads((home / "ready.json").read_text())["listeners"][0]["bootstrap"]

    def details(self, home: pathlib.Path) -> dict[str, str]:
        listeners = json.loads((home / "ready.json").read_text())["listeners"]
        found = {"iggy": listener["iggy"] for listener in listeners if "iggy" in listener}
        if (home / "admin").exists():
            found["admin"] = (home / "admin").read_text()
        return found


SERVERS: dict[str, Server] = {server.name: server for server in [
    Kafka("kafka", {}, "Apache Kafka, one node, KRaft, broker and controller in one process, its defaults",
          "acknowledges once the page cache has it; the kernel writes it to disk when it likes"),
    Kafka("kafka-flush", {"log.flush.interval.messages": "1"},
          "the same with `log.flush.interval.messages=1`", "every append is synced before it is acknowledged"),
    Kfake(),
    Ringgate("ringgate", "this gateway, with its defaults"),
    Ringgate("ringgate-2", "a second one, to be the Iggy server of the first (`-- --iggy-listen 127.0.0.1:0`)"),
]}


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, from below those that the kernel gives to connections, so that none gets one meanwhile."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    while len(ports) < count:
        port = 10_000 + secrets.randbelow(max(low - 10_000, 1))
        with socket.socket() as trial:
            try:
                trial.bind((HOST, port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def _properties(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _run(command: list[str], cwd: pathlib.Path | None = None) -> str:
    """Its output; ends the program with all that it said when it fails."""
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=INSTALL_SECONDS_MAX)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
