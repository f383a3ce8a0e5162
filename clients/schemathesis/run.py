"""schemathesis asks for everything that /v1/openapi.json describes, and for more: no answer may be a failure of the server or other than described.

Once without anything that is there, so that every refusal is met, and once with a session, a command, a context and a state, so that the rest is.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

from importlib.metadata import version
from pathlib import Path

SERVER, KEY = os.environ["E2B_API_URL"], os.environ["RINGFENCE_API_KEY"]
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance"
# They end, pause or watch what the others are asked about, or take minutes.
LEFT_OUT = ["close_session", "pause_session", "watch_files", "follow_command", "remove_state", "create_session", "remove_context"]


def ask(path, body):
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", f"Bearer {KEY}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def tried(settings, arguments):
    """How many requests were made; ends everything if one was answered wrongly."""
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", settings, "run", f"{SERVER}/v1/openapi.json"]
    command += ["--header", f"Authorization: Bearer {KEY}", "--checks", CHECKS, "--workers", "1", "--phases", "coverage,fuzzing"]
    # With two workers Python 3.11 fails now and then while it parses a rule of schemathesis itself.
    command += ["--request-timeout", "30", "--suppress-health-check", "all", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(settings).parent)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-6_000:] + done.stderr[-2_000:])
    line = next(line for line in done.stdout.splitlines() if " generated, " in line)
    return int(line.split()[0])


def named(folder):
    """Settings that name what is there."""
    session = ask("/v1/sessions", {"timeout": 3000})["session"]
    ask(f"/v1/sessions/{session}/commands", {"command": ["sleep", "3000"], "open_stdin": True})
    context = ask(f"/v1/sessions/{session}/contexts", {})["context"]
    state = ask(f"/v1/sessions/{session}/snapshots", {})["state"]
    names = {"session": session, "command": "0", "context": context, "state": state, "run": session}
    settings = Path(folder) / "named.toml"
    settings.write_text("[parameters]\n" + "".join(f'"path.{name}" = "{value}"\n' for name, value in names.items()))
    return settings


with tempfile.TemporaryDirectory() as folder:
    unnamed = Path(folder) / "unnamed.toml"
    unnamed.write_text("")
    first = tried(unnamed, ["--max-examples", "8", "--exclude-path", "/v1/audit"])
    without = [word for operation in LEFT_OUT for word in ("--exclude-operation-id", operation)]
    second = tried(named(folder), ["--max-examples", "30", "--include-path-regex", "/v1/(sessions|states)", *without])
print(f"schemathesis {version('schemathesis')}: {first} requests without anything there and {second} about a session: all answered as described")
