#!/usr/bin/env bash
# Fuzzes each target (or those named), by coverage, with stable Rust: the flags below are what cargo-fuzz would give a nightly compiler, without the
# sanitizers. FUZZ_SECONDS and FUZZ_RUNS say when a target is done, whichever comes first. What is found is kept in target/fuzz/corpus, what fails in
# target/fuzz/found: give such a file to target/fuzz/…/release/TARGET to see it again.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-600}
runs=${FUZZ_RUNS:-200000}
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(sed -n 's/^path = "targets\/\(.*\)\.rs"$/\1/p' fuzz/Cargo.toml))

place=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
# With a target named, the flags are not those of build scripts and macros.
cargo build --quiet --release --locked --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$place" --bins

for target in "${targets[@]}"; do
    mkdir -p "$place/corpus/$target" "$place/found/$target"
    log=$place/$target.log
    timeout=1
    [ "$target" != proxy ] || timeout=10 # threads and sockets, which wait for a busy machine
    if ! "$place/$host/release/$target" -max_total_time="$seconds" -runs="$runs" -timeout=$timeout -rss_limit_mb=1024 -max_len=32768 -print_final_stats=1 \
        -artifact_prefix="$place/found/$target/" "$place/corpus/$target" "fuzz/seeds/$target" > "$log" 2>&1; then
        tail -60 "$log" >&2
        echo "fuzz: $target found something, see above and $place/found/$target" >&2
        exit 1
    fi
    echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $(grep -Eo 'cov: [0-9]+' "$log" | tail -1), nothing found"
done
