"""The E2B backend of LangChain's deep agents works on a sandbox of ringfence; no model is asked."""

from importlib.metadata import version

import e2b
from langchain_e2b import E2BSandbox

sandbox = e2b.Sandbox.create("base", timeout=60)
try:
    backend = E2BSandbox(sandbox=sandbox)
    done = backend.execute("echo out; echo err >&2; exit 3")
    assert (done.exit_code, done.output.split()) == (3, ["out", "err"]), done
    assert backend.execute("sleep 20", timeout=1).exit_code == 124
    assert backend.write("/home/user/notes/a.txt", "one\ntwo\nthree\n").error is None
    assert backend.edit("/home/user/notes/a.txt", "two", "2").error is None
    assert backend.execute("cat notes/a.txt").output == "one\n2\nthree\n"
    assert "2" in str(backend.read("/home/user/notes/a.txt"))
    assert "a.txt" in str(backend.ls("/home/user/notes"))
    assert "a.txt" in str(backend.glob("**/*.txt", "/home/user"))
    assert "three" in str(backend.grep("three", "/home/user"))
    assert backend.upload_files([("/home/user/b.bin", bytes(range(256)))])[0].error is None
    fetched = backend.download_files(["/home/user/b.bin", "/home/user/none"])
    assert fetched[0].content == bytes(range(256)) and fetched[1].error == "file_not_found", fetched
finally:
    sandbox.kill()
print(f"langchain-e2b {version('langchain-e2b')} with e2b {version('e2b')}: execute, write, edit, read, ls, glob, grep, upload, download")
