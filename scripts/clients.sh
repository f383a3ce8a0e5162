#!/usr/bin/env bash
# Unmodified clients of E2B against a server of ours, and one that asks for all that our own API describes: every one of them, or those that are named.
# One line each says what was shown.
# What they need is downloaded once into target/clients-*, in the versions that clients/ pins.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(python-2.45.1 python-2.53.1 python-2.63.0 javascript openai-agents smolagents langchain schemathesis)
[ $# -gt 0 ] || set -- "${all[@]}"
ringfence=${RINGFENCE:-$PWD/target/debug/ringfence}

work=$(mktemp -d)
server=
end() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap end EXIT

RINGFENCE_HOME=$work/home "$ringfence" serve --listen 127.0.0.1:0 2> "$work/log" &
server=$!
for _ in $(seq 100); do
    grep -q 'serving on' "$work/log" && break
    sleep 0.1
done
E2B_API_URL=$(grep -o 'http://[0-9.:]*' "$work/log" | head -1)
E2B_API_KEY=$(grep -o 'e2b_[0-9a-f]*' "$work/log" | head -1)
[ -n "$E2B_API_URL" ] && [ -n "$E2B_API_KEY" ] || { echo "clients: the server did not start:" >&2; cat "$work/log" >&2; exit 1; }
RINGFENCE_API_KEY=$(grep -o 'rf_[0-9a-f]*' "$work/log" | head -1)
export E2B_API_URL E2B_API_KEY E2B_SANDBOX_URL=$E2B_API_URL RINGFENCE_API_KEY

python_client() { # environment scripts..
    local environment=$1 script
    shift
    scripts/setup.sh "clients-$environment" >&2
    for script in "$@"; do "target/clients-$environment/bin/python" "$script"; done
}

failed=0
for client in "$@"; do
    case $client in
        python-2.63.0) python_client "$client" clients/python/{sandbox,asynchronous,interpreter}.py ;;
        python-*) python_client "$client" clients/python/{sandbox,asynchronous}.py ;;
        javascript) scripts/setup.sh clients-javascript >&2 && node target/clients-javascript/run.js ;;
        openai-agents | smolagents | langchain | schemathesis) python_client "$client" "clients/$client/run.py" ;;
        *) echo "clients: there is no client \`$client\`: ${all[*]}" >&2; exit 2 ;;
    esac || { echo "$client: failed" >&2; failed=1; }
done
exit $failed
