//! The answer in what a person has seen: without what was typed, and without the next prompt.

use crate::terminal::{
    screen::Rendered,
    text::{AnsweredPrompt, Prompts, asks, begin_alike, is_letter_or_digit},
};

/// The longest text before a line that was typed at another prompt than the first.
const LONGEST_PROMPT: usize = 400;

/// A part of a line: the range of its characters that belong to the answer.
struct Part {
    line: usize,
    from: usize,
    to: usize,
}

/// Returns the answer, in the form of `shown`, which has the lines of `plain` with colours.
///
/// `before` is the text before the cursor on its line when the text was typed, and `prompt` the prompt that
/// may be left out. `prompts` are all those at which text was typed.
pub(super) fn answer(
    plain: &Rendered,
    shown: &Rendered,
    before: &str,
    typed: &str,
    prompts: &Prompts,
    prompt: Option<&AnsweredPrompt>,
) -> String {
    let lines: Vec<&str> = plain.text.split('\n').collect();
    let mut parts = without_echo(&lines, before, typed, prompts);
    drop_prompt(&lines, plain, prompt, &mut parts);
    joined(&parts, shown)
}

/// The same for output without an echo.
pub(super) fn without_prompt(plain: &Rendered, shown: &Rendered, prompt: Option<&AnsweredPrompt>) -> String {
    let lines: Vec<&str> = plain.text.split('\n').collect();
    let mut parts = (0..lines.len()).map(|line| Part { line, from: 0, to: usize::MAX }).collect();
    drop_prompt(&lines, plain, prompt, &mut parts);
    joined(&parts, shown)
}

fn joined(parts: &[Part], shown: &Rendered) -> String {
    let shown: Vec<&str> = shown.text.split('\n').collect();
    let parts =
        parts.iter().map(|part| cut(shown.get(part.line).copied().unwrap_or_default(), part.from, part.to));
    parts.collect::<Vec<_>>().join("\n")
}

fn without_echo(lines: &[&str], before: &str, typed: &str, prompts: &Prompts) -> Vec<Part> {
    let whole = |line| Part { line, from: 0, to: usize::MAX };
    let mut parts = Vec::with_capacity(lines.len());
    let mut typed = typed.split(['\n', '\r']).map(squeezed).collect::<Vec<_>>().into_iter();
    let first = typed.next().unwrap_or_default();
    // Behind an answer without an end.
    let (rest, prompt) = before.split_at(prompts.place(before).unwrap_or(0));
    let shifted = rest.chars().count();
    let prompt = squeezed(prompt);
    let before = squeezed(before);
    let echo = format!("{before}{first}");
    let is_echo = |row: &str| row == echo || row.strip_prefix(&*prompt) == Some(&first);
    let begins_echo = |row: &str| {
        let longer = |begun: &str, begin: &str| begun.len() < row.len() && begin.starts_with(row);
        longer(&before, &echo) || longer(&prompt, &format!("{prompt}{first}"))
    };
    let first_rows = |from: usize| {
        let rows = rows_of(&lines[from..], echo.len(), &is_echo, &begins_echo)?;
        Some(from + rows).filter(|rows| *rows < lines.len())
    };
    // An editor that has found out its position redraws its prompt further down; or the line, on a screen that
    // it has erased.
    let drawn_anew = |rows: usize, least: usize| {
        let blank = lines[rows..].iter().take_while(|line| squeezed(line).is_empty()).count();
        first_rows(rows + blank).filter(|_| !before.is_empty() && blank >= least)
    };
    let drawn_below = || drawn_anew(1, 0).filter(|_| squeezed(lines[0]) == before);
    let mut rest = lines.iter().enumerate();
    let echoed = first_rows(0).map(|rows| drawn_anew(rows, 2).unwrap_or(rows));
    if let Some(rows) = echoed.or_else(drawn_below) {
        rest.by_ref().take(rows).for_each(drop);
    } else if let Some((_, line)) = rest.next() {
        let squeezed = squeezed(line);
        let is_last = lines.len() == 1;
        if squeezed == echo && first.is_empty() || (squeezed == before && !is_last) {
            // The line that it was typed on; even if it was not echoed, it is not part of the answer.
        } else if !is_last
            && squeezed.strip_suffix(&*first).is_some_and(|prompt| begin_alike(prompt, &before))
        {
            // The same line, with another prompt.
        } else if !is_last && lacks_at_most(&squeezed, &echo, shifted) {
            // An editor that takes its prompt for the beginning of the row draws over as much at
            // the margin.
        } else if squeezed.starts_with(&echo) {
            parts.push(Part { line: 0, from: place_behind(line, &echo), to: usize::MAX });
        } else if squeezed.starts_with(&before) {
            parts.push(Part { line: 0, from: place_behind(line, &before), to: usize::MAX });
        } else {
            parts.push(whole(0));
        }
    }
    let is_asked = |line: &str, typed: &str| {
        let prompt = line.strip_suffix(typed).filter(|prompt| prompt.len() <= LONGEST_PROMPT);
        prompt.is_some_and(|prompt| prompts.have(prompt) || asks(prompt))
    };
    let is_echo = |line: &str, typed: &str| is_asked(line, typed) || (typed.is_empty() && line.is_empty());
    // The kernel echoes all lines at once, if no program reads them yet.
    let (below, others) = (lines.len() - rest.len(), typed.len());
    let echoed = lines[below..].iter().zip(typed.as_slice());
    if others > 0
        && rest.len() > others
        && echoed.clone().all(|(line, typed)| squeezed(line) == *typed)
        && !lines[below + others..].iter().any(|line| is_asked(&squeezed(line), &typed.as_slice()[0]))
    {
        rest.by_ref().take(others).for_each(drop);
        typed.by_ref().for_each(drop);
    }
    // If no program was asking yet, the kernel has echoed, and the editor draws the line, too.
    let mut again = before.is_empty() && !first.is_empty();
    while let Some((index, line)) = rest.next() {
        let line = squeezed(line);
        if std::mem::take(&mut again) && is_echo(&line, &first) {
            continue;
        }
        if let Some(next) = typed.as_slice().first().filter(|_| index + 1 < lines.len()) {
            if line.is_empty() && has_blank_above(lines[index + 1], next, prompts) {
                continue;
            }
            let begins = |row: &str| {
                let starts = row.char_indices().map(|(at, _)| at).filter(|at| *at <= LONGEST_PROMPT);
                let begins_at = |at| next.starts_with(&row[at..]) && is_asked(row, &row[at..]);
                starts.into_iter().any(begins_at)
            };
            let longest = LONGEST_PROMPT + next.len();
            let rows = rows_of(&lines[index..], longest, &|row| is_echo(row, next), &begins);
            if let Some(rows) = rows.filter(|rows| index + rows < lines.len()) {
                rest.by_ref().take(rows - 1).for_each(drop);
                typed.next();
                continue;
            }
        }
        parts.push(whole(index));
    }
    parts
}

/// Is that an echo of text that was typed at a prompt to which the blank line above it belongs?
fn has_blank_above(line: &str, typed: &str, prompts: &Prompts) -> bool {
    let squeezed = squeezed(line);
    let prompt = squeezed.strip_suffix(typed).filter(|prompt| !prompt.is_empty());
    prompt.is_some_and(|prompt| {
        let prompt: String = line.chars().take(place_behind(line, prompt)).collect();
        prompts.have_with_blank(&prompt)
    })
}

/// The number of lines that are an echo, and have at most this length. Editors that break rows themselves end
/// them with newlines: Python's own also with `\`, and IPython's begins the next with a prompt. `begins`
/// returns whether an echo begins so, with some of the text.
fn rows_of(
    lines: &[&str],
    longest: usize,
    is_echo: &dyn Fn(&str) -> bool,
    begins: &dyn Fn(&str) -> bool,
) -> Option<usize> {
    /// A prompt before the rest of a text is shorter.
    const LONGEST_CONTINUATION: usize = 40;
    let mut joined = String::new();
    for (index, line) in lines.iter().enumerate() {
        let row = squeezed(line);
        let behind_prompt = || {
            let ends = row.char_indices().map(|(at, _)| at).take(LONGEST_CONTINUATION);
            // IPython's of version 9 is `⋮`.
            let is_prompt = |start: &str| asks(start) || !start.contains(is_letter_or_digit);
            let mut rests = ends
                .filter(|at| *at > 0 && is_prompt(&row[..*at]))
                .map(|at| format!("{joined}{}", &row[at..]));
            rests.find(|rest| is_echo(rest) || begins(rest))
        };
        let whole = format!("{joined}{row}");
        let goes_on = index > 0 && !is_echo(&whole) && !begins(&whole);
        joined = if goes_on { behind_prompt().unwrap_or(whole) } else { whole };
        if is_echo(&joined) {
            return Some(index + 1);
        }
        if !begins(&joined) {
            joined.pop().filter(|last| *last == '\\' && joined.len() < longest)?;
        }
    }
    None
}

/// Is a line an echo, except for at most `most` characters, all in one place?
fn lacks_at_most(line: &str, echo: &str, most: usize) -> bool {
    let alike = |(one, other): &(char, char)| one == other;
    let length = line.chars().count();
    let head = line.chars().zip(echo.chars()).take_while(alike).count();
    let tail = line.chars().rev().zip(echo.chars().rev()).take_while(alike).count();
    (1..=most).contains(&echo.chars().count().saturating_sub(length)) && head + tail >= length
}

/// The text before the cursor on its line.
pub(super) fn before_cursor(plain: &Rendered) -> &str {
    let line = plain.text.split('\n').nth(plain.cursor_line).unwrap_or_default();
    let end = line.char_indices().nth(plain.cursor_chars).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

/// Removes the prompt on the cursor's line, and the text that is drawn below it.
fn drop_prompt(lines: &[&str], plain: &Rendered, prompt: Option<&AnsweredPrompt>, parts: &mut Vec<Part>) {
    let Some(prompt) = prompt else { return };
    let line = before_cursor(plain);
    let Some(place) = prompt.place(line) else { return };
    let chars = line[..place].chars().count();
    parts.retain(|part| part.line <= plain.cursor_line);
    match parts.last_mut().filter(|part| part.line == plain.cursor_line) {
        Some(part) => part.to = chars,
        // It was the typed line itself.
        None => parts.push(Part { line: plain.cursor_line, from: 0, to: 0 }),
    }
    let is_blank = |part: &Part| part.line < plain.cursor_line && lines[part.line].is_empty();
    if prompt.blank && place == 0 && parts.len() > 1 && is_blank(&parts[parts.len() - 2]) {
        parts.remove(parts.len() - 2);
    }
}

/// Without blanks, which editors draw as they like, and without what no terminal shows.
fn squeezed(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace() && !character.is_control()).collect()
}

/// The number of characters at the beginning of a line that squeeze to this.
fn place_behind(line: &str, squeezed: &str) -> usize {
    let mut left = squeezed.chars().count();
    line.chars()
        .take_while(|character| {
            let goes_on = left > 0;
            left -= usize::from(goes_on && !character.is_whitespace() && !character.is_control());
            goes_on
        })
        .count()
}

/// The characters of a line in this range; colours do not count.
fn cut(line: &str, from: usize, to: usize) -> String {
    let (mut text, mut place, mut escapes) = (String::new(), 0, false);
    for character in line.chars() {
        if escapes || character == '\x1b' {
            escapes = character != 'm';
            text.push(character);
            continue;
        }
        if (from..to).contains(&place) {
            text.push(character);
        }
        place += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::screen::{Rendering, Screen};

    fn seen(screen: &str, typed: &str, output: &str) -> String {
        let before = Screen::showing(40, 5, screen.as_bytes());
        let mut prompts = Prompts::default();
        let line = before.before_cursor();
        prompts.add(">>> ", false);
        prompts.add(&line, before.is_below_blank());
        prompts.add("...> ", false);
        let mut rendering = Rendering::new(before, false);
        rendering.feed(output.as_bytes());
        let rendered = rendering.finish();
        let prompt = AnsweredPrompt::of(&line, &prompts);
        answer(&rendered, &rendered, &line, typed, &prompts, prompt.as_ref())
    }

    #[test]
    fn the_answer_is_what_is_left() {
        for (screen, typed, output, text) in [
            (">>> ", "1+1", "1+1\r\n2\r\n>>> ", "2\n"),
            (">>> ", "x", "\r\x1b[K>>> x\r\n5>>> ", "5"),
            (">>> ", "x = 5", "x = 5\r\n>>> ", ""),
            (">>> ", "", "\r\n>>> ", ""),
            (">>> ", "input('? ')", "input('? ')\r\n? ", "? "),
            ("", "hi", "hi\r\nhi\r\n", "hi\n"),
            // An editor that erases a whole screen to draw its line again.
            (
                "pt> ",
                "6*7",
                "\x1b[4Dpt> 6*7\r\r\n\r\r\n\r\r\n\r\r\n \x1b[4A\x1b[6C\x1b[7D\x1b[Jpt> 6*7\x1b[7D\r\r\n\x1b[J42\r\npt> ",
                "42\n",
            ),
            ("> ", "hi", "hi\r\n\r\n> hi\r\n> ", "\n> hi\n"),
            ("", "hi", "hi\r\n", ""),
            ("", "hi", "ho\r\n", "ho\n"),
            ("? ", "4*5", "4*5 = 20\r\n? ", " = 20\n"),
            ("PIN: ", "secret", "\r\nfine\r\n", "fine\n"),
            (">>> ", "1", "1\r\n1\r\n>>> \r\n\r\n toolbar\x1b[2A\r\x1b[4C", "1\n"),
            ("\r\n\r\nIn [1]: ", "1", "1\r\nOut[1]: 1\r\n\r\nIn [2]: ", "Out[1]: 1\n"),
            (">>> ", "clear", "clear\r\n\x1b[H\x1b[2Jtop\r\n>>> ", "top\n"),
            (
                "irb(main):001:0> ",
                "def f",
                "\r\x1b[Kirb(main):001:1* def f\r\nirb(main):002:1* ",
                "irb(main):002:1* ",
            ),
            (">>> ", "a\nb", "a\r\n...> b\r\n7\r\n>>> ", "7\n"),
            (
                ">>> ",
                "'long line that has to be broken at the margin'",
                "'long line that has to be broken at the margin'\r\n'long line that has to be broken at the margin'\r\n>>> ",
                "'long line that has to be broken at the margin'\n",
            ),
            (
                ">>> ",
                "'long line that has to be broken at the margin'",
                "'long line that has to be broken at\\\r\n the margin'\r\n'long\\\r\nline'\r\n>>> ",
                "'long\\\nline'\n",
            ),
            ("", "a\nb\n", "a\r\nb\r\n\r\na\r\nb\r\n\r\n", "a\nb\n\n"),
            ("# ", "echo a\necho b", "echo a\r\necho b\r\na\r\n# b\r\n# ", "a\n# b\n"),
            (">>> ", "1\n1", "1\r\n1\r\n>>> 1\r\n1\r\n>>> ", "1\n1\n"),
            (
                "\r\n\r\nIn [1]: ",
                "a\nb\n",
                "a\r\n\r\nIn [2]: b\r\nOut[2]: 5\r\n\r\nIn [3]: \r\n\r\nIn [3]: ",
                "Out[2]: 5\n",
            ),
            (">>> ", "a\nbcd\n", "a\r\n...> b\\\r\nc\\\r\nd\r\n...> \r\n7\r\n>>> ", "7\n"),
            // prompt_toolkit redraws its prompt when it has received the cursor's position.
            ("pt> ", "6*7", "\r\n\r\n\r\n \x1b[3A\r\x1b[Jpt> 6*7\r\r\n\x1b[J42\r\npt> ", "42\n"),
            (
                "pt> ",
                "len('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz')",
                "\rpt> len('abcdefghijklmnopqrstuvwxyzabcde\r\x1b[39Ce\x1b[0m\r\r\nfghijklmnopqrstuvwxyz')\x1b[0m\r\r\n\x1b[J52\r\npt> ",
                "52\n",
            ),
            // IPython begins each row of a text that goes on with a prompt.
            (
                "\r\n\r\nIn [1]: ",
                "len('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz')",
                "\r\x1b[KIn [1]: len('abcdefghijklmnopqrstuvwxyz\r\r\n   ...: abcdefghijklmnopqrstuvwxyz')\r\r\nOut[1]: 52\r\n\r\nIn [2]: ",
                "Out[1]: 52\n",
            ),
            (
                "In [1]: ",
                "len('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz')",
                "\r\x1b[KIn [1]: len('abcdefghijklmnopqrstuvwxyz\r\r\n      ⋮ abcdefghijklmnopqrstuvwxyz')\r\r\nOut[1]: 52\r\n",
                "Out[1]: 52\n",
            ),
            // A line that only begins like the text is output.
            (">>> ", "abcdef", "\r\nabc\r\nxyz\r\n>>> ", "abc\nxyz\n"),
            ("5>>> ", "abcdef", "abcef\r\n'abcdef'\r\n>>> ", "'abcdef'\n"),
            ("5>>> ", "abcdef", "\r>>> abcdef\r\n'abcdef'\r\n>>> ", "'abcdef'\n"),
            (">>> ", "abcdef", "abcef\r\n'abcdef'\r\n>>> ", " abcef\n'abcdef'\n"),
        ] {
            assert_eq!(seen(screen, typed, output), text, "{screen:?} {typed:?} {output:?}");
        }
    }

    #[test]
    fn colours_are_no_characters() {
        assert_eq!(cut("\x1b[31mab\x1b[0mcd", 1, 3), "\x1b[31mb\x1b[0mc");
    }
}
