//! The processes that end the session, and the cause, if it does not end by itself.
//!
//! They are a process from outside (`kill`) or, once a limit has been reached, a process that the relay
//! starts below itself, the terminator. Both tell the relay that they have begun, and want it to stay until
//! they are done: it is the parent of all remaining processes of the session, and its presence proves that
//! none has escaped.
//!
//! Nothing here asks the system for anything: events and times are passed in.

use std::time::{Duration, Instant};

use crate::{
    relay::{clients::ClientId, recorder::RETRY},
    session::EndedBy,
    sys::{child::ExitStatus, deadline::Deadline},
};

/// The pause before a failed end of a session is tried again. The reason may persist, and finding a session's
/// processes is some work.
const END_AGAIN: Duration = Duration::from_secs(10);

pub(crate) struct Shutdown {
    // The limit that has been reached, and ends the session.
    reached: Option<EndedBy>,
    terminator: Terminator,
    // Another process ends it for another cause than that limit.
    killed: bool,
    // The clients that are ending it, and want us to stay until they are done.
    clients: Vec<ClientId>,
}

/// The process that ends a session which has reached a limit.
#[derive(Clone, Copy)]
enum Terminator {
    /// One is to be started at this moment, if the command runs then.
    Due(Instant),
    /// The same, whether or not it runs: the last was killed, or could not be started, and processes may be
    /// left.
    Missing(Instant),
    Runs(u32),
}

impl Shutdown {
    pub(crate) fn new(now: Instant) -> Shutdown {
        Shutdown { reached: None, terminator: Terminator::Due(now), killed: false, clients: Vec::new() }
    }

    /// May a limit end it? A process that has begun to end it has priority.
    pub(crate) fn may_reach_limit(&self, command_runs: bool) -> bool {
        command_runs && self.reached.is_none() && !self.killed
    }

    /// A limit that may end the session does.
    pub(crate) fn note_reached(&mut self, limit: EndedBy) {
        self.reached = Some(limit);
    }

    /// When to start a terminator; `None`: never in this state.
    pub(crate) fn start(&self, command_runs: bool) -> Option<Deadline> {
        match self.terminator {
            _ if self.reached.is_none() || self.is_begun() => None,
            Terminator::Due(moment) if command_runs => Some(Deadline::at(moment)),
            Terminator::Missing(moment) => Some(Deadline::at(moment)),
            Terminator::Due(_) | Terminator::Runs(_) => None,
        }
    }

    /// The cause for a terminator that is started now, and whether it must kill at once: if an earlier one
    /// was killed, or could not be started, the grace is over, and SIGTERM handlers have had their chance.
    pub(crate) fn order(&self) -> Option<(EndedBy, bool)> {
        Some((self.reached?, matches!(self.terminator, Terminator::Missing(_))))
    }

    /// One has been started, or (`None`) could not be.
    pub(crate) fn note_started(&mut self, terminator: Option<u32>, now: Instant) {
        self.terminator = terminator.map_or(Terminator::Missing(now + RETRY), Terminator::Runs);
    }

    pub(crate) fn is_terminator(&self, pid: u32) -> bool {
        matches!(self.terminator, Terminator::Runs(terminator) if terminator == pid)
    }

    /// The terminator has ended. If it was killed, another follows. If not, and the command has not ended, it
    /// did not find the session: then at least the command must be killed; returns whether it must.
    pub(crate) fn note_terminator_ended(
        &mut self,
        status: ExitStatus,
        command_runs: bool,
        now: Instant,
    ) -> bool {
        let was_killed = matches!(status, ExitStatus::Signal(_));
        self.terminator = match was_killed {
            true => Terminator::Missing(now + RETRY),
            false => Terminator::Due(now + END_AGAIN),
        };
        command_runs && !was_killed
    }

    /// A client ends the session, for this cause.
    pub(crate) fn begin(&mut self, client: ClientId, cause: &str) {
        let is_terminator = self.reached.is_some_and(|limit| limit.word() == cause);
        self.killed |= !is_terminator;
        // It may report this more than once.
        if !self.clients.contains(&client) {
            self.clients.push(client);
        }
    }

    /// The client is done: no process is left.
    pub(crate) fn note_done(&mut self, client: ClientId) {
        self.clients.retain(|other| *other != client);
        if let Terminator::Missing(moment) = self.terminator {
            self.terminator = Terminator::Due(moment);
        }
    }

    /// A client that was to end the session and has left before the end is a killed `kill`: a later end has
    /// another cause.
    pub(crate) fn forget_who_left(&mut self, is_there: impl Fn(ClientId) -> bool, command_runs: bool) {
        let count = self.clients.len();
        self.clients.retain(|client| is_there(*client));
        if self.clients.len() < count && self.clients.is_empty() && command_runs {
            self.killed = false;
        }
    }

    /// Must the relay stay, whatever else has ended?
    pub(crate) fn must_stay(&self, command_runs: bool) -> bool {
        matches!(self.terminator, Terminator::Runs(_))
            || self.start(command_runs).is_some()
            || self.is_begun()
    }

    /// Has a client reported that it is ending the session?
    fn is_begun(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Is a client ending it, so that it does not wait for unwritten output?
    pub(crate) fn is_killed(&self) -> bool {
        self.killed
    }

    /// Does anything end the session that is not its own program?
    pub(crate) fn has_cause(&self) -> bool {
        self.killed || self.reached.is_some()
    }

    /// The cause of the session's end, if its command ended with this status (`None`: unknown).
    pub(crate) fn cause(&self, status: Option<ExitStatus>) -> EndedBy {
        match (self.reached, status) {
            (Some(limit), _) => limit,
            (None, _) if self.killed => EndedBy::Kill,
            (None, Some(_)) => EndedBy::Itself,
            (None, None) => EndedBy::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Happens::*;

    const CODE: ExitStatus = ExitStatus::Code(1);
    const SIGNAL: ExitStatus = ExitStatus::Signal(9);

    /// An event of a session.
    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Limit,
        Started(Option<u32>),
        EnderEnds(ExitStatus),
        Begins(u64, &'static str),
        Done(u64),
        AllLeaveBut(u64),
        CommandEnds,
    }

    /// When a terminator is to be started, and whether it shall kill at once.
    type Start = Option<(Duration, bool)>;

    /// The remaining actions after these events: the relay's part in words, and whether the command must be
    /// killed.
    fn left_to_do(happens: &[Happens]) -> ((Start, String, EndedBy), bool) {
        let now = Instant::now();
        let (mut ending, mut runs, mut kills) = (Shutdown::new(now), true, false);
        for each in happens {
            kills = false;
            match *each {
                Limit => ending.note_reached(EndedBy::Timeout),
                Started(pid) => ending.note_started(pid, now),
                EnderEnds(status) => kills = ending.note_terminator_ended(status, runs, now),
                Begins(client, cause) => ending.begin(ClientId::of(client), cause),
                Done(client) => ending.note_done(ClientId::of(client)),
                AllLeaveBut(client) => {
                    ending.forget_who_left(|other| other == ClientId::of(client), runs);
                }
                CommandEnds => runs = false,
            }
        }
        let after = |start: Deadline| {
            let mut after = [Duration::ZERO, RETRY, END_AGAIN].into_iter();
            after.find(|after| start == Deadline::at(now + *after)).unwrap()
        };
        let start = ending.start(runs).map(|start| (after(start), ending.order().unwrap().1));
        let words = [
            (ending.may_reach_limit(runs), "limits count"),
            (ending.must_stay(runs), "stays"),
            (ending.is_killed(), "killed"),
        ];
        let words: Vec<&str> = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
        ((start, words.join(", "), ending.cause(Some(CODE))), kills)
    }

    #[test]
    fn the_table_of_endings_holds() {
        use EndedBy::{Itself, Kill, Timeout};
        let (first, second) = (Some((Duration::ZERO, false)), Some((RETRY, true)));
        let another_look = Some((END_AGAIN, false));
        let (kill, other) = (Begins(1, "kill"), Begins(2, "kill"));
        let (runs, none, terminator) = (Started(Some(7)), Started(None), Begins(3, "timeout"));
        let cases: [(&[Happens], Start, &str, EndedBy); 28] = [
            // By itself.
            (&[], None, "limits count", Itself),
            (&[CommandEnds], None, "", Itself),
            // By a limit.
            (&[Limit], first, "stays", Timeout),
            (&[Limit, CommandEnds], None, "", Timeout),
            (&[Limit, runs], None, "stays", Timeout),
            (&[Limit, runs, CommandEnds], None, "stays", Timeout),
            (&[Limit, runs, terminator], None, "stays", Timeout),
            (&[Limit, runs, terminator, CommandEnds, AllLeaveBut(0)], None, "stays", Timeout),
            (&[Limit, runs, CommandEnds, EnderEnds(CODE)], None, "", Timeout),
            // Its terminator was killed, or could not be started: processes may be left.
            (&[Limit, none], second, "stays", Timeout),
            (&[Limit, none, CommandEnds], second, "stays", Timeout),
            (&[Limit, runs, EnderEnds(SIGNAL)], second, "stays", Timeout),
            (&[Limit, runs, EnderEnds(SIGNAL), CommandEnds], second, "stays", Timeout),
            (&[Limit, runs, EnderEnds(SIGNAL), runs], None, "stays", Timeout),
            // It has reported to us before; once it has hung up, no client is ending the session.
            (&[Limit, runs, terminator, EnderEnds(SIGNAL)], None, "stays", Timeout),
            (&[Limit, runs, terminator, EnderEnds(SIGNAL), AllLeaveBut(0)], second, "stays", Timeout),
            // It has not found the session.
            (&[Limit, runs, EnderEnds(CODE)], another_look, "stays", Timeout),
            // A client ends it: no limit comes first any more.
            (&[kill], None, "stays, killed", Kill),
            (&[kill, CommandEnds], None, "stays, killed", Kill),
            (&[kill, CommandEnds, Done(1)], None, "killed", Kill),
            (&[kill, other, CommandEnds, Done(1)], None, "stays, killed", Kill),
            // A client that left before the end has not ended it; one that was done has.
            (&[kill, AllLeaveBut(0)], None, "limits count", Itself),
            (&[kill, other, AllLeaveBut(2)], None, "stays, killed", Kill),
            (&[kill, CommandEnds, AllLeaveBut(0)], None, "killed", Kill),
            (&[kill, Done(1), AllLeaveBut(0)], None, "killed", Kill),
            // A client ends it after a limit: that was first, and no terminator need be started.
            (&[Limit, kill], None, "stays, killed", Timeout),
            (&[Limit, none, kill, CommandEnds], None, "stays, killed", Timeout),
            (&[Limit, none, kill, CommandEnds, Done(1)], None, "killed", Timeout),
        ];
        for (happens, start, words, cause) in cases {
            assert_eq!(left_to_do(happens).0, (start, words.to_owned(), cause), "{happens:?}");
        }
    }

    #[test]
    fn the_command_is_killed_where_its_terminator_has_not_found_it_and_was_not_killed() {
        let kills = |happens| left_to_do(happens).1;
        assert!(kills(&[Limit, Started(Some(7)), EnderEnds(CODE)]));
        assert!(!kills(&[Limit, Started(Some(7)), EnderEnds(SIGNAL)]));
        assert!(!kills(&[Limit, Started(Some(7)), CommandEnds, EnderEnds(CODE)]));
    }

    #[test]
    fn its_terminator_is_the_one_that_runs() {
        let now = Instant::now();
        let mut ending = Shutdown::new(now);
        assert!(ending.order().is_none());
        ending.note_reached(EndedBy::Owner);
        assert_eq!(ending.order(), Some((EndedBy::Owner, false)));
        ending.note_started(Some(7), now);
        assert!(ending.is_terminator(7) && !ending.is_terminator(8));
        ending.note_terminator_ended(SIGNAL, true, now);
        assert!(!ending.is_terminator(7));
    }

    #[test]
    fn an_unseen_end_has_an_unknown_cause_unless_nbs_ended_it() {
        let mut ending = Shutdown::new(Instant::now());
        assert_eq!(ending.cause(None), EndedBy::Unknown);
        ending.begin(ClientId::of(1), "kill");
        assert_eq!(ending.cause(None), EndedBy::Kill);
        ending.note_reached(EndedBy::Timeout);
        assert_eq!(ending.cause(None), EndedBy::Timeout);
    }
}
