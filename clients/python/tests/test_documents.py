"""What the reference shows of Python is executed as it stands."""

import pathlib
import re
import subprocess
import sys

import nbs
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent


def examples():
    for page in ["src/help/topics/python.md", "clients/python/README.md"]:
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
        assert blocks
        for number, block in enumerate(blocks):
            yield pytest.param(block, id=f"{page}:{number}")


@pytest.mark.parametrize("example", list(examples()))
def test_an_example_does_what_it_says(example, home):
    subprocess.run([sys.executable, "-c", example], check=True, timeout=60, cwd=home)
    nbs.kill(name="kept", if_exists=True)
