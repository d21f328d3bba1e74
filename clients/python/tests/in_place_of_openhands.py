"""A plug-in for pytest that gives OpenHands' own tests of its terminals the one of nbs.

    git clone https://github.com/OpenHands/software-agent-sdk && cd software-agent-sdk
    PYTHONPATH=…/clients/python/tests python -m pytest -p in_place_of_openhands tests/tools/terminal

Both of its backends are replaced; without `-p` the same tests use OpenHands' own.
"""

import openhands.tools.terminal.terminal as terminals
import openhands.tools.terminal.terminal.subprocess_terminal as subprocess_terminal
import openhands.tools.terminal.terminal.tmux_terminal as tmux_terminal

from nbs.adapters.openhands import NbsTerminal

subprocess_terminal.SubprocessTerminal = NbsTerminal
tmux_terminal.TmuxTerminal = NbsTerminal
terminals.SubprocessTerminal = NbsTerminal
terminals.TmuxTerminal = NbsTerminal
