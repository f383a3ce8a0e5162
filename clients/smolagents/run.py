"""smolagents' E2BExecutor runs code actions in a sandbox of ringfence; no model is asked."""

from importlib.metadata import version

from smolagents import LogLevel, tool
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import E2BExecutor
from smolagents.utils import AgentError


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: The number.
    """
    return 2 * number


@tool
def final_answer(answer: dict) -> dict:
    """Gives the final answer. smolagents' own tool is the same, but imports numpy and pillow, which the image may not have.

    Args:
        answer: The answer.
    """
    return answer


executor = E2BExecutor([], AgentLogger(level=LogLevel.ERROR), timeout=60)
try:
    executor.send_tools({"double": double})
    executor.send_variables({"given": [1, 2, 3]})
    first = executor("x = double(sum(given))\nprint('seen')\nx")
    assert (first.output, first.logs.strip(), first.is_final_answer) == ("12", "seen", False), first
    assert executor("x + 1").output == "13", "the state is kept from one action to the next"
    try:
        executor("1 / 0")
        raise SystemExit("an action that fails is told")
    except AgentError as error:
        assert "ZeroDivisionError" in str(error), error
    assert executor.run_code_raise_errors("!echo by a shell").logs.strip() == "by a shell", "as packages are installed"
    executor.send_tools({"final_answer": final_answer})
    last = executor("final_answer({'answer': x})")
    assert (last.output, last.is_final_answer) == ({"answer": 12}, True), last
finally:
    executor.cleanup()
print(f"smolagents {version('smolagents')}, E2BExecutor with e2b {version('e2b')}: tools and variables sent in, actions with state, errors, a final answer")
