"""A plug-in for pytest: the fixture `terminal`.

    def test_the_installer_asks(terminal):
        result = terminal.run("./install")
        assert result.question == "Install to /opt? [y/N]"

If a test fails, its report shows the screen. With `--nbs-keep` the session of a failed test stays
alive, and the report shows how to attach to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generator, List

import pytest

from ._errors import Error
from ._session import Session

if TYPE_CHECKING:
    from ._verbs import Options, Texts

_SESSIONS: pytest.StashKey[List[Session]] = pytest.StashKey()
_FAILED: pytest.StashKey[bool] = pytest.StashKey()


class Terminals:
    """Starts more sessions for a test."""

    def __init__(self, sessions: List[Session]) -> None:
        self._sessions = sessions

    def __call__(self, command: Texts = "bash", **options: Any) -> Session:
        session = Session(command, **options)
        self._sessions.append(session)
        return session.start()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nbs")
    group.addoption("--nbs-keep", action="store_true", help="keep the terminal sessions of failed tests alive")


@pytest.fixture
def terminals(request: pytest.FixtureRequest) -> Generator[Terminals, None, None]:
    """A function that starts sessions: `terminals("python3", size=(100, 30))`."""
    sessions = request.node.stash.setdefault(_SESSIONS, [])
    yield Terminals(sessions)
    kept = request.config.getoption("--nbs-keep") and request.node.stash.get(_FAILED, False)
    while sessions:
        session = sessions.pop()
        if not kept and session._handle is not None:
            session.kill(if_exists=True)


@pytest.fixture
def terminal(terminals: Terminals) -> Session:
    """A session with a shell."""
    return terminals()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    item.stash[_FAILED] = True
    for session in item.stash.get(_SESSIONS, []):
        if session._handle is None:
            continue
        try:
            report.sections.append((f"screen of session {session.handle}", session.screen().text))
        except Error as error:
            report.sections.append((f"session {session.handle}", f"no screen: {error}"))
        if item.config.getoption("--nbs-keep"):
            text = f"nbs-ts attach --interactive {session.handle}"
            report.sections.append(("to look at it", text))
