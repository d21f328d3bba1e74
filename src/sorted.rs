//! Maps and sets that are sorted lists, for few entries.
//!
//! The standard library's trees are faster with many thousand entries that come in no order; but each kind of
//! them is 5 KB of the file, and these are a tenth of that.

use std::borrow::Borrow;

/// Invariant: sorted by key, and each key is there once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map(Vec::new())
    }
}

impl<K: Ord, V> Map<K, V> {
    pub(crate) fn new() -> Map<K, V> {
        Map::default()
    }

    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        // New keys mostly belong at the end.
        match self.0.last() {
            Some((last, _)) if last.borrow() < key => Err(self.0.len()),
            _ => self.0.binary_search_by(|(other, _)| other.borrow().cmp(key)),
        }
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|place| &mut self.0[place].1)
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// In the place of another of that key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.place(&key) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    /// The value of the key, or else this one.
    pub(crate) fn or_insert(&mut self, key: K, value: V) -> &mut V {
        let place = self.place(&key).unwrap_or_else(|place| {
            self.0.insert(place, (key, value));
            place
        });
        &mut self.0[place].1
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// By key, as all that follow.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Map<K, V> {
        let mut entries: Vec<(K, V)> = entries.into_iter().collect();
        // Stable: of several of one key the last one is the last.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.dedup_by(|later, former| {
            let same = later.0 == former.0;
            if same {
                std::mem::swap(later, former);
            }
            same
        });
        Map(entries)
    }
}

/// Invariant: sorted, and each is there once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set<T>(Vec<T>);

impl<T> Default for Set<T> {
    fn default() -> Set<T> {
        Set(Vec::new())
    }
}

impl<T: Ord> Set<T> {
    pub(crate) fn new() -> Set<T> {
        Set::default()
    }

    pub(crate) fn contains(&self, value: &T) -> bool {
        self.0.binary_search(value).is_ok()
    }

    /// Was it not there yet?
    pub(crate) fn insert(&mut self, value: T) -> bool {
        let place = match self.0.last() {
            Some(last) if *last < value => self.0.len(),
            _ => match self.0.binary_search(&value) {
                Ok(_) => return false,
                Err(place) => place,
            },
        };
        self.0.insert(place, value);
        true
    }

    /// Was it there?
    pub(crate) fn remove(&mut self, value: &T) -> bool {
        self.0.binary_search(value).map(|place| self.0.remove(place)).is_ok()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Ord> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        self.0.extend(values);
        self.0.sort_unstable();
        self.0.dedup();
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Set<T> {
        let mut set = Set::new();
        set.extend(values);
        set
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn they_are_as_the_standard_librarys() {
        for (seed, mut random) in rounds(200) {
            let (mut map, mut as_map) = (Map::new(), BTreeMap::new());
            let (mut set, mut as_set) = (Set::new(), BTreeSet::new());
            for _ in 0..random.usize(..60) {
                let (key, value) = (random.u8(..20), random.u32(..));
                match random.u8(..8) {
                    0 => {
                        map.insert(key, value);
                        as_map.insert(key, value);
                    }
                    1 => assert_eq!(map.or_insert(key, value), as_map.entry(key).or_insert(value)),
                    2 => assert_eq!(map.remove(&key), as_map.remove(&key)),
                    3 => assert_eq!(set.insert(key), as_set.insert(key)),
                    4 => assert_eq!(set.remove(&key), as_set.remove(&key)),
                    5 => {
                        map.retain(|key, value| (u32::from(*key) ^ *value) % 8 > 0);
                        as_map.retain(|key, value| (u32::from(*key) ^ *value) % 8 > 0);
                    }
                    6 => {
                        map.values_mut().for_each(|value| *value ^= 1);
                        as_map.values_mut().for_each(|value| *value ^= 1);
                    }
                    _ => {
                        set.extend([key, key / 2]);
                        as_set.extend([key, key / 2]);
                    }
                }
                assert_eq!(map.get(&key), as_map.get(&key), "seed {seed}");
                assert_eq!(map.contains_key(&key), as_map.contains_key(&key), "seed {seed}");
                assert_eq!(set.contains(&key), as_set.contains(&key), "seed {seed}");
                assert_eq!(map.len(), as_map.len(), "seed {seed}");
            }
            assert!(map.iter().eq(as_map.iter()), "seed {seed}");
            let entries: Vec<(u8, u8)> = (0..30).map(|number| (random.u8(..10), number)).collect();
            let as_map: BTreeMap<u8, u8> = entries.iter().copied().collect();
            assert!(Map::from_iter(entries).iter().eq(as_map.iter()), "seed {seed}");
            assert!(set.into_iter().eq(as_set), "seed {seed}");
        }
    }
}
