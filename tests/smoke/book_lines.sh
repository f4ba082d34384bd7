#!/usr/bin/env bash
# Runs the lines of README.md and docs/quick-start.md against a gateway, as they stand there but for addresses and paths.
#
#   tests/smoke/book_lines.sh PATH/TO/ringgate
#
# A page marks what is run with `<!-- run: NAME -->` and `<!-- /run -->`; what it must come to is said here. Ends with 0 only
# when every line did what the page says. Every wait is bounded, and the gateway is
# stopped however the script ends.
set -euo pipefail

binary=$(realpath "${1:?usage: book_lines.sh PATH/TO/ringgate}")
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
gateway=

# Ends the gateway in order.
stop_gateway() {
    local stopping=$gateway
    gateway=
    kill -TERM "$stopping"
    for _ in $(seq 150); do
        kill -0 "$stopping" 2>/dev/null || break
        sleep 0.1
    done
    if kill -KILL "$stopping" 2>/dev/null; then
        echo "FAILED: the gateway did not stop within 15 s" >&2
        return 1
    elif ! wait "$stopping"; then
        echo "FAILED: the gateway stopped with an error" >&2
        return 1
    fi
}

finish() {
    local status=$?
    trap - EXIT
    if [[ -n $gateway ]] && kill -0 "$gateway" 2>/dev/null; then
        stop_gateway || status=1
    fi
    if ((status)); then
        echo "--- gateway's stderr" >&2
        cat "$work/stderr" >&2 || true
    fi
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

"$binary" serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --shards 2 --cpus none --data "$work/data" \
    --ready-file "$work/ready" >"$work/stdout" 2>"$work/stderr" &
gateway=$!

for _ in $(seq 300); do
    [[ -s $work/ready ]] && break
    kill -0 "$gateway" 2>/dev/null || fail "the gateway ended before it served"
    sleep 0.1
done
[[ -s $work/ready ]] || fail "not ready within 30 s"
bootstrap=$(sed -n 's/.*"bootstrap":"\([^"]*\)".*/\1/p' "$work/ready")
[[ -n $bootstrap ]] || fail "no bootstrap address in $(cat "$work/ready")"
grep -qF "$bootstrap" "$work/stdout" || fail "the banner does not name $bootstrap"

admin=$(sed -n 's/^ *admin *http:\/\/\([^/]*\)\/.*/\1/p' "$work/stdout")
[[ -n $admin ]] || fail "the banner names no admin port"

# The shell lines between a page's marks, at this gateway's addresses, with this program and directory.
section() {
    sed -n "/<!-- run: $2 -->/,/<!-- \/run -->/p" "$root/$1" | grep -v '^<!--\|^```' |
        sed "s/127\.0\.0\.1:9092/$bootstrap/g; s/127\.0\.0\.1:9644/$admin/g; s#^ringgate #$binary #; s#\./ringgate-data#$work/data#g"
}

run() {
    local lines
    lines=$(section "$1" "$2")
    [[ -n $lines ]] || fail "$1 has no lines for $2"
    echo "\$ $lines" >&2
    timeout 60 bash -euo pipefail -c "$lines" 2>"$work/said" || {
        cat "$work/said" >&2
        fail "$1: $2 ended with $?"
    }
}

expect() {
    [[ $2 == "$3" ]] || fail "$1: expected $(printf %q "$2"), got $(printf %q "$3")"
}

book=docs/quick-start.md
run $book produce
listed=$(run $book list)
grep -q 'topic "greetings" with 1 partitions' <<<"$listed" || fail "the topic is not listed: $listed"
expect "what is there" $'0/0 hello\n0/1 world' "$(run $book read)"
expect "what the group reads" $'hello\nworld' "$(run $book consume)"

described=$(run $book describe)
grep -q '^greetings  *0  *2  *2  *0' <<<"$described" || fail "the group does not stand at the end: $described"

# The group has committed: what it reads next is what came after.
run README.md produce
expect "what the group reads after its commit" hello "$(run README.md consume)"

expect "whether it is well" ok "$(run $book health)"
stop_gateway
verified=$(run $book verify)
grep -q 'is good$' <<<"$verified" || fail "the data directory is not good: $verified"

echo "the lines of README.md and the quick start work"
