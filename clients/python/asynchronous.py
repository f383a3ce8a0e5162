"""E2B's asynchronous Python client, without a change to it: the same sandboxes, heard as they speak. Environment as for sandbox.py."""

import asyncio

from e2b import AsyncSandbox, CommandExitException, FilesystemEventType, NotFoundException, SandboxException, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize

from shown import show


async def refused(kind, act, text=""):
    try:
        await act
    except kind as error:
        assert text in str(error), f"`{text}` is not in: {error}"
        return
    raise AssertionError(f"no {kind.__name__} was raised")


class Box:
    """A sandbox that is gone at the end."""

    def __init__(self, **asked):
        self.asked = {"timeout": 60, **asked}

    async def __aenter__(self):
        self.sandbox = await AsyncSandbox.create("base", **self.asked)
        return self.sandbox

    async def __aexit__(self, *_):
        await self.sandbox.kill()


async def until(event):
    await asyncio.wait_for(event.wait(), 5)


async def _commands():
    async with Box() as box:
        heard, came = [], asyncio.Event()
        done = await box.commands.run("echo out; echo err >&2", on_stdout=heard.append, on_stderr=heard.append)
        assert sorted(heard) == ["err\n", "out\n"] and done.stdout == "out\n"
        cat = await box.commands.run("cat", background=True, stdin=True, on_stdout=lambda _: came.set())
        await box.commands.send_stdin(cat.pid, "two\nlines!")
        await until(came)
        assert cat.stdout == "two\nlines!"
        assert await box.commands.kill(cat.pid) and not await box.commands.kill(999_999)
        await refused(CommandExitException, cat.wait())
        await refused(TimeoutException, box.commands.run("sleep 20", timeout=0.5))
        many = await asyncio.gather(*(box.commands.run(f"echo {i}") for i in range(20)))
        assert [one.stdout for one in many] == [f"{i}\n" for i in range(20)]


async def _watching():
    async with Box() as box:
        await box.files.make_dir("w/nested")
        seen = asyncio.Queue()
        handle = await box.files.watch_dir("w", on_event=seen.put_nowait, recursive=True)

        async def comes(kind, name):
            async with asyncio.timeout(5):
                while True:
                    event = await seen.get()
                    if (event.type, event.name) == (kind, name):
                        return

        await box.files.write("w/f.txt", "x")
        await comes(FilesystemEventType.WRITE, "f.txt")
        await box.files.write("w/nested/g.txt", "x")
        await comes(FilesystemEventType.WRITE, "nested/g.txt")
        await box.files.make_dir("w/new")
        await comes(FilesystemEventType.CREATE, "new")
        await box.files.write("w/new/h.txt", "x")
        await comes(FilesystemEventType.WRITE, "new/h.txt")
        await box.files.rename("w/new/h.txt", "w/new/i.txt")
        await comes(FilesystemEventType.RENAME, "new/h.txt")
        await box.files.remove("w/new")
        await comes(FilesystemEventType.REMOVE, "new")
        await handle.stop()
        await refused(NotFoundException, box.files.watch_dir("none", on_event=print))
        await refused(SandboxException, box.files.watch_dir("w/f.txt", on_event=print))


async def _terminal():
    async with Box() as box:
        said = []
        terminal = await box.pty.create(PtySize(rows=24, cols=80), on_data=said.append, envs={"FOO": "bar"})
        await box.pty.resize(terminal.pid, PtySize(rows=24, cols=100))
        await box.pty.send_stdin(terminal.pid, b"echo $FOO; tput cols; exit\n")
        assert (await terminal.wait()).exit_code == 0
        assert b"bar\r\n100\r\n" in b"".join(said), said


async def _files():
    async with Box() as box:
        text = "Streamed content. " * 20_000
        await box.files.write("a/long", text, gzip=True)
        assert await box.files.read("a/long") == text
        parts = [part async for part in await box.files.read("a/long", format="stream")]
        assert b"".join(parts).decode() == text
        assert [entry.name for entry in await box.files.list("a")] == ["long"] and not await box.files.exists("b")


async def _killed():
    async with Box() as box:
        command = await box.commands.run("sleep 60", background=True)
        await box.kill()
        await refused(SandboxException, command.wait(), "sandbox was killed or reached its end of life")


def check(name, of):
    def run():
        asyncio.run(of())

    run.__name__ = name
    return run


if __name__ == "__main__":
    show("the asynchronous Python client", [
        check("commands", _commands), check("watching", _watching), check("a_terminal", _terminal), check("files", _files),
        check("a_sandbox_that_is_killed_meanwhile", _killed),
    ], at_once=1)
