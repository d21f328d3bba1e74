//! Waiting until a shell is free for a command that a call hands over, or only until it has no lost interrupt.
//!
//! The wait reaches the shell only through [`PromptShell`], so a test can stand in for it. There is no event when a
//! shell without a prompt (`exec 2>FILE`) begins to wait, nor when one that shows its prompt begins to read. So
//! while a call waits, we also look at intervals, which grow while nothing happens.

use std::time::{Duration, Instant};

use crate::{
    session::{
        client::{GLANCE, PromptState, TerminalState, sending::REPEAT},
        shell::Dialect,
    },
    sys::deadline::Deadline,
};

/// How long a new shell may take to its first prompt.
const FIRST_PROMPT: Duration = Duration::from_secs(60);
/// How long any other may take to the next one: the duration of the user's own PROMPT_COMMAND.
const NEXT_PROMPT: Duration = Duration::from_secs(5);
/// The first and the longest interval after which we look again.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LATER_LOOKS: Duration = Duration::from_secs(1);
/// The number of looks that follow output at once: a prompt is printed in a few parts.
const AT_ONCE: u32 = 32;
/// How long to look a second time at a terminal that seems to be busy: its modes and its reader are not seen
/// at the same moment.
const SECOND_LOOK: Duration = Duration::from_millis(200);
/// How often a shell is asked to drop a line, before it is interrupted.
const CLEARS: u32 = 2;
/// How long another client's earlier command may still take: most are done by then, and a call that has
/// waited for its output need not wait for its end, too.
const NEARLY_DONE: Duration = Duration::from_secs(1);

/// The shell that reports, at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) prompt: PromptState,
    /// The terminal takes whole lines, so no line editor has it.
    pub(crate) lines: bool,
    /// Only the session's own shell, at level 0, has a key of ours; one inside it is typed to.
    pub(crate) level: usize,
    pub(crate) dialect: Dialect,
    /// Has it reported a completion?
    pub(crate) counts: bool,
    /// The last input, before it executes anything, is an interrupt, and it has not shown that it has
    /// processed it.
    pub(crate) interrupted: bool,
    /// It executes nothing yet, and has not read all that was typed.
    pub(crate) queued: bool,
    /// A killed call has typed a command that it has not begun.
    pub(crate) left_unbegun: bool,
}

impl Place {
    /// Does the shell take a delivered command behind all earlier input? Text for any other shell must not
    /// come behind a line that it has read and not yet executed.
    fn takes_by_key(&self) -> bool {
        self.level == 0 && self.dialect != Dialect::Posix
    }
}

/// The shell, as a wait or a watch sees it and acts on it. Answers that take reading files or processes are
/// requested only where they matter.
pub(crate) trait Shell {
    fn doing(&mut self) -> TerminalState;
    /// Does the shell itself wait for input?
    fn waits(&mut self) -> bool;
    /// Does the output end with a prompt of its own?
    fn shows_prompt(&mut self) -> bool;
    fn interrupt(&mut self);
    /// Types a key; `false` if it cannot be typed now.
    fn press(&mut self, keys: &'static [u8]) -> bool;
}

/// What a wait for the prompt needs of the shell beyond [`Shell`].
pub(crate) trait PromptShell: Shell {
    fn place(&mut self) -> Place;
    /// Does the terminal take whole lines?
    fn takes_lines(&mut self) -> bool;
    /// Has it an interrupt that it will process, and lose, only with the next key?
    fn has_lost_interrupt(&mut self) -> bool;
    /// Does a program that is no shell at its prompt have the terminal, in this state?
    fn is_another(&mut self, doing: TerminalState) -> bool;
    /// Interrupts it, so that it drops half a line; `false` if it has gone on from there.
    fn drop_line(&mut self) -> bool;
}

/// The state of the shell for which a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellWait {
    /// A command can be handed over.
    AtPrompt,
    /// It has no lost interrupt.
    Woken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A command can be handed over; `lines`: typed, since the terminal takes whole lines. This was so when the
    /// shell was seen to read. It may be different for a moment now, if the shell has been interrupted.
    Free { lines: bool },
    /// The shell has no lost interrupt. `had_lost`: it had one when the wait began.
    Awake { had_lost: bool },
    /// None can, as far as is known; the state of the terminal.
    Busy(TerminalState),
}

/// How long each way to a prompt may still take.
pub(crate) struct PromptWait {
    until: ShellWait,
    /// The first prompt of a new shell, and the next one of any other.
    first: Deadline,
    next: Deadline,
    line: BegunLine,
    /// By when an interrupt of another client has reached the shell.
    dealt: Option<Deadline>,
    /// By when a shell at its prompt reads.
    prompt_end: Option<Deadline>,
    /// A shell that seems busy is looked at again at the first, and given up at the second.
    busy: Option<(Deadline, Deadline)>,
    /// When a lost interrupt may be repeated.
    wakes: Option<Deadline>,
    had_lost: bool,
    /// When to look again, and how long after that once more.
    look: Deadline,
    interval: Duration,
    /// The number of looks, and the time of the last.
    looks: u32,
    looked: Instant,
}

/// Our actions about a line that is begun at the prompt.
#[derive(Default)]
struct BegunLine {
    // How often the shell has been asked to drop it, by a key; whether it has been interrupted, and
    // when something is to be done again.
    asked: u32,
    is_interrupted: bool,
    again: Option<Deadline>,
}

impl BegunLine {
    /// Has the shell drop it, if it is time to; gives when it will be again.
    fn drop_again(&mut self, shell: &mut impl PromptShell, place: &Place, doing: TerminalState) -> Deadline {
        if let Some(again) = self.again.filter(|again| !again.has_passed()) {
            return again;
        }
        // A shell that still draws has not read the key; else half a key that was typed before may have
        // swallowed its beginning.
        let draws = self.asked > 0 && doing == TerminalState::Running;
        let key = place.dialect.clearing().filter(|_| !draws && self.asked < CLEARS);
        let pause = match key {
            Some(key) if !shell.press(key) => return Deadline::after(GLANCE),
            Some(_) => {
                self.asked += 1;
                NEARLY_DONE
            }
            None if draws => NEARLY_DONE,
            None if !shell.drop_line() => return Deadline::after(Duration::ZERO),
            None => {
                self.is_interrupted = true;
                REPEAT
            }
        };
        *self.again.insert(Deadline::after(pause))
    }
}

impl PromptWait {
    pub(crate) fn new(until: ShellWait) -> PromptWait {
        PromptWait {
            until,
            first: Deadline::after(FIRST_PROMPT),
            next: match until {
                ShellWait::AtPrompt => Deadline::after(NEXT_PROMPT),
                // Its call has a deadline of its own.
                ShellWait::Woken => Deadline::NEVER,
            },
            line: BegunLine::default(),
            dealt: None,
            prompt_end: None,
            busy: None,
            wakes: None,
            had_lost: false,
            look: Deadline::after(Duration::ZERO),
            interval: FIRST_LOOK,
            looks: 0,
            looked: Instant::now(),
        }
    }

    /// When to look; `changed`: something has happened since the last look. While a shell prints without end,
    /// the looks keep a distance.
    pub(crate) fn deadline(&self, changed: bool) -> Deadline {
        let pause = if self.looks < AT_ONCE { Duration::ZERO } else { FIRST_LOOK };
        if changed { self.look.min(Deadline::at(self.looked + pause)) } else { self.look }
    }

    /// Looks at the shell. `None`: it goes on.
    pub(crate) fn look(&mut self, shell: &mut impl PromptShell, changed: bool) -> Option<Verdict> {
        self.interval = if changed { FIRST_LOOK } else { (2 * self.interval).min(LATER_LOOKS) };
        (self.looks, self.looked) = (self.looks.saturating_add(1), Instant::now());
        if self.until == ShellWait::Woken {
            let is_awake = !self.wakes(shell);
            return is_awake.then_some(Verdict::Awake { had_lost: self.had_lost });
        }
        let place = shell.place();
        if place.left_unbegun && !self.next.has_passed() {
            // Input of a killed call comes first.
            self.look = self.next;
            return None;
        }
        let interrupted = self.interrupted(&place);
        // The first look mostly shows it. If the terminal is still in canonical mode, a line editor may be
        // about to change that: ksh93's does so after the prompt.
        let has_editor = place.prompt == PromptState::Stands && !place.lines && interrupted.is_none();
        let reads = has_editor && !place.queued && place.takes_by_key();
        if reads && place.counts && shell.shows_prompt() {
            return Some(Verdict::Free { lines: false });
        }
        if self.wakes(shell) {
            return None;
        }
        let doing = shell.doing();
        let deadline = match self.judge(shell, &place, doing, interrupted) {
            Ok(deadline) => deadline,
            Err(verdict) => return Some(verdict),
        };
        let goes_on = match place.prompt {
            PromptState::Stands | PromptState::Entered | PromptState::Left => true,
            PromptState::Touched => !self.next.has_passed(),
            PromptState::Unknown | PromptState::Coming => false,
        };
        // Whatever is printed meanwhile.
        if deadline.has_passed() && !goes_on {
            return Some(Verdict::Busy(doing));
        }
        self.look = deadline.min(Deadline::after(self.interval));
        None
    }

    /// Another client's interrupt may still be on its way to the shell, and must not hit our text: until when?
    fn interrupted(&mut self, place: &Place) -> Option<Deadline> {
        let dealt = || *self.dealt.get_or_insert_with(|| Deadline::after(NEARLY_DONE));
        let dealt = place.interrupted.then(dealt)?;
        (!dealt.has_passed() && !self.line.is_interrupted).then_some(dealt)
    }

    /// Wakes a shell that would process an interrupt only at the next key, and lose that key: a second
    /// interrupt is as good as a key. Is there such an interrupt?
    fn wakes(&mut self, shell: &mut impl PromptShell) -> bool {
        if self.next.has_passed() || !shell.has_lost_interrupt() {
            self.wakes = None;
            return false;
        }
        self.had_lost = true;
        // Interrupts that it does not lose look the same for a moment, in which it reads nothing.
        let again = self.wakes.unwrap_or(Deadline::after(Duration::ZERO));
        if again.has_passed() {
            if shell.doing() != TerminalState::Running {
                shell.interrupt();
            }
            self.wakes = Some(Deadline::after(REPEAT));
        }
        self.look = self.wakes.unwrap_or(again).min(self.next);
        true
    }

    /// Until when to wait for something to happen, or the verdict.
    fn judge(
        &mut self,
        shell: &mut impl PromptShell,
        place: &Place,
        doing: TerminalState,
        interrupted: Option<Deadline>,
    ) -> Result<Deadline, Verdict> {
        let (next, prompt) = (self.next, place.prompt);
        Ok(match (prompt, doing, place.counts, interrupted) {
            (PromptState::Stands | PromptState::Touched | PromptState::Entered, .., Some(dealt)) => dealt,
            // It may be lost; or a command is about to end by it, and wants no other.
            (PromptState::Entered, ..) if place.interrupted && !next.has_passed() => match shell.waits() {
                true => self.line.drop_again(shell, place, doing).min(next),
                false => next,
            },
            // It is about to read a line that was typed before.
            (PromptState::Stands | PromptState::Entered, ..) if place.queued && !next.has_passed() => {
                Deadline::after(GLANCE)
            }
            // Between its prompt and its read a shell is `running`; without its
            // line editor (`set +o emacs`) it reads a `line`, and without echo what looks
            // like a `secret`.
            (
                PromptState::Stands,
                TerminalState::Prompt | TerminalState::Running | TerminalState::Line | TerminalState::Secret,
                true,
                _,
            ) => {
                let end = *self.prompt_end.get_or_insert_with(|| Deadline::after(NEARLY_DONE));
                // If not, the shell has gone on since the first look.
                let is_as_before = shell.takes_lines() == place.lines;
                if end.has_passed() || doing != TerminalState::Running && is_as_before {
                    // Unless the prompt was that of a command which was typed ahead, and runs, or reads.
                    let is_other = doing != TerminalState::Prompt && shell.is_another(doing);
                    let free = Verdict::Free { lines: place.lines };
                    return Err(if is_other { Verdict::Busy(doing) } else { free });
                }
                end
            }
            // Half a line, half a search or half a key: where the shell has no key for that, an
            // interrupt ends them all, at the price of a line in completion.log.
            (
                PromptState::Touched,
                TerminalState::Prompt | TerminalState::Running | TerminalState::Line,
                ..,
            ) => self.line.drop_again(shell, place, doing).min(next),
            (PromptState::Unknown, TerminalState::Running | TerminalState::Prompt, ..) => {
                self.busy = None;
                self.first
            }
            (PromptState::Coming, TerminalState::Running | TerminalState::Prompt, ..) => {
                self.busy = None;
                next
            }
            (PromptState::Unknown | PromptState::Coming | PromptState::Entered | PromptState::Left, ..) => {
                let looks = || (Deadline::after(SECOND_LOOK), Deadline::after(NEARLY_DONE));
                let (second_look, nearly_done) = *self.busy.get_or_insert_with(looks);
                let runs = doing == TerminalState::Running
                    && matches!(prompt, PromptState::Left | PromptState::Entered);
                let deadline = if runs { nearly_done } else { second_look };
                if deadline.has_passed() {
                    return Err(Verdict::Busy(doing));
                }
                deadline
            }
            _ => return Err(Verdict::Busy(doing)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    /// A shell that stays as it is, and what was done to it.
    struct Still {
        place: Place,
        has_gone_on: bool,
        doing: TerminalState,
        shows_prompt: bool,
        has_lost_interrupt: bool,
        is_another: bool,
        takes_keys: bool,
        waits: bool,
        done: Vec<Done>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Done {
        Interrupted,
        Dropped,
        Pressed,
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

        fn press(&mut self, _: &'static [u8]) -> bool {
            if self.takes_keys {
                self.done.push(Done::Pressed);
            }
            self.takes_keys
        }
    }

    impl PromptShell for Still {
        fn place(&mut self) -> Place {
            self.place
        }

        fn takes_lines(&mut self) -> bool {
            self.place.lines != self.has_gone_on
        }

        fn has_lost_interrupt(&mut self) -> bool {
            self.has_lost_interrupt
        }

        fn is_another(&mut self, _: TerminalState) -> bool {
            self.is_another
        }

        fn drop_line(&mut self) -> bool {
            self.done.push(Done::Dropped);
            true
        }
    }

    const READS: Place = Place {
        prompt: PromptState::Stands,
        lines: false,
        level: 0,
        dialect: Dialect::Bash,
        counts: true,
        interrupted: false,
        queued: false,
        left_unbegun: false,
    };

    fn still(place: Place, doing: TerminalState) -> Still {
        Still {
            place,
            has_gone_on: false,
            doing,
            shows_prompt: false,
            has_lost_interrupt: false,
            is_another: false,
            takes_keys: true,
            waits: true,
            done: Vec::new(),
        }
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Looked {
        Told(Verdict),
        UntilNext,
        Shortly,
    }

    /// The result of two looks in a row, and what they did.
    fn looked(mut shell: Still) -> (Looked, Vec<Done>) {
        let mut wait = PromptWait::new(ShellWait::AtPrompt);
        let told = wait.look(&mut shell, true).or_else(|| wait.look(&mut shell, true));
        let looked = match told {
            Some(verdict) => Looked::Told(verdict),
            // Its input comes first, and is waited for without a look.
            None if wait.look == wait.next => Looked::UntilNext,
            None => Looked::Shortly,
        };
        (looked, shell.done)
    }

    #[test]
    fn each_state_of_a_shell_has_one_verdict() {
        use {Done::*, Looked::*, PromptState::*, TerminalState::*};
        let at = |prompt| Place { prompt, ..READS };
        let free = || Told(Verdict::Free { lines: false });
        let (typed, lines) = (Told(Verdict::Free { lines: true }), Place { lines: true, ..READS });
        let busy = |doing| Told(Verdict::Busy(doing));
        let cases = [
            // At its prompt: a line editor has the terminal, or none, or not yet.
            (Still { shows_prompt: true, ..still(READS, Raw) }, free(), vec![]),
            (still(READS, Prompt), free(), vec![]),
            (Still { has_gone_on: true, ..still(READS, Prompt) }, Shortly, vec![]),
            (still(lines, Line), typed, vec![]),
            (still(lines, Secret), Told(Verdict::Free { lines: true }), vec![]),
            (Still { has_gone_on: true, ..still(lines, Line) }, Shortly, vec![]),
            (still(lines, Running), Shortly, vec![]),
            (still(Place { level: 1, ..READS }, Prompt), free(), vec![]),
            (still(Place { counts: false, ..READS }, Prompt), busy(Prompt), vec![]),
            // The prompt is that of a command which was typed ahead, and reads.
            (Still { is_another: true, ..still(lines, Line) }, busy(Line), vec![]),
            (still(READS, Raw), busy(Raw), vec![]),
            // A key of ours would not be taken, or something else would be.
            (Still { shows_prompt: true, ..still(lines, Raw) }, busy(Raw), vec![]),
            (Still { shows_prompt: true, ..still(Place { level: 1, ..READS }, Raw) }, busy(Raw), vec![]),
            (
                Still { shows_prompt: true, ..still(Place { dialect: Dialect::Posix, ..READS }, Raw) },
                busy(Raw),
                vec![],
            ),
            (Still { shows_prompt: true, ..still(Place { counts: false, ..READS }, Raw) }, busy(Raw), vec![]),
            (Still { shows_prompt: true, ..still(Place { queued: true, ..READS }, Raw) }, Shortly, vec![]),
            (
                Still { shows_prompt: true, ..still(Place { interrupted: true, ..READS }, Raw) },
                Shortly,
                vec![],
            ),
            // Something comes before: input, an interrupt, or a killed call's command.
            (still(Place { queued: true, ..READS }, Prompt), Shortly, vec![]),
            (still(Place { interrupted: true, ..READS }, Prompt), Shortly, vec![]),
            (still(Place { left_unbegun: true, ..READS }, Prompt), UntilNext, vec![]),
            // On its way to a prompt.
            (still(at(Unknown), Running), Shortly, vec![]),
            (still(at(Coming), Running), Shortly, vec![]),
            (still(at(Coming), Line), Shortly, vec![]),
            (still(at(Left), Running), Shortly, vec![]),
            (still(at(Left), Raw), Shortly, vec![]),
            // Half a line is dropped once, by a key where the shell has one.
            (still(at(Touched), Prompt), Shortly, vec![Dropped]),
            (still(Place { dialect: Dialect::Fish, ..at(Touched) }, Prompt), Shortly, vec![Pressed]),
            (
                Still { takes_keys: false, ..still(Place { dialect: Dialect::Fish, ..at(Touched) }, Prompt) },
                Shortly,
                vec![],
            ),
            (still(at(Touched), Secret), busy(Secret), vec![]),
            // An interrupt that waits for a key is repeated, but not while the shell works.
            (Still { has_lost_interrupt: true, ..still(at(Touched), Prompt) }, Shortly, vec![Interrupted]),
            (Still { has_lost_interrupt: true, ..still(at(Coming), Running) }, Shortly, vec![]),
        ];
        for (number, (shell, expected, done)) in cases.into_iter().enumerate() {
            assert_eq!(looked(shell), (expected, done), "{number}");
        }
    }

    #[test]
    fn a_shell_that_executes_a_command_is_neither_interrupted_nor_typed_at() {
        use PromptState::{Coming, Entered, Left, Unknown};
        for (seed, mut random) in rounds(300) {
            let prompts = [Coming, Entered, Left, Unknown];
            let states = [TerminalState::Running, TerminalState::Line, TerminalState::Raw];
            let mut shell = still(READS, TerminalState::Running);
            let mut wait = PromptWait::new(ShellWait::AtPrompt);
            for _ in 0..20 {
                shell.place = Place {
                    prompt: prompts[random.usize(..4)],
                    queued: random.bool(),
                    left_unbegun: random.bool(),
                    interrupted: random.bool(),
                    dialect: [Dialect::Bash, Dialect::Fish][random.usize(..2)],
                    ..READS
                };
                shell.doing = states[random.usize(..3)];
                shell.has_lost_interrupt = shell.doing == TerminalState::Running && random.bool();
                // It executes something.
                shell.waits = false;
                let verdict = wait.look(&mut shell, random.bool());
                assert!(!matches!(verdict, Some(Verdict::Free { .. })), "seed {seed}");
                assert_eq!(shell.done, [], "seed {seed}");
            }
        }
    }

    #[test]
    fn a_shell_that_prints_without_end_is_given_up_in_its_time() {
        use PromptState::{Coming, Touched, Unknown};
        let over = Deadline::after(Duration::ZERO);
        for prompt in [Unknown, Coming, Touched] {
            let mut shell = still(Place { prompt, ..READS }, TerminalState::Running);
            let mut wait = PromptWait::new(ShellWait::AtPrompt);
            assert_eq!(wait.look(&mut shell, true), None);
            (wait.first, wait.next) = (over, over);
            assert_eq!(wait.look(&mut shell, true), Some(Verdict::Busy(TerminalState::Running)));
        }
    }

    #[test]
    fn a_shell_that_draws_for_long_at_its_prompt_is_free() {
        let mut shell = still(READS, TerminalState::Running);
        let mut wait = PromptWait::new(ShellWait::AtPrompt);
        assert_eq!(wait.look(&mut shell, true), None);
        wait.prompt_end = Some(Deadline::after(Duration::ZERO));
        assert_eq!(wait.look(&mut shell, false), Some(Verdict::Free { lines: false }));
    }

    #[test]
    fn a_call_that_only_wants_a_shell_woken_waits_for_no_prompt() {
        use TerminalState::{Prompt, Running};
        let lost = || Still { has_lost_interrupt: true, ..still(READS, Prompt) };
        for (mut shell, had_lost) in [(still(READS, Running), false), (lost(), true)] {
            let mut wait = PromptWait::new(ShellWait::Woken);
            if had_lost {
                assert_eq!(wait.look(&mut shell, true), None);
                assert_eq!(shell.done, [Done::Interrupted]);
                shell.has_lost_interrupt = false;
            }
            assert_eq!(wait.look(&mut shell, true), Some(Verdict::Awake { had_lost }));
        }
    }

    #[test]
    fn half_a_line_that_no_key_drops_is_interrupted() {
        let place = Place { prompt: PromptState::Touched, dialect: Dialect::Fish, ..READS };
        let (mut shell, mut wait) =
            (still(place, TerminalState::Prompt), PromptWait::new(ShellWait::AtPrompt));
        for _ in 0..4 {
            assert_eq!(wait.look(&mut shell, true), None);
            wait.line.again = None;
        }
        assert_eq!(shell.done, [Done::Pressed, Done::Pressed, Done::Dropped, Done::Dropped]);
        // While it draws, it has not read the key.
        let (mut shell, mut wait) =
            (still(place, TerminalState::Running), PromptWait::new(ShellWait::AtPrompt));
        for _ in 0..4 {
            assert_eq!(wait.look(&mut shell, true), None);
            wait.line.again = None;
        }
        assert_eq!(shell.done, [Done::Pressed]);
    }

    #[test]
    fn after_many_looks_it_is_not_looked_at_each_time_that_something_is_printed() {
        let (mut shell, mut wait) =
            (still(READS, TerminalState::Running), PromptWait::new(ShellWait::AtPrompt));
        assert!(wait.deadline(false).has_passed(), "it is new");
        for _ in 0..AT_ONCE {
            assert!(wait.deadline(true).has_passed());
            assert_eq!(wait.look(&mut shell, true), None);
        }
        // Input of a killed call comes first, for seconds.
        shell.place.left_unbegun = true;
        assert_eq!(wait.look(&mut shell, true), None);
        assert_eq!(wait.deadline(true), Deadline::at(wait.looked + FIRST_LOOK));
        assert_eq!(wait.deadline(false), wait.next);
    }

    #[test]
    fn without_news_it_is_looked_at_less_and_less_often() {
        let (mut shell, mut wait) =
            (still(READS, TerminalState::Running), PromptWait::new(ShellWait::AtPrompt));
        shell.place.prompt = PromptState::Unknown;
        let intervals = [true, false, false, true].map(|changed| {
            assert_eq!(wait.look(&mut shell, changed), None);
            wait.interval
        });
        assert_eq!(intervals, [FIRST_LOOK, 2 * FIRST_LOOK, 4 * FIRST_LOOK, FIRST_LOOK]);
    }
}
