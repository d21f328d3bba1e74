"""How the cost grows with the number of sessions, of bytes and of machines."""

import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from apparatus import (
    Line,
    MIB,
    Server,
    alternate,
    available_kilobytes,
    content,
    number,
    output_of,
    private_kilobytes,
    sleeps,
    sleeps_once,
    wakes_and_nanoseconds,
    write_fifo,
)


class Growth:
    """How the cost grows with the number of sessions, of bytes and of machines."""

    def scale_sessions(self):
        steps = [1, 5, 20] if self.quick else [1, 10, 100, 1000]
        handles, rows = [], []
        free = available_kilobytes()
        spent = 0.0
        for count in steps:
            begun = time.monotonic()
            created = []
            while len(handles) < count:
                start, end, _, printed = self.fake.run(*self.nbs_create(), stamps=1)
                created.append((end - start) / 1e6)
                handles.append(printed)
            spent += time.monotonic() - begun
            first = handles[0]
            pids = [int((self.nbs_log(handle).parent / "daemon_pid").read_text()) for handle in handles]
            row = {
                "sessions": count,
                "create_ms": statistics.median(created),
                "status_ms": statistics.median(self.clock.took(self.ts, "status", first) for _ in range(21)),
                "list_ms": statistics.median(self.clock.took(self.ts, "list") for _ in range(11)),
                "relay_private_kb": sum(map(private_kilobytes, pids)) / count,
                "machine_kb": (free - available_kilobytes()) / count,
            }
            row |= self.wait_on_all(handles)
            rows.append({name: round(value, 3) for name, value in row.items()})
            print(json.dumps({"scale": "sessions"} | rows[-1]), flush=True)
        begun = time.monotonic()
        self.nbs_call("kill", "--all")
        total = {
            "scale": "whole",
            "sessions": steps[-1],
            "created_s": round(spent, 2),
            "killed_s": round(time.monotonic() - begun, 2),
        }
        print(json.dumps(total), flush=True)
        self.scale["sessions"], self.scale["whole"] = rows, total
        if not self.quick:
            self.note("list, 1000 sessions", {"nbs": rows[-1]["list_ms"]}, limit=25, absolute=True)

    def wait_on_all(self, handles):
        """A call waits on each session, at the same time; then each prints."""
        begun = time.monotonic()
        word = f"go{len(handles)};"
        waits = [
            os.posix_spawn(self.ts, [self.ts, "wait-pattern", "--timeout=5m", handle, word], self.environment)
            for handle in handles
        ]
        for pid in waits:
            sleeps_once(pid)
        waiting = time.monotonic()
        for handle in handles:
            write_fifo(self.nbs_fifo(handle), f"p {word}\r")
        for pid in waits:
            if os.waitpid(pid, 0)[1]:
                sys.exit("bench: a wait failed")
        done = time.monotonic()
        # A FIFO holds so many stamps; they are of no use here.
        self.fake.stamps(len(handles))
        return {"all_wait_ms": (waiting - begun) * 1e3, "all_return_ms": (done - waiting) * 1e3}

    def scale_waits(self):
        handle, rows = self.nbs_start(), []
        for count in [1, 5, 20] if self.quick else [1, 10, 100, 1000]:
            word = f"go{count};"
            waits = [
                os.posix_spawn(
                    self.ts, [self.ts, "wait-pattern", "--timeout=5m", handle, word], self.environment
                )
                for _ in range(count)
            ]
            for pid in waits:
                sleeps_once(pid)
            status = statistics.median(self.clock.took(self.ts, "status", handle) for _ in range(21))
            begun = time.monotonic()
            write_fifo(self.nbs_fifo(handle), f"p {word}\r")
            for pid in waits:
                if os.waitpid(pid, 0)[1]:
                    sys.exit("bench: a wait failed")
            row = {"waiting": count, "status_ms": status, "all_return_ms": (time.monotonic() - begun) * 1e3}
            self.fake.stamps(1)
            rows.append({name: round(value, 3) for name, value in row.items()})
            print(json.dumps({"scale": "waits"} | rows[-1]), flush=True)
        self.nbs_call("kill", handle)
        self.scale["waits"] = rows

    def scale_bytes(self):
        handle, rows = self.nbs_start(), []
        line = b"%s and so on, a line of a build\r\n" % (b"x" * 30)
        block = line * (MIB // len(line))
        log = self.nbs_log(handle)
        for mebibytes in [0, 1, 8] if self.quick else [0, 1, 32, 1024]:
            with open(log, "ab") as file:
                while file.tell() < mebibytes * len(block):
                    file.write(block)
            output_of(self.ts, "read-new", handle, "--max=1K", env=self.environment)
            median = lambda *words: statistics.median(self.clock.took(self.ts, *words) for _ in range(21))

            def send():
                # With its stamp, so that no two are read as one.
                start, end, _, _ = self.clock.run(self.ts, "send", handle, "text", stamps=1)
                return (end - start) / 1e6

            row = {
                "mebibytes": mebibytes,
                "status_ms": median("status", handle),
                "send_ms": statistics.median(send() for _ in range(21)),
                "read_new_ms": median("read-new", handle),
                "last_lines_ms": median("read", handle, "--last=10"),
            }
            rows.append({name: round(value, 3) for name, value in row.items()})
            print(json.dumps({"scale": "bytes"} | rows[-1]), flush=True)
        self.nbs_call("kill", handle)
        self.scale["bytes"] = rows

    def exec(self):
        """Through a plain sh, so that it is the frames that are measured, and no transport."""
        mebibytes = 16 if self.quick else 256
        file, copy, home = self.dir / "noise", self.dir / "copy", self.dir / "exec"
        home.mkdir()
        with open(file, "wb") as noise:
            for _ in range(mebibytes):
                noise.write(os.urandom(MIB))
        try:
            self.nbs_call("machine", "add", "exec", "env", "-u", "NBS_TS_HOME", f"HOME={home}", "sh")
            self.nbs_call("exec", "exec", "true")

            read = f"cat {file}"
            for name, ours, floor in (
                ("output of", f"{self.ts} exec exec '{read}' | cat >/dev/null", f"sh -c '{read}' | cat >/dev/null"),
                ("input for", f"{read} | {self.ts} exec exec 'cat >/dev/null'", f"{read} | sh -c 'cat >/dev/null'"),
            ):
                found = self.rates(mebibytes, ours, floor)
                self.note(f"{name} a program there (exec); floor is cat", found, "MiB/s", limit=0.8, at_least=True)
            through = f"sh -c '{read}' | cat >{copy}; rm {copy}"
            for name, ours in (
                ("from there", f"{self.ts} cp exec:{file} {copy} && rm {copy}"),
                ("to there", f"{self.ts} cp {file} exec:{copy} && rm {copy}"),
            ):
                found = self.rates(mebibytes, ours, through)
                self.note(f"cp of a file {name}; floor is cat into one", found, "MiB/s", limit=0.8, at_least=True)
            self.tree()
        finally:
            file.unlink()
            self.forget_machines(["exec"])

    def tree(self):
        """Many small files by `cp -r`; the floor is tar, as `kubectl cp` has it, through the same sh."""
        tree, copy, count = self.dir / "tree", self.dir / "copy", 1_000 if self.quick else 20_000
        for number in range(count):
            folder = tree / f"d{number // 100}"
            if number % 100 == 0:
                folder.mkdir(parents=True)
            (folder / f"f{number}").write_bytes(os.urandom(1000))
        through = f"mkdir {copy} && sh -c 'tar cf - -C {self.dir} tree' | tar xf - -C {copy}; rm -r {copy}"
        for name, ours in (
            ("from there", f"{self.ts} cp -r exec:{tree} {copy} && rm -r {copy}"),
            ("to there", f"{self.ts} cp -r {tree} exec:{copy} && rm -r {copy}"),
        ):
            found = self.rates(count, ours, through)
            self.note(f"cp -r of files of 1 kB {name}; floor is tar", found, "files/s")
        shutil.rmtree(tree)

    def rates(self, amount, ours, floor):
        """How fast each script passes so much on, in turns."""

        def rate(script):
            begun = time.monotonic()
            subprocess.run(["sh", "-c", script], env=self.environment, check=True)
            return amount / (time.monotonic() - begun)

        return alternate(3 if self.quick else 7, nbs=lambda: rate(ours), floor=lambda: rate(floor))

    def scale_machines(self):
        """Each a plain sh with a home of its own, so that what nbs does itself is measured."""
        rows, machines, sessions = [], [], {}
        each = 2 if self.quick else 10
        # Its state folder is in its own home.
        there = ["env", "-u", "NBS_TS_HOME"]
        try:
            for count in [1, 5, 20] if self.quick else [1, 10, 100]:
                connects = []
                while len(machines) < count:
                    name = f"m{len(machines)}"
                    home = self.dir / name
                    (home / "project").mkdir(parents=True)
                    (home / "skill.md").write_text("Do it.")
                    self.nbs_call("machine", "add", name, *there, f"HOME={home}", "sh")
                    machines.append(name)
                    connects.append(self.clock.took(self.ts, "list", f"--on={name}"))
                    create = ["create", f"--on={name}", "--no-helper", "read line"]
                    sessions[name] = [self.nbs_call(*create) for _ in range(each)]
                worker = [
                    str(self.dir / "links/nbs-spawn-worker"), "--agent=/bin/true", "--startup=0", "--timeout=0",
                    "tester", "project", "skill.md", "Do it.",
                ]
                workers = [self.clock.took(worker[0], f"--on={name}", *worker[1:]) for name in machines]
                row = {
                    "machines": count,
                    "sessions": count * each,
                    "connect_ms": statistics.median(connects),
                    "list_ms": statistics.median(self.clock.took(self.ts, "list", "--on=all") for _ in range(11)),
                    "any_ms": statistics.median(self.any_returns(machines, sessions, each) for _ in range(5)),
                    "worker_ms": statistics.median(workers),
                }
                rows.append({name: round(value, 3) for name, value in row.items()})
                print(json.dumps({"scale": "machines"} | rows[-1]), flush=True)
        finally:
            self.forget_machines(machines)
        self.scale["machines"] = rows

    def any_returns(self, machines, sessions, each):
        """One call waits for any of all sessions; one of the last machine's ends."""
        every = [session for name in machines for session in sessions[name]]
        words = [self.ts, "wait", "--any", "--exit", "--timeout=5m", *every]
        quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
        wait = os.posix_spawn(self.ts, words, self.environment, file_actions=quiet)
        sleeps(wait)
        name, last = machines[-1], sessions[machines[-1]]
        handle = last.pop().split(":")[1]
        begun = time.monotonic()
        write_fifo(self.dir / name / ".nbs-ts/sessions" / handle / "input.fifo", "\r")
        if os.waitpid(wait, 0)[1]:
            sys.exit("bench: a wait failed")
        took = (time.monotonic() - begun) * 1e3
        while len(last) < each:
            last.append(self.nbs_call("create", f"--on={name}", "--no-helper", "read line"))
        return took

    def by_ssh(self):
        """A session on a machine that ssh leads to, by a line of its own for each delay."""
        if not shutil.which("ssh-keygen") or not Path("/usr/sbin/sshd").exists():
            return
        there, server = self.dir / "there", Server(self.dir)
        there.mkdir()
        lines = {milliseconds: Line(server.port, milliseconds) for milliseconds in (0, 10, 50)}
        names = {milliseconds: f"box{milliseconds}" for milliseconds in lines}
        ports = {names[milliseconds]: line.port for milliseconds, line in lines.items()}
        # As much as TCP has of an Ethernet of 1 Gbit/s.
        network = "network"
        config = server.config(ports | {network: Line(server.port, rate=117e6).port})
        ssh = [shutil.which("ssh"), "-T", "-F", str(config), "-o", "BatchMode=yes"]
        master = [*ssh, "-o", f"ControlPath={self.dir}/%n", "-o", "ControlMaster=auto", "-o", "ControlPersist=yes"]
        home = ["env", f"HOME={there}"]
        try:
            for name in [*names.values(), network]:
                self.nbs_call("machine", "add", name, *ssh, name, *home, "sh")
            handle = self.nbs_call("create", f"--on={names[0]}", "--no-helper", "cat").split(":")[1]
            for milliseconds, name in names.items():
                self.nbs_call("status", f"{name}:{handle}")
                output_of(*master, name, "true", env=self.environment)
                turns = {
                    "nbs": lambda: self.clock.took(self.ts, "status", f"{name}:{handle}"),
                    "ssh": lambda: self.clock.took(*ssh, name, *home, self.ts, "status", handle),
                    "master": lambda: self.clock.took(*master, name, *home, self.ts, "status", handle),
                }
                if self.tmux_path:
                    tmux = ["env", f"TMUX_TMPDIR={self.dir}", *self.tmux("has-session", "-t", "first")]
                    turns["tmux"] = lambda: self.clock.took(*master, name, *tmux)
                found = alternate(max(self.rounds // 4, 3), **turns)
                # The floor is a round trip of the connection; a call has less than 2 ms besides.
                machines = map(json.loads, self.nbs_call("machine", "list", "--json").splitlines())
                (round_trip,) = (machine["round_trip"] for machine in machines if machine["machine"] == name)
                found["floor"] = round_trip * 1e3
                limit = found["floor"] + 2
                self.note(f"status by ssh, {milliseconds} ms away", found, limit=limit, absolute=True)
            self.bulk(names[0], there, [*master, names[0]], "by ssh")
            output_of(*master, network, "true", env=self.environment)
            self.bulk(network, there, [*master, network], "by ssh over 1 Gbit/s")
        finally:
            for name in [*names.values(), network]:
                subprocess.run([*master, "-O", "exit", name], env=self.environment, capture_output=True)
            self.forget_machines([*names.values(), network])
            server.end()

    def bulk(self, name, there, master, way):
        """A log from another machine; the floor is the transport's own cat."""
        handle = self.nbs_call("create", f"--on={name}", "--no-helper", "true")
        self.nbs_call("wait", handle, "--exit")
        log = there / ".nbs-ts/sessions" / handle.split(":")[1] / "output.log"
        mebibytes = 8 if self.quick else 256
        log.write_bytes((b"0123456789abcdef" * 4096) * 16 * mebibytes)
        speed = lambda *words: mebibytes / (self.clock.took(*words, how="d") / 1e3)
        rounds, floor = 3 if self.quick else 7, lambda: speed(*master, "cat", str(log))
        found = alternate(rounds, nbs=lambda: speed(self.ts, "read", handle), floor=floor)
        self.note(f"read {way}; floor is its own cat", found, "MiB/s", limit=0.8, at_least=True)
        found = alternate(rounds, nbs=lambda: speed(self.ts, "exec", name, f"cat {log}"), floor=floor)
        self.note(f"output of a program there (exec) {way}; the same floor", found, "MiB/s", limit=0.9, at_least=True)
        copy, ssh = self.dir / "copy", " ".join(map(str, master))
        for what, ours, floor in (
            ("input for a program there (exec)", f"{self.ts} exec {name} 'cat >/dev/null' <{log}",
             f"{ssh} 'cat >/dev/null' <{log}"),
            ("cp of a file from there", f"{self.ts} cp {name}:{log} {copy} && rm {copy}",
             f"{ssh} cat {log} >{copy} && rm {copy}"),
            ("cp of a file to there", f"{self.ts} cp {log} {name}:{copy} && rm {copy}",
             f"{ssh} 'cat >{copy}' <{log} && rm {copy}"),
        ):
            found = self.rates(mebibytes, ours, floor)
            self.note(f"{what} {way}; floor is its own cat", found, "MiB/s", limit=0.9, at_least=True)

    def lead(self):
        """One call waits for any session of 50 machines; nothing happens, and nothing is done."""
        count, each, seconds = (5, 2, 2) if self.quick else (50, 20, 60)
        names = [f"w{number}" for number in range(count)]
        try:
            for name in names:
                home = self.dir / name
                home.mkdir()
                self.nbs_call("machine", "add", name, "env", "-u", "NBS_TS_HOME", f"HOME={home}", "sh")
                for _ in range(each):
                    self.nbs_call("create", f"--on={name}", "--no-helper", "sleep 100000")
            words = [self.ts, "wait", "--any", "--all", "--on=all", "--waiting", "--exit", "--timeout=1h"]
            wait = os.posix_spawn(self.ts, words, self.environment)
            sleeps(wait)
            # Until all are known to rest.
            time.sleep(5)
            taking_part = [wait] + [
                int(process.name) for process in Path("/proc").glob("[0-9]*")
                if content(process / "cmdline").startswith((b"nbs-bridge", b"nbs-far", b"nbs-call"))
                and bytes(self.dir) in content(process / "environ")
            ]
            before = [wakes_and_nanoseconds(pid) for pid in taking_part]
            time.sleep(seconds)
            after = [wakes_and_nanoseconds(pid) for pid in taking_part]
            busy = sum(now[1] - then[1] for now, then in zip(after, before))
            wakes = sum(now[0] - then[0] for now, then in zip(after, before))
            what = f"a wait for {count * each} sessions on {count} machines at rest"
            self.note(f"{what}: CPU", {"nbs": 100 * busy / 1e9 / seconds}, "%", limit=0.5, absolute=True)
            self.note(f"{what}: wake-ups", {"nbs": wakes / seconds}, "/s")
            os.kill(wait, signal.SIGTERM)
            os.waitpid(wait, 0)
        finally:
            self.forget_machines(names)


def plot(scale):
    """Four panels with two logarithmic axes each."""
    panels = [
        ("sessions there are", scale["sessions"], "sessions",
         {"status_ms": "status", "create_ms": "create", "list_ms": "list", "all_return_ms": "a wait on each returns"}),
        ("MiB in the log", scale["bytes"], "mebibytes",
         {"status_ms": "status", "send_ms": "send", "read_new_ms": "read-new", "last_lines_ms": "read --last=10"}),
        ("calls that wait on one session", scale["waits"], "waiting",
         {"status_ms": "status", "all_return_ms": "all return"}),
        ("machines, of ten sessions each", scale["machines"], "machines",
         {"connect_ms": "the first call", "list_ms": "list --on=all", "any_ms": "a wait for any returns",
          "worker_ms": "start a worker"}),
    ]
    colours = ["#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e"]
    width, height, left, top = 230, 240, 50, 30
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1195 380" font-family="sans-serif" font-size="12">',
        '<rect width="1195" height="380" fill="white"/>',
    ]
    low, high = -1, 4
    for index, (title, rows, axis, series) in enumerate(panels):
        x0 = left + index * 295
        places = [math.log10(max(row[axis], 0.1 if axis == "mebibytes" else 1)) for row in rows]
        first, last = places[0], max(places[-1], places[0] + 1)
        x = lambda place: x0 + (place - first) / (last - first) * width
        y = lambda value: top + height - (math.log10(max(value, 0.1)) - low) / (high - low) * height
        for power in range(low, high + 1):
            at = y(10**power)
            parts.append(f'<line x1="{x0}" y1="{at:.1f}" x2="{x0 + width}" y2="{at:.1f}" stroke="#dee2e6"/>')
            if index == 0:
                label = f"{10**power:g} ms" if power < 3 else f"{10 ** (power - 3):g} s"
                parts.append(f'<text x="{x0 - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
        for row, place in zip(rows, places):
            parts.append(
                f'<text x="{x(place):.1f}" y="{top + height + 18}" text-anchor="middle">{row[axis]}</text>'
            )
        parts.append(
            f'<text x="{x0 + width / 2}" y="{top + height + 38}" text-anchor="middle">{title}</text>'
        )
        for line, (name, label) in enumerate(series.items()):
            points = " ".join(f"{x(place):.1f},{y(row[name]):.1f}" for row, place in zip(rows, places))
            colour = colours[line]
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
            at = top + height + 56 + 14 * line
            parts.append(f'<text x="{x0 + 10}" y="{at}" fill="{colour}">{label}: {rows[-1][name]:.2f} ms</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"
