#!/usr/bin/env python3
"""Asks real programs the same things through `nbs-ts ask`, and compares what is printed.

Usage: table.py NBS NAME=COMMAND...

NBS is the file to try, NAME a row of the table below, COMMAND what starts that program.
A row: what is typed, and what `ask` must print of it; `re:` before an expression that must
match all of it. Some are asked in a shell instead, by several commands: `run` comes back at
their first question. Exits 1 after all rows if one was wrong.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

LINES = "".join(f"{n}\n" for n in range(1, 10001))
WIDE = "x" * 200

PYTHON = [
    ("6 * 7", "42\n"),
    ("x = 5", ""),
    ("for n in range(3): print(n)", "... "),
    ("", "0\n1\n2\n>>> "),
    # One that indents by itself has a prompt with blanks behind it.
    ("def f():", "re:\\.\\.\\. +"),
    ("    return 7", ""),
    ("", ">>> "),
    ("f()", "7\n"),
    # As long as the row behind the prompt; and what goes on in the next rows.
    *[(f"'{'y' * length}'", f"'{'y' * length}'\n") for length in (73, 74, 75, 300)],
    ("print('no end', end='')", "no end"),
    (f"'{'y' * 100}'", f"'{'y' * 100}'\n"),
    ("1/0", "re:(?s)Traceback.*ZeroDivisionError: division by zero\n"),
    ("for n in range(1, 10001): print(n)", "... "),
    ("", LINES + ">>> "),
    (f"print('x' * 200)", WIDE + "\n"),
    ("print('日本 é')", "日本 é\n"),
    ("input('name? ')", "name? "),
    ("me", "'me'\n>>> "),
    ("C-c import time; time.sleep(100)", "re:(?s)(\\^C)?Traceback.*KeyboardInterrupt\n"),
    ("import time; time.sleep(1.5); 3", "3\n"),
]

LONG = f"len('{'abcde' * 30}')"

# A plain read-eval-print loop of prompt_toolkit.
PROMPT_TOOLKIT = [
    ("6*7", "42\n"),
    (LONG, "150\n"),
    ("print(*range(1, 10001), sep='\\n')", LINES),
    ("6*7", "42\n"),
    (LONG, "150\n"),
]

IPYTHON = [
    ("6 * 7", "re:Out\\[\\d+\\]: 42\n"),
    (LONG, "re:Out\\[\\d+\\]: 150\n"),
    ("x = 5", ""),
    ("for n in range(3): print(n)", "0\n1\n2\n"),
    ("", ""),
    ("1/0", "re:(?s)-+\nZeroDivisionError.*ZeroDivisionError: division by zero\n"),
    ("for n in range(1, 10001): print(n)", LINES),
    ("print('x' * 200)", WIDE + "\n"),
    ("print('日本 é')", "日本 é\n"),
    ("input('name? ')", "name? "),
    ("me", "re:Out\\[\\d+\\]: 'me'\n\n?In \\[\\d+\\]: "),
    ("C-c import time; time.sleep(100)", "re:(?s).*KeyboardInterrupt.*"),
    ("import time; time.sleep(1.5); 3", "re:Out\\[\\d+\\]: 3\n"),
]

NODE = [
    ("6 * 7", "42\n"),
    ("const f = () => {", "re:(\\.\\.\\.|\\|) "),
    ("return 7 }", "undefined\n> "),
    ("f()", "7\n"),
    ("", ""),
    ("nosuch", "Uncaught ReferenceError: nosuch is not defined\n"),
    ("for (let n = 1; n <= 10000; n++) console.log(n)", LINES + "undefined\n"),
    ("console.log('x'.repeat(200))", WIDE + "\nundefined\n"),
    ("'日本 é'", "'日本 é'\n"),
    ("C-c while (true);", "re:(?s).*(interrupted|SIGINT).*"),
    ("await new Promise(done => setTimeout(() => done(3), 1500))", "3\n"),
    ("1 + 1", "2\n"),
]

SQLITE = [
    ("select 6 * 7;", "42\n"),
    ("select", "   ...> "),
    ("5;", "5\nsqlite> "),
    ("create table t (n);", ""),
    ("select * from nosuch;", "re:(Parse )?[Ee]rror.*no such table: nosuch.*\n"),
    ("with recursive c(n) as (select 1 union all select n + 1 from c where n < 10000) select n from c;", LINES),
    ("select replace(hex(zeroblob(100)), '0', 'x');", WIDE + "\n"),
    ("select '日本 é';", "日本 é\n"),
]

GDB = [
    ("print 6 * 7", "$1 = 42\n"),
    ("define f", 're:(?s).*End with a line saying just "end".\n>'),
    ("print 8", ""),
    ("end", "(gdb) "),
    ("f", "$2 = 8\n"),
    ("set $x = 1", ""),
    ("nosuch", 're:Undefined command: "nosuch".*\n'),
    ("shell seq 10000", LINES),
    ("shell printf %0200d 0 | tr 0 x; echo", WIDE + "\n"),
    ("shell echo 日本 é", "日本 é\n"),
    ("C-c shell sleep 100", "re:(\\^C)?(\\(gdb\\) )?(Quit\n)?"),
    ("shell sleep 1.5; echo 3", "3\n"),
]

SHELL = [
    ("echo $((6 * 7))", "42\n"),
    ("true", ""),
    ("nosuchcommand", "re:(?s).*nosuchcommand.*\n"),
    ("seq 10000", LINES),
    ("printf %0200d 0 | tr 0 x; echo", WIDE + "\n"),
    ("echo 日本 é", "日本 é\n"),
    ("sh -c 'printf \"name? \"; read x; echo \"<$x>\"'", "name? "),
    ("me", "<me>\n"),
    ("C-c sleep 100", "re:(\\^C)?\n?"),
    ("sleep 1.5; echo 3", "3\n"),
]

FISH = [("math '6 * 7'", "42\n"), *SHELL[1:]]

PSQL = [
    ("select 6 * 7 as n;", "re: n\n----\n 42\n\\(1 row\\)\n\n?"),
    ("select", "re:\\S+-# "),
    ("5 as n;", "re: n\n---\n 5\n\\(1 row\\)\n\n\\S+=# "),
    ("create table t (n int);", "CREATE TABLE\n"),
    ("select * from nosuch;", "re:(?s)ERROR: .*nosuch.*"),
    ("\\pset format unaligned", "Output format is unaligned.\n"),
    ("\\pset tuples_only", "Tuples only is on.\n"),
    ("select generate_series(1, 10000);", LINES),
    ("select repeat('x', 200);", WIDE + "\n"),
    ("select '日本 é';", "日本 é\n"),
    ("\\prompt 'name? ' x", "name? "),
    ("me", "re:\\S+=# "),
    ("C-c select pg_sleep(100);", "re:(?s).*cancel.*"),
    ("select pg_sleep(1.5), 3;", "|3\n"),
]

MARIADB = [
    ("select 6 * 7 as n;", "re:(?s)\\+----\\+\n\\| n  \\|\n\\+----\\+\n\\| 42 \\|\n\\+----\\+\n1 row in set.*"),
    ("select", "    -> "),
    ("5 as n;", "re:(?s)\\+---\\+\n\\| n \\|\n\\+---\\+\n\\| 5 \\|\n.*1 row in set.*> "),
    ("select * from nosuch.nosuch;", "re:(?s)ERROR .*nosuch.*"),
    ("select '日本 é' as n;", "re:(?s).*日本 é.*1 row in set.*"),
    ("select sleep(1.5);", "re:(?s).*1 row in set.*"),
]

REDIS = [
    ("set x 42", "OK\n"),
    ("get x", '"42"\n'),
    ("", ""),
    ("nosuch", "re:\\(error\\) ERR unknown command.*\n"),
    ("eval 'local t = {} for n = 1, 1000 do t[n] = n end return t' 0", "re:(?s) *1\\) \\(integer\\) 1\n.*1000\\) \\(integer\\) 1000\n"),
    ("debug sleep 1.5", "re:(OK|\\(error\\).*)\n(\\(1\\.\\d+s\\)\n)?"),
    ("echo after", '"after"\n'),
]

IRB = [
    ("6 * 7", "=> 42\n"),
    ("def f", "re:irb\\(main\\):\\d+:1\\* *"),
    ("7", ""),
    ("end", "re:=> :f\nirb\\(main\\):\\d+:0> "),
    ("f", "=> 7\n"),
    ("nil", "=> nil\n"),
    ("nosuch", "re:(?s).*undefined local variable or method.*nosuch.*"),
    ("1.upto(10000) { |n| puts n }", LINES + "=> 1\n"),
    ("puts 'x' * 200", WIDE + "\n=> nil\n"),
    ("puts '日本 é'", "日本 é\n=> nil\n"),
    ("print 'name? '; gets", "name? "),
    ("me", 're:=> "me\\\\n"\nirb\\(main\\):\\d+:0> '),
    ("C-c sleep 100", "re:(?s).*"),
    ("sleep 1.5; 3", "=> 3\n"),
]

ROWS = {
    "python": PYTHON,
    "ipython": IPYTHON,
    "prompt_toolkit": PROMPT_TOOLKIT,
    "node": NODE,
    "sqlite3": SQLITE,
    "gdb": GDB,
    "shell": SHELL,
    "fish": FISH,
    "psql": PSQL,
    "mariadb": MARIADB,
    "redis-cli": REDIS,
    "irb": IRB,
}


# Of a talk: the command of nbs-ts, its text if it has one, its exit code, and what it prints. The
# command of the row is run first, and has to ask.
NPM = [
    ("run --rendered", None, 123, "re:(?s).*\npackage name: \\(.*\\) "),
    ("ask", "a-name", 0, "version: (1.0.0) "),
    ("ask", "1.2.3", 0, "description: "),
    ("ask", "what it is", 0, "entry point: (index.js) "),
    ("ask", "", 0, "test command: "),
    ("send", "", 0, ""),
    ("run --rendered --resume", None, 123, "re:(?s).*\ngit repository: "),
    ("ask", "", 0, "keywords: "),
]

# Of what draws all of the screen, that is the answer.
MULTIPLEXER = [
    ("run", None, 123, "re:(?s).*"),
    ("ask", "echo $((6 * 7))", 0, "re:(?s).*\n42\n.*"),
    ("ask", "read -p 'name? ' x; echo \"<$x>\"", 0, "re:(?s).*\nname\\?\n.*"),
    ("ask", "me", 0, "re:(?s).*\n<me>\n.*"),
    ("ask", "sleep 1.5; echo late", 0, "re:(?s).*\nlate\n.*"),
    ("ask", "exit", 0, "re:(?s).*"),
    ("run --resume", None, 0, "re:(?s).*"),
]

TALKS = {"npm": NPM, "tmux": MULTIPLEXER, "screen": MULTIPLEXER}


class Sessions:
    def __init__(self, nbs, home):
        self.nbs = nbs
        self.environment = {**os.environ, "NBS_TS_HOME": home, "HOME": home, "LC_ALL": "C.UTF-8"}
        self.environment.pop("NBS_TS_SESSION", None)

    def call(self, *words):
        return subprocess.run([self.nbs, "ts", *words], capture_output=True, text=True, env=self.environment)

    def start(self, *words):
        return subprocess.Popen(
            [self.nbs, "ts", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )

    def ask(self, handle, text, starts=None):
        if not text.startswith("C-c "):
            return self.call("ask", "--timeout=20", handle, text)
        asking = self.start("ask", "--timeout=30", handle, text.removeprefix("C-c "))
        # It has begun when the program does not wait any more, and what it starts has the foreground.
        while asking.poll() is None and not self.runs(handle, starts):
            time.sleep(0.05)
        self.call("wait", "--idle=400ms", handle)
        self.call("key", handle, "C-c")
        out, err = asking.communicate()
        return subprocess.CompletedProcess(asking.args, asking.returncode, out, err)

    def runs(self, handle, program):
        """Does the session run something: this, if it is known?"""
        status = json.loads(self.call("status", "--json", handle).stdout)
        return status["input"]["state"] == "no" and program in (None, status["program"])


# These start another program to sleep.
SLEEPERS = {"shell": "sleep", "fish": "sleep", "gdb": "sleep"}


def is_right(expected, printed):
    if expected.startswith("re:"):
        return re.fullmatch(expected.removeprefix("re:"), printed) is not None
    return printed == expected


def talk(sessions, name, command):
    """In a shell of its own."""
    made = sessions.call("create", "--no-helper", "--env=TERM=xterm-256color", "bash --norc")
    handle = made.stdout.strip()
    wrong = []
    for words, text, code, expected in TALKS[name]:
        text = command if words.startswith("run") and not words.endswith("--resume") else text
        timeout = ["--timeout=60"] if words.split()[0] in ("run", "ask") else []
        ran = sessions.call(*words.split(), *timeout, handle, *([] if text is None else [text]))
        if ran.returncode != code or not is_right(expected, ran.stdout):
            shown = f"exit {ran.returncode}, not {code}; not {expected!r} but {ran.stdout!r} {ran.stderr}"
            wrong.append(f"{name}: {words} {text!r}: {shown}")
    sessions.call("kill", handle)
    return wrong


def table(sessions, name, command):
    made = sessions.call("create", "--no-helper", "--env=TERM=xterm-256color", command)
    handle = made.stdout.strip()
    if made.returncode:
        return [f"{name}: not started: {made.stderr}"]
    wrong = []
    ready = sessions.call("wait", handle, "--input", "--timeout=60")
    if ready.returncode:
        wrong.append(f"{name}: {ready.stderr}")
    for text, expected in ROWS[name.split(":")[0]] if not wrong else []:
        ran = sessions.ask(handle, text, SLEEPERS.get(name.split(":")[0]))
        # A line that a shell does not execute, or that a question stands in, has its answer, too.
        if ran.returncode or not is_right(expected, ran.stdout):
            shown = ran.stdout if len(ran.stdout) < 600 else ran.stdout[:300] + "..." + ran.stdout[-300:]
            wrong.append(f"{name}: {text!r}: exit {ran.returncode}, not {expected[:300]!r} but {shown!r} {ran.stderr}")
    sessions.call("kill", handle)
    return wrong


def main():
    nbs, *programs = sys.argv[1:]
    home = tempfile.mkdtemp()
    sessions = Sessions(os.path.abspath(nbs), home)
    wrong = []
    try:
        for program in programs:
            name, _, command = program.partition("=")
            found = (talk if name in TALKS else table)(sessions, name, command)
            print(f"{name}: {'WRONG' if found else 'as it should be'}", flush=True)
            wrong += found
    finally:
        sessions.call("kill", "--all")
        shutil.rmtree(home)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))


main()
