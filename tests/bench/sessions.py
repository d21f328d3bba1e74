"""What is done with one session: create, send, wait, run, read, search, screen, kill, and a jail."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from apparatus import MIB, alternate, number, output_of, write_fifo


class Sessions:
    """What is done with one session: create, send, wait, run, read, search, screen, kill, and a jail."""

    def create(self):
        runs, returns = {}, {}

        def note(who, answer):
            start, end, stamps, printed = answer
            runs.setdefault(who, []).append((stamps[0] - start) / 1e6)
            returns.setdefault(who, []).append((end - start) / 1e6)
            return printed

        for _ in range(self.rounds):
            for who, options in [("floor", []), ("least", ["-s"])]:
                folder, words = self.relay_create(*options)
                printed = note(who, self.fake.run(*words, stamps=1))
                self.relay_end(folder, int(printed))
            self.nbs_call("kill", note("nbs", self.fake.run(*self.nbs_create(), stamps=1)))
            if self.tmux_path:
                note("tmux", self.fake.run(*self.tmux_create(), stamps=1))
                self.tmux_call("kill-session", "-t", "s")
        median = lambda seen: {who: statistics.median(values) for who, values in seen.items()}
        least = "a C program that makes a session with its files and processes"
        self.note("create until the child runs, no helper", median(runs), limit=1.8, least=least)
        self.note("create until it returns", median(returns), limit=2, least=least)

    def with_one_each(self, measure):
        """A session of each, for what is done to a session."""
        handle, (folder, pid) = self.nbs_start(), self.relay_start()
        if self.tmux_path:
            self.fake.run(*self.tmux_create(), stamps=1)
        measure(handle, folder)
        self.nbs_call("kill", handle)
        self.relay_end(folder, pid)
        if self.tmux_path:
            self.tmux_call("kill-session", "-t", "s")

    def send(self):
        def read(*words):
            start, _, stamps, _ = self.clock.run(*words, stamps=1)
            return (stamps[0] - start) / 1e6

        def measure(handle, folder):
            turns = {
                "floor": lambda: read(self.floor("poke"), f"{folder}/fifo", "text"),
                "nbs": lambda: read(self.ts, "send", handle, "text"),
            }
            if self.tmux_path:
                turns["tmux"] = lambda: read(*self.tmux("send-keys", "-t", "s", "text", "Enter"))
            self.note("send until the child has read it", alternate(self.rounds * 3, **turns), limit=1.6)

        self.with_one_each(measure)

    def wait(self):
        def measure(_, folder):
            # A shell, as far as its marks tell; number 0 is its first prompt.
            handle = self.fake.run(self.ts, "create", "--no-helper", "bash", stamps=1)[3]
            fifo, count = self.nbs_fifo(handle), [1]
            secret = (self.nbs_log(handle).parent / "secret").read_text()

            def complete():
                mark = f"e ^]133;D;0;nbs={secret}.{count[0]}_\r"
                count[0] += 1
                return self.clock.waited(
                    [self.ts, "wait-complete", handle], lambda: write_fifo(fifo, mark)
                )

            def pattern():
                count[0] += 1
                text = f"mark{count[0]};"
                return self.clock.waited(
                    [self.ts, "wait-pattern", handle, text], lambda: write_fifo(fifo, f"p {text}\r")
                )

            def floor():
                return self.clock.waited(
                    [self.floor("await"), f"{folder}/log"], lambda: write_fifo(f"{folder}/fifo", "p mark\r")
                )

            def tmux():
                line = f"x {' '.join(self.tmux('wait-for', '-S', 'bench'))}"
                return self.clock.waited(
                    self.tmux("wait-for", "bench"),
                    lambda: self.tmux_call("send-keys", "-t", "s", line, "Enter"),
                )

            more = {"tmux": tmux} if self.tmux_path else {}
            rounds = self.rounds * 2
            found = alternate(rounds, floor=floor, nbs=complete, **more)
            self.note("wait-complete: return after the event", found, limit=2)
            found = alternate(rounds, floor=floor, nbs=pattern, **more)
            self.note("wait-pattern: return after the event", found, limit=2)
            self.nbs_call("kill", handle)

        self.with_one_each(measure)

    def throughput(self):
        mebibytes = 4 if self.quick else 64
        flood = f"f {mebibytes}\r"
        last = {}

        def speed(seconds):
            return mebibytes / seconds

        def flooded():
            start, end = self.fake.stamps(2)
            return (end - start) / 1e9, start

        def floor(**more):
            folder, words = self.relay_create()
            words = ["/usr/bin/env", *(f"{name}=1" for name in more), *words]
            pid = int(self.fake.run(*words, stamps=1)[3])
            write_fifo(f"{folder}/fifo", flood)
            seconds, _ = flooded()
            self.relay_end(folder, pid)
            return speed(seconds)

        def nbs():
            handle = self.nbs_start()
            write_fifo(self.nbs_fifo(handle), flood)
            seconds, start = flooded()
            last["nbs"] = speed(seconds)
            log = os.open(self.nbs_log(handle), os.O_RDONLY)
            # Of 64 bytes one is a newline, before which the terminal puts a return.
            while os.fstat(log).st_size < mebibytes * MIB * 65 // 64:
                time.sleep(0.0002)
            os.fdatasync(log)
            synced = (time.monotonic_ns() - start) / 1e9
            os.close(log)
            self.nbs_call("kill", handle)
            return speed(synced)

        def tmux(capture):
            self.fake.run(*self.tmux_create(), stamps=1)
            captured = self.dir / "captured"
            if capture:
                self.tmux_call("pipe-pane", "-t", "s", f"exec cat >'{captured}'")
            self.tmux_call("send-keys", "-t", "s", flood.rstrip("\r"), "Enter")
            seconds, _ = flooded()
            self.tmux_call("kill-session", "-t", "s")
            captured.unlink(missing_ok=True)
            return speed(seconds)

        turns = {
            "floor": floor,
            "nowhere": lambda: floor(NOWHERE=True),
            "nbs": nbs,
            "child": lambda: last["nbs"],
        }
        if self.tmux_path:
            turns |= {"tmux": lambda: tmux(True), "plain": lambda: tmux(False)}
        found = alternate(3 if self.quick else 7, **turns)
        only = lambda **names: {who: found[name] for who, name in names.items() if name in found}
        into_log = only(floor="floor", nbs="nbs", tmux="tmux")
        self.note("throughput into the log, synced", into_log, "MiB/s", limit=0.9, at_least=True)
        # A slowdown is a ratio of times: the other way round.
        slowdown = only(floor="nowhere", nbs="child", tmux="plain")
        slowdown = {who: 1000 / value for who, value in slowdown.items()}
        self.note("the same, the child's slowdown by our being there", slowdown, "ms/GB", limit=1.15)

    def kill(self):
        def nbs():
            handle = self.nbs_call("create", "--no-helper", "exec sleep 100000")
            pid = (self.nbs_log(handle).parent / "pid").read_text()
            while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
                time.sleep(0.001)
            return self.clock.took(self.ts, "kill", handle)

        def tmux():
            self.tmux_call("new-session", "-d", "-s", "s", "sleep", "100000")
            time.sleep(0.01)
            return self.clock.took(*self.tmux("kill-session", "-t", "s"))

        more = {"tmux": tmux} if self.tmux_path else {}
        self.note(
            "kill of a cooperative session", alternate(self.rounds, nbs=nbs, **more), limit=5, absolute=True
        )

    def read(self):
        mebibytes = 4 if self.quick else 64
        line = b"\x1b[32m   Compiling\x1b[0m something-or-other v1.2.3 (/home/user/project)\r\n"
        block = line * (MIB // len(line))

        def fill(log):
            for _ in range(mebibytes):
                log.write(block)

        handle, number = self.dead_session(fill), [0]

        def read_new(*options):
            number[0] += 1
            words = [self.ts, "read-new", handle, f"--reader=r{number[0]}", *options]
            return self.clock.took(*words, how="d")

        def cat():
            return self.clock.took("/bin/cat", str(self.nbs_log(handle)), how="d")

        rounds = 3 if self.quick else 15
        found = alternate(rounds, floor=cat, nbs=read_new, strip=lambda: read_new("--strip"))
        strip = found.pop("strip")
        self.note(f"read-new of {mebibytes} MiB", found, limit=1.5)
        self.note(f"read-new --strip of {mebibytes} MiB", found | {"nbs": strip}, limit=4)
        self.nbs_call("kill", handle)

    def search(self):
        mebibytes = 16 if self.quick else 1024
        lines = b"".join(b"%08x: the quick brown fox jumps over the lazy dog again\r\n" % n for n in range(17000))
        block = lines[:MIB]

        def fill(log):
            for _ in range(mebibytes):
                log.write(block)
            log.write(b"the needle is here\r\n")

        handle = self.dead_session(fill)
        text = "the needle is"
        log = str(self.nbs_log(handle))
        found = alternate(
            3 if self.quick else 7,
            floor=lambda: self.clock.took("/bin/grep", "-qF", text, log),
            nbs=lambda: self.clock.took(self.ts, "wait-pattern", handle, text),
        )
        self.note(f"wait-pattern over a log of {mebibytes} MiB; floor is grep -F", found, limit=1)
        self.nbs_call("kill", handle)

    def screen(self):
        if subprocess.run([self.ts, "help", "screen"], capture_output=True).returncode:
            return

        def measure(handle, folder):
            fifo = self.nbs_fifo(handle)

            def nbs():
                for _ in range(3):
                    write_fifo(fifo, f"p {'x' * 340}\r")
                    self.clock.stamps(1)
                return self.clock.took(self.ts, "screen", handle)

            turns = {"floor": lambda: self.clock.took(self.ts, "status", handle), "nbs": nbs}
            if self.tmux_path:
                turns["tmux"] = lambda: self.clock.took(*self.tmux("capture-pane", "-p", "-t", "s"))
            name = "screen again after 1 KB more; floor is status"
            self.note(name, alternate(self.rounds, **turns), limit=3)

        self.with_one_each(measure)

    def run(self):
        handle = self.nbs_call("create", "--no-helper", "bash")
        self.nbs_call("run", handle, "true")
        turns = {
            "floor": lambda: self.median_of_prompts("true"),
            "nbs": lambda: self.clock.took(self.ts, "run", handle, "true"),
        }
        if self.tmux_path:
            shell = ["bash", "--norc", "--noprofile", "-i"]
            self.tmux_call("new-session", "-d", "-s", "s", "-x", "80", "-y", "24", *shell)
            line = f"true; {' '.join(self.tmux('wait-for', '-S', 'bench'))}"
            words = self.tmux("send-keys", "-t", "s", line, "Enter", ";", "wait-for", "bench")
            turns["tmux"] = lambda: self.clock.took(*words)
        name = "run true in a warm bash; floor is prompt to prompt"
        self.note(name, alternate(self.rounds, **turns), limit=1.5, absolute=True)
        self.nbs_call("kill", handle)
        if self.tmux_path:
            self.tmux_call("kill-session", "-t", "s")

    def jail(self):
        """What every restriction but the limits costs a command, beside the same one in an open session."""
        root = self.dir / "jail"
        root.mkdir()
        jail = [f"--write-root={root}", "--read-root=none", "--no-network", "--clear-env"]
        sessions = {}
        for who, options in (("floor", []), ("nbs", jail)):
            words = [self.ts, "create", "--no-helper", f"--cwd={root}", *options, "bash"]
            made = subprocess.run(words, env=self.environment, capture_output=True, text=True)
            if made.returncode:
                print(f"bench: no jail here: {made.stderr.strip()}", file=sys.stderr)
                break
            sessions[who] = made.stdout.strip()
        files = "for i in {1..20}; do cat /etc/passwd >copy; done"
        for name, command in (("run true", "true"), ("run of 20 programs that copy a file", files)):
            if len(sessions) < 2:
                break
            turns = {
                who: lambda handle=handle: self.clock.took(self.ts, "run", handle, command)
                for who, handle in sessions.items()
            }
            self.note(f"{name} in a jail; floor is outside of it", alternate(self.rounds, **turns), limit=1.05)
        for handle in sessions.values():
            self.nbs_call("kill", handle)

    def median_of_prompts(self, *words):
        """One round of prompt.c: the median of a few, as a bash has to warm up."""
        times = output_of(self.floor("prompt"), "9", *map(str, words), env=self.environment).split()
        return statistics.median(int(time) for time in times[2:]) / 1e6
