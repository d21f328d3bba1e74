//! Starting a session by the options of `create` and `ensure`.
//!
//! The options of both are parsed here. Nothing is started before all of them have been parsed.

use std::{
    env,
    ffi::{OsStr, OsString},
    iter,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    call::CommandLine,
    cli,
    jail::{JailOptions, NO_ROOT, PROFILE_ENV},
    machine,
    outcome::{Failure, Result, Trying},
    relay::{self, SpawnVia},
    session::{
        self, EndedBy, Handle, Name, SessionDir, SessionSpec, Settings, StateDir, Target, client::RelayClient,
    },
    sys::{
        cgroup::ResourceLimits,
        confinement, files,
        gate::{Environment, HiddenVariables},
        pty::Size,
    },
    ts::profile::Profile,
};

/// The options to start a session.
pub(crate) struct CreateOptions {
    pub(crate) name: Option<Name>,
    command: Vec<u8>,
    folder: StartFolder,
    size: Size,
    environment: Environment,
    umask: u32,
    via: SpawnVia,
    settings: Settings,
}

/// The directory in which a session starts.
enum StartFolder {
    Callers,
    Folder(PathBuf),
    /// The current directory of that session.
    SameAs(Target),
}

impl CreateOptions {
    /// The options of a call; `default` is the command if none is given.
    pub(crate) fn given(call: &CommandLine, default: Option<&str>) -> Result<CreateOptions> {
        let described = |name: &str| call.optional(name, cli::some).map(|text| text.map(OsString::into_vec));
        let mut settings = Settings {
            title: described("title")?,
            description: described("description")?,
            parent: described("parent")?,
            timeout: call.optional("timeout", cli::some_time)?,
            idle_timeout: call.optional("idle-timeout", cli::some_time)?,
            owner: call.optional("owner", cli::pid)?,
            max_log: call.optional("max-log", log_limit)?,
            record: call.has("record"),
            pager: call.has("pager"),
            ..Settings::default()
        };
        if let Some(option) = call.option_behind(SessionSpec::is_interactive) {
            let message = format!("'{option}' comes after the shell; nbs-ts options go before it");
            return Err(Failure::bad_args(message));
        }
        let mut command = call.text();
        if let (true, Some(default)) = (call.operands("COMMAND").is_empty(), default) {
            command = default.as_bytes().to_vec();
        }
        if command.is_empty() {
            return Err(Failure::bad_args("the command to run is empty".into()));
        }
        let inherit = call.optional("inherit-cwd", |_, word| cli::parse_target(word))?;
        let folder = match (call.optional("cwd", cli::some)?.map(PathBuf::from), inherit) {
            (None, None) => StartFolder::Callers,
            (Some(folder), None) => StartFolder::Folder(folder),
            (None, Some(session)) => StartFolder::SameAs(session),
            (Some(_), Some(_)) => return Err(exclude("--cwd", "--inherit-cwd")),
        };
        let variables = call.values("env", variable)?;
        let environment = environment(SessionSpec::is_interactive(&command), settings.pager, variables);
        settings.jail = jail(call, &folder)?;
        Ok(CreateOptions {
            name: call.optional("name", cli::name)?,
            command,
            folder,
            size: call.value("size", cli::terminal_size)?,
            environment,
            umask: call.umask,
            via: via(call)?,
            settings,
        })
    }

    /// Options to start what a dead session ran: in the same directory, with the same name, size and
    /// settings, except for the owner process. The environment is the caller's. Fails if its settings cannot be
    /// read: they may confine it.
    pub(crate) fn again(
        session: &SessionDir,
        variables: Vec<(OsString, OsString)>,
        via: SpawnVia,
        umask: u32,
    ) -> Result<CreateOptions> {
        let (command, mut settings) = (session.command()?, session.intact_settings()?);
        settings.owner = None;
        let folder = settings.start_folder.as_deref();
        let folder = folder.map(|path| StartFolder::Folder(OsStr::from_bytes(path).into()));
        let size = session.sizes()?.last().map_or(Size::DEFAULT, |(_, size)| *size);
        let environment = environment(SessionSpec::is_interactive(&command), settings.pager, variables);
        Ok(CreateOptions {
            name: session.name(),
            command,
            folder: folder.unwrap_or(StartFolder::Callers),
            size,
            environment,
            umask,
            via,
            settings,
        })
    }

    /// Options without a name, in this directory.
    pub(crate) fn plain(
        command: Vec<u8>,
        folder: PathBuf,
        size: Size,
        variables: Vec<(OsString, OsString)>,
        umask: u32,
        via: SpawnVia,
        settings: Settings,
    ) -> CreateOptions {
        let environment = environment(SessionSpec::is_interactive(&command), settings.pager, variables);
        let folder = StartFolder::Folder(folder);
        CreateOptions { name: None, command, folder, size, environment, umask, via, settings }
    }

    /// Rejects a session that is less restricted than the requested one.
    pub(crate) fn check_confines_as_much(&self, session: &SessionDir) -> Result<()> {
        match self.settings.jail.exceeded_by(&session.settings().jail) {
            None => Ok(()),
            Some(how) => Err(Failure::failed(format!("cannot use session '{}': {how}", session.handle()))),
        }
    }

    /// Starts it, and warns the caller if necessary.
    pub(crate) fn start(self) -> Result<Handle> {
        self.start_noting(&|_| Ok(()))
    }

    /// The same; `note` is called before anybody can see it.
    pub(crate) fn start_noting(mut self, note: Note<'_>) -> Result<Handle> {
        let cwd = match &self.folder {
            StartFolder::Callers => None,
            StartFolder::Folder(folder) => Some(folder.clone()),
            StartFolder::SameAs(target) => Some(folder_of(target)?),
        };
        let told = cwd.as_deref().map_or_else(env::current_dir, files::absolute);
        self.settings.start_folder = told.ok().map(|path| path.into_os_string().into_vec());
        let spec = SessionSpec {
            command: self.command,
            name: self.name,
            size: self.size,
            started: SystemTime::now(),
            settings: self.settings,
        };
        start(spec, cwd.as_deref(), self.environment, self.umask, self.via, note)
    }
}

type Note<'a> = &'a dyn Fn(&Handle) -> Result<()>;

/// The process that starts the child.
pub(crate) fn via(call: &CommandLine) -> Result<SpawnVia> {
    match (call.has("no-helper"), call.has("require-helper")) {
        (false, false) => Ok(SpawnVia::HelperIfThere),
        (true, false) => Ok(SpawnVia::Relay),
        (false, true) => Ok(SpawnVia::Helper),
        (true, true) => Err(exclude("--no-helper", "--require-helper")),
    }
}

/// The restrictions of the session: those of its profile, and those that are given.
fn jail(call: &CommandLine, folder: &StartFolder) -> Result<JailOptions> {
    let name = call.optional("profile", cli::name)?;
    let default = || env::var_os(PROFILE_ENV).filter(|name| !name.is_empty());
    let name = name.map_or_else(
        || default().map(|name| cli::name(PROFILE_ENV, &name)).transpose(),
        |name| Ok(Some(name)),
    )?;
    let profile = name.as_ref().map(Profile::read).transpose()?.unwrap_or_default();
    // A path in a profile is relative to where the session starts.
    let base = match folder {
        _ if profile.is_empty() => Ok(PathBuf::new()),
        StartFolder::Folder(folder) => files::absolute(folder),
        StartFolder::SameAs(target) => Ok(folder_of(target)?),
        StartFolder::Callers => env::current_dir(),
    };
    let base = base.trying("find the directory to start in")?;
    let root = |path: &Path, what: &str| -> Result<Vec<u8>> {
        let found = confinement::root(path);
        let found = found.trying(format_args!("let the session {what} '{}'", path.display()))?;
        Ok(found.into_os_string().into_vec())
    };
    let has = |option| call.has(option) || profile.has(option);
    let mut jail = JailOptions {
        no_network: has("no-network"),
        ports: [profile.values("connect", port)?, call.values("connect", port)?].concat(),
        hidden: HiddenVariables {
            clear: has("clear-env"),
            globs: [profile.values("hide-env", cli::some)?, call.values("hide-env", cli::some)?].concat(),
        },
        limits: ResourceLimits {
            memory: smallest([call.values("memory", memory)?, profile.values("memory", memory)?]),
            tasks: smallest([call.values("tasks", some_number)?, profile.values("tasks", some_number)?]),
            cpu: smallest([call.values("cpu", some_number)?, profile.values("cpu", some_number)?]),
        },
        profile: name.map(|name| name.as_str().as_bytes().to_vec()),
        ..JailOptions::default()
    };
    if !jail.no_network && !jail.ports.is_empty() {
        return Err(Failure::bad_args("--connect requires --no-network".into()));
    }
    let roots = |option| -> Result<Vec<PathBuf>> {
        let of_profile = profile.values(option, cli::some)?.into_iter();
        let of_profile =
            of_profile.map(|path| if path.as_bytes() == NO_ROOT { path.into() } else { base.join(path) });
        Ok(of_profile.chain(call.values(option, cli::some)?.into_iter().map(PathBuf::from)).collect())
    };
    for path in roots("write-root")? {
        jail.write_roots.push(root(&path, "write to")?);
    }
    for path in roots("read-root")? {
        let roots = jail.read_roots.get_or_insert_default();
        if path.as_os_str().as_bytes() != NO_ROOT {
            roots.push(root(&path, "read")?);
        }
    }
    Ok(jail)
}

/// The last given one, and no more than a profile allows.
fn smallest([given, allowed]: [Vec<u64>; 2]) -> Option<u64> {
    given.last().into_iter().chain(allowed.last()).min().copied()
}

/// No program starts in less.
const LEAST_MEMORY: u64 = 1024 * 1024;

fn memory(option: &str, value: &OsStr) -> Result<u64> {
    match cli::size(option, value)? {
        size @ LEAST_MEMORY.. => Ok(size),
        _ => Err(cli::bad_value(option, value, "is less than 1M")),
    }
}

fn some_number(option: &str, value: &OsStr) -> Result<u64> {
    match cli::number(option, value)? {
        number @ 1..=1_000_000 => Ok(number),
        _ => Err(cli::bad_value(option, value, "is not a number from 1 to 1000000")),
    }
}

fn port(option: &str, value: &OsStr) -> Result<u16> {
    let port = value.to_str().and_then(|digits| digits.parse().ok()).filter(|port| *port != 0);
    port.ok_or_else(|| cli::bad_value(option, value, "is not a port from 1 to 65535"))
}

fn exclude(one: &str, other: &str) -> Failure {
    Failure::bad_args(format!("cannot use {one} with {other}"))
}

/// The directory of a session's foreground process.
fn folder_of(target: &Target) -> Result<PathBuf> {
    let session = StateDir::open()?.session(target)?;
    let client = RelayClient::open(&session)?;
    let folder = client.map(|mut client| client.folder()).transpose()?.flatten();
    folder.ok_or_else(|| session.ended())
}

/// A smaller log is not worth a hole in a file, for which the unit may be 8 KiB.
const LEAST_LOG: u64 = 64 * 1024;

fn log_limit(option: &str, value: &OsStr) -> Result<u64> {
    match cli::size(option, value)? {
        size @ LEAST_LOG.. => Ok(size),
        _ => Err(cli::bad_value(option, value, "is less than 64K")),
    }
}

pub(crate) fn variable(option: &str, value: &OsStr) -> Result<(OsString, OsString)> {
    let equals = value.as_bytes().iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
    let at = equals.ok_or_else(|| cli::bad_value(option, value, "is not KEY=VALUE"))?;
    let (key, value) = value.as_bytes().split_at(at);
    Ok((OsString::from_vec(key.to_vec()), OsString::from_vec(value[1..].to_vec())))
}

/// Makes the session, or leaves nothing of it.
fn start(
    spec: SessionSpec,
    cwd: Option<&Path>,
    mut environment: Environment,
    umask: u32,
    via: SpawnVia,
    note: Note<'_>,
) -> Result<Handle> {
    if let Some(cwd) = cwd {
        files::check_can_enter(cwd).trying(format_args!("start in '{}'", cwd.display()))?;
    }
    let state_dir = StateDir::open_or_make()?;
    check_roots(&spec.settings, state_dir.path())?;
    let pending = state_dir.make()?;
    environment.splice(0..0, spec.settings.jail.hidden.removals());
    environment.push((machine::MACHINE_ENV.into(), None));
    environment.push((session::SESSION_ENV.into(), Some(pending.handle.as_str().into())));
    if env::var_os("NBS_TS_HOME").is_some_and(|home| !home.is_empty()) {
        // The session's directory may differ from the caller's, so a relative path must become
        // absolute.
        environment.push(("NBS_TS_HOME".into(), Some(state_dir.path().into())));
    }
    let handle = pending.handle.clone();
    if spec.settings.jail.confines() {
        let private = SessionSpec::private_folder(&state_dir.sessions_path().join(pending.handle.as_str()));
        environment.extend(moved_from_home(&spec.settings.jail, &environment, &private));
        environment.push(("TMPDIR".into(), Some(private.into())));
    }
    let sessions = state_dir.sessions_path();
    let started = note(&pending.handle)
        .and_then(|()| relay::start(&pending, &sessions, &spec, umask, cwd, &environment, via));
    match started {
        // The only warning is that there is no helper.
        Ok(Some(warning)) if state_dir.is_first_to_miss_helper() => cli::warn("nbs-ts", &warning),
        Ok(_) => {}
        Err(failure) => {
            let removed = pending.abandon().trying("remove the session that failed");
            // Never `Ok`, since there is one.
            Failure::all(iter::once(failure).chain(removed.err()).collect())?;
        }
    }
    Ok(handle)
}

/// Variables by which programs find files that are in the home directory by default. If a session may not read
/// these, programs such as git fail, so they get others in its private directory. A value that was given stays.
fn moved_from_home(jail: &JailOptions, environment: &Environment, private: &Path) -> Environment {
    const MOVED: [(&str, &str); 5] = [
        ("GIT_CONFIG_GLOBAL", ".gitconfig"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_CACHE_HOME", ".cache"),
        ("CARGO_HOME", ".cargo"),
        ("npm_config_cache", ".npm"),
    ];
    let value = |name: &str| {
        let changed = environment.iter().rev().find(|(changed, _)| changed == name);
        changed
            .map_or_else(|| env::var_os(name), |(_, value)| value.clone())
            .filter(|value| !value.is_empty())
    };
    let Some(home) = value("HOME").map(PathBuf::from) else { return Environment::new() };
    let is_moved = |(name, default): &(&str, &str)| {
        let is_given = environment.iter().any(|(changed, value)| changed == name && value.is_some());
        let path = value(name).map_or_else(|| home.join(default), PathBuf::from);
        !is_given && !jail.may_read(&files::real_path(&path).unwrap_or(path))
    };
    let moved = MOVED.into_iter().filter(is_moved);
    moved.map(|(name, file)| (name.into(), Some(private.join(file).into()))).collect()
}

/// Refuses roots by which a session would reach the files, and so the
/// terminals, of the others.
fn check_roots(settings: &Settings, state_dir: &Path) -> Result<()> {
    let what = || format!("find the state directory '{}'", state_dir.display());
    for root in settings.jail.roots() {
        let home = files::real_path(state_dir).trying(what())?;
        if root.starts_with(&home) || home.starts_with(root) {
            return Err(Failure::failed(format!(
                "cannot confine the session to '{}': it contains the state directory '{}' with the input of \
                 every session",
                root.display(),
                home.display()
            )));
        }
    }
    Ok(())
}

/// Ends a session whose handle could not be printed.
pub(crate) fn withdraw(handle: &Handle) -> Result<()> {
    let state_dir = StateDir::open()?;
    let session = state_dir.session(&Target::Handle(handle.clone()))?;
    let cause = session::end_wholly(&session, Duration::ZERO, EndedBy::Kill)?;
    state_dir.remove(handle, cause)
}

/// The terminal that a session really is; every terminfo has an entry for it.
const TERM: &str = "xterm-256color";

/// Values that keep programs from waiting for an absent person.
const UNATTENDED: [(&str, &str); 9] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("LESS", "-eFRX"),
    ("SYSTEMD_PAGER", ""),
    ("AWS_PAGER", ""),
    ("PSQL_PAGER", "cat"),
    ("BAT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// How the child's environment differs from ours.
fn environment(interactive: bool, pager: bool, variables: Vec<(OsString, OsString)>) -> Environment {
    let mut environment: Environment = Vec::new();
    // These describe another terminal than the session's.
    for name in ["TMUX", "TMUX_PANE", "COLUMNS", "LINES"] {
        environment.push((name.into(), None));
    }
    environment.push(("TERM".into(), Some(TERM.into())));
    // The screen takes 24-bit colours, for which terminfo has no agreed name.
    environment.push(("COLORTERM".into(), Some("truecolor".into())));
    if interactive {
        // With it bash reads no rcfile.
        environment.push(("POSIXLY_CORRECT".into(), None));
    }
    if !pager {
        environment.extend(UNATTENDED.map(|(name, value)| (name.into(), Some(value.into()))));
    }
    environment.extend(variables.into_iter().map(|(name, value)| (name, Some(value))));
    environment
}
