"""The exceptions. Each has the evidence of its failure as fields."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Type

_WAITED = re.compile(r"timed out after ([0-9.]+) s\b")
_TERMINAL = re.compile(r"; the terminal's state is ([a-z]+)")
_LAST_LINE = re.compile(r"; last line: '(.*?)'(?:;|$)", re.DOTALL)


class Error(Exception):
    """A call failed.

    `exit` is the exit code of the call. `kind` is its kind in one word. `answer` has what the call
    printed before it failed, as the fields of its JSON object.
    """

    def __init__(
        self, message: str, *, kind: str = "failed", exit: int = 1, answer: Optional[Dict[str, Any]] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.exit = exit
        self.answer: Dict[str, Any] = answer or {}

    def __reduce__(self) -> Any:
        return _again, (type(self), self.message, self.kind, self.exit, self.answer)

    @property
    def session(self) -> Optional[str]:
        """The session's handle, if the call printed it."""
        handle = self.answer.get("handle")
        return None if handle is None else str(handle)

    @property
    def output(self) -> Optional[str]:
        """What the session printed until the call failed, if the call prints that."""
        output = self.answer.get("output")
        return None if output is None else str(output)

    @property
    def waited(self) -> Optional[float]:
        """The seconds after which the call timed out."""
        found = _WAITED.search(self.message)
        return float(found[1]) if found else None

    @property
    def terminal(self) -> Optional[str]:
        """What the terminal was doing: `prompt`, `line`, `secret`, `raw` or `running`."""
        found = _TERMINAL.search(self.message)
        return found[1] if found else None

    @property
    def last_line(self) -> Optional[str]:
        """The last line that the session had printed."""
        found = _LAST_LINE.search(self.message)
        return found[1] if found else None


class NotFound(Error):
    """There is no such session."""


class TimedOut(Error, TimeoutError):
    """The call's timeout passed. What it waited for may still come."""

    __str__ = Exception.__str__


class BadArguments(Error, ValueError):
    """The arguments are wrong. Nothing was tried."""


class NotRun(Error):
    """The command was not run, or its exit code is unknown: the session is busy, has ended, or
    its program is not a shell."""


class ConnectionLost(Error, ConnectionError):
    """The connection to the session's machine is lost, or there was none."""

    __str__ = Exception.__str__


class CommandFailed(Error):
    """`check` found a command that failed, was interrupted or waits for input.

    `result` is its `Result`, or the `Executed` of a program without a session.
    """

    result: Any = None


def error_of(said: Dict[str, Any], answer: Dict[str, Any]) -> Error:
    """The exception for the JSON object of an error; `answer` is what was printed before it."""
    exit = int(said.get("exit", 1))
    word = str(said.get("kind", "failed"))
    words: Dict[str, Type[Error]] = {"not_found": NotFound, "timeout": TimedOut, "bad_arguments": BadArguments}
    codes: Dict[int, Type[Error]] = {2: NotFound, 3: TimedOut, 4: BadArguments, 125: NotRun, 255: ConnectionLost}
    kind = words.get(word) or codes.get(exit, Error)
    return kind(str(said.get("error")), kind=word, exit=exit, answer=answer)


def _again(kind: Type[Error], message: str, word: str, exit: int, answer: Dict[str, Any]) -> Error:
    return kind(message, kind=word, exit=exit, answer=answer)
