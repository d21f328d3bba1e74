"""inspect_ai's own tests of a sandbox, and those of the tool."""

import os
import pathlib
import shutil
import subprocess
import tempfile
from types import SimpleNamespace

import nbs
import pytest
import tiktoken
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from nbs.adapters.inspect_ai import NbsSandbox, nbs_session

pytestmark = pytest.mark.anyio

# Root may read and write every file.
NOT_AS_ROOT = {
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def machine(request):
    """The name of a machine that is this one, by a user that is not root where that matters."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nbs-"))
    words = ["env", "-i", f"HOME={folder}", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh"]
    if os.geteuid() == 0 and request.node.originalname in NOT_AS_ROOT:
        os.chown(folder, 65534, 65534)
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
    subprocess.run([nbs.file(), "ts", "machine", "add", "here", *words], check=True)
    yield "here"
    subprocess.run([nbs.file(), "ts", "machine", "remove", "here"], check=True)
    shutil.rmtree(folder)


@pytest.fixture
async def sandbox_env(machine):
    environments = await NbsSandbox.sample_init("a task", machine, {})
    yield environments["default"]
    await NbsSandbox.sample_cleanup("a task", machine, environments, False)


def called(**arguments):
    return ModelOutput.for_tool_call("mockllm/model", "nbs_session", arguments)


def test_a_model_uses_a_shell_and_leaves_nothing(machine, tmp_path, monkeypatch):
    # What counts a model's tokens would be fetched from the network.
    counting = SimpleNamespace(encode=lambda text, **options: text.split())
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: counting)
    outputs = [
        called(action="type_submit", input="x=5; pwd"),
        called(action="type_submit", input='read -p "sure? " y; echo "$x $y"'),
        called(action="type_submit", input="yes"),
        called(action="type_submit", input="sleep 1000"),
        called(action="interrupt"),
        called(action="type"),
        called(action="restart"),
        called(action="type_submit", input='echo "x is ${x:-nothing}"'),
        ModelOutput.from_content("mockllm/model", "done"),
    ]
    task = Task(
        dataset=[Sample("go")], sandbox=("nbs", machine), solver=[use_tools(nbs_session(wait_for_output=2)), generate()]
    )
    (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=outputs), log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    said = [message for message in log.samples[0].messages if message.role == "tool"]
    shown = [message.text for message in said]
    assert "/tmp" in shown[0] and shown[1].rstrip().endswith("sure?") and "5 yes" in shown[2]
    assert "^C" in shown[4] and said[5].error is not None and "x is nothing" in shown[7]
    assert nbs.sessions(machine=machine) == []
