"""What the measurements share: the clock, an sshd, a slow line, and what the kernel tells of a process."""

import os
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MIB = 1024 * 1024


def output_of(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=True, **more).stdout


class Clock:
    """clock.c at work: starts programs and tells when."""

    def __init__(self, program, environment):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def ask(self, *words):
        self.process.stdin.write("\t".join(map(str, words)) + "\n")

    def answer(self):
        return self.process.stdout.readline().rstrip("\n").split("\t")

    def run(self, *words, stamps=0, how="r"):
        """Start, end, the stamps, what was printed."""
        self.ask(how, stamps, *words)
        return self.told(words)

    def told(self, words):
        start, end, status, *stamps, printed = self.answer()
        if int(status):
            sys.exit(f"bench: {' '.join(map(str, words))}: status {status}")
        return int(start), int(end), [int(stamp) for stamp in stamps], printed

    def took(self, *words, how="r"):
        start, end, _, _ = self.run(*words, how=how)
        return (end - start) / 1e6

    def waited(self, begin, trigger):
        """From the stamp that `trigger` causes to the end of a waiting program."""
        self.ask("b", 0, *begin)
        pid = self.answer()[0]
        sleeps(pid)
        self.ask("w", 1)
        time.sleep(0.002)
        trigger()
        _, end, stamps, _ = self.told(begin)
        return (end - stamps[0]) / 1e6

    def stamps(self, count):
        self.ask("s", count)
        return self.told(["stamps"])[2]


class Server:
    """An sshd of our own on the loopback, with keys of its own."""

    def __init__(self, folder):
        self.folder = folder / "ssh"
        self.folder.mkdir()
        for key in ("host", "user"):
            output_of("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key))
        # So no startup file of who measures is in a figure: bash reads it for each command by ssh.
        home = self.folder / "home"
        home.mkdir()
        # Where one that does not run under systemd wants to be jailed.
        Path("/run/sshd").mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        options = [
            f"AuthorizedKeysFile={self.folder / 'user.pub'}", "ListenAddress=127.0.0.1", "StrictModes=no",
            "PidFile=none", "UsePAM=no", "MaxStartups=100", "MaxSessions=100", f"SetEnv=HOME={home}",
        ]
        words = ["/usr/sbin/sshd", "-D", "-f", "/dev/null", "-h", str(self.folder / "host"), "-p", str(self.port)]
        log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen([*words, *(f"-o{option}" for option in options)], stderr=log)
        while True:
            if self.process.poll() is not None:
                sys.exit(f"bench: sshd: {(self.folder / 'log').read_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)

    def config(self, ports):
        config = self.folder / "config"
        config.write_text("".join(
            f"Host {name}\nHostName 127.0.0.1\nPort {port}\nIdentityFile {self.folder / 'user'}\n"
            "UserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\nIdentitiesOnly yes\n"
            for name, port in ports.items()
        ))
        return config

    def end(self):
        self.process.terminate()
        self.process.wait()


class Line:
    """A line to a port of this machine, with a round trip of so many milliseconds more, that passes on so many bytes
    a second each way.

    By threads of our own, for not every kernel has netem; without either it is the port itself."""

    def __init__(self, port, milliseconds=0, rate=None):
        self.port, self.to, self.delay, self.rate = port, port, milliseconds / 2e3, rate
        if milliseconds or rate:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
            threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.to))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                under_way = queue.SimpleQueue()
                threading.Thread(target=self.take, args=(one, under_way), daemon=True).start()
                threading.Thread(target=self.give, args=(other, under_way), daemon=True).start()

    def take(self, one, under_way):
        data, free = True, 0
        while data:
            try:
                data = one.recv(1 << 16)
            except OSError:
                data = b""
            if self.rate:
                free = max(free, time.monotonic()) + len(data) / self.rate
                time.sleep(max(0, free - time.monotonic()))
            under_way.put((time.monotonic() + self.delay, data))

    def give(self, other, under_way):
        data = True
        while data:
            due, data = under_way.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                other.sendall(data) if data else other.shutdown(socket.SHUT_WR)
            except OSError:
                return


def content(file):
    try:
        return file.read_bytes()
    except OSError:
        return b""


def sleeps(pid):
    """Waits until a process has slept for a while: it waits for something."""
    quiet = 0
    while quiet < 5:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":
            sys.exit("bench: what should wait has ended")
        quiet = quiet + 1 if state == "S" else 0
        time.sleep(0.002)


def write_fifo(path, text):
    fifo = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.write(fifo, text.encode())
    os.close(fifo)


def alternate(rounds, **turns):
    """Medians of what each turn returns."""
    seen = {name: [] for name in turns}
    for each in range(rounds + 1):
        for name, turn in turns.items():
            value = turn()
            if each:  # the first is to warm up
                seen[name].append(value)
    return {name: statistics.median(values) for name, values in seen.items()}


def sleeps_once(pid):
    while True:
        status = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        if status[0] == "Z":
            sys.exit("bench: what should wait has ended")
        if status[0] == "S" and Path(f"/proc/{pid}/wchan").read_text() != "0":
            return
        time.sleep(0.001)


def private_kilobytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def available_kilobytes():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def wakes_and_nanoseconds(pid):
    wakes = nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                wakes += int(line.split()[1])
        nanoseconds += int((task / "schedstat").read_text().split()[0])
    return wakes, nanoseconds


def number(value):
    if value is None:
        return ""
    if isinstance(value, int) or value >= 1000:
        return f"{value:.0f}"
    return f"{value:.2f}"
