//! Clients of their own: the base protocol and the extended one.

use super::*;

#[test]
fn an_independent_client_gets_a_working_terminal_by_the_base_protocol() {
    let (scratch, helper) = Scratch::with_helper();
    let said = scratch.python(
        r#"
master, pid, rest = base(b'stty size; echo leader:$(ps -o sid= -p $$); tty; read x; echo got:$x; exit 5')
assert rest == b'', rest
out = b''
while b'/dev/pts/' not in out: out += drain_some(master)
os.write(master, b'hello\r')
out += drain(master)
print(pid, out)
lines = out.decode().split('\r\n')
assert lines[0] == '24 80', lines
assert lines[1].replace(' ', '') == 'leader:%d' % pid, lines
assert lines[2].startswith('/dev/pts/'), lines
assert 'got:hello' in lines, lines
"#,
    );
    let pid = said.split(' ').next().unwrap();
    helper.log_has(&format!("child exited: pid {pid} exit_code=5"));
    let log = helper.log();
    let spawn = log.lines().find(|line| line.contains("spawn:")).unwrap();
    assert!(spawn.contains(&format!("exit 5\" -> pid {pid} (peer_pid=")), "{spawn}");
    for line in log.lines() {
        let stamp = &line.as_bytes()[..23];
        let pattern = b"[dddd-dd-ddTdd:dd:ddZ] ";
        let fits = stamp.iter().zip(pattern).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        });
        assert!(fits, "{line}");
    }
    helper.stop();
}

#[test]
fn a_command_that_begins_like_an_option_is_a_command() {
    let (scratch, _helper) = Scratch::with_helper();
    scratch.python(
        r#"
for command in [b'-v; echo said', b'+v; echo said']:
    out = drain(base(command)[0])
    assert b'command not found' in out and out.endswith(b'said\r\n'), out
"#,
    );
}

#[test]
fn a_foreign_master_waits_in_reads_and_an_unwanted_child_is_hung_up() {
    let (scratch, helper) = Scratch::with_helper();
    let said = scratch.python(
        r#"
import fcntl
master, pid, rest = base(b'echo up; exec sleep 300')
assert drain_some(master)
assert not fcntl.fcntl(master, fcntl.F_GETFL) & os.O_NONBLOCK
os.close(master)
print(pid)
for _ in range(5):
    master, pid, rest = base(b'exec sleep 300')
    os.close(master)
    print(pid)
"#,
    );
    for pid in said.lines() {
        helper.log_has(&format!("child killed: pid {pid} signal=1 (SIGHUP)"));
    }
}

#[test]
fn an_independent_client_can_speak_the_extended_protocol() {
    let (scratch, helper) = Scratch::with_helper();
    scratch.python(
        r#"
import struct
def field(tag, content): return tag + struct.pack('>I', len(content)) + content
def ask(order, version=1, kind=b'S'):
    s = connect()
    s.sendall(b'\0' + bytes([version]) + kind + b'0123abcd' + struct.pack('>I', len(order)) + order)
    return s
def order(folder, *words):
    return (field(b'd', folder) + field(b's', b'100x30') + field(b'u', b'77') + field(b'c', b'label')
        + field(b'+', b'ADDED=a=b') + field(b'-', b'REMOVED') + b''.join(field(b'w', w) for w in words))

s = ask(order(b'/usr', b'bash', b'-c', b'stty size; pwd; umask; echo $ADDED,${REMOVED-gone}; kill -9 $$'))
kind, fds, _, _ = socket.recv_fds(s, 1, 4)
assert kind == b'F' and len(fds) == 2, (kind, fds)
word, child, keeper = s.makefile('rb', 0).readline().split()
assert word == b'ready'
parent = int(open('/proc/%d/stat' % int(child)).read().rsplit(')', 1)[1].split()[1])
assert parent == int(keeper), (parent, keeper)
os.write(fds[1], b'+')
out = b''
while b',gone' not in out: out += drain_some(fds[0])
assert out.decode().split('\r\n')[:4] == ['30 100', '/usr', '0077', 'a=b,gone'], out
assert s.recv(100) == b'signal 9\n'
assert s.recv(100) == b''

s = ask(order(b'/no/such/folder', b'bash', b'-c', b'true'))
answer = read_all(s)
assert answer.startswith(b'E') and b'/no/such/folder' in answer, answer
answer = read_all(ask(b'rubbish'))
assert answer.startswith(b'E'), answer
answer = read_all(ask(b'', kind=b'V'))
assert answer.startswith(b'V0.') or answer.startswith(b'V1.'), answer
assert read_all(ask(b'', version=7)).startswith(b'V'), answer

# A gate that nobody opens: the child ends without having begun.
s = ask(order(b'/', b'bash', b'-c', b'touch /tmp/never-$$'))
kind, fds, _, _ = socket.recv_fds(s, 1, 4)
child = s.makefile('rb', 0).readline().split()[1]
os.close(fds[1])
assert s.recv(100) == b'code 0\n'
assert not os.path.exists('/tmp/never-%s' % child.decode())
"#,
    );
    helper.log_has("reject: cannot start in '/no/such/folder'");
    helper.log_has("reject: it uses version 7 of the protocol, not 1");
    helper.log_has("spawn: \"label\" -> pid ");
}
