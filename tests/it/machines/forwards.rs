//! `forward`: ports and sockets there, here, and the reverse.

use super::{exec::noise, *};
use crate::{support::PATIENCE, workers::tree};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    thread,
};

/// Answers each connection, when its input has ended, with all of it. Ends with the test.
fn answer(mut stream: impl Read + Write) {
    let mut all = Vec::new();
    if stream.read_to_end(&mut all).is_ok() {
        // A client that has gone needs no answer.
        let _ = stream.write_all(&all);
    }
}

fn serve_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer(stream));
        }
    });
    port
}

fn serve_path(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer(stream));
        }
    });
}

/// A call of `forward` and the lines that it prints.
struct Forward {
    call: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Forward {
    fn start(there: &Elsewhere, words: &[&str]) -> Forward {
        let mut command = there.scratch.command(links().join("nbs-ts"));
        let mut call = command.arg("forward").args(words).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(call.stdout.take().unwrap());
        Forward { call, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// The port that it listens on.
    fn port(&mut self) -> u16 {
        let line = self.line();
        let (listens, _) = line.split_once(" -> ").unwrap_or_else(|| panic!("{line}"));
        listens.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    fn end(mut self) {
        signal("TERM", &[self.call.id().to_string()]);
        self.call.wait().unwrap();
    }
}

fn ask(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = Vec::new();
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        scope.spawn(move || {
            // The answer shows what was sent.
            let _ = writer.write_all(bytes);
            let _ = writer.shutdown(Shutdown::Write);
        });
        let _ = stream.read_to_end(&mut got);
    });
    got
}

#[test]
fn a_port_there_is_reached_here_and_the_reverse_by_several_at_once() {
    let there = Elsewhere::new();
    let server = serve_port();
    let forward = format!("0:127.0.0.1:{server}");
    let bytes = noise(1_000_000);
    for words in [&["box", &forward][..], &["--reverse", "box", &forward]] {
        let mut forward = Forward::start(&there, words);
        let port = forward.port();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert!(ask(port, &bytes) == bytes));
            }
        });
        assert!(ask(port, b"").is_empty());
        forward.end();
        eventually("its end", || TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn sockets_by_path_are_forwarded_and_no_file_is_left() {
    let there = Elsewhere::new();
    serve_path(&there.home.join("s"));
    serve_path(&there.scratch.path.join("h"));
    for (words, socket) in [
        (&["box", "./here:./s"][..], there.scratch.path.join("here")),
        (&["--reverse", "box", "./there:./h"], there.home.join("there")),
    ] {
        let mut forward = Forward::start(&there, words);
        forward.line();
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert_eq!(got, "hello");
        forward.end();
        eventually("no file", || !socket.exists());
    }
    assert_eq!(fetching_sockets(&there), <[PathBuf; 0]>::default());
}

/// The sockets by which accepted connections are fetched there.
fn fetching_sockets(there: &Elsewhere) -> Vec<PathBuf> {
    let files = tree(&there.home.join(".nbs-ts/far")).into_iter();
    files.filter(|file| file.file_name().unwrap().as_bytes().starts_with(b"listen-")).collect()
}

#[test]
fn a_silent_fetcher_of_a_connection_does_not_hold_up_others() {
    let there = Elsewhere::new();
    let server = serve_port();
    let mut forward = Forward::start(&there, &["--reverse", "box", &format!("0:127.0.0.1:{server}")]);
    let port = forward.port();
    let [socket] = &fetching_sockets(&there)[..] else { panic!("no socket") };
    let silent = UnixStream::connect(socket).unwrap();
    assert_eq!(ask(port, b"hello"), b"hello");
    drop(silent);
    forward.end();
}

/// A port whose packets are swallowed: its queue of connections is full.
fn swallow(scratch: &Scratch) -> (Child, u16) {
    let script = "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(0)
waiting = [socket.socket() for _ in range(8)]
for one in waiting: one.setblocking(False); one.connect_ex(s.getsockname())
print(s.getsockname()[1], flush=True); sys.stdin.read()";
    let mut command = scratch.command("python3");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (python, line.trim_end().parse().unwrap())
}

#[test]
fn a_target_here_that_does_not_answer_holds_up_no_other() {
    let there = Elsewhere::new();
    let (mut python, silent) = swallow(&there.scratch);
    let forwards = [silent, serve_port()].map(|port| format!("0:127.0.0.1:{port}"));
    let mut forward = Forward::start(&there, &["--reverse", "box", &forwards[0], &forwards[1]]);
    let lines = [forward.line(), forward.line()];
    let port = |is_silent: bool| -> u16 {
        let line = lines.iter().find(|line| line.ends_with(&format!(":{silent}\n")) == is_silent).unwrap();
        line.split_once(" -> ").unwrap().0.rsplit_once(':').unwrap().1.parse().unwrap()
    };
    // On a slow machine, the first may be given up meanwhile.
    assert!((0..3).any(|_| {
        let mut waits = TcpStream::connect(("127.0.0.1", port(true))).unwrap();
        assert_eq!(ask(port(false), b"hello"), b"hello");
        waits.set_nonblocking(true).unwrap();
        waits.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }));
    forward.end();
    drop(python.stdin.take());
    python.wait().unwrap();
}

#[test]
fn an_impossible_forward_is_an_error() {
    let there = Elsewhere::new();
    let taken = serve_port();
    let word = taken.to_string();
    there.ts(&["forward", "box", &word]).code(1).complains("(os error 98)");
    there.ts(&["forward", "--reverse", "box", &word]).code(1).complains("box: cannot listen on 127.0.0.1:");
    there.ts(&["forward", "box", "80:81"]).code(4).complains("'80:81' is not [BIND:]PORT[:HOST:PORT]");
    there.ts(&["forward", "box"]).code(4).complains("missing FORWARD");
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    there.ts(&["forward", "gone", "0:localhost:1"]).code(255).complains("gone: nothing was done");
    // Nobody listens behind it: the connection ends, and the forward stays.
    for words in [&["box", "0:./nobody"][..], &["--reverse", "box", "0:./nobody"]] {
        let mut forward = Forward::start(&there, words);
        let port = forward.port();
        for _ in 0..2 {
            assert!(ask(port, b"hello").is_empty());
        }
        forward.end();
    }
}

#[test]
fn a_forwarded_connection_goes_on_over_a_lost_one() {
    let there = Elsewhere::unadded();
    there.add_line();
    let server = serve_port();
    let mut forward = Forward::start(&there, &["box", &format!("0:127.0.0.1:{server}")]);
    let port = forward.port();
    let bytes = noise(8_000_000);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for piece in bytes.chunks(1_000_000) {
        stream.write_all(piece).unwrap();
        if let Some(pid) = there.transport().first() {
            let _ = run(Command::new("kill").args(["-9", pid]));
        }
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    forward.end();
}

#[test]
fn a_list_has_the_ports_that_a_session_listens_on() {
    let there = Elsewhere::new();
    let script = "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); \
        print('port', s.getsockname()[1], 'end', flush=True); sys.stdin.read()";
    let session = there.create("bash");
    there.ts(&["send", &session, &format!("setsid python3 -c \"{script}\" & sleep 1000")]).code(0);
    there.ts(&["wait", &session, "--pattern= end"]).code(0);
    let printed = there.ts(&["read", &session]).out();
    let port =
        printed.split("port ").find_map(|rest| rest.split_once(" end")?.0.parse::<u16>().ok()).unwrap();
    let list = ["list", "--on=box", "--long", "--json"];
    there.ts(&list).code(0).stdout_has(&format!("\"listens\":[{port}]"));
    there.ts(&["key", &session, "C-c"]).code(0);
    there.create("cat");
    there.ts(&list).code(0).stdout_has("\"listens\":[]");
}
