//! Links (OSC 8): which there are. A cell has the number of its own.

/// How many there are at most, and how many bytes their addresses have together.
pub(super) const MOST: usize = 1_000;
const MOST_BYTES: usize = 256 * 1024;

/// How often no link is made where all are in use, before that is looked for again.
const PATIENCE: u16 = 500;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    // Each at the place that is its number, less 1. Empty where it is free. Invariant: as many,
    // and as much, as said above.
    pub(super) addresses: Vec<String>,
    refused: u16,
}

/// A link on a screen, and its place.
pub(crate) struct Link<'a> {
    /// From 0.
    pub(crate) row: usize,
    pub(crate) col: usize,
    /// In cells.
    pub(crate) length: usize,
    pub(crate) address: &'a str,
}

impl Links {
    /// The address with this number.
    pub(super) fn get(&self, number: u32) -> Option<&str> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.addresses.get(at).map(String::as_str).filter(|address| !address.is_empty())
    }

    /// Is it of a kind that is kept?
    pub(super) fn is_fit(address: &str) -> bool {
        !address.is_empty() && !address.contains(char::is_control)
    }

    /// The number of an address, if it has one or there is room.
    pub(super) fn find(&mut self, address: &str) -> Option<u32> {
        let same = self.addresses.iter().position(|known| known == address);
        let bytes: usize = self.addresses.iter().map(String::len).sum();
        let fits = bytes + address.len() <= MOST_BYTES;
        let at = match same {
            Some(at) => at,
            None if !fits => return None,
            None => match self.addresses.iter().position(String::is_empty) {
                Some(free) => {
                    address.clone_into(&mut self.addresses[free]);
                    free
                }
                None if self.addresses.len() < MOST => {
                    self.addresses.push(address.to_owned());
                    self.addresses.len() - 1
                }
                None => return None,
            },
        };
        Some(at as u32 + 1)
    }

    /// Is it time to look which are in use no more?
    pub(super) fn may_look(&mut self) -> bool {
        self.refused = self.refused.checked_sub(1).unwrap_or(PATIENCE);
        self.refused == PATIENCE
    }

    /// Forgets those that are not in use.
    pub(super) fn keep(&mut self, in_use: &[bool]) {
        for (address, _) in self.addresses.iter_mut().zip(in_use).filter(|(_, used)| !**used) {
            *address = String::new();
        }
    }
}
