import re

import nbs

TEST = """
def test_it(terminal, terminals):
    assert terminal.run("echo what it printed").ok
    other = terminals("sleep 60")
    assert terminal.handle != other.handle
    assert {}
"""


def run(pytester, outcome, *words):
    pytester.makepyfile(TEST.format(outcome))
    return pytester.runpytest_subprocess("-p", "nbs.pytest_plugin", *words)


def test_a_test_that_passes_leaves_no_session(pytester):
    result = run(pytester, "True", "--nbs-keep")
    result.assert_outcomes(passed=1)
    assert nbs.sessions() == []


def test_a_test_that_fails_shows_the_screen(pytester):
    result = run(pytester, "False")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*screen of session ????????*", "*echo what it printed", "what it printed"])
    assert nbs.sessions() == []


def test_a_session_can_be_kept_to_look_at(pytester):
    result = run(pytester, "False", "--nbs-keep")
    result.stdout.fnmatch_lines(["*nbs-ts attach --interactive ????????"])
    handles = set(re.findall(r"attach --interactive (\w+)", result.stdout.str()))
    assert handles == {info.handle for info in nbs.sessions() if info.alive}
    nbs.kill(all=True)
