#!/usr/bin/env bash
# The main job on real input: a program such as a model would write analyses 336,776 flights inside a sandbox.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -p ringfence
ringfence=$PWD/target/debug/ringfence
out=$PWD/target/demo
scratch=$(mktemp -d)
export RINGFENCE_HOME=$scratch/home
listener=
finish() {
    [ -z "$listener" ] || kill "$listener" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT
rm -rf "$out"

say() { printf '\n\033[1m== %s\033[0m\n' "$1" | if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }

say "What this host can enforce"
"$ringfence" doctor

say "The job: analyse.py over flights.csv.gz, in the profile data-analysis"
"$ringfence" run \
    --input examples/flights/flights.csv.gz --input examples/flights/analyse.py \
    --export report.md --export chart.svg --out "$out" \
    -- python3 /inputs/analyse.py /inputs/flights.csv.gz

say "What came out: target/demo/report.md and target/demo/chart.svg"
sed -n '1,24p' "$out/report.md"
printf '...\n'; ls -l "$out"

say "What the run may do, and who decided it"
"$ringfence" run --explain -- true | sed -n '/capability/,/└/p'

say "Three things it must not do: read a secret of the host, reach the network, write outside"
mkdir "$scratch/private" "$scratch/outside"
printf 'TOKEN-%s\n' "$RANDOM$RANDOM" > "$scratch/private/secret"
/usr/bin/python3 scripts/listener.py "$scratch/port" "$scratch/accepted" & listener=$!
for _ in $(seq 50); do [ -s "$scratch/port" ] && break; sleep 0.1; done
port=$(cat "$scratch/port")
echo "outside, all three are there: $(wc -c < "$scratch/private/secret") bytes of secret, a listener on 127.0.0.1:$port, a folder that can be written"
/usr/bin/python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 3)"
for _ in $(seq 50); do [ -s "$scratch/accepted" ] && break; sleep 0.1; done
before=$(wc -l < "$scratch/accepted")
"$ringfence" run --input examples/flights/misbehave.py \
    -- python3 /inputs/misbehave.py "$scratch/private/secret" "127.0.0.1:$port" "$scratch/outside/pwned"
[ "$before" = 1 ] && [ "$(wc -l < "$scratch/accepted")" = 1 ] || { echo "demo: the listener was reached from inside" >&2; exit 1; }
[ -z "$(ls -A "$scratch/outside")" ] || { echo "demo: the run wrote outside" >&2; exit 1; }

say "From artifact to consequence: a fix is tested, approved and applied (examples/fix)"
RINGFENCE=$ringfence examples/fix/run.sh "$scratch/fix"

say "The evidence of both runs"
for run in "$RINGFENCE_HOME"/runs/*; do "$ringfence" evidence verify "$(basename "$run")"; done
cp -r "$(ls -d "$RINGFENCE_HOME"/runs/* | head -1)" "$scratch/copy"
sed -i 's/analyse/Analyse/' "$scratch/copy/events.jsonl"
if "$ringfence" evidence verify "$scratch/copy"; then echo "demo: a changed record passed" >&2; exit 1; fi
echo "(that was a copy with one letter changed)"
