//! The task file of a worker: `<root>/.nbs/workers/<handle>.md`.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    outcome::{Failure, Result, Trying},
    sys::{
        clock,
        files::{self, Folder},
        host::Host,
    },
    worker::{
        Role, WorkerHandle,
        phase::Reading,
        status::{self, verdict},
    },
};

/// The directory of workers, below the root of their project.
const FOLDER: &str = ".nbs/workers";

/// The field for the machine that a worker is on.
const MACHINE: &str = "Machine";

/// More than a file of Markdown ever has.
const LONGEST: u64 = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct TaskFile {
    folder: PathBuf,
    worker: WorkerHandle,
}

impl TaskFile {
    pub(crate) fn of(root: &Path, worker: WorkerHandle) -> TaskFile {
        TaskFile { folder: root.join(FOLDER), worker }
    }

    /// Those that are in a project.
    pub(crate) fn all(root: &Path) -> Result<Vec<TaskFile>> {
        let folder = root.join(FOLDER);
        let names = files::there(Folder::open(&folder).and_then(|folder| folder.names()));
        let names = names.trying(format_args!("read '{}'", folder.display()))?.unwrap_or_default();
        let workers = names.iter().filter_map(|name| name.as_encoded_bytes().strip_suffix(b".md"));
        Ok(workers.filter_map(WorkerHandle::parse).map(|worker| TaskFile::of(root, worker)).collect())
    }

    /// All workers of this directory, including this one; none if it cannot be read.
    pub(crate) fn all_workers(&self) -> Vec<WorkerHandle> {
        let root = self.folder.ancestors().nth(2);
        let files = root.and_then(|root| TaskFile::all(root).ok()).unwrap_or_default();
        files.into_iter().map(|file| file.worker).collect()
    }

    /// The task file of a new worker; it does not exist yet.
    pub(crate) fn fresh(root: &Path, role: &Role) -> Result<TaskFile> {
        Ok(TaskFile::of(root, WorkerHandle::fresh(role).trying("make a handle")?))
    }

    /// Writes it, whole or not at all.
    pub(crate) fn write(&self, root: &Path, skill: &[u8], instructions: &[u8]) -> Result<()> {
        let added = [root.join(".nbs"), self.folder.clone()].into_iter().filter(|folder| !folder.exists());
        let added: Vec<PathBuf> = added.collect();
        let written = fs::create_dir_all(&self.folder).and_then(|()| {
            let folder = Folder::open(&self.folder)?;
            let machine = if folder.may_be_shared() { Host::ours().ok() } else { None };
            let content = content(&self.worker, skill, instructions, SystemTime::now(), machine);
            OpenOptions::new().write(true).create_new(true).open(self.beside())?.write_all(&content)?;
            folder.rename(self.beside_name().as_ref(), self.name().as_ref())
        });
        if written.is_err() {
            // Removing fails harmlessly if it does not exist, or if others use the directory.
            let _ = fs::remove_file(self.beside());
            for folder in added.iter().rev() {
                let _ = fs::remove_dir(folder);
            }
        }
        written.trying(format_args!("write '{}'", self.path().display()))
    }

    fn name(&self) -> String {
        format!("{}.md", self.worker)
    }

    /// The temporary name before the file is complete.
    fn beside(&self) -> PathBuf {
        self.folder.join(self.beside_name())
    }

    fn beside_name(&self) -> String {
        format!(".{}.new", self.worker)
    }

    pub(crate) fn worker(&self) -> &WorkerHandle {
        &self.worker
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(self.name())
    }

    /// Takes the worker back, whose agent was not started.
    pub(crate) fn remove(&self) -> Result<()> {
        // Left only by one that was killed while it wrote.
        let _ = fs::remove_file(self.beside());
        fs::remove_file(self.path()).trying(format_args!("remove '{}'", self.path().display()))
    }

    /// Reads the state, if there is one, and the time of the start. `None` if there is no such file.
    pub(crate) fn read(&self) -> Result<Option<(Option<String>, Option<SystemTime>)>> {
        let content = match Folder::open(&self.folder).and_then(|folder| folder.read(&self.name(), LONGEST)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            other => other.trying(format_args!("read '{}'", self.path().display()))?,
        };
        let started = status::field(&content, "Started");
        let started = started.and_then(|text| clock::parse_plain(std::str::from_utf8(text).ok()?));
        Ok(Some((status::state(&content), started)))
    }

    /// The name of the other machine that it is said to be on, where several may have the
    /// project: who looks after it is not to be seen from here.
    pub(crate) fn elsewhere(&self) -> Option<String> {
        let folder = Folder::open(&self.folder).ok().filter(Folder::may_be_shared)?;
        let content = folder.read(&self.name(), LONGEST).ok()?;
        let machine = status::field(&content, MACHINE)?;
        let ours = Host::ours().ok()?;
        ours.other_name(machine).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn reading(&self) -> Result<Reading> {
        Ok(match self.read()? {
            None => Reading::Absent,
            Some((Some(state), _)) if verdict(&state).is_some() => Reading::Final(state),
            Some(_) => Reading::Open,
        })
    }

    /// Writes down how a worker was ended that has not said how it ended itself.
    pub(crate) fn conclude(&self, state: &str) -> Result<()> {
        let (name, beside) = (self.name(), self.beside_name());
        let conclude = |folder: &Folder| loop {
            let content = folder.read(&name, LONGEST)?;
            if status::state(&content).is_some_and(|state| verdict(&state).is_some()) {
                return Ok(());
            }
            let mut concluded = status::with(&content, "State", state);
            if status::field(&content, "Completed") == Some(b"") {
                concluded = status::with(&concluded, "Completed", &clock::plain(SystemTime::now()));
            }
            let mode = folder.open_file(&name)?.metadata()?.permissions();
            // Left by one that was killed while it wrote, or by us the last time.
            let _ = folder.remove_file(beside.as_ref());
            folder.create(&beside, &concluded)?;
            folder.open_file(&beside)?.set_permissions(mode)?;
            // We only replace the content that we read, so that no other change is lost.
            if folder.read(&name, LONGEST)? == content {
                return folder.rename_over(beside.as_ref(), name.as_ref());
            }
        };
        let concluded = Folder::open(&self.folder).and_then(|folder| {
            let concluded = conclude(&folder);
            // If the file already has its final name, there is nothing else to remove.
            let _ = folder.remove_file(beside.as_ref());
            concluded
        });
        concluded.trying(format_args!("write the state into '{}'", self.path().display()))
    }

    /// A further piece of what the worker's sessions printed: `<handle>.log`,
    /// beside the task file.
    pub(crate) fn output(&self) -> io::Result<fs::File> {
        let name = format!("{}.log", self.worker);
        let folder = Folder::open(&self.folder)?;
        match folder.create(&name, b"") {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => folder.open_appending(&name),
        }
    }

    /// The error for a missing worker.
    pub(crate) fn missing(&self) -> Failure {
        Failure::not_found(format!(
            "there is no worker '{}' in '{}'; try 'nbs-spawn-worker --list'",
            self.worker,
            self.folder.display()
        ))
    }
}

fn content(
    worker: &WorkerHandle,
    skill: &[u8],
    instructions: &[u8],
    started: SystemTime,
    machine: Option<Host>,
) -> Vec<u8> {
    let mut content = format!("# Worker {worker}\n\n## Skill\n\n").into_bytes();
    content.extend_from_slice(skill);
    content.extend_from_slice(b"\n\n## Task\n\n");
    content.extend_from_slice(instructions);
    content.extend_from_slice(TIPS.as_bytes());
    let started = clock::plain(started);
    content.extend(format!("\n## Status\n\nState: running\nStarted: {started}\n").bytes());
    if let Some(machine) = machine {
        content.extend([MACHINE.as_bytes(), b": ", &machine.place(), b"\n"].concat());
    }
    content.extend(b"Completed:\n\n## Log\n\n");
    content
}

const TIPS: &str = "

## Tips

- This file is yours to edit: keep the Log, below, as you go.
- When you are done, write the Log and `Completed:` (UTC) first. Then change the
  `State:` of the Status block, at the end of this file, to `completed`, to
  `failed`, or to `escalated` if a person must decide. Do that last: your session
  ends as soon as it is written.
- You have a terminal of your own, and nobody watches it. Write what you want to
  report into the Log.
- For long commands, or commands that ask questions, use `nbs-ts`: `h=$(nbs-ts
  create bash)`, `nbs-ts run \"$h\" make`, `nbs-ts kill \"$h\"`; `nbs-ts help` shows more.
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_worker_that_was_ended_is_told_of_unless_it_has_said_how_it_ended() {
        let root = std::env::temp_dir().join(format!("nbs-conclude-{}", std::process::id()));
        let task = TaskFile::of(&root, WorkerHandle::parse(b"pythia-01234abc").unwrap());
        task.write(&root, b"skill", b"task").unwrap();
        let fresh = fs::read_to_string(task.path()).unwrap();
        for (said, state) in
            [("running", "timeout"), ("Done", "done"), ("odd", "timeout"), ("ended", "timeout")]
        {
            fs::write(task.path(), fresh.replace("State: running", &format!("State: {said}"))).unwrap();
            task.conclude(status::TIMED_OUT).unwrap();
            assert_eq!(task.read().unwrap().unwrap().0.as_deref(), Some(state), "{said}");
        }
        fs::write(task.path(), fresh.replace("Completed:", "Completed: now")).unwrap();
        task.conclude(status::ENDED).unwrap();
        let content = fs::read_to_string(task.path()).unwrap();
        let expected =
            fresh.replace("Completed:", "Completed: now").replace("State: running", "State: ended");
        assert_eq!(content, expected);
        fs::remove_file(task.path()).unwrap();
        assert!(task.conclude(status::ENDED).is_err() && !task.path().exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn skill_and_task_are_copied_exactly_and_do_not_pass_for_the_state() {
        let worker = WorkerHandle::parse(b"pythia-01234abc").unwrap();
        let skill = b"# Skill\r\n```\n## Status\nState: done\n\xff\x01 no end";
        let task = b"`$(x)` '\"\n## Status\nState: failed\nStarted: 1999-01-01 00:00:00";
        let started = UNIX_EPOCH + Duration::from_secs(1_774_449_000);
        let content = content(&worker, skill, task, started, None);
        for part in [&skill[..], &task[..]] {
            assert!(content.windows(part.len()).any(|window| window == part));
        }
        assert_eq!(status::state(&content).as_deref(), Some("running"));
        assert_eq!(status::field(&content, "Started"), Some(&b"2026-03-25 14:30:00"[..]));
        assert_eq!(status::field(&content, "Completed"), Some(&b""[..]));
        assert!(content.ends_with(b"\nCompleted:\n\n## Log\n\n"));
    }
}
