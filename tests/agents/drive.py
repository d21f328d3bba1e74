"""Uses coding agents in sessions of nbs, and compares what nbs says of them with what their model knows.

Usage: drive.py NBS FOLDER [--record] [--tools] [--verbose] [AGENT...]

NBS is a folder with the commands of nbs, FOLDER one in which the agents are installed (node_modules).
Each agent starts, gets a task, works, asks for an approval, gets it, works on and is done; all of it twice;
then it rests, and is ended. Meanwhile nbs is asked ten times a second what it does. A state must be
told at most a second late, in one of the two turns at least: a busy machine may be late once. `--record`
writes what the agent printed to `recorded/`, for tests that have no agents. At last each agent is a client
of nbs-mcp, and its model makes fourteen calls; `--tools` does only that.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import agents
from model import Model

HERE = os.path.dirname(os.path.realpath(__file__))

# So late a state may be told, in seconds; and so late at most, on a machine that is busy.
LATE, FAR_TOO_LATE = 1.0, 20.0
REST = 3.0

FRAME_END = b"\x1b[?2026l"

WORDS = "Let me look at that first, and then do what there is to do. "
SCRIPT = {
    "build": [{"say": WORDS * 2, "seconds": 2, "shell": "touch made1"}, {"say": WORDS + "All is built.", "seconds": 1.5}],
    "again": [{"say": WORDS * 2, "seconds": 2, "shell": "touch made2"}, {"say": WORDS + "All is built again.", "seconds": 1.5}],
}

# What each does as a client of nbs-mcp: the calls, and what the model is to read of each result, once.
MADE = {"session": "@made"}
CALLS = [
    ("create", {"command": "bash", "name": "made"}, []),
    ("run", {**MADE, "command": "seq 100000 104999"}, ["100000", "104999", "call `read` with session"]),
    ("read", {**MADE, "offset": 0, "limit": "3000"}, ["next offset: "]),
    ("run", {**MADE, "command": "echo 'twice \"told\"'; (exit 3)"}, ['twice "told"', "[exit code 3]"]),
    ("send", {**MADE, "text": "read -p 'Your name? ' n; echo \"hello $n\""}, ["bytes typed"]),
    ("wait", {"sessions": ["@made"], "input": True}, ["input\tline"]),
    ("list", {"waiting": True}, ["Your name?"]),
    ("send", {**MADE, "text": "Ann"}, ["bytes typed"]),
    ("wait", {"sessions": ["@made"], "pattern": ["hello Ann"]}, ["pattern\thello Ann"]),
    ("screen", MADE, ["hello Ann"]),
    ("screen", {**MADE, "png": True}, []),
    ("send", {**MADE, "keys": ["C-l"]}, ["bytes typed"]),
    ("run", {"session": "@none", "command": "true"}, ["no session is named 'none'"]),
    ("kill", {"sessions": ["@made"]}, ["has ended"]),
]
TOOLS = [{"tool": tool, "arguments": arguments} for tool, arguments, _ in CALLS] + [{"say": "All is done."}]

# The keys that allow what is asked.
ALLOW = {"opencode": ["Enter"]}


class Failure(Exception):
    pass


class Late(Failure):
    """It was told right, but not in time, as may be on a busy machine."""


class Session:
    """A session in which an agent runs, and what nbs said of it: (asked at, answered at, the answer)."""

    def __init__(self, nbs, environment, work, command):
        self.nbs, self.environment = nbs, environment
        self.handle = self.call("create", "--size=100x30", f"--cwd={work}", command).splitlines()[0]
        self.told, self.ends = [], False
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def call(self, verb, *words, codes=(0,), typed=None):
        line = [f"{self.nbs}/nbs-ts", verb, *words]
        try:
            ended = subprocess.run(line, env=self.environment, input=typed, capture_output=True, text=True, timeout=90)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{' '.join(line)}: no end") from error
        if ended.returncode not in codes:
            raise Failure(f"{' '.join(line)}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def status(self):
        return json.loads(self.call("status", "--json", self.handle))

    def look(self):
        while not self.ends:
            begun = time.time()
            try:
                status = self.status()
            except Failure as failure:
                status = {"activity": None, "because": None, "error": str(failure)}
            self.told.append((begun, time.time(), status))
            time.sleep(0.1)

    def end(self):
        self.ends = True
        self.thread.join()
        self.call("kill", self.handle, codes=(0, 1, 2))

    def screen(self):
        return self.call("screen", self.handle)

    def until(self, what, holds, seconds=FAR_TOO_LATE):
        """Waits until what was told last is like that, and gives when it was told."""
        end = time.time() + seconds
        while time.time() < end:
            if self.told and holds(self.told[-1][2]):
                return self.told[-1][1]
            time.sleep(0.02)
        last = self.told[-1][2] if self.told else {}
        shown = {name: last.get(name) for name in ("activity", "because", "question", "choices", "title")}
        raise Failure(f"in vain: {what}; it is {shown}, and shows\n{self.screen()}")

    def first(self, since, activity):
        """When that was told first, since then."""
        return next((told for _, told, status in self.told if told >= since and status["activity"] == activity), None)

    def between(self, start, end):
        return [status for begun, told, status in self.told if begun >= start and told <= end]

    def is_always(self, activity, start, end, does):
        for told in self.between(start, end):
            if told["activity"] != activity:
                raise Failure(f"{does}, and is told as {told['activity']} because of {told['because']}")

    def waits(self, condition):
        """A call that waits, beside all else."""
        line = [f"{self.nbs}/nbs-ts", "wait", self.handle, f"--{condition}", "--timeout=60", "--json"]
        return subprocess.Popen(line, env=self.environment, stdout=subprocess.PIPE, text=True)


def ended(call, what):
    out, _ = call.communicate(timeout=60)
    if call.returncode != 0 or f'"condition":"{what}"' not in out:
        raise Failure(f"wait --{what}: {call.returncode}: {out}")


def submit(session, text, model):
    """Types a task, and sees to it that it is taken."""
    since = time.time()
    if "--submit" in session.call("help", "send"):
        session.call("send", "--submit", session.handle, text)
    else:
        session.call("send", "--paste", "--no-enter", session.handle, text)
        for _ in range(5):
            end = time.time() + 2
            while text[-8:] not in session.screen() and time.time() < end:
                time.sleep(0.05)
            time.sleep(0.3)
            session.call("key", session.handle, "Enter")
            end = time.time() + 2
            while not model.last("asked", since) and time.time() < end:
                time.sleep(0.02)
            if model.last("asked", since):
                break
    wait_for_model(session, model, "asked", since)
    return since


def wait_for_model(session, model, what, since, seconds=60):
    end = time.time() + seconds
    while not model.last(what, since):
        if time.time() > end:
            raise Failure(f"the model was never {what}; the screen:\n{session.screen()}")
        time.sleep(0.01)
    return model.last(what, since)


class Trial:
    def __init__(self, agent, nbs, folder):
        self.agent, self.lates, self.marks = agent, {}, []
        self.root = tempfile.mkdtemp(prefix=f"{agent}-")
        self.model = Model({**SCRIPT, "tools": TOOLS})
        self.work, home = f"{self.root}/work", f"{self.root}/home"
        os.makedirs(self.work)
        os.makedirs(home)
        subprocess.run(["git", "init", "-q", self.work], check=True)
        environment = {"PATH": os.environ["PATH"], "NBS_TS_HOME": f"{self.root}/state", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        environment.update(agents.configure(agent, self.model.url, home, self.work, f"{nbs}/nbs-mcp"))
        self.session = Session(nbs, environment, self.work, f"exec {folder}/node_modules/.bin/{agent}")

    def mark(self, what):
        """Here in what it prints it is like that."""
        status = self.session.status()
        self.marks.append({"offset": status["log"]["end"], "is": what, "question": status["question"], "choices": status["choices"]})

    def late(self, what, at, since):
        if at is None:
            raise Failure(f"{what}: never told")
        self.lates.setdefault(what, []).append(at - since)

    def turn(self, task):
        session, model = self.session, self.model
        waiting = session.waits("waiting")
        typed = submit(session, f"Please do it: TASK {task}", model)
        asked = model.last("asked", typed)
        session.until("working", lambda told: told["activity"] == "working")
        self.mark("working")
        if session.handle in session.call("list", "--waiting"):
            raise Failure("it works, and `list --waiting` shows it")
        called = wait_for_model(session, model, "called", typed)
        session.until("an approval that is asked for", lambda told: told["activity"] == "waiting")
        ended(waiting, "waiting")
        self.late("working", session.first(asked, "working"), asked)
        self.late("waiting", session.first(called, "waiting"), called)
        # While it worked, it never waited.
        session.is_always("working", asked + LATE, called, "it works")
        held = time.time()
        asks = session.until("a question with choices", lambda told: told["activity"] == "waiting" and told["question"] and len(told["choices"]) > 1)
        time.sleep(2)
        told = session.told[-1][2]
        session.is_always("waiting", held, time.time(), "it asks")
        if "touch made" not in told["question"]:
            raise Failure(f"the question is not what is asked: {told['question']}")
        listed = session.call("list", "--waiting", "--json")
        if session.handle not in listed or "question_id" not in listed:
            raise Failure(f"it asks, and `list --waiting` shows {listed!r}")
        self.mark("waiting")
        print(f"  asks: {told['question']!r} {told['choices']} because of {told['because']}")
        done = session.waits("done")
        answered = time.time()
        session.call("key", session.handle, *ALLOW.get(self.agent, ["1"]))
        allowed = wait_for_model(session, model, "asked", answered)
        finished = wait_for_model(session, model, "done", answered)
        at = session.until("the end of the turn", lambda told: told["activity"] == "done")
        ended(done, "done")
        self.late("working again", session.first(answered, "working"), allowed)
        self.late("done", session.first(finished, "done"), finished)
        session.is_always("working", allowed + LATE, finished, "it works again")
        time.sleep(REST)
        session.is_always("done", at, time.time(), "it is done")
        self.mark("done")

    def use_tools(self):
        """Its model calls tools of nbs-mcp; each that it may not call yet is allowed."""
        session, model = self.session, self.model
        typed = submit(session, "Please do it: TASK tools", model)
        end = time.time() + 300
        while not model.last("done", typed):
            if time.time() > end:
                raise Failure(f"the tools were not called; the screen:\n{session.screen()}")
            # Claude says that it waits before it shows what it asks: until then, keys are text of its next task.
            told = session.told[-1][2]
            is_shown = self.agent != "claude" or len(told["choices"]) > 1
            if told["activity"] == "waiting" and is_shown:
                session.call("key", session.handle, *ALLOW.get(self.agent, ["1"]))
                time.sleep(1)
            time.sleep(0.05)
        for step, (tool, arguments, wanted) in enumerate(CALLS):
            told = model.results.get(step, "")
            # Some pass a text on as JSON, and qwen repeats an error by itself.
            most = 2 if self.agent == "qwen" and arguments.get("session") == "@none" else 1
            counts = [told.count(text) or told.count(json.dumps(text)[1:-1]) for text in wanted]
            # opencode has no text for a picture.
            is_missing = not told and not arguments.get("png")
            is_long = len(told) > 12_000 and step not in model.pictures
            if is_missing or is_long or any(not 1 <= count <= most for count in counts):
                raise Failure(f"{tool} {arguments}: {counts} of {wanted} in {len(told)} bytes: {told[:600]!r} … {told[-500:]!r}")
        shown = "shows" if model.pictures else "does NOT show"
        print(f"{self.agent}: {len(CALLS)} calls of tools, and it {shown} its model pictures")

    def run(self, only_tools):
        begun = time.time()
        session = self.session
        # It takes a task as soon as it rests.
        session.until("that it takes a task", lambda told: told["activity"] in ("idle", "done"), 90)
        started = time.time() - begun
        for task in [] if only_tools else SCRIPT:
            self.turn(task)
        self.use_tools()
        for what, lates in self.lates.items():
            if min(lates) > LATE:
                raise Late(f"{what}: told {min(lates):.1f} s late, each time")
        if only_tools:
            return
        shown = ", ".join(f"{what} after {min(lates):.2f}-{max(lates):.2f} s" for what, lates in self.lates.items())
        print(f"{self.agent}: ready after {started:.1f} s, {shown}; {len(session.told)} looks, {time.time() - begun:.0f} s")

    def timeline(self):
        """What the model knew, and what was told of it where that changed, in seconds from the start."""
        events = [(at, f"model: {what} {task} {step}") for at, what, task, step in self.model.events]
        before = None
        for _, at, status in self.session.told:
            if (status["activity"], status["because"]) != before:
                before = (status["activity"], status["because"])
                events.append((at, f"nbs:   {before[0]} because of {before[1]} {status.get('error', '')}"))
        start = self.session.told[0][0] if self.session.told else 0
        return [f"    {at - start:7.2f} {text}" for at, text in sorted(events)]

    def record(self):
        folder = f"{HERE}/recorded"
        os.makedirs(folder, exist_ok=True)
        log = open(f"{self.root}/state/sessions/{self.session.handle}/output.log", "rb").read()
        log = log[: self.marks[-1]["offset"]]
        starts = log.find(b"Waiting for startup")
        if starts >= 0:
            self.marks.insert(0, {"offset": log.index(FRAME_END, starts) + len(FRAME_END), "is": "working", "question": None, "choices": [], "starts": True})
        with open(f"{folder}/{self.agent}.deflate", "wb") as file:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            file.write(packer.compress(log) + packer.flush())
        with open(f"{folder}/{self.agent}.json", "w", encoding="utf-8") as file:
            json.dump({"length": len(log), "marks": self.marks}, file, indent=1, ensure_ascii=False)
            file.write("\n")

    def end(self):
        try:
            self.session.end()
        finally:
            self.model.server.shutdown()
            end_what_is_left(self.root)
            shutil.rmtree(self.root, ignore_errors=True)


def end_what_is_left(root):
    """Agents leave daemons of their own behind: those that have this folder in their environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                is_ours = f"HOME={root}/home".encode() in file.read().split(b"\0")
            if is_ours and int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass


def tried(agent, nbs, folder, words, tries=3):
    """Is all as it should be? One that is late is tried again: the machine may have been busy."""
    trial, is_good, again = Trial(agent, nbs, folder), False, False
    try:
        trial.run("--tools" in words)
        if "--record" in words:
            trial.record()
        is_good = True
    except Failure as failure:
        again = isinstance(failure, Late) and tries > 1
        print(f"{agent}: {'once more' if again else 'FAILED'}: {failure}")
    finally:
        if not is_good or "--verbose" in words:
            print("\n".join(trial.timeline()), flush=True)
        trial.end()
    return is_good or again and tried(agent, nbs, folder, words, tries - 1)


def main():
    words = sys.argv[1:]
    nbs, folder, *names = [word for word in words if not word.startswith("--")]
    failed = [agent for agent in names or agents.PACKAGES if not tried(agent, nbs, folder, words)]
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
