//! An enum whose variants each have a word: in JSON, in files, and in what processes send each other.

/// Makes the enum, with `word`, and `parse`, which finds the variant of a word.
macro_rules! worded {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$each:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            const ALL: &[$name] = &[$($name::$variant),*];
            const WORDS: &[&str] = &[$($word),*];

            pub(crate) fn word(self) -> &'static str {
                $name::WORDS[self as usize]
            }

            pub(crate) fn parse(word: impl AsRef<[u8]>) -> Option<$name> {
                $crate::worded::place($name::WORDS, word.as_ref()).map(|place| $name::ALL[place])
            }
        }
    };
}

pub(crate) use worded;

/// The index of a word.
pub(crate) fn place(words: &[&str], word: &[u8]) -> Option<usize> {
    words.iter().position(|other| other.as_bytes() == word)
}

#[cfg(test)]
mod tests {
    worded! {
        enum Way {
            Here = "here",
            There = "over-there",
        }
    }

    #[test]
    fn a_variant_is_read_back_from_its_word() {
        for way in Way::ALL {
            assert_eq!(Way::parse(way.word()), Some(*way));
        }
        assert_eq!((Way::Here.word(), Way::parse("there"), Way::parse(b"")), ("here", None, None));
    }
}
