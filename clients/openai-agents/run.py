"""The E2B sandbox client of the OpenAI Agents SDK works on a sandbox of ringfence; no model is asked."""

import asyncio
import io
from importlib.metadata import version
from pathlib import Path

from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.sandbox import Manifest
from agents.sandbox.entries import File

ROOT = "/home/user/workspace"


async def main():
    client = E2BSandboxClient()
    manifest = Manifest(root=ROOT, entries={"given.txt": File(content=b"given\n")})
    options = E2BSandboxClientOptions(sandbox_type="e2b", template="base", timeout=60, on_timeout="kill", exposed_ports=(8000,))
    session = await client.create(manifest=manifest, options=options)
    try:
        await session.start()
        assert await session.running()
        done = await session.exec("cat given.txt; pwd; echo err >&2; exit 3")
        assert (done.exit_code, done.stdout, done.stderr) == (3, f"given\n{ROOT}\n".encode(), b"err\n"), done
        await session.write(Path("made/by/hand.txt"), io.BytesIO(b"made"))
        assert (await session.read(Path("made/by/hand.txt"))).read() == b"made"
        assert "given.txt" in str(await session.ls("."))
        terminal = await session.pty_exec_start("bash", tty=True, yield_time_s=1.0)
        said = await session.pty_write_stdin(session_id=terminal.process_id, chars="echo $((40 + 2)); exit\n", yield_time_s=2.0)
        assert b"42" in terminal.output + said.output, (terminal, said)
        kept = await session.persist_workspace()
        endpoint = await session.resolve_exposed_port(8000)
        assert endpoint.host.startswith("8000-") and not endpoint.tls, endpoint
        other = await client.create(manifest=Manifest(root=ROOT), options=options)
        try:
            await other.start()
            await other.hydrate_workspace(kept)
            assert (await other.exec("cat made/by/hand.txt")).stdout == b"made"
        finally:
            await client.delete(other)
    finally:
        await client.delete(session)
    print(
        f"openai-agents {version('openai-agents')}, E2BSandboxClient with e2b {version('e2b')}: "
        "a manifest laid out, exec, files, a terminal, a workspace taken out and put into another sandbox, an exposed port"
    )


asyncio.run(main())
