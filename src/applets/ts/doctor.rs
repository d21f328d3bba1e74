//! doctor - check what sessions need of this machine
//!
//! Usage: nbs-ts doctor [--json]
//!
//! Prints a line for each thing that sessions need: `ok` or `bad`, what, and how
//! it is; where it is bad, a second line tells how to mend it. Exits 1 if
//! anything is bad.
//!
//! Options:
//!   --json            print an object for each: check, ok, detail, fix
//!
//! Example:
//!   nbs-ts doctor

use std::{fs, path::Path, process::Command};

use crate::{
    cli::{self, Args},
    helper,
    json::Object,
    outcome::{Failure, Result},
    relay,
    session::Home,
    sys::pty::{Master, Size},
    text,
};

/// How a thing is, or what is bad about it and how to mend that.
type Found = std::result::Result<String, (String, String)>;

struct Finding {
    check: &'static str,
    found: Found,
}

pub(crate) fn run(args: &mut Args) -> Result<()> {
    if let Some(arg) = args.next()? {
        return Err(arg.unexpected().into());
    }

    let findings = [
        Finding { check: "state folder", found: state_folder() },
        Finding { check: "helper", found: helper() },
        Finding { check: "bash", found: bash() },
        Finding { check: "terminals", found: terminals() },
        Finding { check: "inotify", found: inotify() },
    ];
    for finding in &findings {
        cli::print(if args.json() { finding.json() } else { finding.text() })?;
    }
    if findings.iter().all(|finding| finding.found.is_ok()) { Ok(()) } else { Err(Failure::Quiet) }
}

impl Finding {
    fn text(&self) -> String {
        match &self.found {
            Ok(detail) => format!("ok   {}: {}\n", self.check, text::escaped(detail.as_bytes())),
            Err((detail, fix)) => {
                format!("bad  {}: {}\n     fix: {fix}\n", self.check, text::escaped(detail.as_bytes()))
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
            .text("detail", detail)
            .bytes_or_null("fix", fix)
            .line()
    }
}

fn state_folder() -> Found {
    let home = Home::open_or_make().map_err(|failure| {
        (
            failure.to_string(),
            "set NBS_TS_HOME to a folder of your own that nobody else may write to".to_owned(),
        )
    })?;
    let beside = home.path().join(format!(".doctor.{}", std::process::id()));
    let written = fs::write(&beside, "x").and_then(|()| fs::remove_file(&beside));
    match written {
        Ok(()) => Ok(home.path().display().to_string()),
        Err(error) => Err((
            format!("cannot write to '{}': {error}", home.path().display()),
            "make room there, or set NBS_TS_HOME to a folder that can be written to".to_owned(),
        )),
    }
}

fn helper() -> Found {
    let start = "run nbs-ts-helper in a login shell, or 'nbs-ts-helper --install-service'".to_owned();
    let home = Home::open().map_err(|failure| (failure.to_string(), start.clone()))?;
    match relay::version(home.path()) {
        Ok(Some(version)) if version == helper::OUR_VERSION => Ok(format!("version {version}")),
        Ok(Some(version)) => Err((
            format!("version {version} runs, and this is {}", helper::OUR_VERSION),
            "stop it (its sessions live on) and start it again".to_owned(),
        )),
        Ok(None) => Err(("what listens is no helper of nbs".to_owned(), format!("stop it, and {start}"))),
        Err(failure) => Err((failure.to_string(), start)),
    }
}

fn bash() -> Found {
    let fix = "install bash, and have it on PATH".to_owned();
    let output = Command::new("bash").args(["-c", "printf %s \"$BASH_VERSION\""]).output();
    match output {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            Ok(format!("version {}", String::from_utf8_lossy(&output.stdout)))
        }
        Ok(_) => Err(("'bash' on PATH is no bash".to_owned(), fix)),
        Err(error) => Err((format!("cannot run 'bash': {error}"), fix)),
    }
}

fn terminals() -> Found {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(Path::new("/proc/sys/kernel/pty").join(name)).ok()?.trim().parse().ok()
    };
    let used = match (number("nr"), number("max")) {
        (Some(used), Some(most)) => format!("{used} of {most} in use"),
        _ => "one can be opened".to_owned(),
    };
    match Master::open(Size::DEFAULT).and_then(|master| master.open_slave()) {
        Ok(_) => Ok(used),
        Err(error) => Err((
            format!("cannot open a PTY: {error} ({used})"),
            "mount devpts on /dev/pts, or raise kernel.pty.max".to_owned(),
        )),
    }
}

/// Watches are what `wait` on files and the monitor of workers need; the numbers
/// are those below which other programs of a desktop use them up.
fn inotify() -> Found {
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
                    "use a kernel with inotify, and have /proc mounted".to_owned(),
                ));
            }
        }
    }
    Ok(told.join(", "))
}
