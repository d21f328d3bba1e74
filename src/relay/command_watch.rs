//! Watching a command that a call has delivered, because no mark tells that its shell has not taken it, wants
//! the rest of it, or will never report its end. The watch also interrupts the command.
//!
//! It reaches the shell only through [`CommandShell`], so a test can stand in for the shell. The kernel sends no
//! event for any of this. So we look when there was output and then nothing for a moment, and again at intervals
//! that grow to `LATER_LOOKS`: a command that runs for hours costs next to nothing.

use std::time::Duration;

use crate::{
    relay::prompt_wait::Shell,
    session::{
        client::{
            GLANCE, TerminalState,
            job::{Progress, STUBBORN, Stage, Trouble},
            sending::REPEAT,
        },
        shell::{ACCEPT, CommandDelivery, LOOK},
    },
    sys::deadline::Deadline,
};

/// How long a command may take to begin, before we check whether it ever will, twice: the typed text is on
/// its way for a moment.
const BEGIN: Duration = Duration::from_millis(500);
/// The same if the command was interrupted, or the shell has taken it.
const BEGIN_NOW: Duration = Duration::from_millis(100);
/// How often a command is delivered, and its shell asked how it has ended: a key may be lost in the middle of
/// another, and a shell may have to repair its hooks first.
const ATTEMPTS: u32 = 4;
/// How long a shell that drops a command may take to return to its prompt.
const DROPPING: Duration = Duration::from_secs(3);
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOKS: Duration = Duration::from_secs(5);

/// The shell, as the watch needs it beyond [`Shell`].
pub(crate) trait CommandShell: Shell {
    /// Can its output not be written, so that the log does not show its state?
    fn is_stalled(&mut self) -> bool;
    /// Does the shell of this level wait for another line, though it has begun nothing of what was typed?
    fn has_passed_over(&mut self, level: usize) -> bool;
    /// Has another program replaced the session's shell?
    fn is_replaced(&mut self) -> bool;
    /// Is its line editor on?
    fn edits(&mut self) -> bool;
    /// Interrupts this command of the shell of this level, and returns how long the log was then; `None` if it
    /// has ended.
    fn interrupt_command(&mut self, level: usize, seq: u64) -> Option<u64>;
}

pub(crate) struct CommandWatch {
    delivery: CommandDelivery,
    level: usize,
    doubt: Recheck,
    // How often it has been handed over, and the shell asked how it has ended.
    attempts: u32,
    looks: u32,
    // The command is being interrupted: when to do it again, until when, how often it has been done, and how
    // long the log was the first time.
    again: Option<Deadline>,
    give_up: Deadline,
    interrupts: u32,
    interrupted_at: Option<u64>,
    // The shell waits for the rest of the command: when to interrupt it, and when that is given up.
    dropping: Option<(Deadline, Deadline)>,
    is_incomplete: bool,
    // An interrupt has come while it was delivered.
    is_cut: bool,
    trouble: Option<Trouble>,
    is_stalled: bool,
    // Its call is to be told something: a command that prints nothing has begun, say, or one has ended, and its
    // shell draws no prompt.
    has_news: bool,
    told_begun: bool,
    told_done: bool,
    look: Deadline,
}

impl CommandWatch {
    /// Watches a command that the shell at this level is given now.
    pub(crate) fn new(delivery: CommandDelivery, level: usize, has_begun: bool) -> CommandWatch {
        CommandWatch {
            delivery,
            level,
            doubt: Recheck::new(has_begun),
            attempts: 1,
            looks: 0,
            again: None,
            give_up: Deadline::NEVER,
            interrupts: 0,
            interrupted_at: None,
            dropping: None,
            is_incomplete: false,
            is_cut: false,
            trouble: None,
            is_stalled: false,
            has_news: false,
            told_begun: false,
            told_done: false,
            look: Deadline::after(Duration::ZERO),
        }
    }

    /// Interrupts the command until it has ended, for `STUBBORN` at most.
    pub(crate) fn interrupt(&mut self) {
        self.again = Some(Deadline::after(Duration::ZERO));
        self.give_up = Deadline::after(STUBBORN);
        self.doubt.hurry();
        self.look = Deadline::after(Duration::ZERO);
    }

    /// An interrupt has come while it was delivered, and the shell may have dropped it.
    pub(crate) fn note_cut(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.doubt.hurry();
            self.look = Deadline::after(Duration::ZERO);
        }
    }

    /// How often it has been interrupted.
    pub(crate) fn interrupts(&self) -> u32 {
        self.interrupts
    }

    /// How long the log was when it was interrupted first.
    pub(crate) fn interrupted_at(&self) -> Option<u64> {
        self.interrupted_at
    }

    /// The shell waits for the rest of the command, and has not reported that itself.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Why nothing more will be known of it.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }

    /// The output cannot be written.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Is its call to be told something that no output tells it?
    pub(crate) fn has_news(&self) -> bool {
        self.has_news
    }

    pub(crate) fn note_told(&mut self) {
        self.has_news = false;
    }

    /// When to look, if nothing happens before.
    pub(crate) fn deadline(&self) -> Deadline {
        self.look
    }

    /// Nothing more will be known of it, for this reason.
    pub(crate) fn end(&mut self, trouble: Trouble) {
        (self.trouble, self.has_news) = (Some(trouble), true);
    }

    /// Looks at the shell. `has_printed`: something has been printed since the last look. `mended`: the shell
    /// has put its hooks back. Returns whether it has been given the keys that it needs then.
    pub(crate) fn look(
        &mut self,
        shell: &mut impl CommandShell,
        now: &Progress,
        has_printed: bool,
        mended: bool,
    ) -> bool {
        self.look = Deadline::NEVER;
        if self.trouble.is_some() {
            return false;
        }
        if has_printed || now.has_begun() && self.doubt.of == DoubtOf::Beginning {
            self.doubt.note_output(now.has_begun());
        }
        if mended && now.stage == Stage::Typed {
            return self.deliver_again(shell, 1);
        }
        if now.is_done() {
            // The present prompt was made without the hooks.
            let has_accepted = mended && self.press(shell, ACCEPT);
            if !self.told_done {
                self.look = self.look.min(self.doubt.look);
                self.tell(now);
            }
            return has_accepted;
        }
        if now.unfinished || self.is_incomplete {
            self.drop_command(shell);
            if self.dropping.is_some() {
                return false;
            }
        }
        self.interrupt_again(shell, now);
        let delivered = self.recheck(shell, now);
        let next = self.again.unwrap_or(Deadline::NEVER);
        self.look = self.look.min(next).min(self.doubt.look);
        delivered
    }

    /// Types a key; `false`: it cannot be typed yet.
    fn press(&mut self, shell: &mut impl CommandShell, keys: &'static [u8]) -> bool {
        let pressed = shell.press(keys);
        if !pressed {
            self.look = Deadline::after(GLANCE);
        }
        pressed
    }

    /// Delivers the command again, unless that has been done too often; this counts as so many times.
    fn deliver_again(&mut self, shell: &mut impl CommandShell, times: u32) -> bool {
        let may_again = self.attempts + times <= ATTEMPTS;
        let Some(keys) = self.delivery.again().filter(|_| may_again) else {
            self.end(Trouble::PassedOver);
            return false;
        };
        let pressed = self.press(shell, keys);
        if pressed {
            self.attempts += times;
            self.doubt = Recheck::new(false);
            self.look = self.look.min(self.doubt.look);
        }
        pressed
    }

    /// Makes the shell return to its prompt once it waits. A mark alone may be an old one, printed again.
    fn drop_command(&mut self, shell: &mut impl CommandShell) {
        let patience = if self.delivery.leaves_unfinished() { REPEAT } else { Duration::ZERO };
        if self.dropping.is_none() && shell.waits() {
            self.dropping = Some((Deadline::after(patience), Deadline::after(DROPPING)));
            self.is_incomplete = true;
        }
        match &mut self.dropping {
            None => self.look = Deadline::after(GLANCE),
            Some((_, give_up)) if give_up.has_passed() => self.end(Trouble::Unfinished),
            Some((again, give_up)) => {
                if again.has_passed() {
                    shell.interrupt();
                    *again = Deadline::after(REPEAT);
                }
                self.look = (*again).min(*give_up);
            }
        }
    }

    fn interrupt_again(&mut self, shell: &mut impl CommandShell, now: &Progress) {
        if self.give_up.has_passed() {
            self.again = None;
        }
        if !self.again.is_some_and(Deadline::has_passed) {
            return;
        }
        self.again = Some(Deadline::after(REPEAT));
        // A program that waits for input after the first interrupt has had it: another shell, say, which
        // would draw a prompt for each that follows.
        let waits = matches!(shell.doing(), TerminalState::Raw | TerminalState::Line);
        if (self.interrupts == 0 || !waits)
            && let Some(at) = shell.interrupt_command(self.level, now.seq)
        {
            self.interrupts += 1;
            self.interrupted_at.get_or_insert(at);
        }
    }

    /// Looks, if it is time to, whether the command will ever begin or report its end. Was it delivered again?
    fn recheck(&mut self, shell: &mut impl CommandShell, now: &Progress) -> bool {
        if !self.doubt.look.has_passed() {
            return false;
        }
        let (is_interrupted, was_stalled) = (self.give_up != Deadline::NEVER, self.is_stalled);
        self.is_stalled = shell.is_stalled();
        self.has_news |= self.is_stalled && !was_stalled;
        self.tell(now);
        if self.doubt.of == DoubtOf::Beginning {
            let has_passed_over = shell.has_passed_over(self.level) || self.is_cut && shell.waits();
            let is_passed_over = !self.is_stalled && has_passed_over;
            if !self.doubt.handle(is_passed_over, is_interrupted) {
                return false;
            }
            if is_interrupted {
                // The interrupt has come before it.
                self.end(Trouble::Interrupted);
                return false;
            }
            if self.is_cut {
                self.end(Trouble::Cut);
                return false;
            }
            if now.stage == Stage::Taken {
                // It waits for the rest, and does not report that (`exec 2>file`).
                self.is_incomplete = true;
                self.drop_command(shell);
                return false;
            }
            // A key that is lost a second time will not come.
            return self.deliver_again(shell, 2);
        }
        let trouble = if self.is_stalled { None } else { self.unreported(shell) };
        if self.doubt.handle(trouble.is_some(), is_interrupted)
            && let Some(trouble) = trouble
        {
            // Its report may be on its way to the log.
            if trouble == Trouble::Unreported && self.can_ask() {
                if self.press(shell, LOOK) {
                    self.looks += 1;
                    self.doubt.look = Deadline::after(BEGIN);
                }
            } else {
                self.end(trouble);
            }
        }
        false
    }

    /// Sees to it that the call learns that the command has begun or ended, if no output tells it in time.
    fn tell(&mut self, now: &Progress) {
        if self.doubt.look.has_passed() {
            self.has_news |= now.has_begun() && !self.told_begun || now.is_done() && !self.told_done;
            (self.told_begun, self.told_done) = (now.has_begun(), now.is_done());
        }
    }

    /// Can the shell check whether it can report how the command has ended?
    fn can_ask(&self) -> bool {
        self.delivery.can_look() && self.looks < ATTEMPTS
    }

    /// Why there will never be a mark that reports the command's end, if that is so.
    fn unreported(&self, shell: &mut impl CommandShell) -> Option<Trouble> {
        let waits = shell.waits();
        if self.level == 0 && shell.is_replaced() {
            // A program that wants nothing may end, and so report its code.
            let asks = waits || shell.doing() != TerminalState::Running;
            return asks.then_some(Trouble::Replaced);
        }
        // A shell that waits with the line editor on is at its prompt, or in `read -e`.
        let is_back = waits && (shell.shows_prompt() || self.can_ask() && shell.edits());
        is_back.then_some(Trouble::Unreported)
    }
}

/// A state without an event, which we poll: the command will never begin, or, once it has, its end will never
/// be reported. Seen once, the report may be on its way; seen twice, it is certain.
struct Recheck {
    of: DoubtOf,
    look: Deadline,
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoubtOf {
    Beginning,
    /// Without output, we look less and less often.
    End {
        interval: Duration,
    },
}

impl Recheck {
    fn new(begun: bool) -> Recheck {
        match begun {
            true => Recheck {
                of: DoubtOf::End { interval: FIRST_LOOK },
                look: Deadline::after(FIRST_LOOK),
                seen: false,
            },
            false => Recheck { of: DoubtOf::Beginning, look: Deadline::after(BEGIN), seen: false },
        }
    }

    /// Something has been printed.
    fn note_output(&mut self, begun: bool) {
        self.seen = false;
        if begun {
            *self = Recheck::new(true);
        }
    }

    /// It is being interrupted.
    fn hurry(&mut self) {
        if self.of == DoubtOf::Beginning {
            self.look = self.look.min(Deadline::after(BEGIN_NOW));
        }
    }

    /// Notes the result of a look. Returns whether it is certain now.
    fn handle(&mut self, is_so: bool, is_interrupted: bool) -> bool {
        let is_certain = is_so && self.seen;
        self.seen = is_so && !is_certain;
        let until = match &mut self.of {
            DoubtOf::Beginning if is_interrupted => BEGIN_NOW,
            DoubtOf::Beginning => BEGIN,
            DoubtOf::End { interval } => {
                *interval = if is_so { FIRST_LOOK } else { (*interval * 2).min(LATER_LOOKS) };
                *interval
            }
        };
        self.look = Deadline::after(until);
        is_certain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::shell::{Beginning, DeliveredBy, Dialect};

    fn delivery(by: DeliveredBy) -> CommandDelivery {
        CommandDelivery::again_by(Dialect::Bash, by, Beginning::Mark)
    }

    /// A shell that stays as it is, and what was done to it.
    #[derive(Default)]
    struct Still {
        is_stalled: bool,
        has_passed_over: bool,
        is_replaced: bool,
        edits: bool,
        waits: bool,
        shows_prompt: bool,
        doing: TerminalState,
        takes_no_keys: bool,
        done: Vec<Done>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Done {
        Pressed(&'static [u8]),
        Interrupted,
        InterruptedCommand,
    }

    impl Shell for Still {
        fn doing(&mut self) -> TerminalState {
            self.doing
        }
        fn waits(&mut self) -> bool {
            self.waits
        }
        fn shows_prompt(&mut self) -> bool {
            self.shows_prompt
        }
        fn interrupt(&mut self) {
            self.done.push(Done::Interrupted);
        }
        fn press(&mut self, keys: &'static [u8]) -> bool {
            if !self.takes_no_keys {
                self.done.push(Done::Pressed(keys));
            }
            !self.takes_no_keys
        }
    }

    impl CommandShell for Still {
        fn is_stalled(&mut self) -> bool {
            self.is_stalled
        }
        fn has_passed_over(&mut self, _: usize) -> bool {
            self.has_passed_over
        }
        fn is_replaced(&mut self) -> bool {
            self.is_replaced
        }
        fn edits(&mut self) -> bool {
            self.edits
        }
        fn interrupt_command(&mut self, _: usize, _: u64) -> Option<u64> {
            self.done.push(Done::InterruptedCommand);
            Some(self.done.len() as u64)
        }
    }

    fn at(stage: Stage) -> Progress {
        Progress { stage, ..Progress::default() }
    }

    /// A watch after this many looks, each made as if it were due, and the shell after them.
    fn after(
        mut shell: Still,
        now: Progress,
        by_key: bool,
        interrupted: bool,
        looks: u32,
    ) -> (CommandWatch, Still) {
        let by = if by_key { DeliveredBy::Key } else { DeliveredBy::Line };
        let mut watch = CommandWatch::new(delivery(by), 0, now.has_begun());
        if interrupted {
            watch.interrupt();
        }
        for _ in 0..looks {
            let passed = Deadline::after(Duration::ZERO);
            watch.doubt.look = passed;
            watch.again = watch.again.map(|_| passed);
            watch.dropping = watch.dropping.map(|(_, give_up)| (passed, give_up));
            watch.look(&mut shell, &now, false, false);
        }
        (watch, shell)
    }

    const AGAIN: Done = Done::Pressed(b"\x07\x1b[25;8~");

    #[test]
    fn each_trouble_is_told_once_it_is_certain() {
        use Trouble::*;
        type Case = (Still, Stage, bool, bool, Option<Trouble>, Vec<Done>);
        let still = Still::default;
        let back = || Still { waits: true, shows_prompt: true, ..still() };
        let over = || Still { has_passed_over: true, ..still() };
        let asked = vec![Done::Pressed(LOOK); ATTEMPTS as usize];
        let stopped = vec![Done::InterruptedCommand; 12];
        let cases: [Case; 15] = [
            (still(), Stage::Typed, true, false, None, vec![]),
            (still(), Stage::Running, true, false, None, vec![]),
            // The key was lost, twice; other ways of delivery have no key.
            (over(), Stage::Typed, true, false, Some(PassedOver), vec![AGAIN]),
            (over(), Stage::Typed, false, false, Some(PassedOver), vec![]),
            (Still { takes_no_keys: true, ..over() }, Stage::Typed, true, false, None, vec![]),
            (Still { is_stalled: true, ..over() }, Stage::Typed, true, false, None, vec![]),
            // The interrupt came before it.
            (over(), Stage::Typed, true, true, Some(Interrupted), vec![Done::InterruptedCommand; 2]),
            // It wants the rest.
            (Still { waits: true, ..over() }, Stage::Taken, true, false, None, vec![Done::Interrupted; 11]),
            // Its end will not be reported, and it cannot be asked for, or not for ever.
            (back(), Stage::Running, false, false, Some(Unreported), vec![]),
            (back(), Stage::Running, true, false, Some(Unreported), asked.clone()),
            (Still { edits: true, waits: true, ..still() }, Stage::Running, true, false, None, asked),
            (Still { edits: true, waits: true, ..still() }, Stage::Running, false, false, None, vec![]),
            (Still { is_replaced: true, ..still() }, Stage::Running, true, false, None, vec![]),
            (
                Still { is_replaced: true, waits: true, ..still() },
                Stage::Running,
                true,
                false,
                Some(Replaced),
                vec![],
            ),
            // A program that has had the interrupt gets no second.
            (still(), Stage::Running, true, true, None, stopped),
        ];
        for (number, (shell, stage, by_key, interrupted, trouble, done)) in cases.into_iter().enumerate() {
            let (watch, shell) = after(shell, at(stage), by_key, interrupted, 12);
            assert_eq!((watch.trouble(), shell.done), (trouble, done), "case {number}");
            let has_news = watch.trouble().is_some() || watch.is_stalled() || stage == Stage::Running;
            assert_eq!(watch.has_news(), has_news, "case {number}");
        }
    }

    #[test]
    fn a_command_that_prints_nothing_is_told_of_once_it_has_begun() {
        let mut watch = CommandWatch::new(delivery(DeliveredBy::Key), 0, false);
        let mut looks = |stage, has_printed| {
            watch.look(&mut Still::default(), &at(stage), has_printed, false);
            watch.doubt.look = Deadline::after(Duration::ZERO);
            std::mem::take(&mut watch.has_news)
        };
        let seen =
            [(Stage::Typed, true), (Stage::Taken, false), (Stage::Running, true), (Stage::Running, false)];
        assert_eq!(seen.map(|(stage, has_printed)| looks(stage, has_printed)), [false, false, false, true]);
        assert!(!looks(Stage::Running, false), "twice");
        let seen = [(Stage::Done, true), (Stage::Done, false), (Stage::Done, false)];
        assert_eq!(seen.map(|(stage, has_printed)| looks(stage, has_printed)), [false, true, false]);
    }

    #[test]
    fn a_program_that_waits_after_an_interrupt_gets_no_other() {
        for doing in [TerminalState::Raw, TerminalState::Line] {
            let shell = Still { doing, ..Still::default() };
            assert_eq!(after(shell, at(Stage::Running), true, true, 5).1.done, [Done::InterruptedCommand]);
        }
        let (watch, shell) = after(Still::default(), at(Stage::Done), true, true, 5);
        assert_eq!((shell.done, watch.interrupts()), (vec![], 0), "it is over");
    }

    #[test]
    fn a_shell_that_has_mended_its_hooks_gets_the_command_or_a_new_prompt() {
        let mended = |stage, mut shell: Still| {
            let mut watch = CommandWatch::new(delivery(DeliveredBy::Key), 0, false);
            let has_given = watch.look(&mut shell, &at(stage), true, true);
            (has_given, shell.done)
        };
        assert_eq!(mended(Stage::Typed, Still::default()), (true, vec![AGAIN]));
        assert_eq!(mended(Stage::Done, Still::default()), (true, vec![Done::Pressed(ACCEPT)]));
        // Then it is asked for once more.
        for stage in [Stage::Typed, Stage::Done] {
            let shell = Still { takes_no_keys: true, ..Still::default() };
            assert_eq!(mended(stage, shell), (false, vec![]));
        }
    }

    #[test]
    fn an_interrupt_is_not_repeated_for_ever() {
        let mut watch = CommandWatch::new(delivery(DeliveredBy::Line), 0, true);
        let mut shell = Still::default();
        let passed = Deadline::after(Duration::ZERO);
        watch.interrupt();
        watch.look(&mut shell, &at(Stage::Running), false, false);
        (watch.again, watch.give_up) = (Some(passed), passed);
        watch.look(&mut shell, &at(Stage::Running), false, false);
        assert_eq!((shell.done, watch.again), (vec![Done::InterruptedCommand], None));
    }

    #[test]
    fn an_incomplete_command_is_dropped_once_its_shell_waits() {
        let incomplete = Progress { unfinished: true, ..at(Stage::Taken) };
        let (watch, shell) = after(Still { waits: true, ..Still::default() }, incomplete, true, false, 3);
        assert_eq!((shell.done, watch.is_incomplete()), (vec![Done::Interrupted; 3], true));
        // Repeated output looks like that.
        let (watch, shell) = after(Still::default(), incomplete, true, false, 3);
        assert_eq!((shell.done, watch.is_incomplete()), (vec![], false));
    }

    #[test]
    fn a_reading_counts_if_it_is_repeated_without_output_between() {
        let mut doubt = Recheck::new(false);
        let certain = [true, false, true, true, true].map(|is_so| doubt.handle(is_so, false));
        assert_eq!(certain, [false, false, false, true, false]);
        doubt.note_output(false);
        assert_eq!((doubt.of, doubt.handle(true, false)), (DoubtOf::Beginning, false));
        doubt.note_output(true);
        assert_eq!((doubt.of, doubt.handle(true, false)), (DoubtOf::End { interval: FIRST_LOOK }, false));
        assert!(doubt.handle(true, false));
    }

    #[test]
    fn the_end_is_looked_for_less_and_less_often_while_nothing_tells_of_it() {
        let mut doubt = Recheck::new(true);
        let mut interval = |is_so| {
            doubt.handle(is_so, false);
            doubt.of
        };
        let ends = |factor: u32| DoubtOf::End { interval: (FIRST_LOOK * factor).min(LATER_LOOKS) };
        assert_eq!([interval(false), interval(false), interval(true)], [ends(2), ends(4), ends(1)]);
        for _ in 0..20 {
            interval(false);
        }
        assert_eq!(interval(false), DoubtOf::End { interval: LATER_LOOKS });
    }
}
