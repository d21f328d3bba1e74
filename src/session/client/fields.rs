//! The fields of a line, each of which one function names, whether they are written or read.

use std::time::Duration;

use crate::numbers::{hex, parse_hex};

/// The fields of a line.
pub(super) struct Fields<'a> {
    /// Those to read; `None`: they are written.
    given: Option<Vec<(&'a str, &'a str)>>,
    pub(super) line: String,
}

impl<'a> Fields<'a> {
    /// To be written behind this word.
    pub(super) fn of_line(word: &str) -> Fields<'a> {
        Fields { given: None, line: word.to_owned() }
    }

    /// To be read. `None`: these are no fields.
    pub(super) fn given(words: &'a str) -> Option<Fields<'a>> {
        let given = words.split(' ').map(|field| field.split_once('=')).collect::<Option<_>>()?;
        Some(Fields { given: Some(given), line: String::new() })
    }

    /// Writes a field if it has a value, or returns the given one.
    pub(super) fn other(&mut self, name: &str, value: Option<String>) -> Option<&'a str> {
        if let Some(given) = &self.given {
            return given.iter().find(|(other, _)| *other == name).map(|(_, told)| *told);
        }
        if let Some(value) = value {
            self.line.extend([" ", name, "=", &value]);
        }
        None
    }

    pub(super) fn flag(&mut self, name: &str, flag: &mut bool) {
        *flag |= self.other(name, flag.then(String::new)).is_some();
    }

    /// The fields of a part follow, if there is that part.
    pub(super) fn part<'b, T: Default>(&mut self, name: &str, part: &'b mut Option<T>) -> Option<&'b mut T> {
        let mut is_there = part.is_some();
        self.flag(name, &mut is_there);
        is_there.then(|| part.get_or_insert_default())
    }

    pub(super) fn maybe<N: Copy + TryInto<u64> + TryFrom<u64>>(
        &mut self,
        name: &str,
        number: &mut Option<N>,
    ) -> Option<()> {
        let mut value = number.and_then(|number| number.try_into().ok());
        self.maybe_digits(name, &mut value)?;
        *number = value.map(N::try_from).transpose().ok()?;
        Some(())
    }

    fn maybe_digits(&mut self, name: &str, number: &mut Option<u64>) -> Option<()> {
        if let Some(told) = self.other(name, number.map(|number| number.to_string())) {
            *number = Some(told.parse().ok()?);
        }
        Some(())
    }

    /// A number that is 0 if it is not given.
    pub(super) fn number<N: Copy + TryInto<u64> + TryFrom<u64>>(
        &mut self,
        name: &str,
        number: &mut N,
    ) -> Option<()> {
        let mut value = (*number).try_into().ok().filter(|number| *number != 0);
        self.maybe_digits(name, &mut value)?;
        *number = N::try_from(value.unwrap_or_default()).ok()?;
        Some(())
    }

    pub(super) fn millis(&mut self, name: &str, time: &mut Option<Duration>) -> Option<()> {
        let mut millis = time.map(|time| time.as_millis() as u64);
        self.maybe(name, &mut millis)?;
        *time = millis.map(Duration::from_millis);
        Some(())
    }

    pub(super) fn text(&mut self, name: &str, text: &mut Option<String>) -> Option<()> {
        if let Some(told) = self.other(name, text.as_ref().map(|text| hex(text.as_bytes()))) {
            *text = Some(String::from_utf8(parse_hex(told)?).ok()?);
        }
        Some(())
    }

    /// The variant of an enum, by its word.
    pub(super) fn word<T: Copy>(
        &mut self,
        name: &str,
        value: &mut T,
        word: fn(T) -> &'static str,
        parse: impl Fn(&'a str) -> Option<T>,
    ) -> Option<()> {
        let mut some = Some(*value);
        self.maybe_word(name, &mut some, word, parse)?;
        *value = some?;
        Some(())
    }

    pub(super) fn maybe_word<T: Copy>(
        &mut self,
        name: &str,
        value: &mut Option<T>,
        word: fn(T) -> &'static str,
        parse: impl Fn(&'a str) -> Option<T>,
    ) -> Option<()> {
        if let Some(told) = self.other(name, value.map(|value| word(value).to_owned())) {
            *value = Some(parse(told)?);
        }
        Some(())
    }
}
