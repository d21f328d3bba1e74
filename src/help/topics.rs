//! The reference, by topic: pages of Markdown that `nbs help TOPIC` prints.
//!
//! They are in the file, for a host that has nothing else of nbs. A page is read as it
//! stands on a terminal, on the web, and in the manual, so it is made of few things:
//! a first line `# name - what it is about`, headings `## ...`, paragraphs, items
//! `- ...`, tables, and blocks of code. No line is longer than 79 columns.

use std::ffi::OsStr;

use crate::{help::texts::Text, json::Object};

/// One page.
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    markdown: Text,
}

macro_rules! topics {
    ($($name:literal)*) => {
        &[$(Topic { name: $name, markdown: Text::of(concat!("help/topics/", $name, ".md")) }),*]
    };
}

/// All topics, in the order in which a new user would read them.
pub(crate) const TOPICS: &[Topic] = topics! {
    "calls" "sessions" "shells" "typing" "waiting" "output" "screen" "limits"
    "helper" "machines" "workers" "mcp" "tmux" "python" "typescript" "security" "files" "json"
    "install"
};

pub(crate) fn find(name: &OsStr) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| name == topic.name)
}

/// A line for each: its name and what it is about.
pub(crate) fn listing() -> String {
    TOPICS.iter().map(|topic| format!("  {:12}  {}\n", topic.name, topic.summary())).collect()
}

impl Topic {
    /// All of it, Markdown.
    pub(crate) fn text(&self) -> &'static str {
        self.markdown.get()
    }

    /// The subject of a topic.
    pub(crate) fn summary(&self) -> &'static str {
        self.parts().0
    }

    /// The text after the first line.
    pub(crate) fn body(&self) -> &'static str {
        self.parts().1
    }

    fn parts(&self) -> (&'static str, &'static str) {
        let title = self.text().strip_prefix("# ").and_then(|text| text.strip_prefix(self.name));
        let parts = title.and_then(|text| text.strip_prefix(" - ")?.split_once("\n\n"));
        parts.expect("a test has read the first line of every topic")
    }

    /// The page for programs.
    pub(crate) fn object(&self) -> Object {
        Object::new().text("name", self.name).text("summary", self.summary()).text("text", self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_can_be_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/help/topics");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        let mut pages: Vec<String> = TOPICS.iter().map(|topic| format!("{}.md", topic.name)).collect();
        files.sort_unstable();
        pages.sort_unstable();
        assert_eq!(files, pages);
        for topic in TOPICS {
            assert!(!topic.summary().is_empty() && !topic.body().is_empty(), "{}", topic.name);
            for line in topic.text().lines() {
                assert!(line.chars().count() <= 79, "{}: {line}", topic.name);
            }
            // Markup that a terminal would print literally.
            for mark in ["](", "**", "\n### ", "\n* "] {
                assert!(!topic.text().contains(mark), "{}: {mark:?}", topic.name);
            }
            // A span of code may not be broken over two lines, nor a block left open.
            let (mut in_block, mut blocks) = (false, 0);
            for line in topic.text().lines() {
                if line.starts_with("```") {
                    (in_block, blocks) = (!in_block, blocks + 1);
                } else if !in_block {
                    assert!(line.matches('`').count() % 2 == 0, "{}: {line}", topic.name);
                }
            }
            assert!(blocks % 2 == 0, "{}", topic.name);
        }
    }
}
