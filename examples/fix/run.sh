#!/usr/bin/env bash
# From a failing test to the branch: the fix is written in a sandbox, leaves it as a patch, is tested in another sandbox on the branch as it is, shown,
# approved, and applied as exactly what was tested. Then the same for a report to a folder.
#
#   run.sh FOLDER      works in FOLDER, which is made; RINGFENCE is the binary (default: the one on PATH)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ringfence=${RINGFENCE:-ringfence}
[ $# = 1 ] && [ ! -e "$1/home" ] || { echo "usage: run.sh FOLDER, which is new or empty" >&2; exit 2; }
mkdir -p "$1"
cd "$1"
export RINGFENCE_HOME=$PWD/home XDG_CONFIG_HOME=$PWD/config
export GIT_AUTHOR_NAME=you GIT_AUTHOR_EMAIL=you@example.com GIT_COMMITTER_NAME=you GIT_COMMITTER_EMAIL=you@example.com

say() { printf '\n== %s\n' "$1"; }
first() { python3 -c 'import json, sys; print(json.load(sys.stdin)'"$1"')'; }

say 'A repository with a failing test, and a folder for reports'
cp -r "$here/app" app
(cd app && git init -q -b main && git add -A && git commit -qm 'Totals of invoices')
git clone -q --bare app app.git
mkdir reports
(cd app && ! python3 -B tests/test_invoice.py 2>&1 | tail -3)

say 'Where artifacts can go, and under whose approval'
"$ringfence" matrix > /dev/null               # writes the first settings
cat >> home/ringfence.toml <<TOML

[targets.main]
kind = "git"
repository = "$PWD/app.git"
branch = "main"
checks = ["python3 -B tests/test_invoice.py"]

[targets.reports]
kind = "directory"
folder = "$PWD/reports"
TOML
"$ringfence" matrix --profile code-change --profile data-analysis --format md | grep -E '^\| (promotion|deploy)'
"$ringfence" person add

say 'The agent writes the fix in a sandbox; the project itself is never written'
run=$("$ringfence" run --json --profile code-change --project app --input "$here/fix.py" --export changes.patch \
    -- python3 -B /inputs/fix.py | first '["run"]')
"$ringfence" artifact show "$run/changes.patch"

say 'It is checked in a fresh sandbox on the branch; nothing happens yet'
asked=$("$ringfence" promote "$run/changes.patch" --to main --message 'Round tax half up' --json)
approval=$(first '["approvals"][0]["approval"]' <<< "$asked")
promotion=$(first '["promotion"]' <<< "$asked")
"$ringfence" approval show "$approval"

say 'A person approves, and it takes effect'
"$ringfence" approval approve "$approval"
git -C app.git log --oneline --stat main
tested=$(first '["result"]["tree"]' <<< "$asked")
[ "$(git -C app.git rev-parse 'main^{tree}')" = "$tested" ]
echo "the branch's tree is the tested one: $tested"
"$ringfence" evidence verify "$promotion"

say 'The same for a report to a folder'
run=$("$ringfence" run --json --input app/invoice.py --export report.md \
    -- sh -c 'printf "# invoice.py\n\n%s lines\n" "$(wc -l < /inputs/invoice.py)" > report.md' | first '["run"]')
asked=$("$ringfence" promote "$run/report.md" --to reports --json)
"$ringfence" approval approve "$(first '["approvals"][0]["approval"]' <<< "$asked")"
cat reports/report.md
"$ringfence" evidence verify "$(first '["promotion"]' <<< "$asked")"

say 'What was done can be taken back, the same way'
"$ringfence" promotion ls
echo "ringfence promotion undo $promotion"
