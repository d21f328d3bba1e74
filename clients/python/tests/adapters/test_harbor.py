import asyncio
import os
import shutil
import subprocess
import time

import nbs
import pytest
from harbor.environments.base import ExecResult

from nbs.adapters.harbor import NbsTerminal, NbsTerminus2


class Here:
    """As much of an environment of Harbor as a terminal uses; it is this machine."""

    default_user = None

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", command, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, cwd=cwd
        )
        output, errors = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=output.decode(), stderr=errors.decode(), return_code=process.returncode)

    async def upload_file(self, source_path, target_path):
        shutil.copy(source_path, target_path)

    async def download_file(self, source_path, target_path):
        shutil.copy(source_path, target_path)


@pytest.fixture
def used(tmp_path):
    """Gives a started terminal to a function, and ends what that has left."""

    def use(work, **options):
        async def run():
            terminal = NbsTerminal("test", Here(), **options)
            try:
                await terminal.start()
                await work(terminal)
            finally:
                await terminal._nbs("kill", "--all", "--if-exists")
                shutil.rmtree(f"{terminal._file}.state")
                os.unlink(terminal._file)

        asyncio.run(run())

    return use


def test_keys_are_typed_and_output_is_shown(used):
    async def work(terminal):
        await terminal.send_keys(["cd /usr; echo $A $COLUMNS", "Enter"], block=True)
        assert "b 100\n" in await terminal.get_incremental_output()
        text = "cat <<'EOF'\n" + "ü" * 60_000 + "\nEOF\n"
        await terminal.send_keys([text], block=True)
        shown = await terminal.get_incremental_output()
        assert shown.startswith("New Terminal Output:\n") and "\n" + "ü" * 60_000 + "\n" in shown
        await terminal.send_keys(["cat", "Enter"], min_timeout_sec=0.1)
        await terminal.send_keys(["Enter-", "x", "C-m", "C-d"], block=True)
        assert "Enter-x" in await terminal.capture_pane()
        assert "echo $A" in await terminal.capture_pane(capture_entire=True)
        assert await terminal.is_session_alive()
        await terminal.send_keys("exit\n", block=False)
        await terminal._nbs("wait", "--exit", terminal._handle)
        assert not await terminal.is_session_alive()

    used(work, pane_width=100, extra_env={"A": "b"})


def test_a_call_after_one_that_timed_out_waits_for_its_own_command(used):
    async def work(terminal):
        for turn in range(3):
            with pytest.raises(TimeoutError, match="timed out after 0.5 seconds"):
                await terminal.send_keys(["sleep 2; echo slept", "Enter"], block=True, max_timeout_sec=0.5)
            await terminal.send_keys([f"sleep 1; echo after {turn}", "Enter"], block=True, max_timeout_sec=60)
            assert f"\nafter {turn}\n" in await terminal.get_incremental_output()
        with pytest.raises(TimeoutError):
            await terminal.send_keys(["sleep 1000", "Enter"], block=True, max_timeout_sec=0.5)
        began = time.monotonic()
        await terminal.send_keys("C-c", block=True)
        assert time.monotonic() - began < 60
        # A command that asks waits for an answer, and the call does not wait for it.
        await terminal.send_keys(['read -p "sure? " x', "Enter"], block=True)
        assert "sure?" in await terminal.get_incremental_output()

    used(work)


def test_the_log_and_the_recording_are_written(used, tmp_path):
    async def work(terminal):
        await terminal.send_keys(["echo recorded", "Enter"], block=True)
        await terminal.stop()
        assert "recorded" in (tmp_path / "log").read_text()
        assert "recorded" in (tmp_path / "here" / "cast").read_text()

    used(
        work,
        logging_path=tmp_path / "log",
        local_asciinema_recording_path=tmp_path / "here" / "cast",
        remote_asciinema_recording_path=tmp_path / "there",
    )


def test_the_agent_has_a_name_of_its_own():
    assert NbsTerminus2.name() == "nbs-terminus-2"
    assert issubclass(nbs.TimedOut, TimeoutError)
