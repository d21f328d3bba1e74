"""A terminal for OpenHands (`pip install nbs[openhands]`).

    import nbs.adapters.openhands
    from openhands.sdk import Agent, Tool

    agent = Agent(llm=llm, tools=[Tool(name="nbs_terminal", params={"machine": "devbox"})])

`NbsTerminal` is the backend alone, for `TerminalSession(NbsTerminal("/repo"))`.
"""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Optional

from openhands.sdk.tool import register_tool
from openhands.tools.terminal.constants import (
    CMD_OUTPUT_PS1_BEGIN,
    CMD_OUTPUT_PS1_END,
    HISTORY_LIMIT,
    TMUX_SESSION_HEIGHT,
    TMUX_SESSION_WIDTH,
)
from openhands.tools.terminal.definition import TerminalObservation, TerminalTool
from openhands.tools.terminal.env import build_terminal_env, normalize_terminal_env
from openhands.tools.terminal.impl import TerminalExecutor
from openhands.tools.terminal.metadata import CmdOutputMetadata
from openhands.tools.terminal.terminal.interface import TerminalInterface, parse_ctrl_key
from openhands.tools.terminal.terminal.terminal_session import TerminalSession

from .. import Error, Session

_KEYS = {"ESC": "Escape", "BS": "BSpace", "PGUP": "PageUp", "PGDN": "PageDown"}
_KEYS.update({key.upper(): key for key in ["Enter", "Tab", "Up", "Down", "Left", "Right", "Home", "End"]})
_BEGIN, _END = CMD_OUTPUT_PS1_BEGIN.strip(), CMD_OUTPUT_PS1_END.strip()
# So much of a command's output is read at most.
_READ = 1 << 22
_LINES = HISTORY_LIMIT + TMUX_SESSION_HEIGHT


class NbsTerminal(TerminalInterface):  # type: ignore[misc, unused-ignore]
    """A shell in a session of nbs, on this machine or another."""

    _initialized: bool
    _closed: bool

    def __init__(
        self,
        work_dir: str,
        username: Optional[str] = None,
        shell_path: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        machine: Optional[str] = None,
    ) -> None:
        super().__init__(work_dir, username)
        self.PS1 = CmdOutputMetadata.to_ps1_prompt()
        self._env = normalize_terminal_env(env)
        self.shell_path, self._machine = shell_path or "/bin/bash", machine
        self._session: Optional[Session] = None
        # What is on the screen begins here in the output, and ends there.
        self._begin = self._end = 0

    @property
    def session(self) -> Session:
        """The session, for whoever wants to look at it or attach to it."""
        if self._session is None or self._closed:
            raise RuntimeError("the terminal is not initialized")
        return self._session

    def initialize(self) -> None:
        """Starts the shell, and waits for its prompt."""
        if self._initialized:
            return
        wanted, hidden = build_terminal_env(self._env), []
        if self._machine is None:
            hidden = sorted(os.environ.keys() - wanted.keys())
            wanted = {name: value for name, value in wanted.items() if os.environ.get(name) != value}
        else:
            # The environment of this machine is nothing to the other.
            wanted = dict(self._env or {})
        wanted["PROMPT_COMMAND"] = f'export PS1="{self.PS1}"; set +H'
        wanted["PS2"] = ""
        user = self.username if self.username in ["root", "openhands"] else None
        self._session = Session(
            f"su {user} -" if user else self.shell_path,
            cwd=self.work_dir,
            size=(TMUX_SESSION_WIDTH, TMUX_SESSION_HEIGHT),
            env=wanted,
            hide_env=hidden,
            owner=os.getpid() if self._machine is None else None,
            machine=self._machine,
            no_helper=self._machine is None,
        ).start()
        self._session.wait(pattern=_END, offset=0, timeout=30)
        self._initialized = True
        self.clear_screen()

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None and not self._closed:
            self._session.kill(if_exists=True)
        self._closed = True

    def send_keys(self, text: str, enter: bool = True) -> None:
        """Types a text, or presses the key of that name."""
        key = _KEYS.get(text.strip().upper()) or parse_ctrl_key(text)
        if key is not None:
            self.session.key(key)
        else:
            # OpenHands doubles the backslash of `\;`, because tmux drops one at the end.
            text = text[:-2] + ";" if text.endswith("\\;") else text
            self.session.send(text, enter=enter and not text.endswith("\n"))

    def read_screen(self) -> str:
        """What was printed since `clear_screen`, as a person would see it."""
        printed = self.session.read(offset=max(self._begin, self._end - _READ), rendered=True)
        self._end = printed.next_offset
        return "\n".join(line.rstrip() for line in printed.text.split("\n")[-_LINES:])

    def clear_screen(self) -> None:
        """Forgets what is above the last prompt. The shell learns nothing of it."""
        start = max(self._begin, self._end - _READ)
        at = self.session.read_bytes(offset=start).rfind(_BEGIN.encode())
        if at > 0:
            self._begin = start + at

    def interrupt(self) -> bool:
        """Presses Ctrl-C."""
        try:
            self.session.key("C-c")
            return True
        except (RuntimeError, Error):
            return False

    def is_running(self) -> bool:
        """Whether the shell's prompt is not there."""
        try:
            return not self.read_screen().rstrip().endswith(_END)
        except (RuntimeError, Error):
            return False


class NbsExecutor(TerminalExecutor):  # type: ignore[misc, unused-ignore]
    """OpenHands' executor of commands, over `NbsTerminal`."""

    _session: Any

    def __init__(self, working_dir: str, *, machine: Optional[str] = None, **options: Any) -> None:
        # OpenHands' own shell is started, for there is no other way, and ended.
        super().__init__(working_dir, **{**options, "terminal_type": "subprocess"})
        self._machine = machine
        self._begin()

    def _begin(self) -> None:
        if self._session is not None:
            self._session.close()
        terminal = NbsTerminal(self._working_dir, self._username, self.shell_path, self._env, self._machine)
        self._session = TerminalSession(terminal, self._no_change_timeout_seconds)
        self._session.initialize()

    def _reset_single_session(self) -> Any:
        self._begin()
        return TerminalObservation.from_text(text=self._RESET_TEXT, command="[RESET]", exit_code=0)


class NbsTerminalTool(TerminalTool):  # type: ignore[misc, unused-ignore]
    """OpenHands' terminal tool, over `NbsTerminal`."""

    name = TerminalTool.name

    @classmethod
    def create(cls, conv_state: Any, *given: Any, machine: Optional[str] = None, **options: Any) -> List[Any]:
        """The tool of a conversation; the options are those of `TerminalExecutor`."""
        saved = conv_state.env_observation_persistence_dir
        folder = conv_state.workspace.working_dir
        executor = NbsExecutor(folder, machine=machine, full_output_save_dir=saved, **options)
        return list(super().create(conv_state, *given, executor=executor))


register_tool("nbs_terminal", NbsTerminalTool)
