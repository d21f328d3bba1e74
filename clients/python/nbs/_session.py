"""Sessions, in a thread and in an event loop."""

from __future__ import annotations

import functools
import inspect
import json
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Mapping, Optional, Type, TypeVar

from . import _verbs
from ._answers import Chunk, Exit, exit_of
from ._errors import Error
from ._process import Process
from ._verbs import Call, Options, Texts

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from typing_extensions import Concatenate, ParamSpec, Self, Unpack

    P = ParamSpec("P")

T = TypeVar("T")


def call_now(call: Call[T], env: Optional[Mapping[str, str]] = None) -> T:
    """The result of a call. An exception meanwhile, such as `KeyboardInterrupt`, ends the call."""
    process = Process(["ts", *call.words], call.stdin, env)
    try:
        if not process.wait(call.limit):
            raise call.timed_out(process.taken())
        finished = process.finished()
    except BaseException:
        process.end()
        raise
    process.close()
    return call.result(*finished)


async def call_later(call: Call[T]) -> T:
    """The same in an event loop: cancelling the task ends the call."""
    process = Process(["ts", *call.words], call.stdin)
    try:
        if not await process.wait_async(call.limit):
            raise call.timed_out(process.taken())
        finished = process.finished()
    except BaseException:
        await process.end_async()
        raise
    process.close()
    return call.result(*finished)


def now(verb: Callable[P, Call[T]]) -> Callable[P, T]:
    """A function of the package."""

    @functools.wraps(verb)
    def function(*given: P.args, **options: P.kwargs) -> T:
        return call_now(verb(*given, **options))

    return _described(function)


def later(verb: Callable[P, Call[T]]) -> Callable[P, Awaitable[T]]:
    """The same for event loops."""

    @functools.wraps(verb)
    async def function(*given: P.args, **options: P.kwargs) -> T:
        return await call_later(verb(*given, **options))

    return _described(function)


def _method_now(verb: Callable[Concatenate[str, P], Call[T]]) -> Callable[Concatenate[Session, P], T]:
    @functools.wraps(verb)
    def method(self: Session, /, *given: P.args, **options: P.kwargs) -> T:
        return call_now(verb(self.start().handle, *given, **options))

    return _described(method)


def _method_later(
    verb: Callable[Concatenate[str, P], Call[T]],
) -> Callable[Concatenate[AsyncSession, P], Awaitable[T]]:
    @functools.wraps(verb)
    async def method(self: AsyncSession, /, *given: P.args, **options: P.kwargs) -> T:
        return await call_later(verb(self.handle, *given, **options))

    return _described(method)


F = TypeVar("F", bound=Callable[..., Any])


def _described(function: F) -> F:
    """It returns what the call returns, and not a `Call`."""
    signature = inspect.signature(function)
    returned = str(signature.return_annotation)
    if returned.startswith("Call["):
        signature = signature.replace(return_annotation=returned[len("Call[") : -1])
    setattr(function, "__signature__", signature)
    return function


class _Base:
    _handle: Optional[str] = None
    _begun = False

    def __init__(self, command: Texts = "bash", **options: Unpack[Options]) -> None:
        """A session that is started by `with`, `start`, or the first call.

        A shell such as `bash` is an interactive shell, which `run` needs. Any other command is
        executed once; a list of words is quoted. The options are those of `nbs-ts create`; `cwd`,
        `env` and `machine` are the most used.
        """
        _verbs.create(command, **options)  # Wrong options are an error here already.
        self._command = command
        self._options = options
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, session: str) -> Self:
        """An existing session, by its handle or `@NAME`. `with` does not end it."""
        opened = cls.__new__(cls)
        opened._handle = session
        opened._pid = os.getpid()
        opened._command, opened._options = "", {}
        opened._lock = threading.Lock()
        return opened

    @property
    def handle(self) -> str:
        """Its handle. A session on another machine has the machine's name before it."""
        if self._handle is None:
            raise Error("the session is not started: use 'with' or 'start()' first")
        return self._handle

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._handle or 'not started'}>"

    def _creation(self, owned: bool) -> Call[str]:
        options = self._options.copy()
        if owned and options.get("owner") is None and options.get("machine") is None:
            # It ends with this program, however that ends.
            options["owner"] = os.getpid()
        return _verbs.create(self._command, **options)

    @property
    def _is_ours(self) -> bool:
        # A process that forked off ends no session of its parent.
        return self._begun and self._pid == os.getpid()

    def _removal(self) -> Call[None]:
        return _verbs.kill_one(self.handle, if_exists=True)


class Session(_Base):
    """A terminal session.

    `with` starts it, and ends it with all its processes. Without `with` it lives on after the
    program, until `kill`.
    """

    def start(self) -> Self:
        """Starts the session, if it is not started yet."""
        return self._start(owned=False)

    def _start(self, owned: bool) -> Self:
        if self._handle is None:
            with self._lock:
                if self._handle is None:
                    self._begin(self._creation(owned))
        return self

    def _begin(self, call: Call[str]) -> None:
        process = Process(["ts", *call.words])
        try:
            process.wait_shielded()
        except BaseException:
            # It was interrupted, and what was started is removed again.
            finished = process.finished()
            process.close()
            self._handle, self._begun = call.result(*finished), True
            self._finish()
            raise
        finished = process.finished()
        process.close()
        self._handle, self._begun = call.result(*finished), True

    def _finish(self) -> None:
        call = self._removal()
        process = Process(["ts", *call.words])
        try:
            process.wait_shielded()
        finally:
            finished = process.finished()
            process.close()
        call.result(*finished)

    @classmethod
    def ensure(cls, name: str, command: Optional[Texts] = None, /, **options: Unpack[Options]) -> Self:
        """The live session of that name. If there is none, starts it. `with` does not end it."""
        return cls.open(call_now(_verbs.ensure(name, command, **options)))

    def __enter__(self) -> Self:
        return self._start(owned=True)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if not self._is_ours:
            return
        try:
            self._finish()
        except Error:
            if error is None:
                raise

    run = _method_now(_verbs.run)
    resume = _method_now(_verbs.resume)
    ask = _method_now(_verbs.ask)
    send = _method_now(_verbs.send)
    answer = _method_now(_verbs.answer)
    key = _method_now(_verbs.key)
    eof = _method_now(_verbs.eof)
    wait = _method_now(_verbs.wait_one)
    wait_complete = _method_now(_verbs.wait_complete)
    wait_pattern = _method_now(_verbs.wait_pattern)
    screen = _method_now(_verbs.screen)
    read = _method_now(_verbs.read)
    read_bytes = _method_now(_verbs.read_bytes)
    read_new = _method_now(_verbs.read_new)
    status = _method_now(_verbs.status)
    exit_code = _method_now(_verbs.exit_code)
    clipboard = _method_now(_verbs.clipboard)
    pwd = _method_now(_verbs.pwd)
    resize = _method_now(_verbs.resize)
    integrate = _method_now(_verbs.integrate)
    report = _method_now(_verbs.report)
    cast = _method_now(_verbs.cast)
    history = _method_now(_verbs.history)
    kill = _method_now(_verbs.kill_one)

    def restart(self, **options: Any) -> Self:
        """Starts the command of a dead session again, as a new session. Takes the options `env`,
        `no_helper` and `require_helper`."""
        again = type(self).open(call_now(_verbs.restart(self.handle, **options)))
        again._begun = self._begun
        return again

    def follow(self, *, last: Optional[int] = None, new: bool = False) -> Follow:
        """The output as it arrives, from its start, until the session ends."""
        return Follow(_verbs.attach(self.start().handle, last=last, new=new), self.handle)


class AsyncSession(_Base):
    """A terminal session, for programs with an event loop (asyncio, uvloop, trio).

    `async with` starts it, and ends it with all its processes. Cancelling a task ends its call
    and not the session.
    """

    async def start(self) -> Self:
        """Starts the session, if it is not started yet."""
        return await self._start(owned=False)

    async def _start(self, owned: bool) -> Self:
        if self._handle is not None:
            return self
        call = self._creation(owned)
        process = Process(["ts", *call.words])
        try:
            await process.wait_shielded_async()
        except BaseException:
            # The task was cancelled, and what was started is removed again.
            finished = process.finished()
            process.close()
            self._handle, self._begun = call.result(*finished), True
            await self._finish()
            raise
        finished = process.finished()
        process.close()
        self._handle, self._begun = call.result(*finished), True
        return self

    async def _finish(self) -> None:
        call = self._removal()
        process = Process(["ts", *call.words])
        try:
            await process.wait_shielded_async()
        finally:
            finished = process.finished()
            process.close()
        call.result(*finished)

    @classmethod
    async def ensure(cls, name: str, command: Optional[Texts] = None, /, **options: Unpack[Options]) -> Self:
        """The live session of that name. If there is none, starts it. `async with` does not end it."""
        return cls.open(await call_later(_verbs.ensure(name, command, **options)))

    async def __aenter__(self) -> Self:
        return await self._start(owned=True)

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if not self._is_ours:
            return
        try:
            await self._finish()
        except Error:
            if error is None:
                raise

    run = _method_later(_verbs.run)
    resume = _method_later(_verbs.resume)
    ask = _method_later(_verbs.ask)
    send = _method_later(_verbs.send)
    answer = _method_later(_verbs.answer)
    key = _method_later(_verbs.key)
    eof = _method_later(_verbs.eof)
    wait = _method_later(_verbs.wait_one)
    wait_complete = _method_later(_verbs.wait_complete)
    wait_pattern = _method_later(_verbs.wait_pattern)
    screen = _method_later(_verbs.screen)
    read = _method_later(_verbs.read)
    read_bytes = _method_later(_verbs.read_bytes)
    read_new = _method_later(_verbs.read_new)
    status = _method_later(_verbs.status)
    exit_code = _method_later(_verbs.exit_code)
    clipboard = _method_later(_verbs.clipboard)
    pwd = _method_later(_verbs.pwd)
    resize = _method_later(_verbs.resize)
    integrate = _method_later(_verbs.integrate)
    report = _method_later(_verbs.report)
    cast = _method_later(_verbs.cast)
    history = _method_later(_verbs.history)
    kill = _method_later(_verbs.kill_one)

    async def restart(self, **options: Any) -> Self:
        """Starts the command of a dead session again, as a new session. Takes the options `env`,
        `no_helper` and `require_helper`."""
        again = type(self).open(await call_later(_verbs.restart(self.handle, **options)))
        again._begun = self._begun
        return again

    def follow(self, *, last: Optional[int] = None, new: bool = False) -> AsyncFollow:
        """The output as it arrives, from its start, until the session ends."""
        return AsyncFollow(_verbs.attach(self.handle, last=last, new=new), self.handle)


class _Lines(Generic[T]):
    """The lines of a call that goes on: an object each."""

    def __init__(self, words: List[str]) -> None:
        self._process: Optional[Process] = None
        self._process = Process(["ts", *words])
        self._rest = b""
        self._read: List[T] = []

    def _meaning(self, said: Dict[str, Any]) -> Optional[T]:
        raise NotImplementedError

    def _take(self, ended: bool) -> None:
        assert self._process is not None
        lines = (self._rest + self._process.taken()).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            read = self._meaning(json.loads(line))
            if read is not None:
                self._read.append(read)
        if ended:
            code, _, errors = self._process.finished()
            self._process.close()
            self._process = None
            Call(["attach"], lambda printed: printed.objects()).result(code, b"", errors)

    def close(self) -> None:
        """Ends the call, not the session."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()


class _LinesNow(_Lines[T]):
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            while not self._read and self._process is not None:
                self._take(self._process.next())
        except BaseException:
            self.close()
            raise
        if not self._read:
            raise StopIteration
        return self._read.pop(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LinesLater(_Lines[T]):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            while not self._read and self._process is not None:
                self._take(await self._process.next_async())
        except BaseException:
            self.close()
            raise
        if not self._read:
            raise StopAsyncIteration
        return self._read.pop(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class _Frames(_Lines[Chunk]):
    exit: Optional[Exit] = None
    """How the session ended, when the iteration is over."""

    def __init__(self, words: List[str], session: str) -> None:
        self._session = session
        super().__init__(words)

    def _meaning(self, said: Dict[str, Any]) -> Optional[Chunk]:
        if said["type"] == "output":
            return Chunk(said["data"], said["offset"], said.get("lost", 0))
        if said["type"] == "pty_exited":
            self.exit = exit_of({"handle": self._session, **said})
        return None


class Follow(_Frames, _LinesNow[Chunk]):
    """Output as it arrives. Iterate over it; `close` or `with` ends it before the session does."""


class AsyncFollow(_Frames, _LinesLater[Chunk]):
    """Output as it arrives. Iterate over it by `async for`; `close` or `async with` ends it before
    the session does."""


class _Events(_Lines[Dict[str, Any]]):
    def _meaning(self, said: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        return said


class Watch(_Events, _LinesNow[Dict[str, Any]]):
    """Events as they happen."""


class AsyncWatch(_Events, _LinesLater[Dict[str, Any]]):
    """Events as they happen."""


def watch(waiting: bool = False, name: Optional[str] = None, machine: Optional[Texts] = None) -> Watch:
    """Each session that ends from now on, as the fields of its exit record; with `waiting` also
    each that starts to wait for input, and what sessions report."""
    return Watch(_verbs.watch(waiting=waiting, name=name, machine=machine))


def watch_async(
    waiting: bool = False, name: Optional[str] = None, machine: Optional[Texts] = None
) -> AsyncWatch:
    """The same by `async for`."""
    return AsyncWatch(_verbs.watch(waiting=waiting, name=name, machine=machine))


cp = now(_verbs.cp)
sessions = now(_verbs.list_)
find = now(_verbs.find)
wait = now(_verbs.wait)
events = now(_verbs.events)
history = now(_verbs.history_of_all)
kill = now(_verbs.kill)
gc = now(_verbs.gc)
render = now(_verbs.render)
