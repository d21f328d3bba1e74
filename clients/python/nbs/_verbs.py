"""The commands of nbs-ts as functions that make calls. Nothing here starts a process.

Each function is named as its command, its parameters are the command's options, and it is
written once: `Session`, `AsyncSession` and the functions of the package are made of it. A test
compares all of it with `nbs-ts help --json`.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

from ._answers import (
    Answer,
    Executed,
    Exit,
    Met,
    Output,
    Result,
    Screen,
    SessionInfo,
    answer_of,
    exit_of,
    info_of,
    met_of,
    output_of,
    result_of,
    screen_of,
)
from ._errors import BadArguments, Error, TimedOut, error_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

Time = Union[float, str, datetime.timedelta]
"""Seconds, a text like `500ms` or `2m`, or a `timedelta`."""
Amount = Union[int, str]
"""Bytes, or a text like `64K`."""
Texts = Union[str, Sequence[str]]
Pair = Union[str, Tuple[int, int]]
"""Columns and rows, or a text like `80x24`."""
Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Sequence[Path]]


@dataclass
class Call(Generic[T]):
    """What to start, and how to read what it prints."""

    words: List[str]
    read: Callable[[Printed], T]
    stdin: Optional[bytes] = None
    limit: Optional[float] = None
    """The seconds after which the caller ends it, if it has no timeout of its own."""

    def timed_out(self, output: bytes) -> TimedOut:
        """The error of a call that has been ended after its limit."""
        text = f"'nbs-ts {self.words[0]}' timed out after {_word('timeout', self.limit)} s"
        answer = {"output": output.decode("utf-8", "replace")}
        return TimedOut(text, kind="timeout", exit=3, answer=answer)

    def result(self, code: int, output: bytes, errors: bytes) -> T:
        printed = Printed(output, errors, code)
        # Lines that are no object are remarks, such as that no helper is running.
        for line in errors.decode("utf-8", "replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                said = {"error": line.partition(": ")[2] or line, "exit": code} if code else None
            if isinstance(said, dict) and "error" in said:
                printed.error = said
        if code and not printed.error:
            how = f"exited with {code}" if code > 0 else f"was ended by signal {-code}"
            printed.error = {"error": f"'nbs-ts {self.words[0]}' {how}", "exit": max(code, 1)}
        return self.read(printed)


@dataclass
class Printed:
    """What a call printed."""

    output: bytes
    errors: bytes = b""
    code: int = 0
    error: Dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        if self.error:
            raise error_of(self.error, {})
        return self.output.decode("utf-8", "replace")

    def objects(self) -> List[Dict[str, Any]]:
        """The objects of a call that did what it was asked."""
        objects = self.all()
        for said in objects:
            # A program that ignores SIGCHLD does not see the exit code.
            if said.get("condition") == "fail":
                text = f"session '{said['handle']}' printed '{said['detail']}'"
                raise Error(text, kind="fail", exit=1, answer=said)
        if self.error:
            raise error_of(self.error, objects[0] if objects else {})
        return objects

    def object(self) -> Dict[str, Any]:
        objects = self.objects()
        if not objects:
            raise Error("the call printed nothing")
        return objects[0]

    def all(self) -> List[Dict[str, Any]]:
        return [json.loads(line) for line in self.output.decode("utf-8", "replace").split("\n") if line]


def words_of(**given: Any) -> List[str]:
    """Options of the command line. What is `None` or `False` is not given."""
    words: List[str] = []
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        several = [value] if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) else value
        words += [f"{option}={_word(name, one)}" for one in several]
    return words


def _word(name: str, value: Any) -> str:
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, float):
        # Never as 1e-05.
        value = f"{value:f}".rstrip("0").rstrip(".")
    word = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if "\0" in word:
        raise BadArguments(f"{name}: it contains a NUL", kind="bad_arguments", exit=4)
    return word


_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(time: Optional[Time]) -> Optional[float]:
    """For a timeout that the call itself does not have."""
    if time is None or isinstance(time, (int, float)):
        return time
    if isinstance(time, datetime.timedelta):
        return time.total_seconds()
    found = _TIME.fullmatch(time)
    if found is None:
        raise BadArguments(f"invalid TIME '{time}'", kind="bad_arguments", exit=4)
    return float(found[1]) * _UNITS[found[2] or "s"]


def _size(size: Optional[Pair]) -> Optional[str]:
    return size if size is None or isinstance(size, str) else f"{size[0]}x{size[1]}"


def _bytes(text: Union[str, bytes]) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def command_text(command: Texts) -> str:
    """A list of words is quoted, as for `subprocess`."""
    return command if isinstance(command, str) else shlex.join(command)


def _environment(env: Optional[Mapping[str, str]]) -> List[str]:
    return [f"{name}={value}" for name, value in (env or {}).items()]


def _nothing(printed: Printed) -> None:
    printed.text()


# Those that start sessions.


class Options(TypedDict, total=False):
    """The options with which sessions are started."""

    name: Optional[str]
    cwd: Union[str, os.PathLike[str], None]
    inherit_cwd: Optional[str]
    size: Optional[Pair]
    env: Optional[Mapping[str, str]]
    title: Optional[str]
    description: Optional[str]
    parent: Optional[str]
    timeout: Optional[Time]
    idle_timeout: Optional[Time]
    owner: Optional[int]
    max_log: Optional[Amount]
    record: bool
    write_root: Optional[Texts]
    read_root: Optional[Texts]
    no_network: bool
    connect: Optional[Union[int, Sequence[int]]]
    clear_env: bool
    hide_env: Optional[Texts]
    memory: Optional[Amount]
    tasks: Optional[int]
    cpu: Optional[int]
    profile: Optional[str]
    no_helper: bool
    require_helper: bool
    pager: bool
    machine: Optional[str]


def _started(verb: str, command: Optional[Texts], options: Options) -> Call[str]:
    given: Dict[str, Any] = dict(options)
    unknown = given.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option '{min(unknown)}'")
    given["size"] = _size(given.get("size"))
    given["env"] = _environment(given.get("env"))
    given["on"] = given.pop("machine", None)
    words = [verb, "--json", *words_of(**given)]
    if command is not None:
        words += ["--", command_text(command)]
    return Call(words, lambda printed: str(printed.object()["handle"]))


def create(command: Texts = "bash", **options: Unpack[Options]) -> Call[str]:
    """Starts a session, and returns its handle."""
    return _started("create", command, options)


def ensure(name: str, command: Optional[Texts] = None, /, **options: Unpack[Options]) -> Call[str]:
    """The handle of the live session of that name. If there is none, starts it."""
    named: Options = {**options, "name": name}
    return _started("ensure", command, named)


def restart(
    session: str,
    *,
    env: Optional[Mapping[str, str]] = None,
    no_helper: bool = False,
    require_helper: bool = False,
) -> Call[str]:
    """Starts the command of a dead session again, and returns the handle of the new session."""
    options = words_of(env=_environment(env), no_helper=no_helper, require_helper=require_helper)
    return Call(["restart", "--json", *options, session], lambda printed: str(printed.object()["handle"]))


# Those that run and type.


def _ran(printed: Printed) -> Result:
    said = printed.all()
    if not said or "result" not in said[0]:
        raise error_of(printed.error or {"error": "the call printed nothing", "exit": 125}, {})
    return result_of(said[0], printed.error)


def run(
    session: str,
    command: Texts,
    *,
    timeout: Optional[Time] = None,
    input_after: Optional[Time] = None,
    no_input: bool = False,
    strip: bool = False,
    rendered: bool = False,
    ansi: bool = False,
    max: Optional[Amount] = None,
) -> Call[Result]:
    """Runs a command in the session's shell. A list of words is quoted.

    Returns what became of it, also if it failed, timed out, or waits for input (`question`):
    `check` raises an exception then. Raises `NotRun` if it was not run.
    """
    options = words_of(
        timeout=timeout,
        input_after=input_after,
        no_input=no_input,
        strip=strip,
        rendered=rendered,
        ansi=ansi,
        max=max,
    )
    return Call(["run", "--json", "--stdin", *options, session], _ran, _bytes(command_text(command)))


def resume(
    session: str,
    *,
    timeout: Optional[Time] = None,
    input_after: Optional[Time] = None,
    no_input: bool = False,
    strip: bool = False,
    rendered: bool = False,
    ansi: bool = False,
    max: Optional[Amount] = None,
) -> Call[Result]:
    """Resumes the command that the last `run` left, for example because it asked a question."""
    call = run(
        session,
        "",
        timeout=timeout,
        input_after=input_after,
        no_input=no_input,
        strip=strip,
        rendered=rendered,
        ansi=ansi,
        max=max,
    )
    words = ["--resume" if word == "--stdin" else word for word in call.words]
    return Call(words, call.read)


def ask(
    session: str,
    text: str,
    *,
    paste: bool = False,
    pattern: Optional[Texts] = None,
    regex: Optional[Texts] = None,
    fail: Optional[Texts] = None,
    complete: bool = False,
    idle: Optional[Time] = None,
    stable: Optional[Time] = None,
    input: bool = False,
    exit: bool = False,
    ansi: bool = False,
    strip: bool = False,
    max: Optional[Amount] = None,
    timeout: Optional[Time] = None,
) -> Call[Answer]:
    """Types a text and Enter into any program, and returns its answer."""
    options = words_of(
        paste=paste,
        pattern=pattern,
        regex=regex,
        fail=fail,
        complete=complete,
        idle=idle,
        stable=stable,
        input=input,
        exit=exit,
        ansi=ansi,
        strip=strip,
        max=max,
        timeout=timeout,
    )
    words = ["ask", "--json", "--stdin", *options, session]
    return Call(words, lambda printed: answer_of(printed.object()), _bytes(text))


def _typed(printed: Printed) -> None:
    printed.objects()


def send(
    session: str,
    text: Union[str, bytes] = "",
    *,
    secret: Optional[str] = None,
    enter: bool = True,
    paste: bool = False,
    submit: bool = False,
    prompt: Optional[str] = None,
    no_secret: bool = False,
    timeout: Optional[Time] = None,
) -> Call[None]:
    """Types a text, and Enter unless `enter` is false. `submit` gives a task to a program such as a
    coding agent, and raises `Error` if the program did not take it. `secret` is typed instead of a
    text, and only at a prompt for a secret (or one that matches the regex `prompt`)."""
    options = words_of(
        no_enter=not enter,
        stdin=secret is None,
        secret_stdin=secret is not None,
        paste=paste,
        submit=submit,
        prompt=prompt,
        no_secret=no_secret,
        timeout=timeout,
    )
    return Call(["send", "--json", *options, session], _typed, _bytes(text if secret is None else secret))


def answer(
    session: str, text: str, *, question_id: Optional[str] = None, timeout: Optional[Time] = None
) -> Call[None]:
    """Answers the session's question: by the number or the text of a choice, `yes`, `no`, or a line.
    Raises `Error` if the session asks none, or not the one of `question_id`."""
    options = words_of(question_id=question_id, timeout=timeout)
    return Call(["answer", "--json", *options, session, text], _nothing)


def key(
    session: str,
    *keys: str,
    text: Optional[str] = None,
    no_secret: bool = False,
    timeout: Optional[Time] = None,
) -> Call[None]:
    """Types keys by their names: `C-c`, `Up`, `F5`. `text` is typed before them, without Enter."""
    options = words_of(stdin=text is not None, no_secret=no_secret, timeout=timeout)
    stdin = None if text is None else _bytes(text)
    return Call(["key", "--json", *options, "--", session, *keys], _typed, stdin)


def eof(session: str, *, timeout: Optional[Time] = None) -> Call[None]:
    """Ends the input of the session's program."""
    return Call(["eof", "--json", *words_of(timeout=timeout), session], _typed)


def resize(session: str, columns: int, rows: int) -> Call[None]:
    """Changes the size of the session's terminal."""
    return Call(["resize", session, f"{columns}x{rows}"], _nothing)


def integrate(session: str, *, timeout: Optional[Time] = None) -> Call[None]:
    """Makes `run` work in a nested shell: of ssh, su or a container."""
    return Call(["integrate", "--json", *words_of(timeout=timeout), session], _typed)


def report(session: str, state: str, text: str = "") -> Call[None]:
    """Sets the activity that the session shows: `working`, `waiting`, `done`, `failed`, `idle`
    or `clear`."""
    return Call(["report", "--json", session, state, *([text] if text else [])], _nothing)


# Those that wait.


def wait(
    *sessions: str,
    pattern: Optional[Texts] = None,
    regex: Optional[Texts] = None,
    fail: Optional[Texts] = None,
    complete: bool = False,
    idle: Optional[Time] = None,
    stable: Optional[Time] = None,
    input: bool = False,
    waiting: bool = False,
    done: bool = False,
    exit: bool = False,
    offset: Optional[int] = None,
    all: bool = False,
    name: Optional[str] = None,
    machine: Optional[Texts] = None,
    any: bool = False,
    timeout: Optional[Time] = None,
) -> Call[List[Met]]:
    """Waits until a condition is met, of each session, or with `any` of one. `all` or `name`
    (a part of it) pick the live sessions."""
    options = words_of(
        pattern=pattern,
        regex=regex,
        fail=fail,
        complete=complete,
        idle=idle,
        stable=stable,
        input=input,
        waiting=waiting,
        done=done,
        exit=exit,
        offset=offset,
        all=all,
        name=name,
        on=machine,
        any=any,
        timeout=timeout,
    )
    words = ["wait", "--json", *options, *sessions]
    return Call(words, lambda printed: [met_of(said) for said in printed.objects()])


def wait_one(
    session: str,
    *,
    pattern: Optional[Texts] = None,
    regex: Optional[Texts] = None,
    fail: Optional[Texts] = None,
    complete: bool = False,
    idle: Optional[Time] = None,
    stable: Optional[Time] = None,
    input: bool = False,
    waiting: bool = False,
    done: bool = False,
    exit: bool = False,
    offset: Optional[int] = None,
    timeout: Optional[Time] = None,
) -> Call[Met]:
    """Waits until one of the conditions is met, and returns which. Raises `TimedOut` after
    `timeout` (60 seconds), and `Error` if `fail` is printed or the session ends first."""
    call = wait(
        session,
        pattern=pattern,
        regex=regex,
        fail=fail,
        complete=complete,
        idle=idle,
        stable=stable,
        input=input,
        waiting=waiting,
        done=done,
        exit=exit,
        offset=offset,
        timeout=timeout,
    )
    return Call(call.words, lambda printed: met_of(printed.object()))


def wait_complete(session: str, *, timeout: Optional[Time] = None) -> Call[int]:
    """Waits until the next command ends, in order, and returns its exit code."""
    words = ["wait-complete", "--json", *words_of(timeout=timeout), session]
    return Call(words, lambda printed: int(printed.object()["exit_code"]))


def wait_pattern(
    session: str,
    text: str,
    *,
    offset: Optional[int] = None,
    new: bool = False,
    timeout: Optional[Time] = None,
) -> Call[None]:
    """Waits until the output log contains a text. The echo of typed text matches, too."""
    options = words_of(offset=offset, new=new, timeout=timeout)
    return Call(["wait-pattern", "--json", *options, "--", session, text], _nothing)


# Those that look.


def read(
    session: str,
    *,
    offset: Optional[int] = None,
    last: Optional[int] = None,
    command: Optional[int] = None,
    limit: Optional[Amount] = None,
    max: Optional[Amount] = None,
    strip: bool = False,
    rendered: bool = False,
    ansi: bool = False,
) -> Call[Output]:
    """The session's output, or a part of it: `command` is a number of `history`."""
    options = words_of(
        offset=offset,
        last=last,
        command=command,
        limit=limit,
        max=max,
        strip=strip,
        rendered=rendered,
        ansi=ansi,
    )
    return Call(["read", "--json", *options, session], lambda printed: output_of(printed.object()))


def read_bytes(
    session: str, *, offset: Optional[int] = None, last: Optional[int] = None, limit: Optional[Amount] = None
) -> Call[bytes]:
    """The same, byte for byte."""

    def bytes_of(printed: Printed) -> bytes:
        printed.text()
        return printed.output

    return Call(["read", *words_of(offset=offset, last=last, limit=limit), session], bytes_of)


def read_new(
    session: str,
    *,
    reader: Optional[str] = None,
    max: Optional[Amount] = None,
    strip: bool = False,
    rendered: bool = False,
    ansi: bool = False,
) -> Call[Output]:
    """The output since the last `read_new` of that reader."""
    options = words_of(reader=reader, max=max, strip=strip, rendered=rendered, ansi=ansi)
    return Call(["read-new", "--json", *options, session], lambda printed: output_of(printed.object()))


def screen(session: str, *, scrollback: Optional[int] = None) -> Call[Screen]:
    """What a person would see now."""
    words = ["screen", "--json", "--ansi", *words_of(scrollback=scrollback), session]
    return Call(words, lambda printed: screen_of(session, printed.object()))


def status(session: str) -> Call[SessionInfo]:
    """Whether the session is alive, and what its program is doing."""
    return Call(["status", "--json", session], lambda printed: info_of(printed.object()))


def exit_code(session: str) -> Call[Exit]:
    """How the session ended."""
    return Call(["exit-code", "--json", session], lambda printed: exit_of(printed.object()))


def clipboard(session: str) -> Call[str]:
    """The text that a program copied last."""
    return Call(["clipboard", "--json", session], lambda printed: str(printed.object()["text"]))


def pwd(session: str) -> Call[str]:
    """The current directory of the session's foreground process."""
    return Call(["pwd", "--json", session], lambda printed: str(printed.object()["folder"]))


def cast(session: str, *, command: Optional[int] = None) -> Call[str]:
    """A session with `record=True` as an asciicast, or a command of its `history`."""
    return Call(["cast", *words_of(command=command), session], Printed.text)


def history(
    session: str,
    *,
    failed: bool = False,
    grep: Optional[str] = None,
    since: Optional[Time] = None,
    last: Optional[int] = None,
) -> Call[List[Dict[str, Any]]]:
    """The commands that the session's shells have executed, oldest first: the fields of each."""
    words = words_of(failed=failed, grep=grep, since=since, last=last)
    return Call(["history", "--json", *words, session], Printed.objects)


# Those about all sessions.


def find(name: str, *, machine: Optional[Texts] = None) -> Call[str]:
    """The handle of the session of exactly that name."""
    words = ["find", "--json", *words_of(on=machine), "--", name]
    return Call(words, lambda printed: str(printed.object()["handle"]))


def list_(
    *, waiting: bool = False, name: Optional[str] = None, machine: Optional[Texts] = None
) -> Call[List[SessionInfo]]:
    """The sessions, oldest first; with `waiting` those that wait for input, or have failed or
    are done."""
    words = ["list", "--json", *words_of(waiting=waiting, name=name, on=machine)]
    return Call(words, lambda printed: [info_of(said) for said in printed.objects()])


def history_of_all(
    *,
    failed: bool = False,
    grep: Optional[str] = None,
    since: Optional[Time] = None,
    last: Optional[int] = None,
    name: Optional[str] = None,
    machine: Optional[Texts] = None,
) -> Call[List[Dict[str, Any]]]:
    """The same of all sessions, by the start of each command."""
    words = words_of(failed=failed, grep=grep, since=since, last=last, name=name, on=machine)
    return Call(["history", "--json", *([] if name else ["--all"]), *words], Printed.objects)


def events(*, name: Optional[str] = None, machine: Optional[Texts] = None) -> Call[List[Dict[str, Any]]]:
    """How sessions ended: the fields of their exit records."""
    return Call(["events", "--json", *words_of(name=name, on=machine)], Printed.objects)


def kill(
    *sessions: str,
    grace: Optional[Time] = None,
    all: bool = False,
    name: Optional[str] = None,
    machine: Optional[Texts] = None,
    keep: bool = False,
    if_exists: bool = False,
) -> Call[List[str]]:
    """Ends sessions with all their processes, removes them, and returns their handles. With
    `keep` their output can still be read."""
    options = words_of(grace=grace, all=all, name=name, on=machine, keep=keep, if_exists=if_exists)
    words = ["kill", "--json", *options, *sessions]
    return Call(words, lambda printed: [str(said["handle"]) for said in printed.objects() if "handle" in said])


def kill_one(
    session: str, *, grace: Optional[Time] = None, keep: bool = False, if_exists: bool = False
) -> Call[None]:
    """Ends the session with all its processes, and removes it. With `keep` its output can still
    be read."""
    words = ["kill", "--json", *words_of(grace=grace, keep=keep, if_exists=if_exists), session]
    return Call(words, _typed)


def gc(
    *,
    hours: Optional[float] = None,
    ttl: Optional[Time] = None,
    keep: Optional[int] = None,
    machine: Optional[Texts] = None,
) -> Call[List[str]]:
    """Removes sessions that have long been dead, and returns their handles."""
    words = ["gc", "--json", *words_of(hours=hours, ttl=ttl, keep=keep, on=machine)]
    return Call(words, lambda printed: [str(said["handle"]) for said in printed.objects() if "handle" in said])


def render(
    output: Union[str, bytes],
    *,
    size: Optional[Pair] = None,
    ansi: bool = False,
    svg: bool = False,
    scrollback: Optional[int] = None,
) -> Call[str]:
    """What a terminal shows of recorded output, as text or as a picture."""
    options = words_of(size=_size(size), ansi=ansi, svg=svg, scrollback=scrollback)
    return Call(["render", *options], Printed.text, _bytes(output))


# Those about other machines.


def _executed(machine: str, printed: Printed) -> Executed:
    # What nbs itself has to say comes last. Any other exit code is the program's.
    last = printed.errors.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    if printed.code < 0 or (printed.code in (4, 255) and last.startswith("nbs-ts: ")):
        raise error_of(printed.error, {})
    return Executed(machine, printed.output, printed.errors, printed.code)


# Linux has no longer words on a command line than 128 KiB.
_LONG = 100_000


def execute(
    machine: str,
    command: Texts,
    *,
    stdin: Union[str, bytes, None] = None,
    timeout: Optional[Time] = None,
) -> Call[Executed]:
    """Runs a program on the machine, without a session and without a terminal. A text is for `sh`
    there, in the home directory; a list of words is quoted. `stdin` is all that it reads.

    Returns how it ended, also if it failed: `check` raises an exception then. After `timeout` it
    is ended with all that it has started, and `TimedOut` is raised.
    """
    text, given = command_text(command), None if stdin is None else _bytes(stdin)
    if len(_bytes(text)) >= _LONG:
        # It is read there, and what the program reads comes after it.
        script = _bytes(text)
        text = f'eval "$(dd bs={len(script)} count=1 iflag=fullblock 2>/dev/null)"'
        given = script + (given or b"")
    words = ["exec", "--", machine, text]
    return Call(words, lambda printed: _executed(machine, printed), given, seconds(timeout))


def _paths(paths: Paths) -> List[str]:
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return [_word("path", os.fspath(path)) for path in several]


def _here(path: str) -> str:
    # Else a colon would make a machine of it.
    return path if path.startswith("/") else f"./{path}"


def cp(sources: Paths, dest: Path, *, recursive: bool = False) -> Call[None]:
    """Copies files to, from or between machines. A file of a machine is `MACHINE:PATH`. Write `./a:b`
    for a file here whose name has a colon."""
    return Call(["cp", *words_of(recursive=recursive), "--", *_paths(sources), *_paths(dest)], _nothing)


def put(machine: str, sources: Paths, dest: Path = ".", *, recursive: bool = False) -> Call[None]:
    """Copies files from here to the machine. A relative `dest` is below the home directory there."""
    there = [f"{machine}:{path}" for path in _paths(dest)]
    return cp([_here(path) for path in _paths(sources)], there[0], recursive=recursive)


def get(machine: str, sources: Paths, dest: Path = ".", *, recursive: bool = False) -> Call[None]:
    """Copies files from the machine to here. Relative `sources` are below the home directory there."""
    there = [f"{machine}:{path}" for path in _paths(sources)]
    return cp(there, _here(_paths(dest)[0]), recursive=recursive)


def forward(machine: str, *forwards: Union[int, str], reverse: bool = False) -> List[str]:
    """Makes ports of the machine reachable here, or the reverse."""
    if not forwards:
        raise BadArguments("no port to forward", kind="bad_arguments", exit=4)
    return ["forward", *words_of(reverse=reverse), "--", machine, *map(str, forwards)]


# Those that go on: their lines are read one by one.


def attach(session: str, *, last: Optional[int] = None, new: bool = False) -> List[str]:
    """The output as it arrives."""
    return ["attach", "--json", *words_of(last=last, new=new), session]


def watch(
    *, waiting: bool = False, name: Optional[str] = None, machine: Optional[Texts] = None
) -> List[str]:
    """Each session that ends from now on; with `waiting` also each that starts to wait."""
    return ["events", "--json", "--follow", *words_of(waiting=waiting, name=name, on=machine)]
