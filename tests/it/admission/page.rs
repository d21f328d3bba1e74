//! The peers that `nbs-page` serves, by whatever address or process they come.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, UdpSocket},
};

use super::*;
use crate::hostile::is_root;

/// Types a command by each way to the page, with the token that a process outside has left for it. `child`:
/// the request is sent by a child, when its parent, which has connected, has ended. `hidden`: by a process
/// that only root may inspect.
const TYPE_BY_PAGE: &str = r#"
import ctypes
host, port, state, handle, text, file, how = sys.argv[1:]
try:
    token = open(state + '/page.token').read().strip()
except PermissionError:
    token = open(os.path.dirname(file) + '/page.token').read().strip()
if how == 'hidden':
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)
s.settimeout(PATIENCE)
s.connect((host, int(port)))
if how == 'child' and os.fork():
    os._exit(0)
at = 'localhost:' + port
def ask():
    s.sendall(('POST /sessions/%s/line HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nConnection: close\r\n'
        'Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s' % (handle, at, at, token, len(text), text)).encode())
if how == 'queued':
    # Whoever looks at our descriptors finds no connection.
    queue = socket.socketpair()
    ask()
    socket.send_fds(queue[0], [b'x'], [s.fileno()])
    s.close()
    os.mkfifo(file + '.go')
    report(file + '.queued', '')
    open(file + '.go').close()
    s = socket.socket(fileno=socket.recv_fds(queue[1], 1, 1)[1][0])
    s.settimeout(PATIENCE)
else:
    ask()
report(file, answer(s).decode().split('\r\n')[0])
"#;

/// An address of this machine other than the loopback, if it has one.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then(|| address.to_string())
}

#[test]
fn a_confined_session_types_nothing_by_the_page_whose_token_it_has() {
    let (scratch, victim) = Scratch::with_session("cat");
    let Some(jail) = Jail::new(&scratch) else { return };
    let has_version_6 = TcpListener::bind("[::1]:0").is_ok();
    let listen = if has_version_6 { "--listen=[::]:0" } else { "--listen=0.0.0.0:0" };
    let page = Page::start_with(&scratch, &[listen]);
    // It has an event of an open page.
    let mut open = page.open("");
    open.until(|event| event["handle"] == victim.as_str());
    fs::copy(scratch.state().join("page.token"), jail.root.join("page.token")).unwrap();
    let mut hosts = vec!["127.0.0.1".to_owned(), "127.9.9.9".into()];
    hosts.extend(own_address());
    if has_version_6 {
        hosts.extend(["::1".into(), "::ffff:127.0.0.1".into()]);
    }
    let (state, port) = (scratch.state().display().to_string(), page.port().to_string());
    let words = |host: &str, text: &str, file: &str, how: &str| {
        [host, &port, &state, &victim, text, file, how].map(str::to_owned)
    };
    for host in &hosts {
        for how in ["itself", "child", "hidden"] {
            let words = words(host, "from-the-jail", &jail.file("said"), how);
            jail.python(TYPE_BY_PAGE, &words.each_ref().map(String::as_str));
            assert_eq!(jail.reports("said"), "HTTP/1.1 403 Forbidden", "{host} {how}");
        }
        // An unconfined process does type, in the same way.
        for how in ["itself", "child"] {
            let file = scratch.path.join("said").display().to_string();
            let script = format!("{PYTHON}{TYPE_BY_PAGE}");
            let words = words(host, "from-outside", &file, how);
            run(Command::new("python3").arg("-c").arg(script).args(words)).code(0);
            eventually("the answer of the page", || Path::new(&file).exists());
            assert_eq!(fs::read_to_string(&file).unwrap(), "HTTP/1.1 204 No Content", "{host} {how}");
            fs::remove_file(&file).unwrap();
        }
    }
    // The page finds no process with the connection.
    stop(&page.pid());
    let said = jail.file("said");
    let queued = words("127.0.0.1", "from-the-jail", &said, "queued");
    let file = jail.root.join("queued.py");
    fs::write(&file, format!("{PYTHON}{TYPE_BY_PAGE}")).unwrap();
    scratch.ts(&["send", &jail.handle, &format!("python3 {} {}", file.display(), queued.join(" "))]).code(0);
    jail.reports("said.queued");
    signal("-CONT", &page.pid());
    // A later client is served later.
    drop(page.open(""));
    fs::write(format!("{said}.go"), "").unwrap();
    assert_eq!(jail.reports("said"), "HTTP/1.1 403 Forbidden");
    assert!(!scratch.ts(&["read", &victim]).code(0).out().contains("from-the-jail"));
}

/// Asks for the page as a process that its own user may not inspect, as the sshd of an `ssh -L` is; or, as
/// `seen`, as one that the user may.
const ASK_HIDDEN: &str = r#"
import ctypes
port, how = sys.argv[1:]
if how == 'hidden':
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
s = socket.create_connection(('127.0.0.1', int(port)), PATIENCE)
s.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
said = answer(s).decode()
print(said.split('\r\n')[0] if ' 200 ' in said else said)
"#;

#[test]
fn the_page_serves_a_process_that_nobody_may_look_into_unless_it_may_be_confined() {
    let scratch = Scratch::new();
    // As a user other than root, which may inspect any process; and one of whom no other test confines processes.
    const USER: u32 = 61_234;
    let user = is_root().then_some(USER);
    let home = scratch.path.join("user");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, user, user).unwrap();
    let program = home.join("nbs-page");
    copy_of_binary(&program);
    let as_user = |program: &Path| {
        let mut command = scratch.command("setpriv");
        command.env("NBS_TS_HOME", home.join("state")).env("HOME", &home).current_dir(&home);
        if user.is_some() {
            command.args([format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".into()]);
        }
        // Options of its own, of which one must be there.
        command.args(["--inh-caps=-all", "--"]).arg(program);
        command
    };
    let page = Page::of(as_user(&program));
    let python = Path::new("/usr/bin/python3");
    let script = format!("{PYTHON}{ASK_HIDDEN}");
    let port = page.port().to_string();
    let ask = |how: &str| run(as_user(python).args(["-c", &script, &port, how])).code(0).out();
    let ask_confined = |how: &str| {
        let mut command = as_user(Path::new("prlimit"));
        command.args(["--locks=1000:1000", "setpriv", "--no-new-privs"]).arg(python);
        run(command.args(["-c", &script, &port, how])).code(0).out()
    };
    for _ in 0..3 {
        assert_eq!(ask("seen"), "HTTP/1.1 200 OK\n");
        // It takes a look at all processes during which none starts or ends.
        eventually("the page", || ask("hidden") == "HTTP/1.1 200 OK\n");
        assert!(ask_confined("hidden").starts_with("HTTP/1.1 403 "));
    }
    assert!(ask_confined("seen").starts_with("HTTP/1.1 403 "));
    // While any process is confined, it could be that one.
    let mut confined = as_user(Path::new("prlimit"));
    confined.args(["--locks=1000:1000", "setpriv", "--no-new-privs", "sh", "-c", "echo; exec sleep 1000"]);
    let mut confined = confined.stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(confined.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert!(ask("hidden").contains("it is unknown whether"));
    assert_eq!(ask("seen"), "HTTP/1.1 200 OK\n");
    confined.kill().unwrap();
    confined.wait().unwrap();
    eventually("the page", || ask("hidden") == "HTTP/1.1 200 OK\n");
}
