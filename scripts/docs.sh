#!/usr/bin/env bash
# Writes the reference pages that are made from the types. A test compares them with what the program prints.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir -p docs/reference
for format in profile agent settings report audit promotion replay; do
    RINGFENCE_HOME=$home "$target/debug/ringfence" schema "$format" > "docs/reference/$format.schema.json"
done
RINGFENCE_HOME=$home "$target/debug/ringfence" schema api > docs/reference/openapi.json
RINGFENCE_HOME=$home "$target/debug/ringfence" matrix --format md > docs/reference/matrix.md
