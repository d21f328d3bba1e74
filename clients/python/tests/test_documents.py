"""What the reference and the README show of Python is executed as it stands."""

import pathlib
import re
import subprocess
import sys

import nbs
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


def examples():
    for page in ["README.md", "src/help/topics/python.md", "clients/python/README.md"]:
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
        assert blocks
        for number, block in enumerate(blocks):
            yield pytest.param(block, id=f"{page}:{number}")


@pytest.mark.parametrize("example", examples())
def test_an_example_does_what_it_says(example, home):
    project = home / "project"
    project.mkdir()
    (project / "Makefile").write_text("all:\n\t@echo made\n")
    configure = home / "configure"
    configure.write_text('#!/bin/sh\nprintf "Install to /opt? [y/N] "; read x\n')
    configure.chmod(0o755)
    # As the user calls it who has just run make there.
    (project / "configure").symlink_to(configure)
    subprocess.run([sys.executable, "-c", example], check=True, timeout=60, cwd=home)
    nbs.kill(name="kept", if_exists=True)
