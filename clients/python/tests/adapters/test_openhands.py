import os
from types import SimpleNamespace

import nbs
import pytest
from openhands.sdk.tool import Tool, resolve_tool
from openhands.tools.terminal.definition import TerminalAction
from openhands.tools.terminal.terminal.terminal_session import TerminalSession

from nbs.adapters.openhands import NbsTerminal


@pytest.fixture
def session(tmp_path):
    session = TerminalSession(NbsTerminal(str(tmp_path), env={"A": "b c"}))
    session.initialize()
    yield session
    session.close()


def test_commands_have_their_output_exit_code_and_directory(session, tmp_path):
    said = session.execute(TerminalAction(command='echo "$A"; mkdir sub; cd sub; (exit 3)'))
    assert (said.text.split("\n")[0], said.metadata.exit_code) == ("b c", 3)
    assert session.cwd == str(tmp_path / "sub")
    said = session.execute(TerminalAction(command="touch x; find . -name x -exec echo found {} \\;"))
    assert "found ./x" in said.text
    assert said.metadata.exit_code == 0


def test_a_command_that_waits_for_input_is_answered(session):
    session.no_change_timeout_seconds = 1
    said = session.execute(TerminalAction(command='read -p "name? " x; echo "hello $x"'))
    assert "name?" in said.text and said.metadata.exit_code == -1
    said = session.execute(TerminalAction(command="you", is_input=True))
    assert "hello you" in said.text and said.metadata.exit_code == 0
    session.execute(TerminalAction(command="sleep 1000", timeout=1))
    said = session.execute(TerminalAction(command="C-c", is_input=True))
    assert said.metadata.exit_code == 130
    assert session.execute(TerminalAction(command="echo usable")).text.startswith("usable")


def test_output_of_any_length_is_cut_as_by_tmux(session):
    said = session.execute(TerminalAction(command="seq 50000"))
    assert "Previous command outputs are truncated" in said.metadata.prefix
    assert said.metadata.exit_code == 0
    assert "x" * 1000 in session.execute(TerminalAction(command="printf %1000s | tr ' ' x")).text


def test_the_tool_is_found_by_its_name_and_reset(tmp_path):
    state = SimpleNamespace(
        workspace=SimpleNamespace(working_dir=str(tmp_path)), env_observation_persistence_dir=None
    )
    (tool,) = resolve_tool(Tool(name="nbs_terminal"), state)
    try:
        assert tool.executor(TerminalAction(command="x=5; pwd")).text.startswith(str(tmp_path))
        assert "reset" in tool.executor(TerminalAction(command="", reset=True)).text
        assert "x is nothing" in tool.executor(TerminalAction(command='echo "x is ${x:-nothing}"')).text
        assert [info.alive for info in nbs.sessions()] == [True]
    finally:
        tool.executor.close()
    assert nbs.sessions() == [] and os.path.isdir(tmp_path)
