"""Other machines: programs without a session, files, ports."""

from __future__ import annotations

import re
import shlex
from types import TracebackType
from typing import TYPE_CHECKING, List, Optional, Type, Union

from . import _verbs
from ._answers import Executed
from ._errors import Error, TimedOut, error_of
from ._process import file
from ._session import AsyncSession, Session, call_later, call_now
from ._verbs import Path, Paths, Texts, Time

if TYPE_CHECKING:
    from typing_extensions import Self

_LISTENS = r"^forward: (.*) -> "


class Machine:
    """Another machine, by the name that `nbs-ts machine add` gave it, or its host name for ssh.

    It costs nothing: the connection is made by the first call, and stays for the next ones.
    `Session(machine=…)` starts sessions there.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def exec(
        self, command: Texts, *, stdin: Union[str, bytes, None] = None, timeout: Optional[Time] = None
    ) -> Executed:
        return call_now(_verbs.execute(self.name, command, stdin=stdin, timeout=timeout))

    def put(self, sources: Paths, dest: Path = ".", *, recursive: bool = False) -> None:
        call_now(_verbs.put(self.name, sources, dest, recursive=recursive))

    def get(self, sources: Paths, dest: Path = ".", *, recursive: bool = False) -> None:
        call_now(_verbs.get(self.name, sources, dest, recursive=recursive))

    def forward(self, *forwards: Union[int, str], reverse: bool = False, timeout: Time = 60) -> Forward:
        return Forward(self.name, *forwards, reverse=reverse, timeout=timeout)


class AsyncMachine:
    """The same for programs with an event loop (asyncio, uvloop, trio)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def exec(
        self, command: Texts, *, stdin: Union[str, bytes, None] = None, timeout: Optional[Time] = None
    ) -> Executed:
        return await call_later(_verbs.execute(self.name, command, stdin=stdin, timeout=timeout))

    async def put(self, sources: Paths, dest: Path = ".", *, recursive: bool = False) -> None:
        await call_later(_verbs.put(self.name, sources, dest, recursive=recursive))

    async def get(self, sources: Paths, dest: Path = ".", *, recursive: bool = False) -> None:
        await call_later(_verbs.get(self.name, sources, dest, recursive=recursive))

    def forward(self, *forwards: Union[int, str], reverse: bool = False, timeout: Time = 60) -> AsyncForward:
        return AsyncForward(self.name, *forwards, reverse=reverse, timeout=timeout)


for _kind in (Machine, AsyncMachine):
    _kind.exec.__doc__ = _verbs.execute.__doc__
    _kind.put.__doc__ = _verbs.put.__doc__
    _kind.get.__doc__ = _verbs.get.__doc__
    _kind.forward.__doc__ = """Makes a port of the machine reachable here: `8080`, or `[BIND:]PORT:HOST:PORT`; port 0 is any
    that is free. With `reverse` it listens on the machine and connects from here."""


class _Forwards:
    """The call that forwards is a session, for then it ends with this program, however that ends."""

    def __init__(self, machine: str, *forwards: Union[int, str], reverse: bool = False, timeout: Time = 60) -> None:
        words = _verbs.forward(machine, *forwards, reverse=reverse)
        self._command = "exec " + shlex.join([file(), "ts", *words])
        self._title = shlex.join(words)
        self._count = len(forwards)
        self._timeout = timeout
        self._end = 0
        self.listening: List[str] = []
        """Where each of them listens: `127.0.0.1:8080`; with `reverse` `devbox:8080`; or a path."""

    @property
    def port(self) -> int:
        """The port on which the first of them listens: for a `forward(0)` or `forward("0:HOST:PORT")`."""
        if not self.listening:
            raise Error("the forward is not started: use 'with' or 'start()' first")
        return int(self.listening[0].rpartition(":")[2])

    def _read(self, printed: bytes) -> None:
        self._end = printed.rfind(b"\n") + 1
        lines = printed[: self._end].decode("utf-8", "replace")
        self.listening = re.findall(_LISTENS, lines, re.MULTILINE)

    def _failure(self, code: Optional[int], printed: str) -> Error:
        last = printed.rstrip().rpartition("\n")[2]
        return error_of({"error": last.partition(": ")[2] or last, "exit": code or 1}, {"output": printed})


class Forward(_Forwards):
    """Ports that are reachable from `with` or `start` on, until the end of the `with` or `close`."""

    _session: Optional[Session] = None

    def start(self) -> Self:
        """Listens. When it returns, a connection is accepted."""
        if self._session is None:
            session = Session(self._command, no_helper=True, title=self._title)
            session.__enter__()
            try:
                self._begin(session)
            except BaseException:
                session.__exit__(None, None, None)
                raise
            self._session = session
        return self

    def _begin(self, session: Session) -> None:
        try:
            while len(self.listening) < self._count:
                session.wait(regex=_LISTENS, offset=self._end, timeout=self._timeout)
                self._read(session.read_bytes())
        except TimedOut:
            raise
        except Error:
            raise self._failure(session.exit_code().exit_code, session.read(strip=True).text) from None

    def close(self) -> None:
        """Ends it, with its connections."""
        self.listening, self._end = [], 0
        session, self._session = self._session, None
        if session is not None:
            session.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class AsyncForward(_Forwards):
    """Ports that are reachable from `async with` or `start` on, until the end of that or `close`."""

    _session: Optional[AsyncSession] = None

    async def start(self) -> Self:
        """Listens. When it returns, a connection is accepted."""
        if self._session is None:
            session = AsyncSession(self._command, no_helper=True, title=self._title)
            await session.__aenter__()
            try:
                await self._begin(session)
            except BaseException:
                await session.__aexit__(None, None, None)
                raise
            self._session = session
        return self

    async def _begin(self, session: AsyncSession) -> None:
        try:
            while len(self.listening) < self._count:
                await session.wait(regex=_LISTENS, offset=self._end, timeout=self._timeout)
                self._read(await session.read_bytes())
        except TimedOut:
            raise
        except Error:
            ended, printed = await session.exit_code(), await session.read(strip=True)
            raise self._failure(ended.exit_code, printed.text) from None

    async def close(self) -> None:
        """Ends it, with its connections."""
        self.listening, self._end = [], 0
        session, self._session = self._session, None
        if session is not None:
            await session.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()
