"""A terminal for Harbor's agents (`pip install nbs[harbor]`).

    harbor run --agent-import-path nbs.adapters.harbor:NbsTerminus2 …

The file nbs is copied into the environment, which needs neither tmux nor asciinema, and nothing is
installed there. `NbsTerminal` has the methods of Harbor's `TmuxSession`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
import uuid
from typing import Any, Dict, List, Optional, Union

from harbor.agents.terminus_2.asciinema_handler import AsciinemaHandler
from harbor.agents.terminus_2.terminus_2 import Terminus2
from harbor.models.trial.paths import EnvironmentPaths

from .. import Error, TimedOut, file
from .._errors import error_of

_NAMES = "Enter|Tab|Escape|Space|BSpace|BTab|Insert|Delete|Home|End|PageUp|PageDown|Up|Down|Left|Right|F[0-9]+|KP.+"
_KEY = re.compile(rf"(?:\^|(?:[CMS]-)+).|(?:[CMS]-)*(?:{_NAMES})")
_TMUX = {"PPage": "PageUp", "PgUp": "PageUp", "NPage": "PageDown", "PgDn": "PageDown", "IC": "Insert", "DC": "Delete"}
# Characters of a text on one command line, which may have 128 KiB in one word.
_PIECE = 20_000


class NbsTerminal:
    """A shell in a session of nbs, inside an environment of Harbor."""

    def __init__(
        self,
        session_name: str,
        environment: Any,
        logging_path: Any = None,
        local_asciinema_recording_path: Any = None,
        remote_asciinema_recording_path: Any = None,
        pane_width: int = 160,
        pane_height: int = 40,
        extra_env: Optional[Dict[str, str]] = None,
        user: Union[str, int, None] = None,
    ) -> None:
        self.environment = environment
        self._name, self._user, self._log = session_name, user, logging_path
        self._recordings = remote_asciinema_recording_path, local_asciinema_recording_path
        self._size, self._extra_env = f"{int(pane_width)}x{int(pane_height)}", extra_env or {}
        self._file = f"/tmp/nbs-{uuid.uuid4().hex}"
        self._handle = ""
        self._markers: List[Any] = []
        self._shown = False

    async def _nbs(self, *words: str, patience: float = 60, into: str = "") -> str:
        command = f"NBS_TS_HOME={self._file}.state {self._file} ts {shlex.join(words)}{into}"
        # Should the environment not answer, this ends; nbs itself has its own timeouts.
        limit = int(patience) + 30
        done = await asyncio.wait_for(
            self.environment.exec(command=command, timeout_sec=limit, user=self._user), limit + 30
        )
        if done.return_code == 0:
            return done.stdout or ""
        text = ((done.stderr or "") or (done.stdout or "")).rstrip()
        last = text.rpartition("\n")[2]
        raise error_of({"error": last.partition(": ")[2] or last, "exit": done.return_code}, {"output": text})

    async def start(self) -> None:
        """Starts the shell."""
        await self.environment.upload_file(source_path=file(), target_path=self._file)
        done = await self.environment.exec(command=f"chmod 755 {self._file}", user="root")
        if done.return_code != 0:
            raise RuntimeError(f"cannot make {self._file} executable: {done.stderr}")
        options = [f"--env={name}={value}" for name, value in self._extra_env.items()]
        if self._recordings[0]:
            options.append("--record")
        await self.environment.exec(command=f"mkdir -m 700 {self._file}.state", user=self._user)
        words = ["--json", f"--size={self._size}", "--no-helper", *options, "bash --login"]
        self._handle = json.loads(await self._nbs("create", *words))["handle"]
        await self._nbs("wait", "--input", self._handle)

    async def stop(self) -> None:
        """Writes the log and the recording. What runs in the session goes on, as the tests may need it."""
        remote, local = self._recordings
        if self._log:
            await self._nbs("read", self._handle, into=f" >{shlex.quote(str(self._log))}")
        if remote:
            await self._nbs("cast", self._handle, into=f" >{shlex.quote(str(remote))}")
            if local:
                local.parent.mkdir(parents=True, exist_ok=True)
                await self.environment.download_file(source_path=str(remote), target_path=local)
                if self._markers:
                    AsciinemaHandler(self._markers, local).merge_markers()

    async def is_session_alive(self) -> bool:
        """Whether the shell is there."""
        try:
            return bool(json.loads(await self._nbs("status", "--json", self._handle))["state"] == "alive")
        except Error:
            return False

    async def send_keys(
        self,
        keys: Union[str, List[str]],
        block: bool = False,
        min_timeout_sec: float = 0.0,
        max_timeout_sec: float = 180.0,
    ) -> None:
        """Types keys by tmux's names, and any other text as it is. With `block` it waits until the
        program waits for input, and raises `TimeoutError` if it does not; the next call is then none
        the worse for it. Without `block` it takes `min_timeout_sec`."""
        began = time.monotonic()
        for key in [keys] if isinstance(keys, str) else keys:
            name = _TMUX.get(key, key)
            if _KEY.fullmatch(name):
                await self._nbs("key", self._handle, name)
                continue
            for at in range(0, len(key), _PIECE):
                await self._nbs("send", "--no-enter", self._handle, key[at : at + _PIECE].replace("\n", "\r"))
        if not block:
            await asyncio.sleep(max(min_timeout_sec - (time.monotonic() - began), 0))
            return
        try:
            await self._nbs("wait", f"--timeout={max_timeout_sec}", "--input", self._handle, patience=max_timeout_sec)
        except TimedOut:
            raise TimeoutError(f"Command timed out after {max_timeout_sec} seconds") from None

    async def capture_pane(self, capture_entire: bool = False) -> str:
        """The screen, or all output as a person would have seen it."""
        if capture_entire:
            return await self._nbs("read", "--rendered", self._handle)
        return await self._nbs("screen", self._handle)

    async def get_incremental_output(self) -> str:
        """The output since the last call. If there is none, or a program draws the whole screen, the screen."""
        new = await self._nbs("read-new", "--rendered", self._handle)
        screen = json.loads(await self._nbs("screen", "--json", self._handle))
        first, self._shown = not self._shown, True
        if first or screen["alternate"] or not new.strip():
            return "Current Terminal Screen:\n" + "\n".join(screen["lines"])
        return f"New Terminal Output:\n{new}"


class NbsTerminus2(Terminus2):  # type: ignore[misc, unused-ignore]
    """Harbor's agent Terminus 2, with `NbsTerminal` in place of tmux."""

    _session: Any

    @staticmethod
    def name() -> str:
        return "nbs-terminus-2"

    async def setup(self, environment: Any) -> None:
        """Starts the terminal."""
        folder, recorded = EnvironmentPaths.agent_dir, self.options.record_terminal_session
        self._session = NbsTerminal(
            session_name=self.name(),
            environment=environment,
            logging_path=folder / "terminus_2.pane",
            local_asciinema_recording_path=environment.trial_paths.agent_dir / "recording.cast" if recorded else None,
            remote_asciinema_recording_path=folder / "recording.cast" if recorded else None,
            pane_width=self.options.tmux_pane_width,
            pane_height=self.options.tmux_pane_height,
            extra_env=self._extra_env,
            user=environment.default_user,
        )
        await self._session.start()
