"""What a person and an agent see: calls, the tools of nbs-mcp, the page, top, many agents at once."""

import fcntl
import json
import os
import select
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

from apparatus import alternate, number, output_of, private_kilobytes, sleeps, wakes_and_nanoseconds


class Shown:
    """What a person and an agent see: calls, the tools of nbs-mcp, the page, top, many agents at once."""

    def call(self):
        handle = self.nbs_start()
        turns = {
            "floor": lambda: self.clock.took(self.floor("nothing")),
            "nbs": lambda: self.clock.took(self.ts, "status", handle),
        }
        if self.tmux_path:
            turns["tmux"] = lambda: self.clock.took(*self.tmux("has-session", "-t", "first"))
        self.note("a trivial call (status)", alternate(self.rounds * 5, **turns), limit=2)
        self.nbs_call("kill", handle)

    def tool(self):
        """What a call through the server costs beyond the same call of a command."""
        handle = self.nbs_start()
        server = self.start(str(self.dir / "links/nbs-mcp"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def ask(method, **params):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            line = json.dumps(message).encode() + b"\n"
            start = time.monotonic_ns()
            server.stdin.write(line)
            server.stdin.flush()
            answer = server.stdout.readline()
            took = (time.monotonic_ns() - start) / 1e6
            if b'"isError":false' not in answer and method == "tools/call":
                sys.exit(f"bench: {message}: {answer}")
            return took

        ask("initialize", protocolVersion="2025-11-25")
        found = alternate(
            self.rounds * 5,
            tool=lambda: ask("tools/call", name="read", arguments={"session": handle}),
            command=lambda: self.clock.took(self.ts, "read", "--json", "--strip", "--max=38K", handle),
        )
        beyond = {"nbs": found["tool"] - found["command"]}
        self.note("a tool's call (read), beyond its command's", beyond, limit=1, absolute=True)
        server.stdin.close()
        server.wait()
        self.nbs_call("kill", handle)

    def page(self):
        """The page over 100 sessions: at rest, and while ten of them print as fast as they can."""
        self.nbs_call("kill", "--all")
        create = lambda command: self.nbs_call("create", "--no-helper", command).strip()
        quiet = [create("echo ready; cat") for _ in range(90)]
        server = self.start(str(self.dir / "links/nbs-page"), stdout=subprocess.PIPE, text=True)
        address, token = server.stdout.readline().strip().removeprefix("http://").split("/#")
        host, port = address.split(":")

        def connect(method, path, body=""):
            connection = socket.create_connection((host, int(port)))
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            connection.settimeout(60)
            return connection

        def read_until(connection, part):
            heard = b""
            while part not in heard:
                more = connection.recv(1 << 20)
                if not more:
                    sys.exit(f"bench: the page has hung up, before {part}")
                heard = heard[-len(part) :] + more

        def drain():
            while wall.recv(1 << 20):
                pass

        def echo():
            """From a key to what it has changed."""
            events = connect("GET", f"/events?focus={quiet[0]}")
            read_until(events, b"data: {}\n\n")
            times = []
            for _ in range(self.rounds * 2):
                start = time.monotonic_ns()
                typing = connect("POST", f"/sessions/{quiet[0]}/text", "x")
                read_until(events, b'"screen"')
                times.append((time.monotonic_ns() - start) / 1e6)
                typing.close()
            events.close()
            return statistics.median(times)

        start = time.monotonic_ns()
        wall = connect("GET", "/events")
        read_until(wall, b"data: {}\n\n")
        first = {"nbs": (time.monotonic_ns() - start) / 1e6}
        self.note("page: all told of 90 sessions", first, limit=100, absolute=True)
        threading.Thread(target=drain, daemon=True).start()
        self.note("page: a key's echo, 90 sessions at rest", {"nbs": echo()}, limit=50, absolute=True)
        seconds = 1 if self.quick else 10
        # Until all are known to wait for input.
        time.sleep(3)
        wakes, _ = wakes_and_nanoseconds(server.pid)
        time.sleep(seconds)
        wakes = {"nbs": (wakes_and_nanoseconds(server.pid)[0] - wakes) / seconds}
        self.note("page: wake-ups, open, 90 sessions at rest", wakes, "/s", limit=0, absolute=True)
        for _ in range(10):
            create("while :; do seq 1000000; done")
        time.sleep(seconds)
        (_, before), start = wakes_and_nanoseconds(server.pid), time.monotonic_ns()
        time.sleep(seconds)
        busy = wakes_and_nanoseconds(server.pid)[1] - before
        share = {"nbs": 100 * busy / (time.monotonic_ns() - start)}
        self.note("page: CPU, 10 of 100 sessions print", share, "%", limit=10, absolute=True)
        self.note("page: a key's echo, 10 of 100 print", {"nbs": echo()}, limit=50, absolute=True)
        server.terminate()
        server.wait()
        self.nbs_call("kill", "--all")

    def top(self):
        """The list of 100 sessions, and top over them: at rest, and while ten of them print."""
        self.nbs_call("kill", "--all")
        for _ in range(90):
            self.nbs_call("create", "--no-helper", "echo ready; cat")
        self.nbs_call("wait", "--all", "--waiting")
        found = alternate(self.rounds, nbs=lambda: self.clock.took(self.ts, "list", "--long"))
        self.note("list --long, 90 sessions", found, limit=100, absolute=True)
        master, terminal = os.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = self.environment | {"TERM": "xterm-256color"}

        def read_until(part):
            heard = b""
            while part not in heard:
                if not select.select([master], [], [], 60)[0]:
                    sys.exit(f"bench: top has not drawn {part}")
                heard = heard[-len(part) :] + os.read(master, 1 << 16)

        def start():
            begun = time.monotonic_ns()
            shown = self.start(
                self.ts, "top", env=environment, stdin=terminal, stdout=terminal, start_new_session=True
            )
            read_until(b"\x1b[?2026l")
            return shown, (time.monotonic_ns() - begun) / 1e6

        def leave(shown):
            os.write(master, b"q")
            read_until(b"\x1b[?1049l")
            shown.wait()

        def echo():
            """From a key to the first that it has drawn: nothing else shows the cursor."""
            times = []
            for _ in range(self.rounds * 2):
                begun = time.monotonic_ns()
                os.write(master, b"/")
                read_until(b"\x1b[?25h")
                times.append((time.monotonic_ns() - begun) / 1e6)
                os.write(master, b"\r")
                read_until(b"q quit")
            return statistics.median(times)

        first = []
        for _ in range(self.rounds):
            shown, took = start()
            first.append(took)
            leave(shown)
        self.note("top: first paint, 90 sessions", {"nbs": statistics.median(first)}, limit=100, absolute=True)
        shown, _ = start()
        seconds = 1 if self.quick else 10
        # Until all that is to be seen has been.
        time.sleep(2)
        self.note("top: a key's echo, 90 sessions at rest", {"nbs": echo()}, limit=50, absolute=True)
        viewer = int(Path(f"/proc/{shown.pid}/task/{shown.pid}/children").read_text())
        wakes, _ = wakes_and_nanoseconds(viewer)
        time.sleep(seconds)
        wakes = {"nbs": (wakes_and_nanoseconds(viewer)[0] - wakes) / seconds}
        self.note("top: wake-ups, 90 sessions at rest", wakes, "/s", limit=0, absolute=True)
        for _ in range(10):
            self.nbs_call("create", "--no-helper", "while :; do seq 1000000; done")
        leave(shown)
        shown, _ = start()
        # Those that print are the last of the list: they alone are shown.
        os.write(master, b"/while\r")
        drained = threading.Event()

        def drain():
            while not drained.is_set():
                if select.select([master], [], [], 0.05)[0]:
                    os.read(master, 1 << 16)

        reader = threading.Thread(target=drain)
        reader.start()
        time.sleep(seconds)
        viewer = int(Path(f"/proc/{shown.pid}/task/{shown.pid}/children").read_text())
        (_, before), begun = wakes_and_nanoseconds(viewer), time.monotonic_ns()
        time.sleep(seconds)
        busy = wakes_and_nanoseconds(viewer)[1] - before
        share = {"nbs": 100 * busy / (time.monotonic_ns() - begun)}
        drained.set()
        reader.join()
        self.note("top: CPU, 10 of 100 sessions print", share, "%", limit=10, absolute=True)
        self.note("top: a key's echo, 10 of 100 print", {"nbs": echo()}, limit=50, absolute=True)
        leave(shown)
        os.close(master)
        os.close(terminal)
        self.nbs_call("kill", "--all")

    def ask_programs(self):
        """An answer of a program, the time of which is nearly nothing."""
        for name, (command, text) in self.PROGRAMS.items():
            if not shutil.which(name):
                continue
            handle = self.nbs_call("create", "--no-helper", command)
            self.nbs_call("wait", "--input", handle)
            if "42" not in self.nbs_call("ask", handle, text):
                sys.exit(f"bench: {command}: no answer")
            found = alternate(self.rounds, nbs=lambda: self.clock.took(self.ts, "ask", handle, text))
            self.note(f"ask of {name}", found, limit=100, absolute=True)
            self.nbs_call("kill", handle)

    def fifty(self):
        """What 50 sessions cost: to list, in memory, and while nothing happens."""
        count = 50
        handles = [self.nbs_start() for _ in range(count)]
        relays = [self.relay_start() for _ in range(count)]
        if self.tmux_path:
            for number in range(count):
                self.fake.run(*self.tmux_create(f"many{number}"), stamps=1)
        turns = {
            "floor": lambda: self.clock.took(self.floor("nothing")),
            "nbs": lambda: self.clock.took(self.ts, "list"),
            "least": lambda: self.clock.took(self.floor("folders"), str(self.dir / "home/sessions")),
        }
        if self.tmux_path:
            turns["tmux"] = lambda: self.clock.took(*self.tmux("list-sessions"))
        least = "a C program that looks at the same files"
        self.note("list, 50 sessions", alternate(self.rounds, **turns), limit=4, least=least)

        pids = [int((self.nbs_log(handle).parent / "daemon_pid").read_text()) for handle in handles]
        found = {
            "floor": sum(private_kilobytes(pid) for _, pid in relays) / count,
            "nbs": sum(map(private_kilobytes, pids)) / count,
        }
        if self.tmux_path:
            server = int(self.tmux_call("display-message", "-p", "#{pid}"))
            found["tmux"] = private_kilobytes(server) / count
        self.note("relay: private memory a session, 50 sessions", found, "KB", limit=80, absolute=True)

        helper = self.start(str(self.dir / "links/nbs-ts-helper"), stdout=subprocess.DEVNULL)
        sleeps(helper.pid)
        everybody = pids + [helper.pid]
        before = [wakes_and_nanoseconds(pid) for pid in everybody]
        tmux_before = wakes_and_nanoseconds(server) if self.tmux_path else None
        seconds = 1 if self.quick else 5
        time.sleep(seconds)
        after = [wakes_and_nanoseconds(pid) for pid in everybody]
        found = {"nbs": sum(now[0] - then[0] for now, then in zip(after, before)) / seconds}
        if self.tmux_path:
            found["tmux"] = (wakes_and_nanoseconds(server)[0] - tmux_before[0]) / seconds
        self.note("idle: wake-ups of 50 relays and a helper", found, "/s", limit=0, absolute=True)
        found = {"nbs": sum(now[1] - then[1] for now, then in zip(after, before)) / seconds / 1e6}
        self.note("idle: CPU of 50 relays and a helper", found, "ms/s", limit=0, absolute=True)
        helper.terminate()
        helper.wait()

        self.nbs_call("kill", "--all")
        for relay in relays:
            self.relay_end(*relay)
        if self.tmux_path:
            for number in range(count):
                self.tmux_call("kill-session", "-t", f"many{number}")

    def as_tmux(self):
        """The same commands of nbs, called as tmux, and of tmux, with other sessions beside."""
        if not self.tmux_path:
            return
        ours = self.dir / "links/tmux"
        ours.symlink_to(self.nbs)
        # A server of its own, so that both have the same sessions.
        both = {"nbs": [str(ours), "-L", "many"], "tmux": [self.tmux_path, "-L", "many", "-f", "/dev/null"]}
        call = lambda who, *words: output_of(*both[who], *words, env=self.environment)
        new = lambda name: ["new-session", "-d", "-s", name, "-x", "80", "-y", "24", "exec cat >/dev/null"]
        commands = {
            "new-session": new("more"),
            "send-keys": ["send-keys", "-t", "s0", "text", "Enter"],
            "capture-pane": ["capture-pane", "-p", "-t", "s0"],
            "list-panes": ["list-panes", "-t", "s0"],
        }

        def took(who, words):
            milliseconds = self.clock.took(*both[who], *words)
            if words[0] == "new-session":
                call(who, "kill-session", "-t", "more")
            return milliseconds

        made = 0
        try:
            for count in (1, 50) if self.quick else (1, 50, 1000):
                for number in range(made, count):
                    for who in both:
                        call(who, *new(f"s{number}"))
                made = count
                for name, words in commands.items():
                    turns = {who: lambda who=who, words=words: took(who, words) for who in both}
                    self.note(f"as tmux, {count} sessions: {name}", alternate(self.rounds, **turns))
        finally:
            for who in both:
                subprocess.run([*both[who], "kill-server"], env=self.environment, capture_output=True)
