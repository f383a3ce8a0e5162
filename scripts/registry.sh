#!/usr/bin/env bash
# Puts a real registry for the tests below target/test-tools, unpacked from its package: installed, it would be a service of this machine.
# Without it the test that needs it says so and is skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
place=$PWD/target/test-tools/registry
[ -x "$place/usr/bin/docker-registry" ] && exit 0
mkdir -p "$place"
(cd "$place" && apt-get download -qq docker-registry && dpkg-deb -x docker-registry_*.deb . && rm -f docker-registry_*.deb) >/dev/null 2>&1 ||
    echo "setup: docker-registry could not be fetched with apt-get; the test that pulls from it will be skipped" >&2
