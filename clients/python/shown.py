"""Checks that are run one after another, in threads where they may, and one line at the end that says what was shown."""

import concurrent.futures
import os
import sys
import time
import traceback

from importlib.metadata import version


def raises(kind, act, text=""):
    """The error that `act` ends with, which must be of this kind and hold this text."""
    try:
        act()
    except kind as error:
        assert text in str(error), f"`{text}` is not in: {error}"
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def until(is_so, seconds=5.0):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.02)


def _try(check):
    try:
        check()
    except BaseException:
        return f"{check.__name__} failed:\n{traceback.format_exc()}"
    return None


def show(client, checks, at_once=4):
    """Runs all checks; ends the process, with 1 if one fails."""
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        failed = [text for text in pool.map(_try, checks) if text]
    for text in failed:
        print(text, file=sys.stderr)
    names = ", ".join(check.__name__.replace("_", " ") for check in checks)
    print(f"{client} with e2b {version('e2b')}: {len(checks) - len(failed)} of {len(checks)} in {time.monotonic() - begun:.1f} s: {names}")
    # The client's native part may abort while the interpreter is taken down, long after all is said.
    sys.stdout.flush()
    os._exit(1 if failed else 0)
