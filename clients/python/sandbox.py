"""E2B's own Python client, without a change to it, drives sandboxes of ringfence. Run with E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY set."""

import io
import json
import os
import urllib.error
import urllib.request
import uuid

from e2b import (
    AuthenticationException, CommandExitException, FileType, FilesystemEventType, InvalidArgumentException, NotFoundException, Sandbox,
    SandboxException, SandboxQuery, SandboxState, TimeoutException,
)
from e2b.sandbox.commands.command_handle import PtySize
from e2b.sandbox.filesystem.filesystem import WriteEntry

from shown import raises, show, until

BASE = os.environ["E2B_SANDBOX_URL"]


class Box:
    """A sandbox that is gone at the end."""

    def __init__(self, **asked):
        self.asked = {"timeout": 60, **asked}

    def __enter__(self):
        self.sandbox = Sandbox.create("base", **self.asked)
        return self.sandbox

    def __exit__(self, *_):
        self.sandbox.kill()


def fetch(url, headers=None):
    """The status and body of a URL, whatever it is."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {})) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def commands_run_to_their_end():
    with Box(envs={"MODE": "box"}) as box:
        done = box.commands.run("echo out $MODE; echo err >&2; id -un; pwd")
        assert (done.stdout, done.stderr, done.exit_code) == ("out box\nuser\n/home/user\n", "err\n", 0), done
        assert box.commands.run('echo "two\nlines !@#$%^&*()_+"').stdout == "two\nlines !@#$%^&*()_+\n"
        broken = box.commands.run('printf "%s" "' + "a" * 8191 + '"; printf "\\xe2"')
        assert broken.stdout == "a" * 8191 + "\ufffd"
        assert box.commands.run("echo $MODE", envs={"MODE": "own"}).stdout == "own\n"
        assert box.commands.run("echo $MODE").stdout == "box\n", "a variable of one command is nobody else's"
        failed = raises(CommandExitException, lambda: box.commands.run("echo x; exit 7"))
        assert (failed.exit_code, failed.stdout) == (7, "x\n")
        raises(TimeoutException, lambda: box.commands.run("sleep 20", timeout=0.5))
        raises(InvalidArgumentException, lambda: box.commands.run("true", cwd="/no/such"), "does not exist")
        assert box.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
        raises(AuthenticationException, lambda: box.commands.run("true", user="root"), "root")


def commands_in_the_background():
    with Box() as box:
        slow = box.commands.run("echo begun; sleep 30", background=True)
        assert slow.pid in [process.pid for process in box.commands.list()]
        again = box.commands.connect(slow.pid)
        assert box.commands.kill(slow.pid)
        raises(CommandExitException, again.wait)
        raises(CommandExitException, lambda: box.commands.run(f"kill -0 {slow.pid}"))
        assert box.commands.kill(999_999) is False
        raises(NotFoundException, lambda: box.commands.connect(999_999))
        late = box.commands.run("exit 3", background=True)
        until(lambda: late.pid not in [process.pid for process in box.commands.list()])
        assert raises(CommandExitException, box.commands.connect(late.pid).wait).exit_code == 3
        heard = []
        box.commands.run("for i in 1 2 3; do echo $i; sleep 0.05; done", on_stdout=heard.append)
        assert "".join(heard) == "1\n2\n3\n"
        handle = box.commands.run("sleep 20", timeout=0.5, background=True)
        raises(TimeoutException, lambda: list(handle))
        assert box.is_running(), "what a command's deadline ends is the command"


def standard_input():
    with Box() as box:
        for text in ("Hello", "!@#$%^&*()_+", "two\nlines"):
            cat = box.commands.run("cat", background=True, stdin=True)
            box.commands.send_stdin(cat.pid, text)
            assert next(iter(cat))[0] == text
            cat.kill()
        count = box.commands.run("wc -c", background=True, stdin=True)
        for _ in range(20):
            count.send_stdin("x" * 1000) if hasattr(count, "send_stdin") else box.commands.send_stdin(count.pid, "x" * 1000)
        box.commands.close_stdin(count.pid)
        assert count.wait().stdout.strip() == "20000"


def terminals():
    with Box() as box:
        terminal = box.pty.create(PtySize(rows=24, cols=80), envs={"FOO": "bar"}, cwd="/")
        box.pty.send_stdin(terminal.pid, b"echo $FOO; pwd; tput cols\n")
        first, second = b"", []
        for _, _, said in terminal:
            first += said or b""
            if b"bar\r\n/\r\n80\r\n" in first:
                break
        terminal.disconnect()
        again = box.pty.connect(terminal.pid)
        box.pty.resize(terminal.pid, PtySize(rows=30, cols=101))
        box.pty.send_stdin(terminal.pid, b"tput cols; exit\n")
        assert again.wait(on_pty=second.append).exit_code == 0
        assert b"101\r\n" in b"".join(second)
        other = box.pty.create(PtySize(rows=24, cols=80))
        assert box.pty.kill(other.pid)
        assert raises(CommandExitException, other.wait).exit_code != 0
        assert box.pty.kill(999_999) is False


def files():
    with Box() as box:
        assert box.files.write("a/b.txt", "hello").path == "/home/user/a/b.txt"
        assert box.files.read("a/b.txt") == "hello" == box.files.read("~/a/b.txt")
        box.files.write("a/b.txt", "anew")
        assert box.files.read("a/b.txt", format="bytes") == b"anew"
        box.files.write("binary", io.BytesIO(bytes(range(256))))
        assert bytes(box.files.read("binary", format="bytes")) == bytes(range(256))
        long = "Streamed content. " * 20_000
        box.files.write("long", long)
        assert b"".join(box.files.read("long", format="stream")).decode() == long
        assert b"".join(box.files.read("long", format="stream", gzip=True)).decode() == long
        box.files.write("packed", long, gzip=True)
        assert box.files.read("packed", gzip=True) == long == box.files.read("packed")
        box.files.write("raw", long, use_octet_stream=True)
        assert box.files.read("raw") == long
        box.commands.run("touch empty")
        assert box.files.read("empty") == ""
        raises(NotFoundException, lambda: box.files.read("none"))
        raises(InvalidArgumentException, lambda: box.files.read("a"))
        assert box.files.write_files([]) == []
        many = [WriteEntry(path=f"many/{i}.txt", data=f"file {i}") for i in range(10)]
        assert [one.path for one in box.files.write_files(many)] == [f"/home/user/many/{i}.txt" for i in range(10)]
        assert [box.files.read(f"many/{i}.txt") for i in range(10)] == [f"file {i}" for i in range(10)]
        assert box.files.exists("a/b.txt") and not box.files.exists("a/c.txt")
        raises(AuthenticationException, lambda: box.files.write("x", "y", user="root"))


def entries():
    with Box() as box:
        home = box.commands.run("pwd").stdout.strip()
        assert box.files.make_dir("d/one/deep") and box.files.make_dir("d/two") and not box.files.make_dir("d")
        box.files.write("d/f.txt", "Hello")
        raises(InvalidArgumentException, lambda: box.files.make_dir("d/f.txt"))
        names = lambda depth: [entry.path.removeprefix(f"{home}/d/") for entry in box.files.list("d", depth=depth)]
        assert names(None) == names(1) == ["f.txt", "one", "two"]
        assert names(2) == names(9) == ["f.txt", "one", "one/deep", "two"]
        raises(InvalidArgumentException, lambda: box.files.list("d", depth=-1), "depth should be at least 1")
        raises(NotFoundException, lambda: box.files.list("none"))
        raises(InvalidArgumentException, lambda: box.files.list("d/f.txt"))
        file, folder = box.files.get_info("d/f.txt"), box.files.get_info("d")
        assert (file.name, file.type, file.size, file.mode, file.permissions) == ("f.txt", FileType.FILE, 5, 0o644, "-rw-r--r--"), file
        assert (file.owner, file.group, file.symlink_target, file.metadata) == ("user", "user", None, None), file
        assert (folder.type, folder.mode, folder.permissions, folder.owner) == (FileType.DIR, 0o755, "drwxr-xr-x", "user"), folder
        assert folder.size > 0 and file.modified_time is not None
        box.commands.run("ln -s f.txt link", cwd="d")
        assert box.files.get_info("d/link").symlink_target == f"{home}/d/f.txt" and box.files.get_info("d/link").type == FileType.FILE
        assert box.files.rename("d/f.txt", "e/g.txt").path == f"{home}/e/g.txt" and not box.files.exists("d/f.txt")
        raises(NotFoundException, lambda: box.files.rename("none", "other"))
        raises(NotFoundException, lambda: box.files.get_info("none"))
        box.files.remove("d")
        box.files.remove("d")
        assert not box.files.exists("d")


def words_beside_files():
    with Box() as box:
        words = {"author": "mish", "purpose": "upload"}
        for raw in (False, True):
            assert box.files.write("w.txt", "x", metadata=words, use_octet_stream=raw).metadata == words
            assert box.files.get_info("w.txt").metadata == words
        assert box.files.rename("w.txt", "v.txt").metadata == words
        assert {entry.name: entry.metadata for entry in box.files.list(".")}["v.txt"] == words
        assert box.files.write("v.txt", "y").metadata is None and box.files.get_info("v.txt").metadata is None
        path = box.commands.run("realpath v.txt").stdout.strip()
        box.commands.run(f"""python3 -c "import os; os.setxattr('{path}', 'user.e2b.author', b'inside')" """)
        assert box.files.get_info("v.txt").metadata == {"author": "inside"}


def watched_folders():
    with Box() as box:
        box.files.make_dir("w/nested")
        handle, deep = box.files.watch_dir("w"), box.files.watch_dir("w", recursive=True, include_entry=True)
        box.files.write("w/f.txt", "x")
        seen = [(event.type, event.name) for event in handle.get_new_events()]
        kinds = [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE]
        assert seen == [(kind, "f.txt") for kind in kinds], seen
        assert handle.get_new_events() == []
        box.files.write("w/f.txt", "y")
        assert FilesystemEventType.WRITE in [event.type for event in handle.get_new_events()]
        box.files.make_dir("w/new")
        box.files.write("w/new/g.txt", "x")
        box.files.write("w/nested/h.txt", "x")
        events = deep.get_new_events()
        told = {(event.type, event.name) for event in events}
        assert {(FilesystemEventType.CREATE, "new"), (FilesystemEventType.WRITE, "new/g.txt")} <= told, told
        assert (FilesystemEventType.CREATE, "nested/h.txt") in told and events[0].entry.path == "/home/user/w/f.txt"
        handle.stop()
        deep.stop()
        raises(NotFoundException, lambda: box.files.watch_dir("none"))
        raises(SandboxException, lambda: box.files.watch_dir("w/f.txt"))


def signed_links():
    with Box(secure=True) as box, Box(secure=True) as other:
        box.files.write("s.txt", "signed")
        assert fetch(box.download_url("s.txt", "user")) == (200, b"signed")
        assert fetch(box.download_url("s.txt", use_signature_expiration=60)) == (200, b"signed")
        status, body = fetch(box.download_url("s.txt", "user", use_signature_expiration=-60))
        assert (status, json.loads(body)) == (401, {"code": 401, "message": "signature is already expired"}), body
        assert fetch(box.download_url("s.txt").replace("v1_", "v1_x"))[0] == 401
        assert fetch(box.download_url("s.txt").replace("s.txt", "t.txt"))[0] == 401
        assert fetch(other.download_url("s.txt"))[0] == 404, "a link leads to the files of the sandbox that signed it"
        headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49983"}
        assert fetch(f"{BASE}/files?path=s.txt", headers)[0] == 401
        assert fetch(other.download_url("s.txt"), headers)[0] == 401, "a signature of another sandbox opens nothing"


def ports():
    with Box() as box:
        box.files.write("page.txt", "from inside")
        box.commands.run("python3 -m http.server 8000", background=True)
        host = {"Host": box.get_host(8000)}
        until(lambda: fetch(f"{BASE}/page.txt", host) == (200, b"from inside"))
        headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "8000"}
        assert fetch(f"{BASE}/page.txt", headers) == (200, b"from inside")
        status, body = fetch(f"{BASE}/", {"Host": box.get_host(3000)})
        closed = {"sandboxId": box.sandbox_id, "message": "The sandbox is running but port is not open", "port": 3000, "code": 502}
        assert (status, json.loads(body)) == (502, closed), body
    with Box(network={"allow_public_traffic": False}) as box:
        box.commands.run("python3 -m http.server 8000", background=True)
        host = {"Host": box.get_host(8000)}
        token = {**host, "e2b-traffic-access-token": box.traffic_access_token}
        until(lambda: fetch(f"{BASE}/", token)[0] == 200)
        assert fetch(f"{BASE}/", host)[0] == 403


def life():
    mark = str(uuid.uuid4())
    of_mark = SandboxQuery(metadata={"mark": mark})
    with Box(metadata={"mark": mark}, timeout=20) as first, Box(metadata={"mark": mark}) as second:
        pages = Sandbox.list(query=SandboxQuery(metadata={"mark": mark}, state=[SandboxState.RUNNING]), limit=1)
        assert [one.sandbox_id for one in pages.next_items()] == [second.sandbox_id] and pages.has_next
        assert [one.sandbox_id for one in pages.next_items()] == [first.sandbox_id] and not pages.has_next
        before = first.get_info()
        assert before.metadata == {"mark": mark} and before.template_id == "base"
        Sandbox.connect(first.sandbox_id, timeout=5)
        assert first.get_info().end_at == before.end_at, "connecting makes a life no shorter"
        Sandbox.connect(first.sandbox_id, timeout=50)
        assert first.get_info().end_at > before.end_at
        assert Sandbox.connect(first.sandbox_id).commands.run("echo again").stdout == "again\n"
        metric = first.get_metrics()[0]
        assert metric.cpu_count >= 1 and metric.mem_total > 0 and metric.disk_total > 0
        first.set_timeout(1)
        until(lambda: not first.is_running(request_timeout=5))
        raises(TimeoutException, lambda: first.commands.run("true"))
        assert second.kill() and not second.kill()
        assert Sandbox.list(query=of_mark).next_items() == []
        raises(NotFoundException, lambda: Sandbox.connect("no-such-sandbox"))
        assert Sandbox.kill("no-such-sandbox") is False


def a_sandbox_that_is_killed_meanwhile():
    with Box() as box:
        command = box.commands.run("sleep 60", background=True)
        box.kill()
        raises(SandboxException, command.wait, "sandbox was killed or reached its end of life")


def what_is_refused():
    raises(SandboxException, lambda: Sandbox.create("base", mcp={"server": {}}), "Failed to start MCP gateway")
    raises(SandboxException, lambda: Sandbox.create("base", timeout=10_000_000), "profile allows")
    raises(SandboxException, lambda: Sandbox.create("no-such-template"), "template")
    raises(SandboxException, lambda: Sandbox.create("base", network={"allow_out": ["example.com"], "deny_out": ["0.0.0.0/0"]}), "example.com")
    raises(AuthenticationException, lambda: Sandbox.create("base", api_key="e2b_" + "0" * 64))
    with Box(allow_internet_access=False) as box:
        assert box.get_info().allow_internet_access is False
        raises(CommandExitException, lambda: box.commands.run("curl --connect-timeout 2 -s https://example.com"))


if __name__ == "__main__":
    show("the Python client", [
        a_sandbox_that_is_killed_meanwhile, life, commands_in_the_background, watched_folders, commands_run_to_their_end, standard_input,
        terminals, files, entries, words_beside_files, signed_links, ports, what_is_refused,
    ])
