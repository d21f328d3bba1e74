//! ts-helper - start programs in your login environment
//!
//! Usage: nbs-ts-helper [--install-service|--uninstall-service]
//!
//! Runs in the foreground, logs to standard output, and ends on SIGINT or
//! SIGTERM. Start it once, from a real login shell. The sessions that
//! `nbs-ts create` makes while it runs have its environment (SSH agent, proxies,
//! credentials), not the caller's. They live on when it ends.
//!
//! It listens on helper.sock in $NBS_TS_HOME (or ~/.nbs-ts), or on the socket that
//! systemd passes to it (LISTEN_FDS). Its directory is $HOME. If a client names no
//! directory, its command starts there.
//!
//! Options:
//!   --install-service    make systemd start it now and at each login, through
//!                        a login shell
//!   --uninstall-service  stop that, and remove the unit
//!
//! Example:
//!   nbs-ts-helper

use std::{
    env,
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::{ffi::OsStrExt, net::UnixListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    call::CommandLine,
    cli,
    helper::{self, HelperStart},
    outcome::{Failure, Result, Trying},
    session::{HELPER_LOCK, HELPER_SOCKET, StateDir},
    sys::{
        deadline::Deadline,
        files::{self, Folder},
        inherited,
        processes::Process,
        signals::{self, Signals},
        socket, user,
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    if call.has("install-service") {
        install_service()
    } else if call.has("uninstall-service") {
        uninstall_service()
    } else {
        serve(call.umask)
    }
}

fn serve(umask: u32) -> Result<()> {
    let handed = inherited::shed_all_but_handed_socket().trying("use the socket of LISTEN_FDS")?;
    let state_dir = StateDir::open_or_make()?;
    let folder =
        Folder::open(state_dir.path()).trying(format_args!("open '{}'", state_dir.path().display()))?;
    let lock = take_lock(&folder)?;
    state_dir.forget_missed_helper().trying("forget that there was no helper")?;
    let mut stop = Signals::catch(signals::to_end()).trying("catch signals")?;
    let (listener, made_socket_in) = match handed {
        Some(listener) => (listener, None),
        None => (listen(&folder, &state_dir)?, Some(folder)),
    };
    // So that we do not keep the caller's directory in use. Commands of clients that name none start
    // in the login directory.
    let start = user::home_or_root();
    env::set_current_dir(&start).trying(format_args!("go to '{}'", start.display()))?;
    let environment = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"].map(|name| (name.into(), None)).to_vec();
    let sessions = state_dir.sessions_path();
    helper::serve(HelperStart { listener, made_socket_in, sessions, umask, environment, lock }, &mut stop)
}

/// The lock proves that a helper lives: a killed one cannot keep it.
fn take_lock(folder: &Folder) -> Result<File> {
    let what = "take the lock of the helper";
    let mut lock = folder.open_lock(HELPER_LOCK).trying(what)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(error).trying(what),
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            lock.take(32).read_to_string(&mut pid).trying(what)?;
            return Err(already_runs(pid.trim()));
        }
    }
    let written =
        lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{}", std::process::id()));
    written.trying(what)?;
    Ok(lock)
}

fn already_runs(pid: &str) -> Failure {
    Failure::failed(format!("cannot start: a helper is already running (pid {pid})"))
}

/// If connecting to an existing socket takes longer than this, it is in use: a stopped owner never
/// accepts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Listens on our socket. It replaces the socket of a dead helper, but not one with a listener (a
/// helper that does not know the lock).
fn listen(folder: &Folder, state_dir: &StateDir) -> Result<UnixListener> {
    let what = || format!("listen on '{}'", state_dir.path().join(HELPER_SOCKET).display());
    match socket::connect(folder, HELPER_SOCKET, Deadline::after(CONNECT_TIMEOUT)) {
        Ok(other) => {
            let pid = socket::peer_pid(&other).map_or("unknown".to_owned(), |pid| pid.to_string());
            return Err(already_runs(&pid));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // Only this error means that there is no listener; a busy helper causes others.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            folder.remove_file(HELPER_SOCKET.as_ref()).trying(what())?;
        }
        Err(error) => return Err(error).trying(what()),
    }
    // A socket is made with the mode that the umask leaves of 0777 (unix(7)).
    let private = files::set_umask(0o177);
    let listener = socket::listen(folder, HELPER_SOCKET).trying(what());
    files::set_umask(private);
    listener
}

const UNIT: &str = "nbs-ts-helper.service";

/// Sessions outlive the service: `KillMode=process`.
fn unit(program: &Path, home: Option<&str>) -> String {
    let quoted =
        |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"));
    let program = program.display().to_string();
    let home = home
        .map(|home| format!("Environment={}\n", quoted(&format!("NBS_TS_HOME={home}"))))
        .unwrap_or_default();
    format!(
        "[Unit]\nDescription=Terminals for nbs-ts in the login environment\n\n[Service]\n{home}\
         ExecStart=/bin/bash --login -c \"exec \\\"$$0\\\"\" {}\nRestart=on-failure\nKillMode=process\n\n\
         [Install]\nWantedBy=default.target\n",
        quoted(&program).replace('$', "$$")
    )
}

fn unit_path() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let folder = folder
        .ok_or_else(|| Failure::failed("cannot find the directory for units: HOME is not set".into()))?;
    Ok(folder.join("systemd/user").join(UNIT))
}

fn install_service() -> Result<()> {
    check_systemd()?;
    let path = unit_path()?;
    let program = own_path()?;
    let home = env::var("NBS_TS_HOME").ok().filter(|home| !home.is_empty());
    let home = home.map(|home| std::path::absolute(home).map(|home| home.display().to_string()));
    let home = home.transpose().trying("find the state directory")?;
    let folder = path.parent().expect("it has a file name");
    fs::create_dir_all(folder).trying(format_args!("make '{}'", folder.display()))?;
    fs::write(&path, unit(&program, home.as_deref())).trying(format_args!("write '{}'", path.display()))?;
    cli::print(format!("wrote {}\n", path.display()))?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", UNIT])?;
    systemctl(&["restart", UNIT])?;
    cli::print(format!("the helper runs now and at each login; its log: journalctl --user -u {UNIT}\n"))
}

fn uninstall_service() -> Result<()> {
    let path = unit_path()?;
    if !path.exists() {
        return Err(Failure::failed(format!(
            "cannot uninstall the service: there is no '{}'",
            path.display()
        )));
    }
    let running = check_systemd();
    if running.is_ok() {
        systemctl(&["disable", "--now", UNIT])?;
    }
    fs::remove_file(&path).trying(format_args!("remove '{}'", path.display()))?;
    cli::print(format!("removed {}\n", path.display()))?;
    if running.is_ok() {
        systemctl(&["daemon-reload"])?;
    }
    Ok(())
}

/// By the link that we were called as, if it is one: a later version may be put
/// behind it.
fn own_path() -> Result<PathBuf> {
    let ours = Process::read(std::process::id()).map(|ours| ours.arguments());
    let called =
        ours.as_ref().and_then(|words| words.first()).map(|word| PathBuf::from(OsStr::from_bytes(word)));
    let called = called.filter(|called| called.components().count() > 1);
    let named = called.filter(|called| called.file_name().is_some_and(|name| name == "nbs-ts-helper"));
    let link = named.and_then(|link| std::path::absolute(link).ok()).filter(|link| link.exists());
    let on_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path)
            .map(|folder| folder.join("nbs-ts-helper"))
            .find(|link| link.is_absolute() && link.exists())
    };
    link.or_else(on_path)
        .ok_or_else(|| Failure::failed("cannot find nbs-ts-helper on PATH; try 'nbs --install DIR'".into()))
}

/// systemctl's own message is about buses; ours is about the cause.
fn check_systemd() -> Result<()> {
    let asked = Command::new("systemctl")
        .args(["--user", "show-environment"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let why = match asked {
        Ok(status) if status.success() => return Ok(()),
        Ok(_) => "systemd does not run for this user",
        Err(_) => "systemd is not installed",
    };
    Err(Failure::failed(format!(
        "cannot install a service: {why}; start nbs-ts-helper in a login shell instead"
    )))
}

fn systemctl(arguments: &[&str]) -> Result<()> {
    let shown = format!("systemctl --user {}", arguments.join(" "));
    cli::print(format!("{shown}\n"))?;
    let mut command = Command::new("systemctl");
    command.arg("--user").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().trying(format_args!("run '{shown}'"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Failure::failed(format!("cannot run '{shown}': {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_us_through_a_login_shell() {
        let unit = unit(Path::new("/opt/a b/nbs-ts-helper"), Some("/s/50%"));
        assert!(
            unit.contains("ExecStart=/bin/bash --login -c \"exec \\\"$$0\\\"\" \"/opt/a b/nbs-ts-helper\"\n"),
            "{unit}"
        );
        assert!(unit.contains("Environment=\"NBS_TS_HOME=/s/50%%\"\n"), "{unit}");
        assert!(unit.contains("\nRestart=on-failure\n") && unit.contains("\nKillMode=process\n"), "{unit}");
    }
}
