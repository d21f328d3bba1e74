//! The prompts at which `ask` has typed, for later calls: most programs show only by a prompt that they have
//! answered.

use crate::{
    outcome::{Result, Trying},
    session::{SessionDir, dir::PROMPTS},
    terminal::text::Prompts,
};

/// How many are remembered, the last ones.
const MOST: usize = 64;
const LONGEST_LINE: usize = 1024;
const LONGEST: u64 = (MOST * LONGEST_LINE) as u64;

impl SessionDir {
    /// Adds a prompt, which may follow a blank line, and returns all.
    pub(crate) fn remember_prompt(&self, prompt: &str, blank: bool) -> Result<Prompts> {
        let what = || format!("remember a prompt of session '{}'", self.handle());
        let before = self.read_if_there(PROMPTS, LONGEST).trying(what())?;
        let before = String::from_utf8_lossy(&before);
        let mut lines: Vec<&str> = before.lines().collect();
        let line = format!("{} {prompt}", if blank { "blank" } else { "-" });
        let is_new = !prompt.trim().is_empty() && !lines.contains(&line.as_str());
        // So that the file never holds more than is read.
        if is_new && line.len() < LONGEST_LINE {
            lines.push(&line);
            let surplus = lines.len().saturating_sub(MOST);
            let content: String = lines[surplus..].iter().flat_map(|line| [*line, "\n"]).collect();
            self.folder.exchange(PROMPTS, content.as_bytes()).trying(what())?;
        }
        let mut prompts = Prompts::default();
        for (flag, prompt) in lines.iter().filter_map(|line| line.split_once(' ')) {
            prompts.add(prompt, flag == "blank");
        }
        prompts.add(prompt, blank);
        Ok(prompts)
    }
}
