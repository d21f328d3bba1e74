use std::{
    fs::{self, File},
    io::Write,
    time::{Duration, Instant},
};

use rustix::io::ioctl_fionread;

use crate::support::{PATIENCE, Scratch, eventually, eventually_within, most_memory, signal};

/// Sends all queries at once, and prints its input up to the answer to DSR 5.
const ASK: &str = r"
import os, sys, tty, termios
old = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, eval(sys.argv[1]) + b'\x1b[5n')
answer = b''
while not answer.endswith(b'\x1b[0n'):
    answer += os.read(0, 1000)
termios.tcsetattr(0, termios.TCSADRAIN, old)
print('\r\n' + ascii(answer[:-4])[2:-1])
";

fn ask(scratch: &Scratch, options: &[&str], question: &str) -> String {
    fs::write(scratch.path.join("ask.py"), ASK).unwrap();
    fs::write(scratch.path.join("question"), format!("b'{question}'")).unwrap();
    let handle = scratch.create_with(options, "python3 ask.py \"$(cat question)\"");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    scratch.ts(&["read", "--strip", "--last=1", &handle]).code(0).out().trim_end().to_owned()
}

#[test]
fn queries_are_answered_once_and_in_order() {
    let scratch = Scratch::new();
    for (question, answer) in [
        (r"\x1b[c\x1b[>c\x1b[=c", r"\x1b[?64;6;21;22;28c\x1b[>41;379;0c\x1bP!|00000000\x1b\\"),
        (r"\x1b[6nabc\x1b[6n\x1b[c\x1b[?6n", r"\x1b[1;1R\x1b[1;4R\x1b[?64;6;21;22;28c\x1b[?1;4;1R"),
        (r"\x1b[7;9H\x1b[6n\x1b[99;999H\x1b[6n", r"\x1b[7;9R\x1b[20;70R"),
        (r"\x1b[5;10r\x1b[?6h\x1b[2;3H\x1b[6n\x1b[?6l", r"\x1b[2;3R"),
        (r"\x1b]11;?\x07\x1b[18t", r"\x1b]11;rgb:1010/1010/1010\x07\x1b[8;20;70t"),
        (r"\x1b[?2004$p\x1b[?2004h\x1b[?2004$p\x1b[4$p", r"\x1b[?2004;2$y\x1b[?2004;1$y\x1b[4;2$y"),
        // Settings are reported, and the contents of the screen.
        (
            r"\x1b]11;#123\x07\x1b]11;?\x07\x1b[1;31m\x1bP$qm\x1b\\",
            r"\x1b]11;rgb:1010/2020/3030\x07\x1bP1$r0;1;31m\x1b\\",
        ),
        (r"A\x1b[1;1;1;1;1;1*y\x1b[2;1;1;1;1;9*y", r"\x1bP1!~FFBF\x1b\\\x1bP2!~FFBF\x1b\\"),
        (r"\x1b[?u\x1b[>5u\x1b[?u\x1b[<u\x1b[?u", r"\x1b[?0u\x1b[?5u\x1b[?0u"),
        (r"ab\x1b[1$w\x1b[2$w", r"\x1bP1$u1;3;1;@;@;@;0;2;@;BBBB\x1b\\\x1bP2$u9/17/25/33/41/49/57/65\x1b\\"),
        // S8C1T, S7C1T, and DECSCL, which resets to 7 bits, or 8.
        (
            r"\x1b G\x1b[6n\x1b]11;?\x1b\\\x1b[18t\x1b F\x1b[6n\x1b[62\x22p\x1b[6n\x1b[64;1\x22p\x1b[6n",
            r"\x9b1;1R\x9d11;rgb:1010/1010/1010\x9c\x9b8;20;70t\x1b[1;1R\x9b1;1R\x1b[1;1R",
        ),
        // As a terminal without such a window or clipboard.
        (r"\x1b[14t\x1b]52;c;?\x07", ""),
    ] {
        assert_eq!(ask(&scratch, &["--size=70x20"], question), answer, "{question}");
    }
}

#[test]
fn size_reports_come_at_once_and_on_each_change() {
    let scratch = Scratch::new();
    let program = r#"import os, tty
tty.setraw(0)
os.write(1, b"\x1b[?2048h")
told = b""
while told.count(b"t") < 2:
    told += os.read(0, 1000)
    os.write(1, b"told" + repr(told).encode())
"#;
    fs::write(scratch.path.join("ask.py"), program).unwrap();
    let handle = scratch.create_with(&["--size=70x20"], "python3 ask.py");
    scratch.ts(&["wait-pattern", &handle, "told"]).code(0);
    scratch.ts(&["resize", &handle, "90x30"]).code(0);
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let told = r"\x1b[48;20;70;0;0t\x1b[48;30;90;0;0t";
    scratch.ts(&["read", "--strip", &handle]).stdout_has(told);
}

/// Twice as much as the kernel's queue holds, and more than one read.
#[test]
fn six_hundred_questions_at_once_are_answered_in_order() {
    let scratch = Scratch::new();
    let program = r#"import os, sys, termios, tty
tty.setraw(0)
os.write(1, b"".join(b"\x1b[%d;%dH\x1b[6n\x1b[c" % (1 + n // 60, 1 + n % 60) for n in range(600)))
wanted = b"".join(b"\x1b[%d;%dR\x1b[?64;6;21;22;28c" % (1 + n // 60, 1 + n % 60) for n in range(600))
told = b""
while len(told) < len(wanted):
    told += os.read(0, 65536)
print("told all" if told == wanted else repr(told))
"#;
    fs::write(scratch.path.join("ask.py"), program).unwrap();
    let handle = scratch.create("python3 ask.py");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    scratch.ts(&["read", "--strip", "--last=1", &handle]).stdout_has("told all");
}

#[test]
fn the_cursor_is_where_it_is_after_a_long_log_and_another_size() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("ask.py"), ASK).unwrap();
    let handle =
        scratch.create("stty -echo; seq 100000; stty cols 40 rows 10; python3 ask.py \"b'ab\\x1b[6n'\"");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    scratch.ts(&["read", "--strip", "--last=1", &handle]).stdout("\\x1b[10;3R\n");
    // The size that the program set is stored with its offset. stty sets its sides one after the other.
    let sizes = scratch.file(&handle, "sizes");
    assert_eq!(sizes.lines().next(), Some("0 80 24"));
    assert!(sizes.lines().last().unwrap().ends_with(" 40 10"), "{sizes}");
}

#[test]
fn the_screen_of_a_long_log_is_kept_before_anybody_looks() {
    let scratch = Scratch::new();
    let handle =
        scratch.create("yes 'a long line, of which there are very many' | head -c 70000000; sleep 1000");
    let kept = scratch.folder(&handle).join("screen");
    // This much takes seconds to print and read on an idle machine.
    eventually_within(10 * PATIENCE, "the screen being kept", || kept.exists());
    scratch.ts(&["screen", &handle]).code(0).stdout_has("a long line");
}

#[test]
fn a_program_that_queries_and_never_reads_blocks_no_call() {
    let scratch = Scratch::new();
    let flood = "stty raw -echo; python3 -c 'import os\nfor n in range(4000): os.write(1, b\"\\x1b[c\\x1b[6n\" * 50)\n'";
    let handle = scratch.create(&format!("{flood}; stty sane; echo; echo over"));
    let relay = scratch.file(&handle, "daemon_pid");
    let mut highest = 0;
    while scratch.ts(&["status", &handle]).out().starts_with("alive") {
        highest = highest.max(most_memory(&relay).unwrap_or_default());
    }
    assert!(highest < 8192, "{highest} KiB");
    // A program that reads lines then sees the replies, as on any terminal.
    scratch.ts(&["read", "--last=3", &handle]).code(0).stdout_has("over\r\n");
    eventually("no process being left", || scratch.processes().is_empty());
}

#[test]
fn a_question_in_a_file_disturbs_no_command() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("file"), "\x1b[c\x1b[6n\x1b[5n\n").unwrap();
    let handle = scratch.create("bash");
    // The replies are keys for the next reader: for vi's, commands.
    for keys in ["emacs", "vi"] {
        scratch.ts(&["run", &handle, &format!("set -o {keys}")]).code(0);
        for _ in 0..3 {
            scratch.ts(&["run", &handle, "cat file >/dev/tty"]).code(0);
            scratch.ts(&["run", &handle, "echo well; false"]).code(1).stdout("well\n");
        }
    }
    // The replies do not count as input.
    let python = scratch.create("python3 -q");
    scratch.ts(&["ask", &python, "print('\\x1b[6n', end='') or 6 * 7"]).code(0).stdout_has("42");
}

#[test]
fn an_answer_that_makes_readline_search_keeps_no_command_away() {
    const ASK: &str = r"
import os, termios, tty
modes = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b'\x1b[c')
assert os.read(0, 2) == b'\x1b['
termios.tcsetattr(0, termios.TCSADRAIN, modes)
";
    let scratch = Scratch::new();
    fs::write(scratch.path.join("ask.py"), ASK).unwrap();
    let handle = scratch.create("bash");
    // The rest of the answer begins with that.
    scratch.ts(&["run", &handle, "bind '\"?\": non-incremental-reverse-search-history'"]).code(0);
    for _ in 0..2 {
        scratch.ts(&["run", &handle, "python3 ask.py"]).code(0).stdout("\x1b[c");
        scratch.ts(&["run", &handle, "echo well; false"]).code(1).stdout("well\n");
    }
}

/// Queries the cursor's position, twice, the second time after something was typed; and prints its input up
/// to the named end, after which it waits for any input.
const ASK_TWICE: &str = r"
import os, sys, tty
def ask(end):
    os.write(1, b'\x1b[6n')
    answer = b''
    while not answer.endswith(end):
        answer += os.read(0, 1)
    return answer
tty.setraw(0)
ask(b'R')
print('well', flush=True)
os.read(0, 1)
print(ascii(ask(sys.argv[1].encode())))
sys.argv[2:] and os.read(0, 1)
";

#[test]
fn a_program_waiting_for_a_reply_of_the_terminal_does_not_wait_for_input() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("ask.py"), ASK_TWICE).unwrap();
    let handle = scratch.create("exec python3 ask.py R more");
    let screen = screen_process(&scratch, &handle);
    let signal = |name: &str| signal(name, &screen);
    signal("-STOP");
    scratch.ts(&["send", "--no-enter", &handle, "."]).code(0);
    printed(&scratch, &handle, "\x1b[6n", 2);
    scratch.ts(&["wait", &handle, "--input", "--timeout=0.3"]).code(3);
    signal("-CONT");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    printed(&scratch, &handle, "[2;5R'", 1);
}

#[test]
fn text_typed_after_a_query_follows_the_reply() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("ask.py"), ASK_TWICE).unwrap();
    // Typed text does not wait for ever, so all must reach it in time.
    eventually("an answer in time", || {
        let (waited, answer) = answer_after_input(&scratch);
        let right = answer.contains("[2;5R.'");
        assert!(right || waited > Duration::from_secs(1), "{waited:?}: {answer}");
        right
    });
}

#[test]
fn a_secret_comes_after_the_text_that_waits_for_an_answer() {
    let scratch = Scratch::new();
    let command = "stty -echo; printf '\\e[6n'; read -rsd R x; printf well; read -r go; printf '\\e[6n'; \
                   read -r a; read -r b; printf '%s %s' \"${a##*R}\" \"$b\" > got; sleep 1000";
    let handle = scratch.create(command);
    let mut fifo = scratch.fifo(&handle);
    let screen = screen_process(&scratch, &handle);
    let signal = |name: &str| signal(name, &screen);
    signal("-STOP");
    fifo.write_all(b"go\n").unwrap();
    printed(&scratch, &handle, "\x1b[6n", 2);
    // The relay has this before any call can ask it to type a secret, and no program has read it.
    fifo.write_all(b"ahead\n").unwrap();
    eventually("the input being taken", || ioctl_fionread(&fifo).unwrap() == 0);
    scratch.ts_with_input(&["send", "--secret-stdin", "--timeout=60", &handle], b"hidden").code(0);
    signal("-CONT");
    let got = || fs::read_to_string(scratch.path.join("got")).unwrap_or_default();
    eventually("what was read", || !got().is_empty());
    assert_eq!(got(), "ahead hidden");
}

/// How long typed text had to wait for an answer, and the result of the two.
fn answer_after_input(scratch: &Scratch) -> (Duration, String) {
    let handle = scratch.create("exec python3 ask.py .");
    let mut fifo = scratch.fifo(&handle);
    let screen = screen_process(scratch, &handle);
    let signal = |name: &str| signal(name, &screen);

    signal("-STOP");
    fifo.write_all(b".").unwrap();
    printed(scratch, &handle, "\x1b[6n", 2);
    let begun = Instant::now();
    fifo.write_all(b".").unwrap();
    let is_taken = |fifo: &File| ioctl_fionread(fifo).unwrap() == 0;
    eventually("the input being taken", || is_taken(&fifo));
    signal("-CONT");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let waited = begun.elapsed();
    (waited, scratch.ts(&["read", "--strip", "--last=1", &handle]).code(0).out())
}

fn printed(scratch: &Scratch, handle: &str, text: &str, times: usize) {
    eventually(text, || scratch.file(handle, "output.log").matches(text).count() == times);
}

/// The process that has found the cursor once for that program.
fn screen_process(scratch: &Scratch, handle: &str) -> String {
    let relay = scratch.file(handle, "daemon_pid");
    printed(scratch, handle, "well", 1);
    let children = || fs::read_to_string(format!("/proc/{relay}/task/{relay}/children")).unwrap();
    let is_screen = |pid: &str| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|words| words.starts_with("nbs-screen\0"))
    };
    let mut screen = None;
    eventually("somebody to find the cursor", || {
        screen = children().split_whitespace().find(|pid| is_screen(pid)).map(str::to_owned);
        screen.is_some()
    });
    screen.unwrap()
}
