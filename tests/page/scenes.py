"""What a gateway of the admin port's JSON API answers in situations that a live page must tell apart.

A scene is a function of the time in ms since the epoch and a path with its query; it gives what is answered, or None.
"""
import math
import random
import urllib.parse

STEP_MS = 5_000
POINTS = 360
STARTED_AGO_MS = 26 * 3_600_000 + 11 * 60_000

# What clients may call themselves and their groups, topics and metadata.
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "\"><svg onload=alert(3)>",
    "javascript:alert(4)",
    "a/b?c=d#e%20f&g",
    "safe\u202egnp.exe",
    "zero\u200bwidth\u0000nul\nline\ttab",
    "__proto__",
    "..",
    "",
    "x" * 249,
    "ünï-çødé-日本語-🦀",
    "${7*7}{{7*7}}",
]


def wave(base, swing, seed, points=POINTS, last=None):
    """A rate as rates are: slow swings, noise, never below 0; `last(at)` shapes its end."""
    dice = random.Random(seed)
    phase = dice.random() * 7
    values = []
    for at in range(points):
        value = base + swing * math.sin(at / 40 + phase) + swing * 0.5 * dice.gauss(0, 0.5)
        values.append(round(max(0.0, value * (last(at) if last else 1.0)), 4))
    return values


def shard(number, cpu, **other):
    busy = cpu / 0.3
    row = {
        "shard": number, "cpu": cpu, "connections": round(31 * busy), "groups": 3, "members": 12, "partitions": 48,
        "requests": 2_104.2 * busy, "records_in": 10_417.0 * busy, "mailbox_depth": 0, "hops": 812.0 * busy, "hop_p99": 0.061,
        "loop_lag": 0.21, "stalls": 0, "p50": 0.118, "p99": 0.94, "p999": 2.7, "hot": False,
    }
    return row | other


def api(name, requests, p50, p99, p999, largest, errors=0.0):
    return {"api": name, "requests": requests, "errors": errors, "p50": p50, "p99": p99, "p999": p999, "max": largest}


def overview(now, shards, health=None, lagging=(), limits=(), apis=None, history=None, totals=None, gateway=None, store=True):
    begin = now - (POINTS - 1) * STEP_MS
    requests = sum(row["requests"] or 0 for row in shards)
    lag = sum(row["lag"] for row in lagging)
    return {
        "version": 1, "at": now,
        "gateway": {
            "version": "0.1.0", "cluster_id": "kT9vQz4wRk2bJ7mZ0xYp1A", "advertise": "shards", "store": "embedded",
            "where": "/var/lib/ringgate", "fsync": "always", "started": now - STARTED_AGO_MS, "pid": 4711,
            "nodes": [{"id": 1000 + row["shard"], "shard": row["shard"], "addr": f"10.20.0.7:{9093 + row['shard']}"} for row in shards],
        } | (gateway or {}),
        "health": health or {"status": "ok", "since": now - 9 * 3_600_000 - 120_000, "findings": []},
        "totals": {"connections": sum(row["connections"] for row in shards), "groups": 12, "members": 48, "topics": 9, "partitions": 192, "lag": lag} | (totals or {}),
        "rates": {"requests": requests, "records_in": requests * 4.95, "bytes_in": requests * 4.95 * 412, "bytes_out": requests * 4.95 * 830, "commits": 96.0, "rebalances": 0.0},
        "shards": shards, "lagging": list(lagging),
        "apis": apis if apis is not None else [
            api("Produce", 2_081.0, 0.62, 2.1, 4.4, 9.8), api("Fetch", 5_120.4, 0.11, 0.84, 2.2, 6.1),
            api("Heartbeat", 16.0, 0.04, 0.11, 0.2, 0.3), api("OffsetCommit", 96.0, 0.58, 1.9, 3.8, 5.0),
            api("Metadata", 3.2, 0.06, 0.4, 0.4, 0.4), api("ListOffsets", 0.4, 0.07, 0.1, 0.1, 0.1),
        ],
        "store": {"sync_p50": 0.41, "sync_p99": 1.9, "write_p99": 0.18, "batch": 12.4} if store else None,
        "lane": None, "limits": list(limits),
        "history": {
            "step": STEP_MS, "from": begin, "requests": wave(requests, requests * 0.12, 1), "p99": wave(0.9, 0.2, 2), "lag": wave(120, 60, 3),
            "connections": wave(sum(row["connections"] for row in shards), 3, 4), "loop_lag": wave(0.25, 0.08, 5),
            "records_in": wave(requests * 4.95, requests * 0.5, 6), "shard_cpu": [wave(row["cpu"], 0.05, 10 + row["shard"]) for row in shards],
        } | (history or {}),
    }


GROUPS = [
    ("billing", 1_284_511, "Stable", 8), ("search-indexer", 48_210, "Stable", 12), ("mailer", 912, "PreparingRebalance", 3),
    ("audit-log", 0, "Stable", 2), ("fraud-detection", 0, "Stable", 6), ("nightly-export", 0, "Empty", 0),
    ("recommendations.v2", 0, "Stable", 4), ("warehouse-loader", 0, "CompletingRebalance", 5), ("sessions", 0, "Reconciling", 4),
    ("thumbnails", 0, "Stable", 2), ("notifications-push", 0, "Stable", 1), ("old-reports", None, "Empty", 0),
]
TOPICS = ["orders", "payments", "clicks", "users", "mails", "audit", "sessions", "images", "search-documents"]


def lagging(now, lags):
    rates = {"billing": 412.0, "search-indexer": -155.4, "mailer": 0.0}
    ago = {"billing": 12 * 60_000, "search-indexer": 4 * 60_000, "mailer": 35_000}
    return [{"group": name, "state": state, "members": members, "lag": lag, "since": now - ago[name], "per_second": rates[name]}
            for name, lag, state, members in GROUPS if lag and lags]


def groups(now, query, rows):
    search, state = query.get("search", ""), query.get("state", "")
    found = [row for row in rows if search.lower() in row[0].lower() and state in ("", row[2])]
    key = {"name": lambda row: row[0], "members": lambda row: -row[3], "lag": lambda row: -(row[1] or 0)}[query.get("sort", "lag")]
    found.sort(key=key)
    begin, limit = int(query.get("after", "0") or 0), int(query.get("limit", "50"))
    part = found[begin:begin + limit]
    return {
        "groups": [{"group": name, "state": state, "type": "consumer" if state == "Reconciling" else "classic", "protocol": "range" if members else None,
                    "members": members, "lag": lag, "since": now - 720_000 if lag else None, "shard": len(name) % 4, "generation": 17}
                   for name, lag, state, members in part],
        "total": len(found), "next": str(begin + limit) if begin + limit < len(found) else None,
    }


def group(now, name, rows, topics, clients=("billing-worker",), metadata="", members=None, partitions=24):
    row = next((row for row in rows if row[0] == name), None)
    if row is None:
        return None
    _, lag, state, count = row
    lag, count = lag or 0, min(count if members is None else members, 1_000)
    ids = [f"{clients[at % len(clients)]}-{at}-6d1f0c3e-8f2b-4a58-9c1d-{at:012x}" for at in range(count)]
    shares = [[] for _ in ids]
    listed = []
    for at in range(min(partitions, 1_000)):
        topic, number = topics[at % 2 % len(topics)], at // 2
        owner = at * count // max(1, min(partitions, 1_000)) if count else None
        if owner is not None:
            shares[owner].append((topic, number))
        behind = round(lag / partitions * (1.8 if at % 3 == 0 else 0.6))
        listed.append({"topic": topic, "partition": number, "committed": 91_002_117 + 1_013 * at if at != 5 else None, "end": 91_002_117 + 1_013 * at + behind,
                       "lag": behind if at != 5 else None, "committed_at": now - 800 - 37 * at if at != 5 else None, "member": ids[owner] if owner is not None else None, "metadata": metadata})
    return {
        "group": name, "shard": 1, "state": state, "type": "classic", "protocol_type": "consumer", "protocol": "range", "generation": 17,
        "leader": ids[0] if ids else None, "members_total": count if members is None else members,
        "members": [{"member": member, "instance": f"pod-{at}" if at % 2 else None, "client": clients[at % len(clients)], "host": f"/10.20.3.{at % 250}",
                     "assigned": [{"topic": topic, "partitions": sorted(number for name, number in share if name == topic)} for topic in dict.fromkeys(name for name, _ in share)]}
                    for at, (member, share) in enumerate(zip(ids, shares))],
        "partitions_total": partitions, "partitions": listed, "lag": lag, "since": now - 720_000 if lag else None,
        "rebalances": {"completed": 3, "failed": 1, "last": now - 43 * 60_000, "last_took": 1_240},
        "history": {"step": STEP_MS, "from": now - (POINTS - 1) * STEP_MS, "lag": [None] * 60 + [round(value) for value in wave(lag, lag * 0.02, 8, POINTS - 60, lambda at: max(0.002, (at - 150) / 150) if at < 300 else 1)]},
    }


def topics_list(query, names):
    found = [name for name in names if query.get("search", "").lower() in name.lower()]
    return {"topics": [{"topic": name, "id": f"{at:08x}-0000-4000-8000-000000000000", "partitions": 12 * (at + 1), "records": 912_004_551 // (at + 1) ** 3, "bytes": 412 * 912_004_551 // (at + 1) ** 3, "groups": at % 4}
                       for at, name in enumerate(found)], "total": len(found), "next": None}


def topic(name, names, readers):
    if name not in names:
        return None
    return {
        "topic": name, "id": "5e0c7d9a-3a0f-4a4e-9f55-6c7b8f8d2f10", "configs": {"retention.ms": "604800000", "retention.bytes": "-1", "cleanup.policy": "delete", "max.message.bytes": "1048588"},
        "partitions_total": 12, "partitions": [{"partition": at, "shard": (at * 3 + 1) % 4, "start": 1_000 * at, "end": 91_002_117 + 1_013 * at, "bytes": 37_486_592_201 - 11_000_000 * at, "leader_epoch": 4} for at in range(12)],
        "groups": [{"group": group, "lag": lag, "state": state} for group, lag, state, _ in readers],
    }


def routed(now, path, whole, rows, names, **of_group):
    """The answer to a path of the API, of these groups and topics."""
    parts = urllib.parse.urlsplit(path)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    kind, _, name = parts.path.removeprefix("/api/").partition("/")
    name = urllib.parse.unquote(name)
    if kind == "overview":
        return whole
    if kind == "group":
        return group(now, query["id"], rows, names, **of_group)
    if kind == "groups":
        return groups(now, query, rows)
    if kind == "topics":
        return topic(name, names, rows[:3]) if name else topics_list(query, names)
    return None


def calm(now, path):
    shards = [shard(at, cpu) for at, cpu in enumerate([0.31, 0.27, 0.34, 0.29])]
    rows = [(name, 0 if lag else lag, state, members) for name, lag, state, members in GROUPS]
    return routed(now, path, overview(now, shards), rows, TOPICS)


def empty(now, path):
    shards = [shard(at, 0.01, connections=0, groups=0, members=0, partitions=0, requests=0.0, records_in=0.0, hops=0.0, hop_p99=None, p50=None, p99=None, p999=None) for at in range(2)]
    nothing = [None] * (POINTS - 12) + [0.0] * 12
    history = {name: nothing for name in ("requests", "lag", "connections", "records_in")}
    history |= {"p99": [None] * POINTS, "loop_lag": [None] * (POINTS - 12) + [0.1] * 12, "shard_cpu": [[None] * (POINTS - 12) + [0.01] * 12] * 2}
    totals = dict.fromkeys(("connections", "groups", "members", "topics", "partitions", "lag"), 0)
    gateway = {"started": now - 61_000, "nodes": [{"id": 1000, "shard": 0, "addr": "127.0.0.1:9093"}, {"id": 1001, "shard": 1, "addr": "127.0.0.1:9094"}]}
    health = {"status": "ok", "since": now - 61_000, "findings": []}
    whole = overview(now, shards, health, apis=[], history=history, totals=totals, gateway=gateway)
    whole["store"] = {"sync_p50": None, "sync_p99": None, "write_p99": None, "batch": None}
    return routed(now, path, whole, [], [])


def trouble(now, path):
    """A group lags, a shard is hot, and it stalled a moment ago."""
    cpus = [0.41, 0.97, 0.36, 0.44]
    shards = [shard(at, cpu) for at, cpu in enumerate(cpus)]
    shards[1] |= {"hot": True, "loop_lag": 41.8, "stalls": 3, "p50": 1.1, "p99": 38.2, "p999": 260.4, "mailbox_depth": 211, "hop_p99": 12.4}
    rising = lambda at: 1.0 if at < 216 else 1 + (at - 216) / 24  # noqa: E731
    history = {
        "p99": wave(1.0, 0.2, 2, last=lambda at: 1.0 if at < 216 else 1.0 + (at - 216) ** 1.6 / 75), "loop_lag": wave(0.25, 0.08, 5, last=lambda at: 1 if at < 216 else (at - 216) * 1.2),
        "lag": wave(200_000, 2_000, 3, last=lambda at: 0.004 if at < 216 else (at - 216) / 21.7),
        "shard_cpu": [wave(cpu if at != 1 else 0.42, 0.04, 10 + at, last=(lambda t: min(2.3, rising(t))) if at == 1 else None) for at, cpu in enumerate(cpus)],
    }
    history["shard_cpu"][1] = [min(1.0, cpu) for cpu in history["shard_cpu"][1]]
    health = {"status": "critical", "since": now - 12 * 60_000, "findings": [
        {"severity": "critical", "kind": "stall", "subject": "shard 1", "text": "Shard 1 did not run for over 250 ms.", "since": now - 71_000},
        {"severity": "warning", "kind": "hot_shard", "subject": "shard 1", "text": "Shard 1 uses 97 % of a CPU, the others 40 % each.", "since": now - 12 * 60_000},
        {"severity": "warning", "kind": "group_lag", "subject": "group billing", "text": "Its lag has grown for over a minute and is 1284511 records.", "since": now - 12 * 60_000},
        {"severity": "warning", "kind": "limit_hit", "subject": "limit max_connections", "text": "Clients met the limit max_connections, 31244 times since the start.", "since": now - 4 * 60_000},
    ]}
    limits = [{"limit": "max_connections", "hits": 31_244, "last": now - 8_000}, {"limit": "max_in_flight_bytes", "hits": 2, "last": now - 3_700_000}]
    apis = [api("Produce", 2_081.0, 1.9, 38.2, 260.4, 611.0, 4.2), api("Fetch", 5_120.4, 0.31, 12.0, 88.0, 240.0), api("Heartbeat", 16.0, 0.05, 6.1, 6.1, 6.1),
            api("OffsetCommit", 96.0, 1.8, 31.9, 120.8, 120.8, 0.2), api("Metadata", 3.2, 0.06, 0.4, 0.4, 0.4)]
    whole = overview(now, shards, health, lagging(now, True), limits, apis, history)
    return routed(now, path, whole, GROUPS, TOPICS)


MANY_GROUPS = [("fleet", 12, "Stable", 9_500)] + [
    (f"tenant-{at:05d}.consumer", (at * 7_919) % 50_000 if at % 3 == 0 else 0, "Stable" if at % 5 else "Empty", at % 9) for at in range(1, 100_000)]
MANY_LAGGING = sorted(MANY_GROUPS, key=lambda row: -row[1])[:20]


def many(now, path):
    """64 shards, some hot, 100,000 groups, a large group."""
    dice = random.Random(7)
    cpus = [min(1.0, max(0.02, dice.gauss(0.38, 0.14))) for _ in range(64)]
    cpus[41], cpus[7] = 0.99, 0.93
    shards = [shard(at, cpu, hot=cpu > 0.9) for at, cpu in enumerate(cpus)]
    health = {"status": "warning", "since": now - 190_000, "findings": [{"severity": "warning", "kind": "hot_shard", "subject": f"shard {at}", "text": f"Shard {at} uses {cpus[at] * 100:.0f} % of a CPU, the others 38 % each.", "since": now - 190_000} for at in (41, 7)]}
    totals = {"groups": 100_000, "members": 400_021, "connections": 81_022, "topics": 31_000, "partitions": 1_204_551, "lag": 834_112_004}
    history = {"lag": wave(834_112_004, 12_000_000, 3), "connections": wave(81_022, 300, 4)}
    lags = [{"group": name, "state": state, "members": members, "lag": lag, "since": now - 7_000_000, "per_second": -1.0} for name, lag, state, members in MANY_LAGGING]
    return routed(now, path, overview(now, shards, health, lags, totals=totals, history=history), MANY_GROUPS, TOPICS, partitions=9_500, members=9_500)


def hostile(now, path):
    shards = [shard(0, 0.5)]
    rows = [(name, 1_000 - at, "Stable", 2) for at, name in enumerate(HOSTILE)]
    health = {"status": "warning", "since": now - 1_000, "findings": [{"severity": "warning", "kind": "group_lag", "subject": f"group {name}", "text": f"{name} lags", "since": now - 1_000} for name in HOSTILE if name]}
    lags = [{"group": name, "state": "Stable", "members": 2, "lag": lag, "since": now - 9_000, "per_second": None} for name, lag, _, _ in rows]
    limits = [{"limit": HOSTILE[0], "hits": 1, "last": None}]
    whole = overview(now, shards, health, lags, limits, gateway={"where": HOSTILE[1], "cluster_id": HOSTILE[2], "nodes": [{"id": 1000, "shard": 0, "addr": HOSTILE[0]}]})
    return routed(now, path, whole, rows, HOSTILE, clients=HOSTILE, metadata=HOSTILE[0], members=len(HOSTILE))


def iggy(now, path):
    """On an Iggy server: no store of its own, a lane instead, and one shard."""
    whole = overview(now, [shard(0, 0.44)], store=False, gateway={"store": "iggy", "where": "iggy://10.20.0.9:8090", "fsync": None})
    whole["lane"] = {"calls": 812.0, "p50": 0.8, "p99": 3.1, "in_flight": 2, "failures": 0.4, "lease": 27_412}
    return routed(now, path, whole, GROUPS[3:], TOPICS)


SCENES = {scene.__name__: scene for scene in (calm, empty, trouble, many, hostile, iggy)}
