"""smolagents' E2BExecutor runs code actions in a sandbox of ringfence; no model is asked.

Its tool for the final answer imports numpy and pillow, which an image for its agents has to have; here it is left out.
"""

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


executor = E2BExecutor([], AgentLogger(level=LogLevel.OFF), timeout=60)
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
finally:
    executor.cleanup()
print(f"smolagents {version('smolagents')}, E2BExecutor with e2b {version('e2b')}: tools and variables sent in, actions with state, errors, lines for a shell")
