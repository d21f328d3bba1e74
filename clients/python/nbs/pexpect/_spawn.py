"""A program that is expected to print things.

Output comes through a call of `attach`, whose pipe is `child_fd`; a `select` on that works as on
the terminal of pexpect. Input goes through the session's FIFO. Echo and size are asked of the
terminal device itself.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pathlib
import re
import select
import shlex
import signal
import stat
import struct
import sys
import termios
import time
import tty
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .. import _verbs
from .._errors import Error
from .._process import Process, readable
from .._session import Session, call_now
from ._exceptions import EOF, TIMEOUT, ExceptionPexpect
from ._search import searcher_re, searcher_string

# What nbs sets for the programs of its sessions, and pexpect does not.
_OF_NBS = ("COLORTERM", "NBS_TS_HOME", "NBS_TS_SESSION")


def which(filename: str, env: Optional[Mapping[str, str]] = None) -> Optional[str]:
    """The path of a program, or `None`."""
    if os.path.dirname(filename) and is_executable_file(filename):
        return filename
    path = (os.environ if env is None else env).get("PATH") or os.defpath
    for folder in path.split(os.pathsep):
        found = os.path.join(folder, filename)
        if is_executable_file(found):
            return found
    return None


def is_executable_file(path: str) -> bool:
    """Whether it is a file that this user may execute."""
    real = os.path.realpath(path)
    return os.path.isfile(real) and os.access(real, os.X_OK)


def split_command_line(command_line: str) -> List[str]:
    """The words of a command line, with quotes and backslashes as in a shell."""
    words: List[str] = []
    word: Optional[str] = None
    quote = ""
    escaped = False
    for character in command_line:
        if escaped:
            word = (word or "") + character
            escaped = False
        elif quote:
            if character == quote:
                quote = ""
            else:
                word = (word or "") + character
        elif character == "\\":
            word, escaped = word or "", True
        elif character in "'\"":
            word, quote = word or "", character
        elif character.isspace():
            if word:
                words.append(word)
            word = None
        else:
            word = (word or "") + character
    if word:
        words.append(word)
    return words


class _Bytes:
    """Of a spawn without an encoding: bytes stay bytes."""

    def encode(self, data: Any, final: bool = False) -> Any:
        return data

    decode = encode


class spawn:
    """A program in a session of nbs."""

    def __init__(
        self,
        command: Optional[str],
        args: List[str] = [],
        timeout: Optional[float] = 30,
        maxread: int = 2000,
        searchwindowsize: Optional[int] = None,
        logfile: Any = None,
        cwd: Union[str, os.PathLike[str], None] = None,
        env: Optional[Mapping[str, str]] = None,
        ignore_sighup: bool = False,
        echo: bool = True,
        preexec_fn: Optional[Callable[[], Any]] = None,
        encoding: Optional[str] = None,
        codec_errors: str = "strict",
        dimensions: Optional[Tuple[int, int]] = None,
        use_poll: bool = False,
    ) -> None:
        if preexec_fn is not None:
            raise ExceptionPexpect(
                "preexec_fn cannot be used: the program of a session is not started by this process; "
                "start a shell that does what it would have done"
            )
        self.stdin, self.stdout, self.stderr = sys.stdin, sys.stdout, sys.stderr
        self.STDIN_FILENO, self.STDOUT_FILENO, self.STDERR_FILENO = 0, 1, 2
        self.command: Any = command
        self.args: Any = None
        self.timeout, self.maxread, self.searchwindowsize = timeout, maxread, searchwindowsize
        self.logfile, self.logfile_read, self.logfile_send = logfile, None, None
        self.cwd, self.env, self.ignore_sighup, self.echo = cwd, env, ignore_sighup, echo
        self.encoding, self.codec_errors, self.use_poll = encoding, codec_errors, use_poll
        self.delaybeforesend: Optional[float] = 0.05
        self.delayafterclose = 0.1
        self.delayafterterminate = 0.1
        self.delayafterread: Optional[float] = 0.0001
        self.ignorecase = False
        self.delimiter: Any = EOF
        self.str_last_chars = 100
        self.searcher: Any = None
        self.before: Any = None
        self.after: Any = None
        self.match: Any = None
        self.match_index: Optional[int] = None
        self.exitstatus: Optional[int] = None
        self.signalstatus: Optional[int] = None
        self.status: Optional[int] = None
        self.pid: Optional[int] = None
        self.child_fd = -1
        self.closed = self.terminated = True
        self.flag_eof = False
        self.session: Optional[Session] = None
        self._position = 0
        self._finalizer: Any = None
        if encoding is None:
            self._encoder: Any = _Bytes()
            self._decoder: Any = _Bytes()
            self.string_type: Any = bytes
            self.allowed_string_types: Any = (bytes, str)
            self.linesep: Any = os.linesep.encode()
            self.crlf: Any = b"\r\n"
        else:
            self._encoder = codecs.getincrementalencoder(encoding)(codec_errors)
            self._decoder = codecs.getincrementaldecoder(encoding)(codec_errors)
            self.string_type = str
            self.allowed_string_types = (str,)
            self.linesep = os.linesep
            self.crlf = "\r\n"
        self._parts: List[Any] = []
        if command is None:
            self.name = "<pexpect factory incomplete>"
        else:
            self._spawn(command, args, None, dimensions)

    def _spawn(
        self, command: Any, args: List[str] = [], preexec_fn: Any = None, dimensions: Optional[Tuple[int, int]] = None
    ) -> None:
        if isinstance(command, int):
            raise ExceptionPexpect(f"the command {command} is a number; maybe you want to use fdpexpect.fdspawn")
        if not isinstance(args, list):
            raise TypeError("The argument, args, must be a list.")
        self.args = [command, *args] if args else split_command_line(command)
        path = which(self.args[0], env=self.env)
        if path is None:
            raise ExceptionPexpect(f"The command was not found or was not executable: {self.args[0]}.")
        self.command = self.args[0] = path
        self.name = "<" + " ".join(self.args) + ">"
        given: Dict[str, str] = dict(os.environ if self.env is None else self.env)
        outside = dict(given)
        for name in ("NBS_TS_HOME", "HOME"):
            if name in os.environ:
                outside.setdefault(name, os.environ[name])
        # The session's shell is found on our PATH, and forgets what it has for prompts.
        outside["PATH"] = os.environ.get("PATH", "") + os.pathsep + os.defpath
        unset = [name for name in (*_OF_NBS, *outside) if name not in given]
        before = [f"unset {' '.join(dict.fromkeys(unset))};"] if unset else []
        before += [f"export {name}={shlex.quote(given[name])};" for name in ("PATH", "PS1", "PS2") if name in given]
        if not self.echo:
            before.append("stty -echo;")
        if self.ignore_sighup:
            before.append("trap '' HUP;")
        if "TERM" not in given:
            before.append("unset TERM;")
        rows, columns = dimensions or (24, 80)
        text = " ".join([*before, "exec", shlex.join(self.args)])
        call = _verbs.create(
            text,
            cwd=self.cwd,
            size=(columns, rows),
            env={"TERM": given["TERM"]} if "TERM" in given else None,
            owner=os.getpid(),
            no_helper=True,
            pager=True,
        )
        try:
            self.session = Session.open(call_now(call, outside))
        except Error as error:
            raise ExceptionPexpect(f"cannot start {self.command}: {error.message}") from error
        handle = self.session.handle
        # A spawn that is forgotten takes its session with it.
        self._finalizer = weakref.finalize(self, _remove, handle, os.getpid())
        self._folder = _home() / "sessions" / handle
        self.pid = int((self._folder / "pid").read_text())
        self._log_descriptor = os.open(self._folder / "output.log", os.O_RDONLY | os.O_CLOEXEC)
        self._input = os.open(self._folder / "input.fifo", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._attached = Process(["ts", "attach", handle])
        self.child_fd = self._attached.stdout_descriptor()
        self.closed = self.terminated = False

    # Reading.

    @property
    def buffer(self) -> Any:
        """What was read and is not matched yet. It is kept in parts, which are joined on demand."""
        if len(self._parts) != 1:
            self._parts = [self.string_type().join(self._parts)]
        return self._parts[0]

    @buffer.setter
    def buffer(self, text: Any) -> None:
        self._parts = [text]

    def _last(self, size: int) -> Any:
        """The last `size` of the buffer."""
        pieces: List[Any] = []
        for part in reversed(self._parts):
            pieces.append(part[-size:])
            size -= len(pieces[-1])
            if size <= 0:
                break
        return self.string_type().join(reversed(pieces))

    def read_nonblocking(self, size: int = 1, timeout: Optional[float] = -1) -> Any:
        """At most `size` of what was printed. Waits for it until the timeout."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if timeout == -1:
            timeout = self.timeout
        while True:
            if not _ready(self.child_fd, timeout):
                raise TIMEOUT("Timeout exceeded.")
            data = self._take(size)
            text = self._decoder.decode(data, final=False)
            if text or not data:
                self._log(text, "read")
                return text

    def _take(self, size: int) -> bytes:
        """What is there to read, from the pipe of `attach`."""
        try:
            data = os.read(self.child_fd, size)
        except BlockingIOError:
            return b""
        # `attach` ends with a notice of the session's end, which is not in the log.
        data = os.pread(self._log_descriptor, len(data), self._position) if data else b""
        if not data:
            self.flag_eof = True
            self.isalive()
            raise EOF("End Of File (EOF).")
        self._position += len(data)
        return data

    def read(self, size: int = -1) -> Any:
        """At most `size`, or all until the end."""
        if size == 0:
            return self.string_type()
        if size < 0:
            self.expect(self.delimiter)
            return self.before
        regex = re.compile(self._coerce(".{%d}" % size), re.DOTALL)
        if self.expect([regex, self.delimiter]) == 0:
            return self.after
        return self.before

    def readline(self, size: int = -1) -> Any:
        """A line, with its end `\\r\\n`; at the end of the output what is left."""
        if size == 0:
            return self.string_type()
        if self.expect([self.crlf, self.delimiter]) == 0:
            return self.before + self.crlf
        return self.before

    def __iter__(self) -> Iterator[Any]:
        return iter(self.readline, self.string_type())

    def readlines(self, sizehint: int = -1) -> List[Any]:
        """All lines until the end."""
        return list(self)

    def _log(self, text: Any, direction: str) -> None:
        for log in (self.logfile, self.logfile_send if direction == "send" else self.logfile_read):
            if log is not None:
                log.write(text)
                log.flush()

    # Expecting.

    def compile_pattern_list(self, patterns: Any) -> List[Any]:
        """Regexes of texts; `EOF`, `TIMEOUT` and regexes stay what they are."""
        if patterns is None:
            return []
        flags = re.DOTALL | (re.IGNORECASE if self.ignorecase else 0)
        compiled: List[Any] = []
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            if pattern is EOF or pattern is TIMEOUT:
                compiled.append(pattern)
            elif isinstance(pattern, self.allowed_string_types):
                compiled.append(re.compile(self._coerce(pattern), flags))
            elif isinstance(pattern, re.Pattern):
                if isinstance(pattern.pattern, self.string_type):
                    compiled.append(pattern)
                else:
                    kept = pattern.flags & ~re.UNICODE
                    compiled.append(re.compile(self._coerce(pattern.pattern), kept))
            else:
                self._wrong_pattern(pattern)
        return compiled

    def _coerce(self, text: Any) -> Any:
        if isinstance(text, self.string_type):
            return text
        return text.encode("utf-8") if self.encoding is None else text.decode("utf-8")

    def _wrong_pattern(self, pattern: Any) -> None:
        wanted = ", ".join(str(kind) for kind in self.allowed_string_types)
        raise TypeError(
            f"got {type(pattern)} ({pattern!r}) as pattern, must be one of: {wanted}, pexpect.EOF, pexpect.TIMEOUT"
        )

    def expect(
        self,
        pattern: Any,
        timeout: Optional[float] = -1,
        searchwindowsize: Optional[int] = -1,
        async_: bool = False,
        **more: Any,
    ) -> Any:
        """Reads until a regex matches, and returns its index. `EOF` and `TIMEOUT` may be patterns,
        too; else they are raised. With `async_` it is awaited."""
        compiled = self.compile_pattern_list(pattern)
        return self.expect_list(compiled, timeout, searchwindowsize, async_, **more)

    def expect_list(
        self,
        pattern_list: List[Any],
        timeout: Optional[float] = -1,
        searchwindowsize: Optional[int] = -1,
        async_: bool = False,
        **more: Any,
    ) -> Any:
        """The same with compiled regexes."""
        return self._expect(searcher_re(pattern_list), timeout, searchwindowsize, async_, more)

    def expect_exact(
        self,
        pattern_list: Any,
        timeout: Optional[float] = -1,
        searchwindowsize: Optional[int] = -1,
        async_: bool = False,
        **more: Any,
    ) -> Any:
        """The same with texts."""
        given = pattern_list
        if isinstance(given, self.allowed_string_types) or given in (EOF, TIMEOUT):
            given = [given]
        try:
            patterns = list(given)
        except TypeError:
            self._wrong_pattern(given)
            raise
        texts = []
        for pattern in patterns:
            if pattern is EOF or pattern is TIMEOUT:
                texts.append(pattern)
            elif isinstance(pattern, self.allowed_string_types):
                texts.append(self._coerce(pattern))
            else:
                self._wrong_pattern(pattern)
        return self._expect(searcher_string(texts), timeout, searchwindowsize, async_, more)

    def expect_loop(
        self, searcher: Any, timeout: Optional[float] = -1, searchwindowsize: Optional[int] = -1
    ) -> int:
        """The same by a searcher."""
        index: int = self._expect(searcher, timeout, searchwindowsize, False, {})
        return index

    def _expect(
        self,
        searcher: Any,
        timeout: Optional[float],
        window: Optional[int],
        async_: bool,
        more: Dict[str, Any],
    ) -> Any:
        async_ = more.pop("async", async_)
        if more:
            raise TypeError(f"Unknown keyword arguments: {more}")
        self.searcher = searcher
        timeout = self.timeout if timeout == -1 else timeout
        window = self.searchwindowsize if window == -1 else window
        deadline = None if timeout is None else time.monotonic() + timeout
        if async_:
            return self._expect_later(searcher, deadline, window)
        tried = False
        try:
            index = self._search(searcher, None, window)
            while index is None:
                data = self.read_nonblocking(self.maxread, _left(deadline, tried))
                tried = True
                if self.delayafterread is not None:
                    time.sleep(self.delayafterread)
                self._parts.append(data)
                index = self._search(searcher, len(data), window)
            return index
        except (EOF, TIMEOUT) as reason:
            return self._not_found(searcher, reason)
        except BaseException:
            self._no_match(self.buffer, None)
            raise

    async def _expect_later(self, searcher: Any, deadline: Optional[float], window: Optional[int]) -> Any:
        tried = False
        try:
            index = self._search(searcher, None, window)
            while index is None:
                left = _left(deadline, tried)
                if not _ready(self.child_fd, 0):
                    await readable(self.child_fd, left)
                data = self.read_nonblocking(self.maxread, 0)
                tried = True
                self._parts.append(data)
                index = self._search(searcher, len(data), window)
            return index
        except (EOF, TIMEOUT) as reason:
            return self._not_found(searcher, reason)
        except BaseException:
            self._no_match(self.buffer, None)
            raise

    def _search(self, searcher: Any, fresh: Optional[int], window: Optional[int]) -> Optional[int]:
        """Searches what has not been searched: the last `fresh` of the buffer, or all of it."""
        size = window or searcher.reach(fresh)
        text = self.buffer if fresh is None or size is None else self._last(size)
        index: int = searcher.search(text, len(text) if fresh is None else fresh, window or None)
        if index < 0:
            return None
        end = len(text) - searcher.end
        start = len(text) - searcher.start
        whole = self.buffer
        self.before, self.after = whole[: len(whole) - start], whole[len(whole) - start : len(whole) - end]
        self.buffer = whole[len(whole) - end :]
        self.match, self.match_index = searcher.match, index
        return index

    def _no_match(self, before: Any, after: Any) -> None:
        self.before, self.after, self.match, self.match_index = before, after, None, None

    def _not_found(self, searcher: Any, reason: ExceptionPexpect) -> int:
        kind = type(reason)
        self._no_match(self.buffer, kind)
        index: int = searcher.timeout_index
        if kind is EOF:
            self.buffer = self.string_type()
            index = searcher.eof_index
        if index >= 0:
            self.match, self.match_index = kind, index
            return index
        raise kind(f"{reason}\n{self}\nsearcher: {searcher}") from None

    # Typing.

    def send(self, s: Any) -> int:
        """Types a text, and returns how many bytes were typed."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if self.delaybeforesend is not None:
            time.sleep(self.delaybeforesend)
        if not isinstance(s, self.allowed_string_types):
            raise TypeError(f"cannot send {type(s)}")
        text = self._coerce(s)
        self._log(text, "send")
        return self._type(self._encoder.encode(text, final=False))

    def _type(self, data: bytes) -> int:
        done = 0
        while done < len(data):
            try:
                done += os.write(self._input, data[done : done + select.PIPE_BUF])
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._input, select.POLLOUT)
                poll.poll()
        return done

    def sendline(self, s: Any = "") -> int:
        """Types a text and the end of a line."""
        return self.send(self._coerce(s) + self.linesep)

    def write(self, s: Any) -> None:
        """The same as `send`, without a result."""
        self.send(s)

    def writelines(self, sequence: Any) -> None:
        """Types texts."""
        for text in sequence:
            self.write(text)

    def flush(self) -> None:
        """Does nothing. For programs that treat this as a file."""

    def sendcontrol(self, char: str) -> int:
        """Types a control character: `sendcontrol("c")` is Ctrl-C."""
        special = {"@": 0, "`": 0, "[": 27, "{": 27, "\\": 28, "|": 28, "]": 29, "}": 29, "^": 30, "~": 30}
        special.update({"_": 31, "?": 127})
        letter = char.lower()
        if "a" <= letter <= "z":
            code = ord(letter) - ord("a") + 1
        elif letter in special:
            code = special[letter]
        else:
            return 0
        return self._type_control(code)

    def _type_control(self, code: int) -> int:
        byte = bytes([code])
        self._log(byte if self.encoding is None else byte.decode("latin-1"), "send")
        return self._type(byte)

    def _character(self, which: int, otherwise: int) -> int:
        try:
            with _Device(self._folder) as device:
                character = termios.tcgetattr(device)[6][which]
        except (OSError, termios.error, ValueError):
            return otherwise
        return ord(character) if isinstance(character, bytes) else int(character)

    def sendeof(self) -> None:
        """Types the terminal's character for the end of input."""
        self._type_control(self._character(termios.VEOF, 4))

    def sendintr(self) -> None:
        """Types the terminal's character for an interrupt."""
        self._type_control(self._character(termios.VINTR, 3))

    # The terminal.

    def fileno(self) -> int:
        """A descriptor that is readable when there is output."""
        return self.child_fd

    def isatty(self) -> bool:
        """Whether the program has a terminal: until it has ended."""
        return self.child_fd >= 0 and not self.closed

    def getecho(self) -> bool:
        """Whether the terminal echoes what is typed."""
        with _Device(self._folder) as device:
            return bool(termios.tcgetattr(device)[3] & termios.ECHO)

    def setecho(self, state: bool) -> None:
        """Turns the echo on or off."""
        with _Device(self._folder) as device:
            modes = termios.tcgetattr(device)
            modes[3] = modes[3] | termios.ECHO if state else modes[3] & ~termios.ECHO
            termios.tcsetattr(device, termios.TCSANOW, modes)
        self.echo = state

    def waitnoecho(self, timeout: Optional[float] = -1) -> bool:
        """Waits until the echo is off, as at a prompt for a password."""
        timeout = self.timeout if timeout == -1 else timeout
        end = None if timeout is None else time.monotonic() + timeout
        while self.getecho():
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(0.02)
        return True

    def getwinsize(self) -> Tuple[int, int]:
        """Rows and columns."""
        with _Device(self._folder) as device:
            size = struct.unpack("HHHH", fcntl.ioctl(device, termios.TIOCGWINSZ, bytes(8)))
        return size[0], size[1]

    def setwinsize(self, rows: int, cols: int) -> None:
        """Changes the size. The program is told by SIGWINCH."""
        assert self.session is not None
        self.session.resize(cols, rows)

    def interact(
        self,
        escape_character: Optional[str] = chr(29),
        input_filter: Optional[Callable[[Any], Any]] = None,
        output_filter: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        """Connects this terminal with the program, until it ends or the escape character is typed."""
        self._show(self.buffer if self.encoding is None else self.buffer.encode(self.encoding))
        self.stdout.flush()
        self.buffer = self.string_type()
        escape = escape_character.encode("latin-1") if isinstance(escape_character, str) else escape_character
        modes = termios.tcgetattr(self.STDIN_FILENO)
        tty.setraw(self.STDIN_FILENO)
        try:
            self._copy(escape, input_filter, output_filter)
        finally:
            termios.tcsetattr(self.STDIN_FILENO, termios.TCSAFLUSH, modes)

    def _copy(self, escape: Optional[bytes], input_filter: Any, output_filter: Any) -> None:
        while True:
            poll = select.poll()
            poll.register(self.STDIN_FILENO, select.POLLIN)
            poll.register(self.child_fd, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self.child_fd in ready:
                try:
                    data = self._take(1000)
                except EOF:
                    return
                data = output_filter(data) if output_filter else data
                self._log(data if self.encoding is None else data.decode(self.encoding, "replace"), "read")
                self._show(data)
            if self.STDIN_FILENO in ready:
                data = os.read(self.STDIN_FILENO, 1000)
                data = input_filter(data) if input_filter else data
                end = data.rfind(escape) if escape is not None else -1
                if end >= 0:
                    data = data[:end]
                self._log(data if self.encoding is None else data.decode(self.encoding, "replace"), "send")
                self._type(data)
                if end >= 0 or not data:
                    return

    def _show(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.STDOUT_FILENO, data) :]

    # Its end.

    def eof(self) -> bool:
        """Whether `EOF` was raised."""
        return self.flag_eof

    def isalive(self) -> bool:
        """Whether the program is running. If not, `exitstatus` or `signalstatus` is set."""
        if self.terminated:
            return False
        try:
            record = json.loads((self._folder / "exit.json").read_text())
        except FileNotFoundError:
            if self._folder.exists():
                return True
            record = {"exit_code": None, "signal": None}
        self.terminated = True
        name = record["signal"]
        number = None if name is None else getattr(signal, name, record["exit_code"] - 128)
        if number is None:
            self.exitstatus = record["exit_code"]
            self.status = None if self.exitstatus is None else self.exitstatus << 8
        else:
            self.signalstatus = self.status = int(number)
        return False

    def wait(self) -> Optional[int]:
        """Waits until the program has ended, and returns its exit code."""
        if not self.isalive():
            if self.exitstatus is None and self.signalstatus is None:
                raise ExceptionPexpect("Cannot wait for a dead child process.")
            return self.exitstatus
        assert self.session is not None
        while self.isalive():
            try:
                self.session.wait(exit=True, timeout="24h")
            except TimeoutError:
                pass
        return self.exitstatus

    def kill(self, sig: int) -> None:
        """Sends a signal to the program."""
        if self.isalive():
            assert self.pid is not None
            os.kill(self.pid, sig)

    def terminate(self, force: bool = False) -> bool:
        """Ends the program: by SIGHUP, SIGCONT, SIGINT, and with `force` by SIGKILL."""
        if not self.isalive():
            return True
        signals = [signal.SIGHUP, signal.SIGCONT, signal.SIGINT]
        for number in [*signals, signal.SIGKILL] if force else signals:
            self.kill(number)
            if self._ends_within(self.delayafterterminate):
                return True
        return False

    def _ends_within(self, seconds: float) -> bool:
        if self.isalive():
            assert self.session is not None
            try:
                self.session.wait(exit=True, timeout=max(seconds, 0.001))
            except TimeoutError:
                pass
        return not self.isalive()

    def close(self, force: bool = True) -> None:
        """Ends the program and removes its session."""
        if self.closed:
            return
        if self.isalive():
            self.kill(signal.SIGHUP)
            if not self._ends_within(self.delayafterclose) and not self.terminate(force):
                raise ExceptionPexpect("Could not terminate the child.")
        self.child_fd = -1
        self.closed = True
        self._finalizer()
        self._give_back()

    def _give_back(self) -> None:
        """The descriptors and the call of `attach`."""
        if getattr(self, "_attached", None) is not None and self._log_descriptor >= 0:
            self._attached.end()
            os.close(self._input)
            os.close(self._log_descriptor)
            self._log_descriptor = -1

    _log_descriptor = -1

    def __del__(self) -> None:
        self._give_back()

    def __enter__(self) -> spawn:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        last = self.str_last_chars
        before = self.before[-last:] if self.before and isinstance(self.before, self.string_type) else ""
        lines = [
            repr(self),
            f"command: {self.command}",
            f"args: {self.args!r}",
            f"buffer (last {last} chars): {self.buffer[-last:]!r}",
            f"before (last {last} chars): {before!r}",
            f"after: {self.after!r}",
            f"match: {self.match!r}",
        ]
        names = "match_index exitstatus flag_eof pid child_fd closed timeout delimiter logfile logfile_read "
        names += "logfile_send maxread ignorecase searchwindowsize delaybeforesend delayafterclose "
        names += "delayafterterminate"
        return "\n".join(lines + [f"{name}: {getattr(self, name)}" for name in names.split()])


def spawnu(*args: Any, **options: Any) -> spawn:
    """A `spawn` with the encoding UTF-8."""
    options.setdefault("encoding", "utf-8")
    return spawn(*args, **options)


class _Device:
    """The terminal's device, opened for a moment."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._path = (folder / "slave_pty").read_text().strip()

    def __enter__(self) -> int:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISCHR(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise OSError(f"'{self._path}' is not a terminal")
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _home() -> pathlib.Path:
    return pathlib.Path(os.environ.get("NBS_TS_HOME") or pathlib.Path(os.environ["HOME"], ".nbs-ts"))


def _left(deadline: Optional[float], tried: bool) -> Optional[float]:
    """The seconds until the deadline. What is there already may be read after it once."""
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left < 0 and tried:
        raise TIMEOUT("Timeout exceeded.")
    return max(0.0, left)


def _ready(descriptor: int, timeout: Optional[float]) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))


def _remove(handle: str, owner: int) -> None:
    if os.getpid() == owner:
        try:
            call_now(_verbs.kill_one(handle, if_exists=True))
        except Error:
            pass  # Nobody is left who could be told.
