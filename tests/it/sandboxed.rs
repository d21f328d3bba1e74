use std::{fs, path::PathBuf, process::Command, sync::OnceLock};

use crate::support::{Ran, Scratch, links, run};

/// Installs a seccomp filter that answers system calls with EPERM, as Codex's sandbox
/// does, and executes a program below it. `socket` is refused for all but Unix sockets.
const REFUSE: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name) { #name, __NR_##name }
static const struct { const char *name; int number; } calls[] = {
    CALL(accept), CALL(accept4), CALL(bind), CALL(connect), CALL(getpeername), CALL(getsockname),
    CALL(getsockopt), CALL(listen), CALL(ptrace), CALL(recvmmsg), CALL(sendmmsg), CALL(sendto),
    CALL(setsockopt), CALL(shutdown), CALL(io_uring_setup), CALL(io_uring_enter),
    CALL(io_uring_register),
};

int main(int argc, char **argv) {
    struct sock_filter filter[128];
    unsigned short length = 0;
    struct sock_filter load = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    filter[length++] = load;
    int at = 1;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        for (size_t call = 0; call < sizeof calls / sizeof *calls; call++) {
            if (strcmp(argv[at], calls[call].name) != 0) continue;
            struct sock_filter is_it = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[call].number, 0, 1);
            filter[length++] = is_it;
            filter[length++] = refuse;
        }
    }
    struct sock_filter is_socket = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3);
    struct sock_filter family = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
    struct sock_filter is_unix = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[length++] = is_socket;
    filter[length++] = family;
    filter[length++] = is_unix;
    filter[length++] = refuse;
    filter[length++] = allow;
    struct sock_fprog program = { length, filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("refuse");
        return 99;
    }
    if (at + 1 >= argc) return 98;
    execvp(argv[at + 1], argv + at + 1);
    perror("refuse: exec");
    return 97;
}
"#;

/// The system calls that Codex's `workspace-write` refuses.
const CODEX: &[&str] = &[
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "listen",
    "ptrace",
    "recvmmsg",
    "sendmmsg",
    "sendto",
    "setsockopt",
    "shutdown",
];

/// The program above, built once.
fn refuse() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let (source, program) = (links().join("refuse.c"), links().join("refuse"));
        fs::write(&source, REFUSE).unwrap();
        run(Command::new("gcc").args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(&source)).code(0);
        program
    })
}

/// `nbs-ts`, where these system calls are refused.
fn ts_without(scratch: &Scratch, refused: &[&str], arguments: &[&str]) -> Ran {
    let mut command = scratch.command(refuse());
    run(command.args(refused).args(["--", "nbs-ts"]).args(arguments))
}

#[test]
fn create_fails_at_once_where_sockets_are_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    let single = CODEX.iter().filter(|call| !call.starts_with("io_uring") && **call != "ptrace");
    let unneeded = ["accept", "getpeername", "getsockname", "recvmmsg", "sendmmsg"];
    let single = single.filter(|call| !unneeded.contains(call)).map(std::slice::from_ref);
    for refused in [CODEX, &["bind", "connect"]].into_iter().chain(single) {
        for arguments in [&["create", "--no-helper", "sleep 1000"][..], &["ensure", "--name=a", "sleep 1000"]]
        {
            let call = refused.iter().find(|call| ["bind", "accept4"].contains(call)).unwrap_or(&refused[0]);
            let call = if refused.contains(&"bind") { &"bind" } else { call };
            ts_without(&scratch, refused, arguments)
                .code(1)
                .complains(&format!("refuses '{call}' on Unix sockets (Operation not permitted"))
                .complains("outside of it");
            let left = fs::read_dir(scratch.state().join("sessions")).unwrap().count();
            assert_eq!(left, 0, "{refused:?}");
        }
    }
}

#[test]
fn sessions_work_where_only_what_they_do_not_need_is_refused() {
    let scratch = Scratch::new();
    let others = ["getpeername", "getsockname", "ptrace", "recvmmsg", "sendmmsg", "io_uring_setup"];
    let ran = ts_without(&scratch, &others, &["create", "--no-helper", "bash"]).code(0);
    let handle = ran.out().trim().to_owned();
    ts_without(&scratch, &others, &["run", &handle, "echo $((6 * 7))"]).code(0).stdout("42\n");
}

#[test]
fn doctor_says_that_sockets_are_refused() {
    let scratch = Scratch::new();
    scratch.ts(&["doctor"]).stdout_has("ok   sockets: ");
    ts_without(&scratch, CODEX, &["doctor"])
        .code(1)
        .stdout_has("bad  sockets: the sandbox refuses 'bind' on Unix sockets (Operation not permitted")
        .stdout_has("network_access = true");
}
