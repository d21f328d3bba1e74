import asyncio

import pytest


def test_mini_swe_agent_executes_commands():
    from nbs.adapters.mini import NbsEnvironment

    environment = NbsEnvironment(env={"A": "b c"})
    assert environment.execute({"command": 'echo "$A"; exit 42'}) == {
        "output": "b c\n",
        "returncode": 42,
        "exception_info": "",
    }
    slow = environment.execute({"command": "echo begun; sleep 100"}, timeout=1)
    assert (slow["returncode"], slow["extra"]["exception_type"]) == (-1, "TimeoutExpired")
    assert slow["output"] == "begun\n"


def test_swerex_runs_commands_in_sessions():
    from swerex.exceptions import CommandTimeoutError
    from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

    from nbs.adapters.swerex import NbsDeployment

    async def used():
        deployment = NbsDeployment()
        await deployment.start()
        runtime = deployment.runtime
        await runtime.create_session(CreateBashSessionRequest())
        assert (await runtime.run_in_session(BashAction(command="x=5; echo $x"))).output == "5\n"
        with pytest.raises(CommandTimeoutError):
            await runtime.run_in_session(BashAction(command="sleep 100", timeout=0.3))
        assert (await runtime.run_in_session(BashAction(command="echo $x"))).output == "5\n"
        await deployment.stop()

    asyncio.run(used())
