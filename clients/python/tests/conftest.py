"""Each test has a state directory of its own, and leaves no process and no session behind."""

import os
import pathlib
import shutil
import sys

import pytest

CLIENT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CLIENT))
os.environ.setdefault("NBS_FILE", str(CLIENT.parent.parent / "target/debug/nbs"))
os.environ["PYTHONPATH"] = str(CLIENT)

import nbs  # noqa: E402

pytest_plugins = ["pytester", "nbs.pytest_plugin"] if "nbs.pytest_plugin" not in sys.modules else ["pytester"]


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("state")
    folder.chmod(0o700)
    monkeypatch.setenv("NBS_TS_HOME", str(folder))
    # The startup files in the real home directory may take any time.
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("PS1", "$ ")
    yield folder
    left = [session.handle for session in nbs.sessions() if session.alive]
    nbs.kill(all=True)
    shutil.rmtree(folder)
    assert left == [], "sessions were left behind"
    assert calls() == [], "calls were left behind"


def calls():
    """The processes that this one has started and that still run."""
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in children]


@pytest.fixture
def eventually():
    import time

    def check(fact):
        until = time.monotonic() + 60
        while not fact():
            assert time.monotonic() < until, "it never became true"
            time.sleep(0.02)

    return check
