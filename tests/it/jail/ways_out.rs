//! Ways out of a jail.

use std::{
    fs,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, chown},
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    process::Command,
};

use super::{PYTHON, Places, landlock};
use crate::{
    confined::can_confine,
    support::{Scratch, binary, copy_of_binary, eventually, run, start},
};

/// Works from a session without a jail; so the table really tries its actions.
const WORK_OUTSIDE: &str = r#"["read OUT/key", "list OUT", "execute OUT/program", "reopen_a_path_descriptor",
    "open_below_a_path_descriptor", "read_through_a_link", "read_through_a_hard_link", "move_it_in", "exchange_it",
    "execute_a_path_descriptor", "have_the_loader_read_it", "have_a_program_in_memory_read_it", "enter_it_and_read", "truncate", "remove", "make a folder",
    "move_mine_out", "link_mine_out", "read /proc/VICTIM/environ", "read /proc/VICTIM/rootOUT/key", "TCP", "UDP",
    "netlink 0", "listen", "a pair that sends", "a pair that sends a message", "an abstract socket",
    "the socket OUT/docker.sock", "receive_a_descriptor", "plan HOME/.config/autostart/.nbs-way-out", "compare", "another's descriptor", "memory process_vm_readv"]"#;

/// Passes its standard input to all that connect.
const GIVER: &str = r#"
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + ".new")
listener.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    peer, _ = listener.accept()
    socket.send_fds(peer, [b"x"], [0])
"#;

/// Does a process that crashes here leave a core where it is?
fn leaves_cores() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    rustix::process::getrlimit(rustix::process::Resource::Core).maximum != Some(0)
        && !pattern.starts_with(['|', '@', '/'])
}

#[test]
fn no_way_leads_out_of_a_jail() {
    let places = Places::new();
    let scratch = &places.scratch;
    let (inside, outside) = (&places.inside, &places.outside);
    fs::copy("/bin/true", outside.join("program")).unwrap();
    fs::create_dir_all(scratch.home().join(".ssh")).unwrap();
    fs::write(scratch.home().join(".ssh/id"), "key").unwrap();
    scratch.create("cat");
    fs::write(scratch.state().join("page.token"), "token").unwrap();
    let network = TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = ["docker.sock", "bus", "agent", "X0", "wayland-0", "resolve", "systemd"]
        .map(|name| outside.join(name));
    let _listeners = sockets.clone().map(|path| UnixListener::bind(path).unwrap());
    let datagrams = outside.join("log");
    let _datagrams = UnixDatagram::bind(&datagrams).unwrap();
    let name = format!("nbs-jail-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let _helper = start(scratch.command(binary()).arg("ts-helper"));
    eventually("the helper", || scratch.state().join("helper.sock").exists());
    let other = scratch.create_with(&["--name=other", "--no-helper"], "cat");
    let key = fs::File::open(outside.join("key")).unwrap();
    let victim = start(Command::new("sleep").arg("1000").current_dir(outside).stdin(key));
    let giver = outside.join("giver");
    let key = fs::File::open(outside.join("key")).unwrap();
    let _giver = start(Command::new(PYTHON).args(["-c", GIVER]).arg(&giver).stdin(key));
    eventually("the giver", || giver.exists());
    let root = places.root("write-root");
    let open = scratch.create("bash");
    let jailed = places.create(&["--no-helper", "--read-root=none", "--no-network", &root], "bash");
    let own = scratch.folder(jailed.as_deref().unwrap_or(&open));
    let relays = [
        scratch.state().join("helper.sock"),
        own.join("relay.sock"),
        scratch.folder(&other).join("relay.sock"),
    ];
    let all: Vec<String> =
        sockets.iter().chain(&relays).map(|path| format!("\"{}\"", path.display())).collect();
    let named = |ways: &str| {
        let home = scratch.home().display().to_string();
        ways.replace("OUT", outside.to_str().unwrap())
            .replace("VICTIM", &victim.pid().to_string())
            .replace("HOME", &home)
    };
    let place = |only: &str| {
        let only = named(only);
        format!(
            "{{\"inside\":\"{}\",\"outside\":\"{}\",\"home\":\"{}\",\"state\":\"{}\",\"victim\":{},\"port\":{},\
             \"own\":\"{}\",\"other\":\"{}\",\"other_handle\":\"{other}\",\"terminal\":\"{}\",\"scopes\":{},\
             \"sockets\":[{}],\"giver\":\"{}\",\"datagrams\":\"{}\",\"abstract\":\"{name}\",\"nbs\":\"{}\",\"only\":{only}}}",
            inside.display(),
            outside.display(),
            scratch.home().display(),
            scratch.state().display(),
            victim.pid(),
            network.local_addr().unwrap().port(),
            own.display(),
            scratch.folder(&other).display(),
            scratch.file(&other, "slave_pty"),
            landlock() >= 6,
            all.join(","),
            giver.display(),
            datagrams.display(),
            binary().canonicalize().unwrap().display(),
        )
    };
    fs::write(inside.join("attacks.py"), include_str!("attacks.py")).unwrap();
    let attack = |handle: &str, only: &str| {
        fs::write(inside.join("place"), place(only)).unwrap();
        places.run(handle, &format!("{PYTHON} $i/attacks.py $i/place $i/found")).code(0);
        fs::read_to_string(inside.join("found")).unwrap()
    };
    let there = fs::read_dir(outside).unwrap().count();
    if let Some(jailed) = jailed {
        let found = attack(&jailed, "null");
        assert!(found.ends_with("\"worked\": []}"), "{found}");
        let tried = found.split(['{', ':', ',']).nth(2).and_then(|count| count.trim().parse::<u32>().ok());
        assert!(tried.is_some_and(|count| count >= 260), "{found}");
        assert_eq!(fs::read_to_string(outside.join("key")).unwrap(), "the key");
        assert_eq!(fs::read_dir(outside).unwrap().count(), there);
    }
    let core = if leaves_cores() { "[\"leave_a_core_outside\", " } else { "[" };
    let work_outside = WORK_OUTSIDE.replacen('[', core, 1);
    let found = attack(&open, &work_outside);
    let missing = work_outside.split(['"']).skip(1).step_by(2);
    let missing = missing.filter(|way| !found.contains(&format!("\"{}\"", named(way))));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0], "{found}");
}

/// Opens all kinds of files, lets programs inherit them, and becomes a program.
const WITH_DESCRIPTORS: &str = r#"
import os, socket, sys
kinds = [os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[1], os.O_PATH), os.open(".", os.O_RDONLY), *os.pipe()]
kinds += [end.detach() for end in socket.socketpair()] + [os.memfd_create("nbs"), os.pidfd_open(os.getpid())]
for number, kind in enumerate(kinds):
    os.dup2(kind, 60 + number)
    os.dup2(kind, 600 + number)
os.execvp(sys.argv[2], sys.argv[2:])
"#;

#[test]
fn no_descriptor_of_a_caller_or_of_the_helper_reaches_a_session() {
    let places = Places::new();
    let scratch = &places.scratch;
    let with_descriptors = |words: &[&str]| {
        let mut command = scratch.command(PYTHON);
        command.args(["-c", WITH_DESCRIPTORS]).arg(places.outside.join("key")).args(words);
        command
    };
    let open = "for each in /proc/$$/fd/*; do readlink $each; done";
    let told = run(with_descriptors(&["bash", "-c"]).arg(open)).code(0).out();
    assert!(told.lines().filter(|line| line.ends_with("/outside/key")).count() >= 4, "{told}");
    let _helper = start(&mut with_descriptors(&["nbs-ts-helper"]));
    eventually("the helper", || scratch.state().join("helper.sock").exists());
    let root = places.root("write-root");
    for way in ["--no-helper", "--require-helper"] {
        let create = ["nbs-ts", "create", way, "--read-root=none", "--no-network", &root];
        for command in ["bash", &format!("{open}; cat")] {
            let ran = run(with_descriptors(&create).arg(command));
            if !can_confine() {
                ran.code(1).complains("the kernel has no Landlock");
                return;
            }
            let handle = ran.code(0).silent().out().trim_end().to_owned();
            let told = match command {
                "bash" => scratch.ts(&["run", &handle, open]).out(),
                _ => {
                    scratch.ts(&["wait", &handle, "--input"]).code(0);
                    scratch.ts(&["read", "--strip", &handle]).code(0).out()
                }
            };
            let lines = told.lines().map(|line| line.trim_end_matches('\r'));
            assert!(lines.clone().count() >= 3, "{told}");
            assert_eq!(lines.filter(|line| !line.starts_with("/dev/pts/")).collect::<Vec<_>>(), [""; 0]);
            scratch.ts(&["kill", &handle]).code(0);
        }
    }
}

/// The user nobody.
const NOBODY: u32 = 65_534;

#[test]
fn a_setuid_program_gains_nothing_in_a_jail() {
    let scratch = Scratch::new();
    let (theirs, nbs, id) = (scratch.path.join("theirs"), scratch.path.join("nbs"), scratch.path.join("id"));
    fs::set_permissions(&scratch.path, PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir_all(theirs.join("inside")).unwrap();
    for folder in [theirs.clone(), theirs.join("inside")] {
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    copy_of_binary(&nbs);
    run(Command::new("install").args(["--mode=4755", "/usr/bin/id"]).arg(&id)).code(0);
    let ts = |words: &[&str]| {
        let mut command = scratch.command("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&nbs)
            .arg("ts")
            .args(words);
        run(command.env("HOME", &theirs).env("NBS_TS_HOME", theirs.join("state")).current_dir(&theirs))
    };
    let program = format!("{} -u", id.display());
    let open = ts(&["create", "--no-helper", "bash"]).code(0).out();
    ts(&["run", open.trim_end(), &program]).code(0).stdout("0\n");
    for options in [&["--write-root=inside"][..], &["--no-network"], &["--read-root=/usr", "--no-network"]] {
        let ran = ts(&[&["create", "--no-helper"], options, &["bash"]].concat());
        if !can_confine() {
            ran.code(1).complains("the kernel has no Landlock");
            continue;
        }
        let handle = ran.code(0).silent().out();
        let handle = handle.trim_end();
        let ran = ts(&["run", handle, &program]);
        // If it may be read at all, it runs as the user.
        assert_eq!(ran.out() == "65534\n", ran.status.success(), "{ran:?}");
        assert_eq!(ran.status.success(), options.len() == 1, "{ran:?}");
        ts(&["run", handle, "sudo -n true 2>&1 | grep -c 'no new privileges'"]).code(0).stdout("1\n");
    }
    ts(&["kill", "--all"]).code(0);
}
