# Every task of the project; `just` lists them.

_list:
    @just --list --unsorted

# Build everything
build:
    cargo build --workspace --all-targets

# Serve on 127.0.0.1:9092 with data in ./ringgate-data
run *FLAGS:
    cargo run --release -- serve {{ FLAGS }}

# Every test, with real clients
test *ARGS:
    cargo test --workspace {{ ARGS }}

# Only the tests that drive a gateway with real clients
end-to-end *ARGS:
    cargo test --test end_to_end --test known_faults {{ ARGS }}

# Simulated days of the coordinator, each decided by its seed: faults of clients, network, store and process
sim *FLAGS="--seeds 2000":
    cargo run --release -p ringgate-group --example simulate -- {{ FLAGS }}

# Write docs/conformance.md anew: which test shows which numbered behaviour
conformance:
    CONFORMANCE_WRITE=1 cargo test --test conformance

# Write the parts of the book that come from the code anew
book:
    BOOK_WRITE=1 cargo test --test book

# Write down anew what the doctor's checks find on the tests' hosts, and docs/doctor.md from it
outcomes:
    OUTCOMES_WRITE=1 cargo test -p ringgate-tuning --test hosts --test reference

# Every stock client's day: installs them, prints a table client x step
clients *FLAGS:
    tests/clients/run {{ FLAGS }}

# The suite and every client in every combination: a node per shard and one for all, one to four shards, on Iggy
full:
    cargo build --workspace --all-targets
    cargo test --workspace
    RINGGATE_TEST_ADVERTISE=gateway cargo test --test end_to_end --test known_faults
    RINGGATE_TEST_STORE=iggy cargo test --test end_to_end --test known_faults
    tests/clients/run --store iggy --only confluent-kafka,franz-go,java
    for advertise in shards gateway; do for shards in 1 2 4; do \
        tests/clients/run --advertise $advertise --shards $shards || exit 1; done; done

# Formatting, lints and docs, as CI has them
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS=-Dwarnings cargo doc --no-deps --workspace

# Format everything
fmt:
    cargo fmt --all

# 200,000 round trips of one closed-loop connection, with and without busy neighbours
soak:
    RINGGATE_SOAK_ROUND_TRIPS=200000 cargo test -p ringgate-runtime --test guard_soak -- --nocapture

# How long a release build's shard is kept by one task while a group of 9,500 members rebalances
slices:
    cargo build --release
    ulimit -n 20000; RINGGATE_TEST_MEMBERS=9500 RINGGATE_TEST_BINARY="${CARGO_TARGET_DIR:-target}/release/ringgate" \
        cargo test --test hardening large_groups -- --nocapture

# Instructions of one member's operations in small and large groups (needs valgrind), and the bytes that it takes
cost:
    cargo run --release -p ringgate-group --example cost
    cargo run --release -p ringgate-group --example cost -- memory

# Load a target: `just bench produce --bootstrap 127.0.0.1:9092 --rate 10k --out runs`, `just bench list`
bench *ARGS:
    cargo run --release -p ringgate-bench -- {{ ARGS }}

# Numbers to hold: installs Apache Kafka and kfake, measures each row against them, writes docs/PERFORMANCE.md
peers *FLAGS:
    bench/peers/measure {{ FLAGS }}

# The lines of README.md and the quick start against a gateway
smoke:
    cargo build
    tests/smoke/book_lines.sh "${CARGO_TARGET_DIR:-target}/debug/ringgate"

# Licences, bans and sources of all dependencies (needs cargo-deny)
deny:
    cargo deny check licenses bans sources

# Reports of the load generator, opened in headless Chromium (installs it); `--shots DIR` leaves pictures to look at
report-check *FLAGS:
    cargo test -p ringgate-bench --test results
    bench/tests/report_in_chromium {{ FLAGS }}

# The live page in headless Chromium (installs it), in every situation; `--shots DIR` leaves pictures to look at
page-check *FLAGS:
    tests/page/run {{ FLAGS }}

# The dashboard's queries and the alerts' tests in a real Prometheus (installs it)
observability-check:
    cargo build --workspace
    tests/observability/run --bin "${CARGO_TARGET_DIR:-target}/debug/ringgate" --bench "${CARGO_TARGET_DIR:-target}/debug/ringgate-bench"

# What CI runs
ci:
    .ci/run
