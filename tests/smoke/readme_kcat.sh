#!/usr/bin/env bash
# Runs the kcat lines of README.md against a gateway, as they stand there but for the address.
#
#   tests/smoke/readme_kcat.sh PATH/TO/ringgate
#
# Ends with 0 only when every line did what the README says. Every wait is bounded, and the gateway is
# stopped however the script ends.
set -euo pipefail

binary=$(realpath "${1:?usage: readme_kcat.sh PATH/TO/ringgate}")
readme=$(realpath "$(dirname "$0")/../../README.md")
work=$(mktemp -d)
gateway=

stop() {
    local status=$?
    trap - EXIT
    if [[ -n $gateway ]] && kill -0 "$gateway" 2>/dev/null; then
        kill -TERM "$gateway"
        for _ in $(seq 150); do
            kill -0 "$gateway" 2>/dev/null || break
            sleep 0.1
        done
        if kill -KILL "$gateway" 2>/dev/null; then
            echo "FAILED: the gateway did not stop within 15 s" >&2
            status=1
        elif ! wait "$gateway"; then
            echo "FAILED: the gateway stopped with an error" >&2
            status=1
        fi
    fi
    if ((status)); then
        echo "--- gateway's stderr" >&2
        cat "$work/stderr" >&2 || true
    fi
    rm -rf "$work"
    exit "$status"
}
trap stop EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

"$binary" serve --listen 127.0.0.1:0 --shards 2 --cpus none --data "$work/data" --ready-file "$work/ready" \
    >"$work/stdout" 2>"$work/stderr" &
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

# The shell lines between the README's two markers, at this gateway's address.
section() {
    sed -n "/<!-- kcat:$1 -->/,/<!-- \/kcat -->/p" "$readme" | grep -v '^<!--\|^```' | sed "s/127\.0\.0\.1:9092/$bootstrap/g"
}

run() {
    local lines
    lines=$(section "$1")
    [[ -n $lines ]] || fail "README.md has no kcat lines for $1"
    echo "\$ $lines" >&2
    timeout 60 bash -euo pipefail -c "$lines" 2>"$work/kcat" || {
        cat "$work/kcat" >&2
        fail "$1 ended with $?"
    }
}

expect() {
    [[ $2 == "$3" ]] || fail "$1: expected $(printf %q "$2"), got $(printf %q "$3")"
}

run produce
listed=$(run list)
grep -q 'topic "greetings" with 1 partitions' <<<"$listed" || fail "the topic is not listed: $listed"
expect "what the group reads" $'hello\nworld' "$(run consume)"

# The group has committed: what it reads next is what came after.
echo again | timeout 60 kcat -q -b "$bootstrap" -P -t greetings
again=$(timeout 60 kcat -q -b "$bootstrap" -G greeters -X auto.offset.reset=earliest -c 1 greetings 2>/dev/null)
expect "what the group reads after its commit" again "$again"

echo "the README's kcat lines work"
