//! Prompts: what stands before the cursor when a program waits for a line.

use crate::{numbers::fnv, terminal::text::is_letter_or_digit};

/// Prompts that text was typed at.
#[derive(Clone, Default)]
pub(crate) struct Prompts(Vec<Known>);

#[derive(Clone)]
struct Known {
    form: String,
    /// A blank line belongs to it: it has never come without one before it.
    blank: bool,
}

impl Prompts {
    /// Blanks alone are no prompt, and one that is known behind something else is no other
    /// one: so the first comes first. `blank`: it stood behind a blank line.
    pub(crate) fn add(&mut self, prompt: &str, blank: bool) {
        if self.place(prompt).is_some_and(|place| place > 0) {
            return;
        }
        let form = form(prompt);
        match self.0.iter_mut().find(|known| known.form == form) {
            Some(known) => known.blank &= blank,
            None if form.is_empty() => {}
            None => self.0.push(Known { form, blank }),
        }
    }

    fn known(&self, form: &str) -> Option<&Known> {
        self.0.iter().find(|known| known.form == form)
    }

    /// The start of a prompt like one of them in a line that ends before the cursor; it may
    /// follow an answer that has no newline.
    pub(crate) fn place(&self, line: &str) -> Option<usize> {
        let starts = line.char_indices().map(|(at, _)| at);
        let begins = |at: &usize| *at == 0 || !line[*at..].starts_with(char::is_whitespace);
        starts.filter(begins).find(|at| {
            let form = form(&line[*at..]);
            // Half of a question is none.
            (*at == 0 || !matches!(form.as_str(), "?" | ":")) && self.known(&form).is_some()
        })
    }

    /// Is all of a line like one of them?
    pub(crate) fn have(&self, line: &str) -> bool {
        self.known(&form(line)).is_some()
    }

    /// Does a blank line before it belong to a prompt like this?
    pub(crate) fn have_with_blank(&self, line: &str) -> bool {
        self.known(&form(line)).is_some_and(|known| known.blank)
    }
}

/// The prompt that a text was typed at.
pub(crate) struct AnsweredPrompt {
    form: String,
    /// A blank line belongs to it.
    pub(crate) blank: bool,
}

impl AnsweredPrompt {
    /// The prompt in the text before the cursor: the whole line, or the part of it that is one
    /// of the `known` ones, after an answer without a newline. `None` if the text is empty.
    pub(crate) fn of(line: &str, known: &Prompts) -> Option<AnsweredPrompt> {
        let prompt = &line[known.place(line).unwrap_or(0)..];
        let form = without_digits(prompt);
        (!form.is_empty()).then(|| AnsweredPrompt { form, blank: known.have_with_blank(prompt) })
    }

    /// The start of the same prompt, except for digits, in a line that ends before the cursor. It
    /// may follow an answer that has no newline; but the text from there on may be a longer
    /// question.
    pub(crate) fn place(&self, line: &str) -> Option<usize> {
        let counts = self.form.contains('0');
        let asks = self.form.ends_with(['?', ':']) && !counts;
        let is_word = self.form.starts_with(is_letter_or_digit);
        let is_longer = |before: &str| asks || is_word && before.ends_with(char::is_whitespace);
        let may_follow = |before: &str| before.is_empty() || !is_longer(before);
        let starts = line.char_indices().map(|(at, _)| at);
        starts
            .filter(|at| *at == 0 || !line[*at..].starts_with(char::is_whitespace))
            .find(|at| without_digits(&line[*at..]) == self.form && may_follow(&line[..*at]))
    }

    /// Two that are alike have the same.
    pub(crate) fn hash(&self) -> u64 {
        fnv(self.form.as_bytes())
    }
}

/// Each number is a `0`.
fn without_digits(prompt: &str) -> String {
    reduced(prompt, false)
}

/// Are two the same but for what they end with? Some programs draw a prompt again once they
/// know that a line does not end what was begun, as irb.
pub(crate) fn begin_alike(one: &str, other: &str) -> bool {
    let stem = |prompt| form(prompt).trim_end_matches(|last: char| !is_letter_or_digit(last)).to_owned();
    !stem(one).is_empty() && stem(one) == stem(other)
}

/// The part that similar prompts have in common: without a number that counts up, and the
/// directory.
fn form(prompt: &str) -> String {
    reduced(prompt, true)
}

fn reduced(prompt: &str, has_directory: bool) -> String {
    let mut form = String::with_capacity(prompt.len());
    let mut characters = prompt.trim().chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_ascii_digit() {
            while characters.next_if(char::is_ascii_digit).is_some() {}
            form.push('0');
        } else if has_directory
            && matches!(character, '/' | '~')
            && form.chars().last().is_none_or(|last| !is_letter_or_digit(last))
        {
            let of_path = |character: &char| !character.is_whitespace() && !"$#%>)]:|".contains(*character);
            while characters.next_if(of_path).is_some() {}
            form.push('/');
        } else {
            form.push(character);
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_alike_but_for_numbers_and_folders() {
        let mut prompts = Prompts::default();
        for prompt in ["In [7]: ", "me@host:~/a b$ ", "irb(main):001:0> ", "[me /usr/lib]# ", "  "] {
            prompts.add(prompt, true);
        }
        for prompt in ["In [12]: ", "me@host:/tmp b$", "irb(main):042:1>", "[me ~]# "] {
            assert!(prompts.have(prompt), "{prompt:?}");
        }
        for other in ["", "In [x]: ", "...: ", "me@host:~/a b# ", "Name: "] {
            assert!(!prompts.have(other), "{other:?}");
        }
    }

    #[test]
    fn only_digits_of_a_prompt_that_was_typed_at_may_differ() {
        let mut known = Prompts::default();
        known.add(">>> ", false);
        known.add("In [1]: ", true);
        for (typed_at, line, place) in [
            ("In [9]: ", "In [10]: ", Some(0)),
            ("In [9]: ", "5In [10]: ", Some(1)),
            ("5>>> ", ">>> ", Some(0)),
            (">>> ", "5>>> ", Some(1)),
            (">>> ", "... ", None),
            (">>> ", ">>> x", None),
            ("rm: remove regular file 'a'? ", "rm: remove regular file 'b'? ", None),
            ("Part 9 of 12? ", "Part 10 of 12? ", Some(0)),
            ("Delete /tmp/a? ", "Delete /tmp/b? ", None),
            ("Name: ", "Your Name: ", None),
            ("Name: ", "FirstName: ", None),
            ("? ", "Really? ", None),
            ("Go on [y/N] ", "Really Go on [y/N] ", None),
        ] {
            let prompt = AnsweredPrompt::of(typed_at, &known).unwrap();
            assert_eq!(prompt.place(line), place, "{typed_at:?} {line:?}");
        }
        assert!(AnsweredPrompt::of("  ", &known).is_none());
        let hash = |line| AnsweredPrompt::of(line, &known).unwrap().hash();
        assert_eq!(hash("In [9]: "), hash("In [10]: "));
        assert_ne!(hash(">>> "), hash("... "));
    }

    #[test]
    fn a_prompt_may_be_drawn_anew_with_another_end() {
        assert!(begin_alike("irb(main):001:0> ", "irb(main):002:1* "));
        assert!(!begin_alike("irb(main):001:0> ", "other:002:1* "));
        assert!(!begin_alike("> ", "* "));
    }

    #[test]
    fn a_blank_line_belongs_to_a_prompt_that_always_has_one() {
        let mut prompts = Prompts::default();
        prompts.add("In [1]: ", true);
        prompts.add(">>> ", true);
        prompts.add(">>> ", false);
        let have = |prompt| prompts.have_with_blank(prompt);
        assert_eq!([have("In [5]: "), have(">>> "), have("$ ")], [true, false, false]);
    }

    #[test]
    fn a_prompt_may_stand_behind_an_answer() {
        let mut prompts = Prompts::default();
        prompts.add(">>> ", false);
        prompts.add("In [1]: ", true);
        assert_eq!(prompts.place("5>>> "), Some(1));
        assert_eq!(prompts.place("5In [22]: "), Some(1));
        assert_eq!(prompts.place(">>> "), Some(0));
        assert_eq!(prompts.place(">>> x"), None);
        assert_eq!(prompts.place(""), None);
        assert_eq!(prompts.place(">>> >>> "), Some(4));
        prompts.add("5>>> ", false);
        assert_eq!(prompts.place("5>>> "), Some(1));
        prompts.add("? ", false);
        assert_eq!((prompts.place("Really? "), prompts.place("?")), (None, Some(0)));
    }
}
