//! An applet's page of the manual, and the topics, as man(1) shows them.

use crate::help::{
    page::{Entry, Page},
    topics::Topic,
};

/// A page in man(7) for the file called `name`, with what its commands are, and with
/// these topics; `see_also` are other pages of section 1.
pub(crate) fn man_page(
    name: &str,
    page: &Page,
    commands: &[Page],
    topics: &[Topic],
    see_also: &[&str],
) -> String {
    let mut roff = format!(
        ".TH {} 1 {} \"nbs {}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
        name.to_ascii_uppercase(),
        env!("NBS_DATE"),
        env!("CARGO_PKG_VERSION"),
        escaped(name),
        escaped(page.summary),
    );
    lines(&mut roff, &page.usage);
    roff += ".SH DESCRIPTION\n";
    paragraphs(&mut roff, &page.about);
    section(&mut roff, ".SH OPTIONS\n", &page.options);
    if !commands.is_empty() {
        roff += ".SH COMMANDS\n";
    }
    for command in commands {
        roff += &format!(".SS {} \\- {}\n", escaped(command.name), escaped(command.summary));
        lines(&mut roff, &command.usage);
        roff += ".PP\n";
        paragraphs(&mut roff, &command.about);
        section(&mut roff, "", &command.options);
        section(&mut roff, ".PP\nExit codes:\n", &command.exits);
        roff += ".PP\nExample:\n.PP\n";
        lines(&mut roff, &command.example);
    }
    section(&mut roff, ".SH EXIT STATUS\n", &page.exits);
    if !page.example.is_empty() {
        roff += ".SH EXAMPLES\n";
        lines(&mut roff, &page.example);
    }
    for topic in topics {
        roff += &format!(".SH {} \\- {}\n", topic.name.to_ascii_uppercase(), escaped(topic.summary()));
        markdown(&mut roff, topic.body());
    }
    let see_also: Vec<String> = see_also.iter().map(|name| format!("\\fB{}\\fR(1)", escaped(name))).collect();
    roff += &format!(".SH SEE ALSO\n{}\n", see_also.join(", "));
    roff
}

/// Converts the markup of topics: see `topics.rs`.
fn markdown(roff: &mut String, text: &str) {
    let mut all = text.lines().peekable();
    // A paragraph begins after each blank line and each block.
    let mut begins = true;
    while let Some(line) = all.next() {
        let is_text = !line.is_empty() && !line.starts_with("## ") && !line.starts_with(['-', '|']);
        if let Some(heading) = line.strip_prefix("## ") {
            *roff += &format!(".SS {}\n", escaped(heading));
        } else if line.starts_with("```") {
            let code: Vec<&str> = all.by_ref().take_while(|line| !line.starts_with("```")).collect();
            *roff += ".PP\n.RS 4\n";
            lines(roff, &code);
            *roff += ".RE\n";
        } else if let Some(item) = line.strip_prefix("- ") {
            *roff += &format!(".IP \\(bu 2\n{}\n", emphasised(item));
        } else if line.starts_with('|') {
            // Its heads, and the rule below them, say nothing there.
            all.next();
            while let Some(row) = all.next_if(|row| row.starts_with('|')) {
                let mut cells = row.trim_matches('|').split('|').map(|cell| emphasised(cell.trim()));
                *roff += &format!(".TP\n{}\n", cells.next().unwrap_or_default());
                cells.for_each(|cell| *roff += &format!("{cell}\n"));
            }
        } else if is_text {
            let is_of_item = line.starts_with(' ');
            *roff += if begins && !is_of_item { ".PP\n" } else { "" };
            *roff += &format!("{}\n", emphasised(line.trim_start()));
        }
        begins = !is_text || line.starts_with("```");
    }
}

/// Text to be filled; what is indented in it, and so a table, stays as it is.
fn paragraphs(roff: &mut String, about: &[&str]) {
    for (number, paragraph) in about.iter().enumerate() {
        if number > 0 {
            *roff += ".PP\n";
        }
        if paragraph.starts_with(' ') {
            lines(roff, &paragraph.lines().collect::<Vec<_>>());
        } else {
            *roff += &emphasised(paragraph);
            roff.push('\n');
        }
    }
}

/// Lines that stay as they are.
fn lines(roff: &mut String, lines: &[&str]) {
    *roff += ".nf\n";
    for line in lines {
        *roff += &escaped(line);
        roff.push('\n');
    }
    *roff += ".fi\n";
}

fn section(roff: &mut String, title: &str, entries: &[Entry]) {
    if !entries.is_empty() {
        *roff += title;
    }
    for entry in entries {
        *roff += &format!(".TP\n\\fB{}\\fR\n{}\n", escaped(entry.term), emphasised(&entry.help));
    }
}

/// Makes text between backticks bold.
fn emphasised(text: &str) -> String {
    let (plain, bold) = ("\\fR", "\\fB");
    let parts = text.split('`').enumerate();
    parts
        .map(|(number, part)| match number {
            0 => escaped(part),
            odd if odd % 2 == 1 => format!("{bold}{}", escaped(part)),
            _ => format!("{plain}{}", escaped(part)),
        })
        .collect()
}

/// Text that roff takes for nothing but text (groff_char(7)).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            escaped.push('\n');
        }
        if line.starts_with(['.', '\'']) {
            escaped += "\\&";
        }
        for character in line.chars() {
            match character {
                '\\' => escaped += "\\e",
                '-' => escaped += "\\-",
                '\'' => escaped += "\\(aq",
                '`' => escaped += "\\(ga",
                '^' => escaped += "\\(ha",
                '~' => escaped += "\\(ti",
                other => escaped.push(other),
            }
        }
    }
    escaped
}
