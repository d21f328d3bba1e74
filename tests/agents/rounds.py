"""Gives each coding agent many tasks, approvals and questions, and counts what nbs missed or said late.

Usage: rounds.py NBS FOLDER ROUNDS [AGENT...]

NBS and FOLDER are those of drive.py. In one session the agent gets ROUNDS tasks, each with an approval that
`answer` gives; with each fifth comes one in which it asks a question of its own. Then it is started ROUNDS
times, each time in a new HOME, and gets a task at once; ROUNDS may be TASKS/STARTS. Each round that fails
is printed with what nbs said and what the screen showed, and the others follow. A round fails if a task was
not taken, or twice; if an approval, its question or the end of a turn was never told; if a session was told
to wait or to be done while its agent worked, or to be done while it started; if it was no longer told to
wait while it asked, also after its terminal got another size, or to be done while it rested (each fifth
time). `events` must have each session that was killed. What was told more than a second late is counted.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import agents
from drive import LATE, REST, Failure, Session, end_what_is_left, wait_for_model
from model import Model

WORDS = "Let me look at that first, and then do what there is to do. "

# How many of a hundred may be told late: the machine may be busy.
MAY_BE_LATE = 10

# Each how many-th round has a resize, a rest, a question.
EACH = 5

# Agents whose model may ask the person only in Plan mode, and the key that enters and leaves it.
PLANS_BY = {"codex": "S-Tab"}


class Wait:
    """A call of `wait`, and when it returned."""

    def __init__(self, session, condition):
        self.call = session.waits(condition)
        self.at = None
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        self.out, _ = self.call.communicate()
        self.at = time.time()

    def end(self):
        """Ends the call if it still waits."""
        if self.call.poll() is None:
            self.call.terminate()
        self.thread.join()


class Rounds:
    def __init__(self, agent, nbs, folder):
        self.agent, self.nbs, self.folder = agent, nbs, folder
        self.root = tempfile.mkdtemp(prefix=f"{agent}-")
        self.model = Model({})
        self.lates, self.submitted, self.begun = {}, [], 0.0
        self.failures = self.homes = 0
        self.work = f"{self.root}/work"
        os.makedirs(self.work)
        subprocess.run(["git", "init", "-q", self.work], check=True)

    def start(self):
        self.homes += 1
        # end_what_is_left() looks for this name.
        home = f"{self.root}/home"
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        environment = {"PATH": os.environ["PATH"], "NBS_TS_HOME": f"{self.root}/state", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        environment.update(agents.configure(self.agent, self.model.url, home, self.work))
        return Session(self.nbs, environment, self.work, f"exec {self.folder}/node_modules/.bin/{self.agent}")

    def stop(self, session):
        session.end()
        if session.handle not in session.call("events") or session.handle in session.call("list"):
            self.failures += 1
            print(f"{self.agent}: FAILED: it was killed, and `events` and `list` do not say so")
        end_what_is_left(self.root)

    def late(self, what, at, since):
        self.lates.setdefault(what, []).append(max(at - since, 0.0))

    def first(self, session, begun, since, activity, what):
        """Waits until the activity is told, at `begun` at the earliest; it holds since `since`."""
        session.until(what, lambda told: session.first(begun, activity))
        self.late(what, session.first(begun, activity), since)

    def submit(self, session, task, number):
        """Gives the agent a task, and begins to wait for the end of its turn."""
        text = f"Please do number {number}: TASK {task}"
        since = time.time()
        session.call("send", "--submit", "--timeout=80", session.handle, text)
        self.submitted.append(time.time() - since)
        return since, text, Wait(session, "done")

    def taken(self, session, since, text):
        """Waits until the agent has begun with the task, which it must take once, as typed."""
        asked = wait_for_model(session, self.model, "asked", since)
        taken = self.model.tasks[-1]
        if taken.count("Please do") != 1 or text not in taken:
            raise Failure(f"it was given {text!r}, and took {taken!r}")
        return asked

    def check(self, session, start, end, activity, what):
        """Fails if another activity was told in between."""
        false = [told for told in session.between(start, end) if told["activity"] != activity]
        if false:
            raise Failure(f"{what}, and is told as {false[0]['activity']} because of {false[0]['because']}")

    def finish(self, session, since, working, wait):
        """Waits for the end of the turn."""
        finished = wait_for_model(session, self.model, "done", since, 60)
        self.first(session, working, finished, "done", "done")
        # The answer is known to the model before its last word is there.
        self.check(session, working + LATE, finished, "working", "it works")
        wait.thread.join(LATE)
        if wait.at is None or wait.at < finished:
            raise Failure("`wait --done` does not end" if wait.at is None else "`wait --done` ends too early")
        self.late("wait --done", wait.at, finished)

    def approval(self, session, number):
        command = f"touch made{number}"
        self.asks(session, number, command, {"shell": command}, "1")

    def question(self, session, number):
        text = f"Which colour for number {number}?"
        key = PLANS_BY.get(self.agent)
        if key:
            session.call("key", session.handle, key)
        self.asks(session, number, text, {"question": text}, "Blue")
        if key:
            session.call("key", session.handle, key)

    def asks(self, session, number, command, step, answer):
        """A task in which that is asked; the question has the command, or is it."""
        self.begun = time.time()
        self.model.script["ask"] = [{"say": WORDS, "seconds": 1.5, **step}, {"say": WORDS, "seconds": 1.2}]
        waits = [Wait(session, "waiting")]
        try:
            since, text, done = self.submit(session, "ask", number)
            waits.append(done)
            asked = self.taken(session, since, text)
            called = wait_for_model(session, self.model, "called", since)
            self.first(session, asked, called, "waiting", "waiting")
            self.check(session, asked + LATE, called, "working", "it works")
            held = time.time()
            is_asked = lambda told: told["activity"] == "waiting" and command in (told["question"] or "") and len(told["choices"]) > 1
            self.late("question", session.until("a question with choices", is_asked), called)
            waits[0].thread.join(LATE)
            if waits[0].at is None:
                raise Failure("`wait --waiting` does not end")
            self.late("wait --waiting", waits[0].at, called)
            listed = [json.loads(line) for line in session.call("list", "--waiting", "--json").splitlines()]
            if [one["question_id"] for one in listed] != [session.told[-1][2]["question_id"]]:
                raise Failure(f"`list --waiting` shows {listed}")
            if number % EACH == 0:
                self.resize(session, command)
            time.sleep(0.7)
            answered = time.time()
            self.check(session, held, answered, "waiting", "it asks")
            listed = [json.loads(line) for line in session.call("list", "--waiting", "--json").splitlines()]
            session.call("answer", f"--question-id={listed[0]['question_id']}", session.handle, answer)
            allowed = wait_for_model(session, self.model, "asked", answered)
            self.first(session, answered, allowed, "working", "working again")
            self.finish(session, answered, allowed, done)
            if number % EACH == 1:
                rests = time.time()
                time.sleep(REST)
                self.check(session, rests, time.time(), "done", "it rests")
        finally:
            for wait in waits:
                wait.end()

    def resize(self, session, command):
        """Resizes the terminal: the agent redraws its question, and still asks it."""
        for size in ["90x28", "100x30"]:
            session.call("resize", session.handle, size)
            time.sleep(1.5)
            told = session.told[-1][2]
            if command not in (told["question"] or "") or len(told["choices"]) < 2:
                raise Failure(f"at {size} its question is {told['question']!r} with {told['choices']}")

    def begin(self, number):
        """Starts the agent, and gives it a task at once."""
        self.begun = time.time()
        self.model.script["begin"] = [{"say": WORDS, "seconds": 1.2}]
        session, done = self.start(), None
        try:
            since, text, done = self.submit(session, "begin", number)
            asked = self.taken(session, since, text)
            if session.first(self.begun, "done"):
                raise Failure("it has not begun, and is told as done")
            self.finish(session, since, asked, done)
        except Failure as failure:
            return self.failed(f"start {number}", failure, session)
        finally:
            if done:
                done.end()
            self.stop(session)

    def failed(self, what, failure, session):
        self.failures += 1
        print(f"{self.agent}: {what} FAILED: {failure}")
        since = self.begun
        events = [(at, f"model: {event} {task} {step}") for at, event, task, step in self.model.events if at > since]
        before = None
        for _, at, status in session.told:
            state = (status["activity"], status["because"], status.get("question"), status.get("error"))
            if state != before and at > since:
                events.append((at, f"nbs:   {state}"))
            before = state
        print("\n".join(f"    {at - since:7.2f} {text}" for at, text in sorted(events)))
        try:
            print(session.screen(), flush=True)
        except Failure:
            pass

    def run(self, tasks, starts):
        begun, session = time.time(), None
        kinds = [(number, self.approval) for number in range(tasks)]
        kinds += [(number, self.question) for number in range(0, tasks, EACH)]
        right = {self.approval: 0, self.question: 0}
        for number, kind in sorted(kinds, key=lambda round: round[0]):
            try:
                session = session or self.start()
                kind(session, number)
                right[kind] += 1
            except Failure as failure:
                self.failed(f"{kind.__name__} {number}", failure, session)
                self.stop(session)
                session = None
        if session:
            self.stop(session)
        for kind, count in right.items():
            wanted = sum(kind == other for _, other in kinds)
            print(f"{self.agent}: {count} of {wanted} {kind.__name__}s are right", flush=True)
        failures = self.failures
        for number in range(starts):
            self.begin(number)
        print(f"{self.agent}: {starts - (self.failures - failures)} of {starts} tasks right after its start are right")
        print(f"  submitted: after {statistics.median(self.submitted):.1f} s, at most {max(self.submitted):.1f} s")
        is_late = False
        for what, lates in self.lates.items():
            count = sum(late > LATE for late in lates)
            is_late |= count * 100 > MAY_BE_LATE * len(lates)
            print(f"  {what}: after {statistics.median(lates):.2f} s, at most {max(lates):.2f} s; {count} of {len(lates)} late")
        print(f"  {time.time() - begun:.0f} s, load of the machine {os.getloadavg()[2]:.1f}", flush=True)
        return not self.failures and not is_late

    def end(self):
        self.model.server.shutdown()
        end_what_is_left(self.root)
        shutil.rmtree(self.root, ignore_errors=True)


def tried(agent, nbs, folder, tasks, starts):
    trial = Rounds(agent, nbs, folder)
    try:
        return trial.run(tasks, starts)
    finally:
        trial.end()


def main():
    nbs, folder, rounds, *names = sys.argv[1:]
    tasks, starts = (rounds.split("/") * 2)[:2]
    failed = [agent for agent in names or agents.PACKAGES if not tried(agent, nbs, folder, int(tasks), int(starts))]
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


main()
