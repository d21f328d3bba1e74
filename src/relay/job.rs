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
    session::{
        client::job::{Handed, Job, LeftJob, Progress, Trouble},
        shell::DeliveredBy,
    },
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
    lost: Option<Lost>,
    // Its shell has reported that it is done.
    ended: bool,
    // It is being delivered.
    is_delivered: bool,
    // Why it could not be; an interrupt came while the shell was about to read it, or read it.
    trouble: Option<Trouble>,
    is_cut: bool,
    // The command, or its start; empty if the call has not sent it.
    text: Vec<u8>,
    // `None`: its delivery has not begun.
    tracker: Option<CommandTracker>,
}

impl Entry {
    fn new(job: Job, owner: ClientId) -> Entry {
        let (owner, text) = (Some(owner), Vec::new());
        let (lost, ended, is_delivered, trouble, is_cut) = (None, false, false, None, false);
        Entry { job, owner, lost, ended, is_delivered, trouble, is_cut, text, tracker: None }
    }

    fn note_handed(&mut self, handed: Handed, place: u64) {
        if let Some(tracker) = &mut self.tracker {
            tracker.note_handed(handed, place);
        }
    }

    /// Its number among the commands of its shell, once the shell has it; not for one that may have run before.
    fn number(&self) -> Option<u64> {
        let is_calls = self.lost.is_none() && self.job.handed != Handed::Foreign;
        self.tracker.as_ref().filter(|_| is_calls)?.number()
    }

    /// An interrupt has come: its shell has not all of it.
    fn note_cut(&mut self) {
        self.is_cut = true;
        if self.owner.is_none() {
            self.lost = Some(Lost::Untyped);
        }
    }

    fn has_begun(&self) -> bool {
        self.tracker.as_ref().is_some_and(|tracker| tracker.progress().has_begun())
    }

    /// The shell has not taken it yet.
    fn is_untaken(&self) -> bool {
        self.lost.is_none() && self.number().is_none()
    }

    fn is_it(&self, level: usize, seq: u64) -> bool {
        !self.ended && self.job.level == level && self.number() == Some(seq)
    }
}

/// How the delivery of a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryEnd {
    Whole,
    /// An interrupt has come: the shell does not read the rest.
    Cut,
    /// It will never be executed, for this reason.
    Lost(Trouble),
}

/// Why a command's result will never be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Its call was killed before it was typed, or not all of it could be.
    Untyped,
    /// It was typed, and the shell has taken another instead.
    Untaken,
}

impl Lost {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Lost::Untyped => "the call was killed before its command was typed; it was never executed",
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
                self.all.push(Entry::new(job, owner));
                let surplus = self.all.len().saturating_sub(MOST);
                let mut left = 0..surplus;
                self.all.retain(|entry| entry.owner.is_some() || left.next().is_none());
                self.all.len() - 1
            }
        };
        if matches!(job.handed, Handed::InPart | Handed::Whole | Handed::Next) {
            // The shell executes one after the other: an earlier command that it has not taken is lost, and one
            // whose number it is yet to give.
            for earlier in self.all[..at].iter_mut().filter(|earlier| earlier.owner.is_none()) {
                let is_untaken = earlier.is_untaken() && earlier.job.handed != Handed::Queued;
                let is_ahead = earlier.job.level == job.level && earlier.number() > Some(job.last);
                if is_untaken || is_ahead && !earlier.has_begun() {
                    earlier.lost = Some(Lost::Untaken);
                }
            }
        }
        let entry = &mut self.all[at];
        entry.job = Job { typed, ..job };
        if job.handed == Handed::Integration {
            entry.job.place = length;
        } else if job.handed != Handed::Queued {
            entry.tracker.get_or_insert_with(|| CommandTracker::new(&job, is_fish, length));
        }
        entry.note_handed(job.handed, job.place);
    }

    fn of(&self, owner: ClientId) -> Option<&Entry> {
        self.all.iter().find(|entry| entry.owner == Some(owner))
    }

    fn of_mut(&mut self, owner: ClientId) -> Option<&mut Entry> {
        self.all.iter_mut().find(|entry| entry.owner == Some(owner))
    }

    fn delivered_entry(&mut self) -> Option<&mut Entry> {
        self.all.iter_mut().find(|entry| entry.is_delivered)
    }

    /// This call's command, as it has described it.
    pub(crate) fn job(&self, owner: ClientId) -> Option<Job> {
        self.of(owner).map(|entry| entry.job)
    }

    /// This call's command is being delivered, and no other, until [`Jobs::end_delivery`], even if the call leaves.
    pub(crate) fn begin_delivery(&mut self, owner: ClientId) {
        for entry in &mut self.all {
            entry.is_delivered = entry.owner == Some(owner);
        }
    }

    /// The command that is being delivered, and its progress.
    pub(crate) fn delivered(&self) -> Option<(Job, Progress)> {
        let entry = self.all.iter().find(|entry| entry.is_delivered)?;
        Some((entry.job, entry.tracker.as_ref()?.progress()))
    }

    /// The call whose command is being delivered; `None`: none is, or it has left.
    pub(crate) fn deliverer(&self) -> Option<ClientId> {
        self.all.iter().find(|entry| entry.is_delivered)?.owner
    }

    /// Why this call's command could not be delivered.
    pub(crate) fn trouble(&self, owner: ClientId) -> Option<Trouble> {
        self.of(owner)?.trouble
    }

    /// An interrupt has discarded what was typed and not read. Does the shell of this level read a text, of which it
    /// lacks the rest now?
    pub(crate) fn note_discarded(&mut self, level: usize) -> bool {
        let reads = |entry: &&mut Entry| {
            let has_line = entry.job.by == DeliveredBy::Text && entry.number().is_some();
            let progress = entry.tracker.as_ref().map(CommandTracker::progress).unwrap_or_default();
            let is_over = entry.ended || progress.outer.is_some() || progress.has_begun();
            has_line && entry.job.level == level && !is_over
        };
        let entry = self.all.iter_mut().rev().find(reads);
        entry.map(Entry::note_cut).is_some()
    }

    /// May an interrupt have kept a shell of this machine from reading this call's command?
    pub(crate) fn is_cut(&self, owner: ClientId) -> bool {
        self.of(owner).is_some_and(|entry| entry.is_cut && !entry.job.is_remote)
    }

    /// This call has typed all lines that integrate its shell.
    pub(crate) fn note_integrated(&mut self, owner: ClientId) {
        if let Some(entry) = self.of_mut(owner) {
            entry.job.handed = Handed::Integrated;
        }
    }

    /// It has come so far.
    pub(crate) fn note_delivered(&mut self, handed: Handed, place: u64) {
        if let Some(entry) = self.delivered_entry() {
            (entry.job.handed, entry.job.place) = (handed, place);
            entry.note_handed(handed, place);
        }
    }

    /// Nothing more of it is typed, and so many bytes have been, which are no answer to it.
    pub(crate) fn end_delivery(&mut self, end: DeliveryEnd, typed: u64) {
        if let Some(entry) = self.delivered_entry() {
            (entry.is_delivered, entry.job.typed) = (false, typed);
            match end {
                DeliveryEnd::Whole => {}
                DeliveryEnd::Cut => entry.note_cut(),
                DeliveryEnd::Lost(why) => (entry.trouble, entry.lost) = (Some(why), Some(Lost::Untyped)),
            }
        }
    }

    /// Follows the commands through a stretch of output.
    pub(crate) fn note_printed(&mut self, printed: &Stretch) {
        for entry in self.all.iter_mut().filter(|entry| entry.lost.is_none()) {
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
        self.of(owner)?.tracker.as_ref()
    }

    fn tracker_mut(&mut self, owner: ClientId) -> Option<&mut CommandTracker> {
        self.of_mut(owner)?.tracker.as_mut()
    }

    /// This is, or goes on, the command of this call.
    pub(crate) fn note_text(&mut self, owner: ClientId, text: &[u8]) {
        if let Some(entry) = self.of_mut(owner) {
            let room = LONGEST_TEXT.saturating_sub(entry.text.len());
            entry.text.extend_from_slice(&text[..text.len().min(room)]);
        }
    }

    /// The command of a call that is this one of a shell, or that the shell is being handed.
    pub(crate) fn text(&self, level: usize, seq: u64) -> Option<String> {
        let is_it = |entry: &&Entry| entry.is_it(level, seq);
        let comes = |entry: &&Entry| {
            entry.is_untaken() && entry.job.handed == Handed::InPart && entry.job.level == level
        };
        let entry = self.all.iter().find(is_it).or_else(|| self.all.iter().rev().find(comes))?;
        let text = String::from_utf8_lossy(&entry.text).trim_end_matches('\n').to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// This command of a shell's is done. Is it a call's?
    pub(crate) fn note_done(&mut self, level: usize, seq: u64) -> bool {
        let entry = self.all.iter_mut().rev().find(|entry| entry.is_it(level, seq));
        entry.map(|entry| entry.ended = true).is_some()
    }

    /// Calls have left: `is_there` returns false for them; `typed` is the number of bytes typed by now. Returns the
    /// integration that one of them has begun, which is to be taken back.
    pub(crate) fn note_left(&mut self, is_there: impl Fn(ClientId) -> bool, typed: u64) -> Option<Job> {
        let integrates = |job: Job| matches!(job.handed, Handed::Integration | Handed::Integrated);
        let is_taken_back = |entry: &&Entry| integrates(entry.job) && !entry.owner.is_some_and(&is_there);
        let taken_back = self.all.iter().find(is_taken_back).map(|entry| entry.job);
        let is_resumed =
            |job: Job| !matches!(job.handed, Handed::Asked | Handed::Foreign) && !integrates(job);
        self.all.retain(|entry| is_resumed(entry.job) || entry.owner.is_some_and(&is_there));
        for entry in &mut self.all {
            if entry.owner.take_if(|owner| !is_there(*owner)).is_none() {
                continue;
            }
            if entry.job.handed != Handed::Printed {
                // The bytes that deliver it are not an answer to it.
                entry.job.typed = typed;
            }
            if entry.job.handed == Handed::Queued {
                entry.lost = entry.lost.or(Some(Lost::Untyped));
            }
        }
        taken_back
    }

    /// This call has printed the result of its command.
    pub(crate) fn note_told(&mut self, owner: ClientId) {
        self.all.retain(|entry| entry.owner != Some(owner));
    }

    /// Passes the command that was left last to this call, or the reason why it is lost; `None`: there was
    /// none.
    pub(crate) fn attach(&mut self, owner: ClientId) -> Option<Result<Job, Lost>> {
        let is_left = |entry: &Entry| entry.owner.is_none();
        let goes_on = |entry: &Entry| is_left(entry) && entry.lost.is_none();
        if let Some(entry) = self.all.iter_mut().rev().find(|entry| goes_on(entry)) {
            entry.owner = Some(owner);
            return Some(Ok(entry.job));
        }
        let at = self.all.iter().rposition(is_left)?;
        self.all.remove(at).lost.map(Err)
    }

    /// A command that has been left, and goes on.
    pub(crate) fn left(&self) -> Option<LeftJob> {
        let left = self.all.iter().rev().filter(|entry| entry.owner.is_none() && !entry.ended);
        let mut left = left.filter_map(|entry| Some((entry.job.level, entry.number()?)));
        left.next().map(|(level, seq)| LeftJob { level, last: seq.saturating_sub(1) })
    }

    /// Has one been typed and left that the shell has not taken yet?
    pub(crate) fn is_left_untaken(&self) -> bool {
        self.all.iter().any(|entry| entry.owner.is_none() && entry.is_untaken())
    }

    /// How many have been typed, and will end before what this call types now, if it is one.
    pub(crate) fn untaken(&self, typist: Option<ClientId>) -> u64 {
        let is_untaken = |entry: &&Entry| {
            entry.is_untaken()
                && !entry.is_delivered
                && entry.job.handed == Handed::Whole
                && (entry.owner.is_none() || entry.owner != typist)
        };
        self.all.iter().filter(is_untaken).count() as u64
    }

    /// The number of coming completions that belong to calls.
    pub(crate) fn ahead(&self) -> u64 {
        let is_ahead = |entry: &&Entry| match entry.is_untaken() {
            true => entry.job.handed == Handed::Whole,
            false => entry.number().is_some() && !entry.ended,
        };
        self.all.iter().filter(is_ahead).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rounds::rounds,
        session::shell::{FoundMark, Mark},
    };

    const LAST: u64 = 4;

    fn job(handed: Handed) -> Job {
        Job { handed, last: LAST, ..Job::default() }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Says(Handed),
        /// The relay has typed all of it, or cannot.
        Typed(Handed),
        Untyped,
        Taken,
        Done(u64),
        /// The call is killed.
        Killed,
        Told,
        /// Another call hands a command over.
        Next,
    }
    use Step::*;

    fn print(jobs: &mut Jobs, mark: Mark) {
        let found = [FoundMark { level: 0, start: 0, end: 0, mark }];
        jobs.note_printed(&Stretch { bytes: b"", begin: 0, found: &found, settled: 0, log: &|_| Vec::new() });
    }

    type Given = Option<Result<Handed, Lost>>;

    /// The command for another call after these steps, and the completions that belonged to a call.
    fn after(steps: &[Step]) -> (Given, Vec<u64>) {
        let (mut jobs, mut owned, mut taken_back) = (Jobs::default(), Vec::new(), false);
        let mut last = LAST;
        for step in steps {
            match *step {
                Says(handed) => {
                    jobs.note(ClientId::of(1), job(handed), 6, 0, false);
                    if handed == Handed::InPart {
                        jobs.begin_delivery(ClientId::of(1));
                    }
                }
                Typed(handed) => {
                    jobs.note_delivered(handed, 0);
                    jobs.end_delivery(DeliveryEnd::Whole, 6);
                }
                Untyped => jobs.end_delivery(DeliveryEnd::Lost(Trouble::Untyped), 6),
                Taken => print(&mut jobs, Mark::Taken { seq: last }),
                Done(number) => {
                    last = number;
                    print(&mut jobs, Mark::Done { seq: last, code: 0 });
                    owned.extend(jobs.note_done(0, number).then_some(number));
                }
                Killed => taken_back |= jobs.note_left(|id| id != ClientId::of(1), 7).is_some(),
                Told => jobs.note_told(ClientId::of(1)),
                Next => jobs.note(ClientId::of(2), job(Handed::Whole), 6, 0, false),
            }
        }
        assert_eq!(taken_back, matches!(steps, [Says(Handed::Integration), Killed]), "{steps:?}");
        (jobs.attach(ClientId::of(3)).map(|given| given.map(|job| job.handed)), owned)
    }

    #[test]
    fn a_command_whose_call_is_killed_can_be_resumed() {
        let [queued, in_part, whole, next, printed] =
            [Handed::Queued, Handed::InPart, Handed::Whole, Handed::Next, Handed::Printed];
        let cases: [(&[Step], Given, &[u64]); 25] = [
            (&[], None, &[]),
            (&[Says(queued)], None, &[]),
            (&[Says(queued), Killed], Some(Err(Lost::Untyped)), &[]),
            (&[Says(queued), Told], None, &[]),
            // The relay types on.
            (&[Says(in_part), Killed], Some(Ok(in_part)), &[]),
            (&[Says(in_part), Killed, Typed(next), Done(5)], Some(Ok(next)), &[5]),
            (&[Says(in_part), Killed, Untyped], Some(Err(Lost::Untyped)), &[]),
            (&[Says(in_part), Untyped, Killed], Some(Err(Lost::Untyped)), &[]),
            (&[Says(in_part), Typed(next), Killed, Next, Taken, Done(5)], Some(Err(Lost::Untaken)), &[5]),
            (&[Says(queued), Says(whole), Killed], Some(Ok(whole)), &[]),
            (&[Says(whole), Killed, Taken, Done(5)], Some(Ok(whole)), &[5]),
            (&[Says(whole), Taken, Killed, Done(5)], Some(Ok(whole)), &[5]),
            (&[Says(whole), Taken, Done(5), Killed], Some(Ok(whole)), &[5]),
            (&[Says(whole), Taken, Done(5), Told, Killed], None, &[5]),
            // Others have something before it: an interrupt at the prompt.
            (&[Says(whole), Done(5), Taken, Done(6), Killed], Some(Ok(whole)), &[6]),
            (&[Says(next), Killed, Done(5)], Some(Ok(next)), &[5]),
            (&[Says(in_part), Typed(next), Says(printed), Killed, Done(5)], Some(Ok(printed)), &[5]),
            (&[Says(whole), Taken, Says(printed), Done(5), Killed], Some(Ok(printed)), &[5]),
            // The next is delivered: a taken command goes on, and an untaken one never runs.
            (&[Says(whole), Taken, Done(5), Killed, Next, Taken, Done(6)], Some(Ok(whole)), &[5, 6]),
            (&[Says(whole), Killed, Next, Taken, Done(5)], Some(Err(Lost::Untaken)), &[5]),
            (&[Says(whole), Taken, Done(5), Done(6), Told], None, &[5]),
            // A command that `ask` typed.
            (&[Says(Handed::Asked), Done(5), Killed], None, &[5]),
            (&[Says(Handed::Asked), Killed, Done(5)], None, &[]),
            (&[Says(Handed::Integration), Killed], None, &[]),
            (&[Says(Handed::Integration), Told, Killed], None, &[]),
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
                    print(&mut jobs, Mark::Done { seq: last, code: 0 });
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
                print(&mut jobs, Mark::Taken { seq: last });
                kill(1, &mut jobs);
                last += 1;
                print(&mut jobs, Mark::Done { seq: last, code: 0 });
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
