//! A session's screen and its relay's report, for calls that type and watch the result.

use crate::{
    outcome::{Result, Trying},
    session::{
        Activity, Because, OutputLog, ScreenCache, SessionDir,
        client::{
            Looks, RelayClient, Typed,
            protocol::KeyModes,
            snapshot::{Parts, Snapshot},
        },
        rules::{self, Keys, Question, Rules, Seen, Shows},
        verdict,
    },
    sys::deadline::Deadline,
};

pub(crate) struct Scene<'a> {
    pub(crate) session: &'a SessionDir,
    // One connection for changes, and one for requests.
    changes: RelayClient,
    client: RelayClient,
    log: OutputLog,
    pub(crate) cache: ScreenCache,
    rules: Option<Rules>,
    // The program that the rules are for.
    path: Option<Vec<u8>>,
    pub(crate) now: Snapshot,
    pub(crate) rows: Vec<String>,
    /// The parts that the rules of the program found, if it has rules.
    pub(crate) seen: Option<Seen>,
    looks: Looks,
}

impl<'a> Scene<'a> {
    pub(crate) fn begin(session: &'a SessionDir) -> Result<Scene<'a>> {
        let open = || RelayClient::open(session)?.ok_or_else(|| session.ended());
        let log = session.log()?;
        let cache = ScreenCache::begin(session, &log)?;
        let (changes, client) = (open()?, open()?);
        let mut scene = Scene {
            session,
            changes,
            client,
            log,
            cache,
            rules: None,
            path: None,
            now: Snapshot::default(),
            rows: Vec::new(),
            seen: None,
            looks: Looks::new(),
        };
        scene.look()?;
        Ok(scene)
    }

    /// Looks again. The screen is no older than the relay's report.
    pub(crate) fn look(&mut self) -> Result<()> {
        self.now = self.client.snapshot(Parts::ACTIVITY)?.ok_or_else(|| self.session.ended())?;
        let length = self.log.length().trying("read the output")?;
        self.cache.advance(self.session, &self.log, length)?;
        self.rows = self.cache.screen.lines(0);
        if self.path != self.now.front.path {
            self.path.clone_from(&self.now.front.path);
            self.rules = self.path.as_ref().and_then(|path| Rules::of(self.session, path));
        }
        let look = |rules| verdict::look(rules, &self.now.front, &self.now.said, &self.cache.screen);
        self.seen = self.rules.as_ref().and_then(look);
        Ok(())
    }

    /// Waits until something has changed, or may have, and looks.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Result<()> {
        if !self.looks.wait(&mut self.changes, deadline)? {
            return Err(self.session.ended());
        }
        self.look()
    }

    /// Types bytes as they are.
    pub(crate) fn type_in(&mut self, bytes: &[u8], deadline: Deadline) -> Result<Typed> {
        self.looks = Looks::new();
        self.client.type_in(bytes, deadline)?.ok_or_else(|| self.session.ended())
    }

    pub(crate) fn modes(&mut self) -> Result<KeyModes> {
        self.client.modes()?.ok_or_else(|| self.session.ended())
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Does the program state itself that it is at this?
    pub(crate) fn states(&self, activity: Activity) -> bool {
        self.now.because.is_some_and(Because::is_stated) && self.now.activity == Some(activity)
    }

    /// Does it wait because that was reported, and not because it was seen?
    pub(crate) fn is_reported(&self) -> bool {
        self.now.because == Some(Because::Report)
    }

    pub(crate) fn shows(&self) -> Option<Shows> {
        self.seen.as_ref().map(|seen| seen.shows)
    }

    /// The question on the screen, and the keys that answer it.
    pub(crate) fn question(&self) -> Option<(Keys, &Question)> {
        match self.seen.as_ref()? {
            Seen { shows: Shows::Asks(keys), question: Some(question), .. } => Some((*keys, question)),
            _ => None,
        }
    }

    /// Does the program take a task, by its rules?
    pub(crate) fn takes_task(&self) -> bool {
        let is_seen = self.rules.as_ref().is_some_and(|rules| rules.has_input(&self.rows));
        self.shows() == Some(Shows::Rests) && is_seen
    }

    /// The row at which a line of input begins, by the rules or by what marks one.
    pub(crate) fn input_row(&self) -> Option<usize> {
        let is_input = |row: &String| {
            let row = rules::bare(row);
            row.starts_with(['❯', '›', '>']) || self.rules.as_ref().is_some_and(|rules| rules.is_input(row))
        };
        self.rules.as_ref().and(self.rows.iter().rposition(is_input))
    }
}
