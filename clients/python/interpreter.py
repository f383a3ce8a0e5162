"""E2B's code interpreter for Python, without a change to it, runs cells in sandboxes of ringfence. Environment as for sandbox.py."""

import threading
import time

from e2b import SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox

from shown import raises, show


class Box:
    """A sandbox that is gone at the end."""

    def __init__(self, **asked):
        self.asked = {"timeout": 60, **asked}

    def __enter__(self):
        self.sandbox = Sandbox.create(**self.asked)
        return self.sandbox

    def __exit__(self, *_):
        self.sandbox.kill()


def cells_keep_their_state():
    with Box() as box:
        first = box.run_code("x = 1\nprint('hi')\nx")
        assert (first.text, first.logs.stdout, first.execution_count) == ("1", ["hi\n"], 1), first
        assert box.run_code("x += 1; x").text == "2"
        failed = box.run_code("import sys; print('bad', file=sys.stderr); 1/0")
        assert (failed.error.name, failed.error.value, failed.logs.stderr) == ("ZeroDivisionError", "division by zero", ["bad\n"]), failed
        assert "1/0" in failed.error.traceback
        assert box.run_code("from pathlib import Path; print(Path.cwd())").logs.stdout == ["/home/user\n"]
        assert box.commands.run("echo beside").stdout == "beside\n"
        again = Sandbox.connect(box.sandbox_id)
        assert again.run_code("x").text == "2", "who comes back finds the state"


def what_cells_say_comes_as_it_is_said():
    with Box() as box:
        out, results, errors = [], [], []
        box.run_code(
            "import sys\nprint('out')\nprint('err', file=sys.stderr)\n7",
            on_stdout=lambda line: out.append(line.line), on_stderr=lambda line: errors.append(line.line), on_result=results.append,
        )
        assert (out, errors, [result.text for result in results]) == (["out\n"], ["err\n"], ["7"])
        shown = box.run_code("class T:\n  def _repr_html_(self): return '<b>x</b>'\nT()").results[0]
        assert shown.html == "<b>x</b>" and shown.is_main_result


def languages():
    with Box() as box:
        assert box.run_code("let a = 5; a * 2", language="js").text == "10"
        assert box.run_code("console.log('Hello')", language="javascript").logs.stdout == ["Hello\n"]
        assert box.run_code("cd /tmp; V=1", language="bash").error is None
        assert "".join(box.run_code("pwd; echo $V", language="bash").logs.stdout) == "/tmp\n1\n", "in as many pieces as it is written in"
        raises(SandboxException, lambda: box.run_code("1", language="r"), "no code context speaks `r`")


def contexts():
    with Box() as box:
        names = [context.language for context in box.list_code_contexts()]
        assert names == ["python", "javascript"], names
        own = box.create_code_context(language="python", cwd="/home/user/made/for/it")
        last = box.list_code_contexts()[-1]
        assert (last.id, last.language, last.cwd) == (own.id, own.language, "/home/user/made/for/it")
        assert box.run_code("import os; y = 1; os.getcwd()", context=own).text == "/home/user/made/for/it"
        assert box.run_code("y").error.name == "NameError", "contexts share nothing"
        box.restart_code_context(own.id)
        assert box.run_code("y", context=own).error.name == "NameError", "a context that begins anew knows nothing"
        box.remove_code_context(own.id)
        raises(SandboxException, lambda: box.run_code("1", context=own))
        raises(SandboxException, lambda: box.restart_code_context("none"))


def variables():
    with Box(envs={"FOO": "sandbox"}) as box:
        read = "import os; os.getenv('FOO')"
        assert [box.run_code(read).text, box.run_code(read, envs={"FOO": "own"}).text, box.run_code(read).text] == ["sandbox", "own", "sandbox"]
        box.run_code("os.environ['FOO'] = 'code'")
        assert [box.run_code(read, envs={"FOO": "own"}).text, box.run_code(read).text] == ["own", "code"]
        assert "".join(box.run_code("echo $FOO", language="bash", envs={"FOO": "own"}).logs.stdout) == "own\n"


def a_cell_that_takes_too_long_is_interrupted():
    with Box() as box:
        box.run_code("x = 1")
        raises(TimeoutException, lambda: box.run_code("import time; time.sleep(30)", timeout=0.5))
        begun = time.monotonic()
        assert box.run_code("x", timeout=10).text == "1", "its context and its state are as they were"
        assert time.monotonic() - begun < 5


def a_context_that_is_restarted_meanwhile():
    with Box() as box:
        own, ended = box.create_code_context(), []
        runs = threading.Thread(target=lambda: ended.append(box.run_code("print('on'); import time; time.sleep(30)", context=own)))
        runs.start()
        time.sleep(0.5)
        box.restart_code_context(own.id)
        runs.join(5)
        assert ended and ended[0].error.name == "ContextRestarting", ended
        assert box.run_code("1 + 1", context=own).text == "2"


if __name__ == "__main__":
    show("the code interpreter for Python", [
        a_cell_that_takes_too_long_is_interrupted, cells_keep_their_state, what_cells_say_comes_as_it_is_said, languages, contexts, variables,
        a_context_that_is_restarted_meanwhile,
    ], at_once=3)
