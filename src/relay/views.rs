//! The windows that show the session.
//!
//! The terminal has the size of the window that came, or was resized, last; and when all have gone, the size
//! that it had before, or was set to meanwhile.

use crate::{relay::clients::ClientId, sys::pty::Size};

#[derive(Default)]
pub(crate) struct Views {
    // The latest last.
    all: Vec<(ClientId, Size)>,
    // Invariant: there as long as there is a view.
    before: Option<Size>,
}

impl Views {
    /// A client shows the session in a window of a size; the terminal has that from now
    /// on, and has another one before that.
    pub(crate) fn show(&mut self, id: ClientId, size: Size, now: Option<Size>) {
        self.all.retain(|(other, _)| *other != id);
        if self.all.is_empty() {
            self.before = self.before.or(now);
        }
        self.all.push((id, size));
    }

    /// Sets the terminal's permanent size.
    pub(crate) fn note_resized(&mut self, size: Size) {
        self.before = self.before.map(|_| size);
    }

    /// Removes the windows that have gone; returns the terminal's new size, if that changes it.
    pub(crate) fn keep(&mut self, is_there: impl Fn(ClientId) -> bool) -> Option<Size> {
        let latest = self.all.last().copied();
        self.all.retain(|(id, _)| is_there(*id));
        if self.all.last().copied() == latest {
            return None;
        }
        self.all.last().map(|(_, size)| *size).or_else(|| self.before.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_counts_and_in_the_end_what_was_before() {
        let size = |cols| Size { cols, rows: 24 };
        let (one, two) = (ClientId::of(1), ClientId::of(2));
        let mut views = Views::default();
        assert_eq!(views.keep(|_| true), None);
        views.show(one, size(100), Some(size(80)));
        views.show(two, size(120), Some(size(100)));
        views.show(one, size(90), Some(size(120)));
        assert_eq!(views.keep(|_| true), None);
        assert_eq!(views.keep(|id| id != one), Some(size(120)));
        assert_eq!(views.keep(|id| id != one), None);
        assert_eq!(views.keep(|_| false), Some(size(80)));
        views.show(one, size(100), Some(size(80)));
        views.note_resized(size(70));
        assert_eq!(views.keep(|_| false), Some(size(70)));
        assert_eq!(views.keep(|_| false), None);
    }
}
