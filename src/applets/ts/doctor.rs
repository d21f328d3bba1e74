//! doctor - check what sessions need, and the sessions themselves
//! Task: Maintain, 2
//!
//! Usage: nbs-ts doctor [options]
//!
//! Prints a line for each thing that sessions need: `ok`, `bad`, or `note` for an
//! optional one; its name; and its state. If it is not ok, a second line says how
//! to fix it. Also checks the state directory (`sessions`). Prints a line for each
//! defect in it, such as an unknown file, a cursor beyond its log, or a process
//! left over from an ended session. Exits 1 if anything is bad.
//!
//! Options:
//!   --on=MACHINE      check that machine (repeatable; 'all': this and all known
//!                     machines; default: $NBS_TS_ON)
//!   --json            print an object for each: check, ok, needed, detail, fix
//!
//! Example:
//!   nbs-ts doctor

use std::{fs, io, path::Path, process::Command};

use crate::{
    call::CommandLine,
    cli, helper,
    json::Object,
    outcome::{Failure, Result},
    relay,
    session::{CheckReport, Fault, StateDir, TRIAL},
    sys::{
        cgroup, confinement,
        pty::{Master, Size},
        socket,
        watch::Watch,
    },
    terminal::text,
    tmux,
};

/// The state of a thing, or its fault and how to fix that.
type CheckResult = std::result::Result<String, (String, String)>;

struct Finding {
    check: &'static str,
    /// Is there no session without it?
    needed: bool,
    found: CheckResult,
}

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let mut findings = vec![
        Finding { check: "state directory", needed: true, found: state_directory() },
        Finding { check: "sockets", needed: true, found: sockets() },
        Finding { check: "helper", needed: false, found: helper() },
        Finding { check: "shell", needed: true, found: shell() },
        Finding { check: "terminals", needed: true, found: terminals() },
        Finding { check: "inotify", needed: true, found: inotify() },
        Finding { check: "confinement", needed: false, found: confinement() },
        Finding { check: "limits", needed: false, found: limits() },
    ];
    findings.extend(sessions());
    findings.extend(tmux::faults().into_iter().map(|fault| Finding {
        check: "tmux",
        needed: true,
        found: Err(fault),
    }));
    for finding in &findings {
        cli::print(if call.json() { finding.json() } else { finding.text() })?;
    }
    let bad = findings.iter().any(|finding| finding.needed && finding.found.is_err());
    if bad { Err(Failure::quiet()) } else { Ok(()) }
}

impl Finding {
    fn text(&self) -> String {
        match &self.found {
            Ok(detail) => format!("ok   {}: {}\n", self.check, text::escaped(detail.as_bytes())),
            Err((detail, fix)) => {
                let how = if self.needed { "bad " } else { "note" };
                format!("{how} {}: {}\n     fix: {fix}\n", self.check, text::escaped(detail.as_bytes()))
            }
        }
    }

    fn json(&self) -> String {
        let (detail, fix) = match &self.found {
            Ok(detail) => (detail, None),
            Err((detail, fix)) => (detail, Some(fix.as_bytes())),
        };
        Object::new()
            .text("check", self.check)
            .truth("ok", self.found.is_ok())
            .truth("needed", self.needed)
            .text("detail", detail)
            .bytes_or_null("fix", fix)
            .line()
    }
}

fn state_directory() -> CheckResult {
    let state_dir = StateDir::open_or_make().map_err(|failure| {
        (
            failure.to_string(),
            "set NBS_TS_HOME to a directory of yours that nobody else may write to".to_owned(),
        )
    })?;
    state_dir.events().map_err(|failure| {
        (failure.to_string(), "move it away; it holds only what ended sessions left".to_owned())
    })?;
    let beside = state_dir.path().join(format!("{TRIAL}{}", std::process::id()));
    let written = fs::write(&beside, "x");
    // A full disk may leave the file without its content.
    let removed = fs::remove_file(&beside);
    match written.and(removed) {
        Ok(()) => Ok(state_dir.path().display().to_string()),
        Err(error) => Err((
            format!("cannot write to '{}': {error}", state_dir.path().display()),
            "make room there, or set NBS_TS_HOME to a writable directory".to_owned(),
        )),
    }
}

/// Sandboxes may refuse system calls on sockets.
fn sockets() -> CheckResult {
    match socket::refused_call(&format!("nbs-doctor-{}", std::process::id())) {
        Some((call, error)) => Err((relay::refusal(call, &error), relay::SOCKETS_FIX.to_owned())),
        None => Ok("may be used".to_owned()),
    }
}

/// How all sessions are: a finding for each thing that is wrong, or one.
fn sessions() -> Vec<Finding> {
    let found: Vec<CheckResult> = match StateDir::open().and_then(|state_dir| state_dir.check()) {
        Err(failure) => vec![Err((failure.to_string(), "fix the state directory first".to_owned()))],
        Ok(CheckReport { alive, dead, faults }) if faults.is_empty() => {
            vec![Ok(format!("{alive} alive and {dead} dead, all in order"))]
        }
        Ok(CheckReport { faults, .. }) => {
            faults.into_iter().map(|Fault { what, fix }| Err((what, fix))).collect()
        }
    };
    found.into_iter().map(|found| Finding { check: "sessions", needed: true, found }).collect()
}

fn helper() -> CheckResult {
    let start = "run nbs-ts-helper in a login shell, or 'nbs-ts-helper --install-service'".to_owned();
    let state_dir = StateDir::open().map_err(|failure| (failure.to_string(), start.clone()))?;
    match relay::helper_version(state_dir.path()) {
        Ok(Some(version)) if version == helper::OUR_VERSION => Ok(format!("version {version}")),
        Ok(Some(version)) => Err((
            format!("version {version} runs, and this is {}", helper::OUR_VERSION),
            "stop it (its sessions live on) and start it again".to_owned(),
        )),
        Ok(None) => Err(("its socket is not nbs's helper".to_owned(), format!("stop it, and {start}"))),
        Err(failure) => Err((failure.to_string(), start)),
    }
}

/// The shell that runs commands other than shells.
fn shell() -> CheckResult {
    let fix = "install bash, or another 'sh', on PATH".to_owned();
    let output = Command::new("bash").args(["-c", "printf %s \"$BASH_VERSION\""]).output();
    match output {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            Ok(format!("bash {}", String::from_utf8_lossy(&output.stdout)))
        }
        Ok(_) => Err(("'bash' on PATH is not bash".to_owned(), fix)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match Command::new("sh").args(["-c", ":"]).status() {
                Ok(status) if status.success() => Ok("sh, because there is no bash".to_owned()),
                Ok(_) => Err(("'sh' on PATH is not a shell".to_owned(), fix)),
                Err(error) => Err((format!("cannot run 'sh': {error}"), fix)),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err((format!("cannot run 'bash': {error}"), "end processes, or raise 'ulimit -u'".to_owned()))
        }
        Err(error) => Err((format!("cannot run 'bash': {error}"), fix)),
    }
}

fn terminals() -> CheckResult {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(Path::new("/proc/sys/kernel/pty").join(name)).ok()?.trim().parse().ok()
    };
    let used = match (number("nr"), number("max")) {
        (Some(used), Some(most)) => format!("{used} of {most} in use"),
        _ => "the number in use is unknown".to_owned(),
    };
    for device in ["/dev/tty", "/dev/null"] {
        if !Path::new(device).exists() {
            return Err((format!("there is no '{device}'"), "create it, as container engines do".to_owned()));
        }
    }
    match Master::open(Size::DEFAULT).and_then(|master| master.open_slave()) {
        Ok(_) => Ok(used),
        Err(error) => Err((
            format!("cannot open a PTY: {error} ({used})"),
            "mount devpts on /dev/pts, or raise kernel.pty.max".to_owned(),
        )),
    }
}

/// The restrictions of sessions that this kernel can enforce.
fn confinement() -> CheckResult {
    let (can, cannot): (Vec<_>, Vec<_>) =
        confinement::abilities().into_iter().partition(|(_, why)| why.is_none());
    let names = |these: &[(&'static str, Option<String>)]| {
        these.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let kernel = format!("Linux {}", confinement::kernel());
    match cannot.iter().find_map(|(_, why)| why.as_ref()) {
        None => Ok(format!("{kernel}: {}", names(&can))),
        Some(why) => Err((
            format!("{kernel}: not {}: {why}", names(&cannot)),
            "boot a newer kernel with CONFIG_SECURITY_LANDLOCK and CONFIG_SECCOMP_FILTER, and 'landlock' in lsm=".to_owned(),
        )),
    }
}

/// Whether the memory, the tasks and the processor time of sessions can be limited.
fn limits() -> CheckResult {
    let names = "--memory, --tasks, --cpu";
    cgroup::check().map(|()| names.to_owned()).map_err(|error| {
        let fix =
            "mount cgroups of version 2, and start nbs where they are writable, or where the user's systemd runs";
        (format!("{names} are unavailable: {error}"), fix.to_owned())
    })
}

/// Watches are what `events --follow` and the monitor of workers need; the numbers
/// are those below which other programs of a desktop use them up.
fn inotify() -> CheckResult {
    const INSTANCES: u64 = 64;
    const WATCHES: u64 = 4_096;
    let limits = [("max_user_instances", INSTANCES), ("max_user_watches", WATCHES)];
    let mut told = Vec::new();
    for (name, least) in limits {
        let path = Path::new("/proc/sys/fs/inotify").join(name);
        let limit = fs::read_to_string(&path).ok().and_then(|digits| digits.trim().parse::<u64>().ok());
        match limit {
            Some(limit) if limit >= least => told.push(format!("{name} {limit}")),
            Some(limit) => {
                return Err((
                    format!("{name} is {limit}"),
                    format!("sysctl fs.inotify.{name}={}", least * 2),
                ));
            }
            None => {
                return Err((
                    format!("cannot read '{}'", path.display()),
                    "use a kernel with inotify, and mount /proc".to_owned(),
                ));
            }
        }
    }
    match Watch::folder(Path::new("/proc")) {
        Ok(_) => Ok(told.join(", ")),
        Err(error) => Err((
            format!("cannot watch a directory: {error}"),
            "end the programs that use the watches, or raise that limit by sysctl".to_owned(),
        )),
    }
}
