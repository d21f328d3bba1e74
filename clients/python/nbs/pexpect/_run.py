"""A program, run to its end."""

from __future__ import annotations

from typing import Any, Optional

from ._exceptions import EOF, TIMEOUT
from ._spawn import spawn


def run(
    command: str,
    timeout: Optional[float] = 30,
    withexitstatus: bool = False,
    events: Any = None,
    extra_args: Any = None,
    logfile: Any = None,
    cwd: Any = None,
    env: Any = None,
    **kwargs: Any,
) -> Any:
    """Runs a program, and returns its output; with `withexitstatus` also its exit code.

    `events` are pairs, or a mapping, of patterns and answers. An answer is a text, or a function
    that is given a dictionary (`child`, `event_count`, `extra_args`, ...) and returns a text to
    type, or true to stop.
    """
    if timeout == -1:
        child = spawn(command, maxread=2000, logfile=logfile, cwd=cwd, env=env, **kwargs)
    else:
        child = spawn(command, timeout=timeout, maxread=2000, logfile=logfile, cwd=cwd, env=env, **kwargs)
    pairs = list(events.items()) if isinstance(events, dict) else list(events or [])
    patterns = [pattern for pattern, _ in pairs] if events is not None else None
    child_result_list = []
    event_count = 0
    while True:
        try:
            index = child.expect(patterns)
        except (TIMEOUT, EOF):
            child_result_list.append(child.before)
            break
        after = child.after if isinstance(child.after, child.allowed_string_types) else child.string_type()
        child_result_list.append(child.before + after)
        answer = pairs[index][1]
        if callable(answer):
            answer = answer(locals())
        elif not isinstance(answer, child.allowed_string_types):
            raise TypeError(f"parameter `event' at index {index} must be a string, method, or function: {answer!r}")
        if isinstance(answer, child.allowed_string_types):
            child.send(answer)
        elif answer:
            break
        event_count += 1
    result = child.string_type().join(child_result_list)
    child.close()
    return (result, child.exitstatus) if withexitstatus else result


def runu(command: str, timeout: Optional[float] = 30, **kwargs: Any) -> Any:
    """The same with the encoding UTF-8."""
    kwargs.setdefault("encoding", "utf-8")
    return run(command, timeout=timeout, **kwargs)
