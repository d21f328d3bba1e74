"""What calls return."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from ._errors import CommandFailed, TimedOut

_STYLE = re.compile(r"\x1b(?:\[[0-9;:]*m|\]8;[^\x07\x1b]*(?:\x07|\x1b\\))")


@dataclass(frozen=True)
class Result:
    """What became of a command."""

    session: str
    output: str
    """What it printed."""
    exit_code: Optional[int]
    """`None` while it waits for input."""
    duration: float
    """Seconds."""
    state: str
    """`done`, `input` (it waits for input), `timeout`, `interrupted` or `ended` (the shell ended)."""
    question: Optional[str] = None
    """If it waits for input: the line that asks, or an empty text."""
    terminal: Optional[str] = None
    """If it waits for input: `line`, `secret` or `raw`."""
    message: Optional[str] = None
    """If it is not done: what nbs says of it."""
    lossy: bool = False
    """Whether bytes that are not UTF-8 were replaced in `output`."""

    @property
    def timed_out(self) -> bool:
        return self.state == "timeout"

    @property
    def ok(self) -> bool:
        return self.state == "done" and self.exit_code == 0

    def check(self) -> Result:
        """Itself, if the command was executed and exited 0. Else raises `TimedOut` or
        `CommandFailed`."""
        if self.ok:
            return self
        tail = self.output.rstrip()[-2000:]
        what = self.message or f"the command exited with {self.exit_code}"
        text = f"{what}; its output ends with:\n{tail}" if tail else what
        answer = {"handle": self.session, "output": self.output}
        exit = self.exit_code if self.exit_code is not None else 123
        if self.timed_out:
            raise TimedOut(text, kind="timeout", exit=124, answer=answer)
        error = CommandFailed(text, kind=self.state, exit=exit, answer=answer)
        error.result = self
        raise error


@dataclass(frozen=True)
class Executed:
    """How a program on a machine ended, that had no session."""

    machine: str
    output: bytes
    """Its standard output."""
    errors: bytes
    """Its standard error."""
    exit_code: int
    """128 + N if signal N ended it."""

    @property
    def text(self) -> str:
        """Its standard output as text."""
        return self.output.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def check(self) -> Executed:
        """Itself, if the program exited 0. Else raises `CommandFailed`."""
        if self.ok:
            return self
        tail = self.errors.decode("utf-8", "replace").rstrip()[-2000:]
        what = f"the program on '{self.machine}' exited with {self.exit_code}"
        text = f"{what}; its standard error ends with:\n{tail}" if tail else what
        error = CommandFailed(text, kind="done", exit=self.exit_code, answer={"output": self.text})
        error.result = self
        raise error


@dataclass(frozen=True)
class Answer:
    """What a program answered to `ask`."""

    session: str
    output: str
    condition: str
    """The condition that ended it: `complete`, `input`, `exit`, or the one that was given."""
    detail: str
    """Of that condition, such as a command's exit code."""
    terminal: Optional[str]
    question: Optional[str]
    """The line that asks, if the program waits for input at a question."""
    offset: int
    lossy: bool = False


@dataclass(frozen=True)
class Met:
    """A condition of `wait` that was met."""

    session: str
    condition: str
    detail: str
    offset: int


@dataclass(frozen=True)
class Output:
    """A part of a session's output."""

    text: str
    offset: int
    """Where it begins, in bytes from the start of the session's output."""
    next_offset: int
    lossy: bool = False

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Chunk:
    """Output as it arrived."""

    text: str
    offset: int
    lost: int = 0
    """The number of bytes right before it that are gone (`max_log`)."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Exit:
    """How a session ended."""

    session: str
    exit_code: Optional[int]
    """128 + N if signal N killed its program. `None` if it is unknown, or the session is alive."""
    signal: Optional[str]
    """The name of the signal that killed its program."""
    ended_by: Optional[str]
    """`self`, `kill`, `timeout`, `idle_timeout`, `memory`, `owner`, `unknown`;
    `None` if it is alive."""
    timed_out: bool


@dataclass(frozen=True)
class SessionInfo:
    """A session, as `status` and `list` show it. `fields` has all that they print."""

    handle: str
    name: Optional[str]
    command: str
    alive: bool
    activity: Optional[str]
    """`waiting`, `failed`, `done`, `working`, `idle` or `dead`."""
    terminal: Optional[str]
    """`prompt`, `line`, `secret`, `raw`, `running`; `None` if it is dead."""
    question: Optional[str]
    exit_code: Optional[int]
    fields: Dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Cursor:
    """Where the cursor is, from 1."""

    row: int
    column: int
    visible: bool


@dataclass(frozen=True)
class Screen:
    """What a person would see."""

    session: str
    lines: Tuple[str, ...]
    """A line for each row, without colours; lines of the scrollback come first."""
    styled: Tuple[str, ...] = field(repr=False)
    """The same with colours, as escape sequences."""
    cursor: Cursor
    size: Optional[Tuple[int, int]]
    """Columns and rows."""
    title: Optional[str]
    alternate: bool
    """Whether a full-screen program shows its own screen."""
    fields: Dict[str, Any] = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """All lines, without blank ones at the end."""
        return "\n".join(self.lines).rstrip("\n")

    def __str__(self) -> str:
        return self.text

    def __contains__(self, text: str) -> bool:
        return text in self.text

    def svg(self) -> str:
        """A picture of it."""
        from ._session import render

        columns, rows = self.size or (80, max(len(self.lines), 1))
        drawn = "\r\n".join(self.styled[-rows:])
        cursor = f"\x1b[{self.cursor.row};{self.cursor.column}H"
        shown = "" if self.cursor.visible else "\x1b[?25l"
        return render(drawn + cursor + shown, size=(columns, rows), svg=True)

    def _repr_svg_(self) -> str:
        return self.svg()


def result_of(said: Dict[str, Any], error: Dict[str, Any]) -> Result:
    state = str(said["result"])
    question = said.get("question")
    return Result(
        session=said["handle"],
        output=said["output"],
        exit_code=said["exit_code"],
        duration=said["duration_ms"] / 1000,
        state=state,
        question=(question or "") if state == "input" else None,
        terminal=said.get("terminal"),
        message=None if state == "done" else error.get("error"),
        lossy=said.get("lossy", False),
    )


def answer_of(said: Dict[str, Any]) -> Answer:
    return Answer(
        session=said["handle"],
        output=said["output"],
        condition=said["condition"],
        detail=str(said["detail"]),
        terminal=said["terminal"],
        question=said["question"],
        offset=said["offset"],
        lossy=said.get("lossy", False),
    )


def met_of(said: Dict[str, Any]) -> Met:
    return Met(said["handle"], said["condition"], str(said["detail"]), said["offset"])


def output_of(said: Dict[str, Any]) -> Output:
    return Output(said["output"], said["offset"], said["next_offset"], said.get("lossy", False))


def exit_of(said: Dict[str, Any]) -> Exit:
    return Exit(
        said["handle"], said["exit_code"], said.get("signal"), said.get("ended_by"), bool(said.get("timed_out"))
    )


def info_of(said: Dict[str, Any]) -> SessionInfo:
    return SessionInfo(
        handle=said["handle"],
        name=said.get("name"),
        command=said.get("command") or "",
        alive=said.get("state") == "alive",
        activity=said.get("activity"),
        terminal=said.get("terminal"),
        question=said.get("question"),
        exit_code=said.get("exit_code"),
        fields=said,
    )


def screen_of(session: str, said: Dict[str, Any]) -> Screen:
    styled: List[str] = said["lines"]
    size, cursor = said.get("size"), said.get("cursor") or {"row": 1, "col": 1, "visible": False}
    return Screen(
        session=session,
        lines=tuple(_STYLE.sub("", line) for line in styled),
        styled=tuple(styled),
        cursor=Cursor(cursor["row"], cursor["col"], cursor["visible"]),
        size=(size["cols"], size["rows"]) if size else None,
        title=said.get("title"),
        alternate=bool(said.get("alternate")),
        fields=said,
    )
