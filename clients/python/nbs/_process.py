"""A call: one process of the nbs file.

A call may be waited for in a thread or in an event loop. Both wait for one descriptor, an epoll of
the call's outputs and its pidfd. So asyncio (with any loop that has `add_reader`) and trio need one
function each, and no call needs a thread, a signal handler or a child watcher.
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from typing import IO, Any, Coroutine, List, Mapping, Optional, Sequence, Tuple

from ._errors import Error

# A call that is told to end needs at most 3 s: `run` interrupts its command first.
_PATIENCE = 5.0

# So often a person may press Ctrl-C while a session is started or removed.
_INTERRUPTS = 20


def file() -> str:
    """The path of the nbs file: `$NBS_FILE`, else the one that was installed with this package,
    else the one on the PATH."""
    named = os.environ.get("NBS_FILE")
    if named:
        return named
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.path.join(beside, "bin"), sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", "posix_user"))
    for folder in folders:
        path = os.path.join(folder, "nbs")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("nbs")
    if found is None:
        raise Error("cannot find the file nbs: it is not on the PATH; install it, or set NBS_FILE")
    return found


class Process:
    """A call that was started.

    It is in a session of its own, so that a Ctrl-C at the program's terminal reaches the program
    alone, which then ends the call if it wants to.
    """

    def __init__(
        self, words: Sequence[str], stdin: Optional[bytes] = None, env: Optional[Mapping[str, str]] = None
    ) -> None:
        self._output = [bytearray(), bytearray()]
        self._events: Optional[select.epoll] = None
        self._pidfd = -1
        self._owner = os.getpid()
        path = file()
        with _input(stdin) as given:
            try:
                self._child = subprocess.Popen(
                    [path, *words],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    env=env,
                )
            except OSError as error:
                raise Error(f"cannot start '{path}': {error.strerror}") from error
        try:
            self._events = select.epoll()
            try:
                self._pidfd = os.pidfd_open(self._child.pid)
                self._events.register(self._pidfd, select.EPOLLIN)
            except ProcessLookupError:
                pass  # It has ended, and this program ignores SIGCHLD.
            for stream in self._streams():
                os.set_blocking(stream.fileno(), False)
                self._events.register(stream.fileno(), select.EPOLLIN)
        except BaseException:
            self._child.kill()
            self.close()
            raise

    def _streams(self) -> List[IO[bytes]]:
        return [stream for stream in (self._child.stdout, self._child.stderr) if stream is not None]

    def stdout_descriptor(self) -> int:
        """For callers that read it themselves, and never call `step`."""
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    def fileno(self) -> int:
        """Readable when `step` has something to do."""
        assert self._events is not None
        return self._events.fileno()

    def step(self) -> bool:
        """Reads what is there. Returns whether the call has ended."""
        assert self._events is not None
        ready = {descriptor for descriptor, _ in self._events.poll(0)}
        # Looked at first: what was printed before the end is then read below.
        ended = self._pidfd < 0 or self._pidfd in ready
        for stream, output in zip(self._streams(), self._output):
            if ended or stream.fileno() in ready:
                self._drain(stream, output)
        return ended

    def _drain(self, stream: IO[bytes], output: bytearray) -> None:
        assert self._events is not None
        while True:
            try:
                data = os.read(stream.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                try:
                    self._events.unregister(stream.fileno())
                except FileNotFoundError:
                    pass  # Its end was seen before.
                return
            output += data

    def taken(self) -> bytes:
        """What was printed since the last call of `taken`."""
        data = bytes(self._output[0])
        self._output[0].clear()
        return data

    def finished(self) -> Tuple[int, bytes, bytes]:
        """Exit code, output and errors of a call that has ended."""
        # A program that ignores SIGCHLD, or waits for all its children, may have taken the code.
        code = self._child.wait()
        return code, bytes(self._output[0]), bytes(self._output[1])

    def next(self, until: Optional[float] = None) -> bool:
        """Waits until it prints something, ends, or the time has come. Returns whether it has ended."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        poll.poll(None if until is None else max(until - time.monotonic(), 0) * 1000)
        return self.step()

    async def next_async(self, until: Optional[float] = None) -> bool:
        await readable(self.fileno(), None if until is None else max(until - time.monotonic(), 0))
        return self.step()

    def wait(self, limit: Optional[float] = None) -> bool:
        """Waits until it has ended, or the seconds have passed. Returns whether it has ended."""
        until = None if limit is None else time.monotonic() + limit
        while not self.next(until):
            if until is not None and time.monotonic() >= until:
                return False
        return True

    async def wait_async(self, limit: Optional[float] = None) -> bool:
        until = None if limit is None else time.monotonic() + limit
        while not await self.next_async(until):
            if until is not None and time.monotonic() >= until:
                return False
        return True

    def wait_shielded(self) -> None:
        """Waits until it has ended, whatever interrupts that. For calls that end soon."""
        interrupted: Optional[BaseException] = None
        for _ in range(_INTERRUPTS):
            try:
                self.wait()
                break
            except BaseException as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def terminate(self) -> None:
        # In a process that forked off, the call is the other's.
        if os.getpid() == self._owner:
            self._child.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Ends the call, and returns when it has ended."""
        if os.getpid() != self._owner:
            self._release()
            return
        try:
            self.terminate()
            if not _ended_within(self._pidfd, _PATIENCE):
                self._child.kill()
        finally:
            self.close()

    async def end_async(self) -> None:
        """The same in an event loop, whatever cancels the task meanwhile."""
        if os.getpid() != self._owner:
            self._release()
            return
        try:
            self.terminate()
            if self._pidfd >= 0:
                await _shield(readable(self._pidfd, _PATIENCE))
        finally:
            if not _ended_within(self._pidfd, 0):
                self._child.kill()
            self.close()

    async def wait_shielded_async(self) -> None:
        """The same in an event loop, whatever cancels the task meanwhile."""
        await _shield(self.wait_async())

    def close(self) -> None:
        """Gives back all that is held. The call has ended, or was killed."""
        try:
            self._child.wait()
        finally:
            self._release()

    def _release(self) -> None:
        for stream in self._streams():
            stream.close()
        if self._events is not None:
            self._events.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class _input:
    """What a call reads: nothing, or a file in memory, which needs nobody to write it meanwhile,
    and whose end comes even if another thread forks."""

    def __init__(self, data: Optional[bytes]) -> None:
        self._data = data
        self._file: Optional[IO[bytes]] = None

    def __enter__(self) -> Any:
        if self._data is None:
            return subprocess.DEVNULL
        if hasattr(os, "memfd_create"):
            self._file = os.fdopen(os.memfd_create("nbs-input"), "w+b")
        else:
            self._file = tempfile.TemporaryFile()
        self._file.write(self._data)
        self._file.seek(0)
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _ended_within(pidfd: int, seconds: float) -> bool:
    if pidfd < 0:
        return True
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _trio() -> Any:
    """The module trio, if it runs the caller."""
    if "trio" not in sys.modules:
        return None
    import trio

    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return None
    return trio


async def readable(descriptor: int, timeout: Optional[float]) -> None:
    """Until the descriptor is readable, or the time has passed."""
    trio = _trio()
    if trio is not None:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            await trio.lowlevel.wait_readable(descriptor)
        return
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    timer = None if timeout is None else loop.call_later(timeout, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
        if timer is not None:
            timer.cancel()


def _resolve(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


async def _shield(work: Coroutine[Any, Any, object]) -> None:
    """Does the work to its end. A task that is cancelled meanwhile learns of it afterwards."""
    trio = _trio()
    if trio is not None:
        with trio.CancelScope(shield=True):
            await work
        return
    task = asyncio.ensure_future(work)
    cancelled: Optional[asyncio.CancelledError] = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
