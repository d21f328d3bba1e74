//! Usual work in a session of `--profile=agent`.

use std::{fs, process::Command};

use super::{PYTHON, Places};
use crate::support::{Ran, binary, eventually, run, start};

/// A session for an agent's work in `inside`, with more options before it.
fn agent(places: &Places, options: &[&str]) -> Option<String> {
    places.have_profile();
    let cwd = format!("--cwd={}", places.inside.display());
    places.create(&[&["--profile=agent", &cwd], options].concat(), "bash")
}

fn work(places: &Places, handle: &str, command: &str) -> Ran {
    places.scratch.ts(&["run", "--timeout=100", handle, command])
}

#[test]
fn git_works_in_a_session_that_cannot_read_the_home_directory() {
    let places = Places::new();
    let home = places.scratch.home();
    fs::create_dir_all(home.join(".config/git")).unwrap();
    fs::write(home.join(".gitconfig"), "[user]\nname = secret\n").unwrap();
    fs::write(home.join(".config/git/attributes"), "").unwrap();
    let _helper = start(places.scratch.command(binary()).arg("ts-helper"));
    eventually("the helper", || places.scratch.state().join("helper.sock").exists());
    for (way, name) in [("--no-helper", "one"), ("--require-helper", "two")] {
        let Some(handle) = agent(&places, &[way]) else { return };
        let commands = format!(
            "mkdir {name} && cd {name} && git init -q && git config --global user.name me && \
             git config --global user.email me@example.org && echo x >f && git add f && git commit -qm first && \
             git log --format='%s by %an' && git clone -q . clone && ls clone"
        );
        work(&places, &handle, &commands).code(0).stdout("first by me\nf\n").silent();
        // They are gone with the session.
        let own = format!("{}/", places.scratch.folder(&handle).join("tmp").display());
        let names = "$GIT_CONFIG_GLOBAL $XDG_CONFIG_HOME $XDG_CACHE_HOME $CARGO_HOME $npm_config_cache";
        let told = work(&places, &handle, &format!("printf '%s\\n' {names}")).code(0).out();
        assert!(told.lines().count() == 5 && told.lines().all(|path| path.starts_with(&own)), "{told}");
        places.scratch.ts(&["kill", &handle]).code(0);
    }
    assert_eq!(fs::read_to_string(home.join(".gitconfig")).unwrap(), "[user]\nname = secret\n");

    // Variables that lead to where it may read, or that are given, stay.
    let names = "${GIT_CONFIG_GLOBAL-none} ${XDG_CONFIG_HOME-none} ${XDG_CACHE_HOME-none}";
    let config = format!("--read-root={}", home.join(".config").display());
    let options = ["--no-helper", &config, "--env=GIT_CONFIG_GLOBAL=/given"];
    let Some(handle) = agent(&places, &options) else { return };
    let told = work(&places, &handle, &format!("echo {names}")).code(0).out();
    assert!(told.starts_with("/given none /") && told.ends_with("/tmp/.cache\n"), "{told}");
    let cache = places.inside.join("cache");
    let create = format!(
        "XDG_CACHE_HOME={} nbs-ts create --no-helper --read-root=none --write-root={} bash",
        cache.display(),
        places.inside.display()
    );
    let handle = places.scratch.bash(&create).code(0).out();
    let told = work(&places, handle.trim_end(), "echo $XDG_CACHE_HOME").code(0);
    told.stdout(format!("{}\n", cache.display()));
    // A session that may read everywhere keeps those of its caller.
    let Some(handle) = places.create(&["--no-helper", "--no-network"], "bash") else { return };
    work(&places, &handle, &format!("echo {names}")).code(0).stdout("none none none\n");
}

#[test]
fn a_program_is_compiled_and_its_manual_shown_in_a_jail() {
    let places = Places::new();
    fs::write(places.inside.join("Makefile"), "hello: hello.c\n\tgcc -o $@ $<\n").unwrap();
    let source = "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n";
    fs::write(places.inside.join("hello.c"), source).unwrap();
    let page = ".TH HELLO 1\n.SH NAME\nhello \\- greet somebody\n";
    fs::write(places.inside.join("hello.1"), page).unwrap();
    let Some(handle) = agent(&places, &["--no-helper"]) else { return };
    work(&places, &handle, "make -s && ./hello").code(0).stdout("hello\n");
    let shown = work(&places, &handle, "man ./hello.1").code(0).out();
    assert!(shown.contains("hello - greet somebody"), "{shown}");
}

#[test]
fn python_has_environments_of_its_own_in_a_jail() {
    let places = Places::new();
    // The file that pip would read, if it could.
    fs::create_dir_all(places.scratch.home().join(".config/pip")).unwrap();
    fs::write(places.scratch.home().join(".config/pip/pip.conf"), "[global]\n").unwrap();
    let Some(handle) = agent(&places, &["--no-helper"]) else { return };
    let made =
        work(&places, &handle, &format!("{PYTHON} -m venv own && own/bin/pip --version")).code(0).out();
    assert!(made.starts_with("pip ") && made.contains("/inside/own/lib/"), "{made}");
    work(&places, &handle, "own/bin/python -c 'import sys; print(sys.prefix)'")
        .code(0)
        .stdout(format!("{}/own\n", places.inside.display()));
}

#[test]
fn cargo_builds_in_a_jail_that_may_read_the_toolchain() {
    let places = Places::new();
    let toolchain = run(Command::new("rustc").args(["--print", "sysroot"])).code(0).out();
    let read = format!("--read-root={}", toolchain.trim_end());
    let Some(handle) = agent(&places, &["--no-helper", &read]) else { return };
    let crate_of = "PATH=$t/bin:$PATH; cargo -q new --vcs none hello && cd hello && cargo build -q --offline";
    let run_it = "target/debug/hello && cargo test -q --offline | grep -c 'test result: ok'";
    work(&places, &handle, &format!("t={}; {crate_of} && {run_it}", toolchain.trim_end()))
        .code(0)
        .stdout("Hello, world!\n1\n");
}

#[test]
fn ssh_and_sudo_say_that_they_are_refused() {
    let places = Places::new();
    let Some(handle) = agent(&places, &["--no-helper"]) else { return };
    for (command, why) in [
        ("ssh -o BatchMode=yes 127.0.0.1 true", "socket: Permission denied"),
        ("sudo -n true", "sudo: "),
        ("mount -t tmpfs none .", "mount: "),
    ] {
        let ran = work(&places, &handle, command);
        assert!(!ran.status.success() && ran.out().contains(why), "{ran:?}");
    }
}
