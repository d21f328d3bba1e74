//! The commands that calls of `run` and `ask` have delivered: the call that owns each, its number among its shell's
//! commands, and its state if its call was killed.
//!
//! Pure. A command belongs to a call from before it is typed until its exit code has been reported. A call
//! that leaves before that leaves the command to the next call that attaches to it.

use crate::{
    relay::{
        clients::ClientId,
        command_tracker::{CommandTracker, Stretch},
    },
    session::client::job::{Handed, Job, LeftJob, Progress},
};

/// The most unclaimed commands that are kept.
const MOST: usize = 64;

/// How much of a command's text is kept.
const LONGEST_TEXT: usize = 8 * 1024;

#[derive(Default)]
pub(crate) struct Jobs {
    // In the order in which they were handed over.
    all: Vec<Entry>,
}

struct Entry {
    job: Job,
    // `None`: the call has left it.
    owner: Option<ClientId>,
    stage: Stage,
    // The command, or its start; empty if the call has not sent it.
    text: Vec<u8>,
    // `None`: nothing of it has been typed.
    tracker: Option<CommandTracker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its shell has not taken it.
    Unnumbered,
    /// It has, as its command of this number.
    Numbered(u64),
    Done,
    Lost(Lost),
}

/// Why a command's result will never be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Its call was killed before all of it was typed.
    Untyped,
    /// It was typed, and the shell has taken another instead.
    Untaken,
}

impl Lost {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Lost::Untyped => "the call was killed before its command was typed, which was never executed",
            Lost::Untaken => "the shell did not accept it, and never executed it",
        }
    }
}

impl Jobs {
    /// Updates this call's command, when this many bytes have been typed, and the log has this length; `is_fish`:
    /// its shell is fish.
    pub(crate) fn note(&mut self, owner: ClientId, job: Job, typed: u64, length: u64, is_fish: bool) {
        let at = match self.all.iter().position(|entry| entry.owner == Some(owner)) {
            Some(at) => at,
            None => {
                let (stage, text) = (Stage::Unnumbered, Vec::new());
                self.all.push(Entry { job, owner: Some(owner), stage, text, tracker: None });
                let surplus = self.all.len().saturating_sub(MOST);
                let mut left = 0..surplus;
                self.all.retain(|entry| entry.owner.is_some() || left.next().is_none());
                self.all.len() - 1
            }
        };
        if matches!(job.handed, Handed::Whole | Handed::Next) {
            // The shell executes one after the other: an earlier, untaken command is lost.
            for earlier in &mut self.all[..at] {
                let is_untaken = earlier.stage == Stage::Unnumbered && earlier.job.handed != Handed::Queued;
                if is_untaken && earlier.owner.is_none() {
                    earlier.stage = Stage::Lost(Lost::Untaken);
                }
            }
        }
        let entry = &mut self.all[at];
        entry.job = Job { typed, ..job };
        if job.handed != Handed::Queued {
            let tracker = entry.tracker.get_or_insert_with(|| CommandTracker::new(&job, is_fish, length));
            tracker.note_handed(job.handed, job.place);
        }
        let is_known = matches!(job.handed, Handed::Next | Handed::Printed | Handed::Asked);
        if is_known && entry.stage == Stage::Unnumbered {
            entry.stage = Stage::Numbered(job.last.saturating_add(1));
        }
    }

    /// Follows the commands through a stretch of output.
    pub(crate) fn note_printed(&mut self, printed: &Stretch) {
        for entry in self.all.iter_mut().filter(|entry| !matches!(entry.stage, Stage::Lost(_))) {
            if let Some(tracker) = entry.tracker.as_mut().filter(|tracker| !tracker.is_over()) {
                tracker.feed(printed);
            }
        }
    }

    /// Has the shell put its hooks back, so that it is to be given this call's command again, or a new prompt?
    pub(crate) fn is_mended(&self, owner: ClientId) -> bool {
        self.tracker(owner).is_some_and(CommandTracker::is_mended)
    }

    /// The shell that has put its hooks back has been given that.
    pub(crate) fn note_again(&mut self, owner: ClientId) {
        if let Some(tracker) = self.tracker_mut(owner) {
            tracker.note_handed(Handed::Whole, 0);
        }
    }

    /// This call's command is being interrupted.
    pub(crate) fn note_interrupted(&mut self, owner: ClientId) {
        if let Some(tracker) = self.tracker_mut(owner) {
            tracker.note_interrupted();
        }
    }

    /// The progress of this call's command; `None`: it has not delivered one.
    pub(crate) fn progress(&self, owner: ClientId) -> Option<Progress> {
        self.tracker(owner).map(CommandTracker::progress)
    }

    fn tracker(&self, owner: ClientId) -> Option<&CommandTracker> {
        self.all.iter().find(|entry| entry.owner == Some(owner))?.tracker.as_ref()
    }

    fn tracker_mut(&mut self, owner: ClientId) -> Option<&mut CommandTracker> {
        self.all.iter_mut().find(|entry| entry.owner == Some(owner))?.tracker.as_mut()
    }

    /// This is, or goes on, the command of this call.
    pub(crate) fn note_text(&mut self, owner: ClientId, text: &[u8]) {
        if let Some(entry) = self.all.iter_mut().find(|entry| entry.owner == Some(owner)) {
            let room = LONGEST_TEXT.saturating_sub(entry.text.len());
            entry.text.extend_from_slice(&text[..text.len().min(room)]);
        }
    }

    /// The command of a call that is this one of a shell, or that the shell is being handed.
    pub(crate) fn text(&self, level: usize, seq: u64) -> Option<String> {
        let is_it = |entry: &&Entry| entry.stage == Stage::Numbered(seq) && entry.job.level == level;
        let comes = |entry: &&Entry| {
            entry.stage == Stage::Unnumbered && entry.job.handed == Handed::InPart && entry.job.level == level
        };
        let entry = self.all.iter().find(is_it).or_else(|| self.all.iter().rev().find(comes))?;
        let text = String::from_utf8_lossy(&entry.text).trim_end_matches('\n').to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// This shell takes the last delivered command, as its command of this number.
    pub(crate) fn note_taken(&mut self, level: usize, seq: u64) {
        let waits = |entry: &&mut Entry| {
            entry.stage == Stage::Unnumbered && entry.job.handed == Handed::Whole && entry.job.level == level
        };
        if let Some(entry) = self.all.iter_mut().rev().find(waits) {
            entry.stage = Stage::Numbered(seq);
        }
    }

    /// This command of a shell's is done. Is it a call's?
    pub(crate) fn note_done(&mut self, level: usize, seq: u64) -> bool {
        let is_it = |entry: &&mut Entry| entry.stage == Stage::Numbered(seq) && entry.job.level == level;
        let entry = self.all.iter_mut().find(is_it);
        entry.map(|entry| entry.stage = Stage::Done).is_some()
    }

    /// Calls have left: `is_there` returns false for them; `typed` is the number of bytes typed by now. Returns
    /// the calls whose command may be typed in part: that part must be removed.
    pub(crate) fn note_left(&mut self, is_there: impl Fn(ClientId) -> bool, typed: u64) -> Vec<ClientId> {
        let is_resumed = |job: Job| !matches!(job.handed, Handed::Asked | Handed::Foreign);
        self.all.retain(|entry| is_resumed(entry.job) || entry.owner.is_some_and(&is_there));
        let mut begun = Vec::new();
        for entry in &mut self.all {
            let Some(owner) = entry.owner.take_if(|owner| !is_there(*owner)) else { continue };
            if entry.job.handed != Handed::Printed {
                // The bytes that deliver it are not an answer to it.
                entry.job.typed = typed;
            }
            if entry.stage == Stage::Unnumbered && matches!(entry.job.handed, Handed::Queued | Handed::InPart)
            {
                if entry.job.handed == Handed::InPart {
                    begun.push(owner);
                }
                entry.stage = Stage::Lost(Lost::Untyped);
            }
        }
        begun
    }

    /// This call has printed the result of its command.
    pub(crate) fn note_told(&mut self, owner: ClientId) {
        self.all.retain(|entry| entry.owner != Some(owner));
    }

    /// Passes the command that was left last to this call, or the reason why it is lost; `None`: there was
    /// none.
    pub(crate) fn attach(&mut self, owner: ClientId) -> Option<Result<Job, Lost>> {
        let is_left = |entry: &Entry| entry.owner.is_none();
        let goes_on = |entry: &Entry| is_left(entry) && !matches!(entry.stage, Stage::Lost(_));
        if let Some(entry) = self.all.iter_mut().rev().find(|entry| goes_on(entry)) {
            entry.owner = Some(owner);
            return Some(Ok(entry.job));
        }
        let at = self.all.iter().rposition(is_left)?;
        match self.all.remove(at).stage {
            Stage::Lost(lost) => Some(Err(lost)),
            _ => None,
        }
    }

    /// A command that has been left, and goes on.
    pub(crate) fn left(&self) -> Option<LeftJob> {
        let runs = |entry: &&Entry| entry.owner.is_none() && matches!(entry.stage, Stage::Numbered(_));
        let entry = self.all.iter().rev().find(runs)?;
        Some(LeftJob { level: entry.job.level, last: entry.job.last })
    }

    /// Has one been typed and left that the shell has not taken yet?
    pub(crate) fn is_left_untaken(&self) -> bool {
        self.all.iter().any(|entry| entry.owner.is_none() && entry.stage == Stage::Unnumbered)
    }

    /// How many have been typed, and will end before what this call types now, if it is one.
    pub(crate) fn untaken(&self, typist: Option<ClientId>) -> u64 {
        let is_untaken = |entry: &&Entry| {
            entry.stage == Stage::Unnumbered
                && entry.job.handed == Handed::Whole
                && (entry.owner.is_none() || entry.owner != typist)
        };
        self.all.iter().filter(is_untaken).count() as u64
    }

    /// The number of coming completions that belong to calls.
    pub(crate) fn ahead(&self) -> u64 {
        let is_ahead = |entry: &&Entry| match entry.stage {
            Stage::Unnumbered => entry.job.handed == Handed::Whole,
            Stage::Numbered(_) => true,
            Stage::Done | Stage::Lost(_) => false,
        };
        self.all.iter().filter(is_ahead).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    const LAST: u64 = 4;

    fn job(handed: Handed) -> Job {
        Job { handed, last: LAST, ..Job::default() }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Says(Handed),
        Taken,
        Done(u64),
        /// The call is killed.
        Killed,
        Told,
        /// Another call hands a command over.
        Next,
    }
    use Step::*;

    type Given = Option<Result<Handed, Lost>>;

    /// The command for another call after these steps, and the completions that belonged to a call.
    fn after(steps: &[Step]) -> (Given, Vec<u64>) {
        let (mut jobs, mut owned, mut taken_back) = (Jobs::default(), Vec::new(), false);
        let mut last = LAST;
        for step in steps {
            match *step {
                Says(handed) => jobs.note(ClientId::of(1), job(handed), 6, 0, false),
                Taken => jobs.note_taken(0, last + 1),
                Done(number) => {
                    last = number;
                    owned.extend(jobs.note_done(0, number).then_some(number));
                }
                Killed => taken_back |= !jobs.note_left(|id| id != ClientId::of(1), 7).is_empty(),
                Told => jobs.note_told(ClientId::of(1)),
                Next => jobs.note(ClientId::of(2), job(Handed::Whole), 6, 0, false),
            }
        }
        assert_eq!(taken_back, matches!(steps, [Says(Handed::InPart), Killed, ..]), "{steps:?}");
        (jobs.attach(ClientId::of(3)).map(|given| given.map(|job| job.handed)), owned)
    }

    #[test]
    fn a_command_whose_call_is_killed_can_be_resumed() {
        let [queued, in_part, whole, next, printed] =
            [Handed::Queued, Handed::InPart, Handed::Whole, Handed::Next, Handed::Printed];
        let cases: [(&[Step], Given, &[u64]); 19] = [
            (&[], None, &[]),
            (&[Says(queued)], None, &[]),
            (&[Says(queued), Killed], Some(Err(Lost::Untyped)), &[]),
            (&[Says(queued), Told], None, &[]),
            (&[Says(in_part), Killed], Some(Err(Lost::Untyped)), &[]),
            (&[Says(queued), Says(whole), Killed], Some(Ok(whole)), &[]),
            (&[Says(whole), Killed, Taken, Done(5)], Some(Ok(whole)), &[5]),
            (&[Says(whole), Taken, Killed, Done(5)], Some(Ok(whole)), &[5]),
            (&[Says(whole), Taken, Done(5), Killed], Some(Ok(whole)), &[5]),
            (&[Says(whole), Taken, Done(5), Told, Killed], None, &[5]),
            // Others have something before it: an interrupt at the prompt.
            (&[Says(whole), Done(5), Taken, Done(6), Killed], Some(Ok(whole)), &[6]),
            (&[Says(next), Killed, Done(5)], Some(Ok(next)), &[5]),
            (&[Says(in_part), Says(next), Says(printed), Killed, Done(5)], Some(Ok(printed)), &[5]),
            (&[Says(whole), Taken, Says(printed), Done(5), Killed], Some(Ok(printed)), &[5]),
            // The next is delivered: a taken command goes on, and an untaken one never runs.
            (&[Says(whole), Taken, Done(5), Killed, Next, Taken, Done(6)], Some(Ok(whole)), &[5, 6]),
            (&[Says(whole), Killed, Next, Taken, Done(5)], Some(Err(Lost::Untaken)), &[5]),
            (&[Says(whole), Taken, Done(5), Done(6), Told], None, &[5]),
            // A command that `ask` typed.
            (&[Says(Handed::Asked), Done(5), Killed], None, &[5]),
            (&[Says(Handed::Asked), Killed, Done(5)], None, &[]),
        ];
        for (steps, given, owned) in cases {
            assert_eq!(after(steps), (given, owned.to_vec()), "{steps:?}");
        }
    }

    #[test]
    fn whenever_the_call_is_killed_its_completion_is_its() {
        let steps = [Says(Handed::Queued), Says(Handed::Whole), Taken, Says(Handed::Printed), Done(5)];
        for at in 2..=steps.len() {
            let mut killed = steps.to_vec();
            killed.insert(at, Killed);
            // A killed call sends nothing more.
            let mut index = 0;
            killed.retain(|step| {
                index += 1;
                index <= at || !matches!(step, Says(_))
            });
            let (given, owned) = after(&killed);
            assert!(given.is_some_and(|given| given.is_ok()), "{killed:?}");
            assert_eq!(owned, [5], "{killed:?}");
        }
    }

    #[test]
    fn a_left_command_goes_to_one_call_and_the_newest_comes_first() {
        let mut jobs = Jobs::default();
        for (id, handed) in [(1, Handed::Next), (2, Handed::Printed), (3, Handed::Queued)] {
            let job = Job { handed, place: id, last: id, ..Job::default() };
            jobs.note(ClientId::of(id), job, 6, 0, false);
        }
        assert_eq!(jobs.attach(ClientId::of(9)), None, "all have their calls");
        jobs.note_left(|_| false, 7);
        assert_eq!(jobs.left(), Some(LeftJob { level: 0, last: 2 }));
        let mut given = [4, 5, 6, 7]
            .map(|id| jobs.attach(ClientId::of(id)).map(|given| given.map(|job| (job.place, job.typed))));
        assert_eq!(given, [Some(Ok((2, 6))), Some(Ok((1, 7))), Some(Err(Lost::Untyped)), None]);
        // A call that got a command may be killed, too.
        jobs.note_left(|id| id != ClientId::of(5), 8);
        given[0] = jobs.attach(ClientId::of(8)).map(|given| given.map(|job| (job.place, job.typed)));
        assert_eq!(given[0], Some(Ok((1, 8))));
    }

    #[test]
    fn however_calls_come_and_go_each_completion_is_of_one_and_not_too_many_are_kept() {
        for (seed, mut random) in rounds(300) {
            let (mut jobs, mut last, mut alive) = (Jobs::default(), 0, Vec::new());
            for id in 0..200 {
                let id = ClientId::of(id);
                jobs.note(id, Job { handed: Handed::Whole, last, ..Job::default() }, 0, 0, false);
                alive.push(id);
                if random.bool() {
                    last += 1;
                    assert!(!jobs.note_done(0, last), "seed {seed}: it is nobody's");
                }
                let killed_at = random.u8(..4);
                let mut kill = |step, jobs: &mut Jobs| {
                    if step == killed_at {
                        alive.pop();
                        jobs.note_left(|id| alive.contains(&id), 0);
                    }
                };
                kill(0, &mut jobs);
                jobs.note_taken(0, last + 1);
                kill(1, &mut jobs);
                last += 1;
                assert!(jobs.note_done(0, last), "seed {seed}");
                kill(2, &mut jobs);
                if killed_at == 3 {
                    jobs.note_told(id);
                } else if random.bool() {
                    assert!(jobs.attach(id).is_some_and(|given| given.is_ok()), "seed {seed}");
                    jobs.note_told(id);
                }
                assert!(jobs.all.len() <= MOST, "seed {seed}");
            }
        }
    }
}
