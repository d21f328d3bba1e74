//! The words of the text that users see: no idioms, and short sentences.

use std::{fs, path::Path};

use regex_lite::Regex;

/// The patterns that must not be in the text that users see, each with a better wording.
const IDIOMS: [(&str, &str); 9] = [
    (r"^(Who|What|Where|Of|One that|Whoever)\b.*[.:]$", "begin with the subject; a condition begins with If"),
    (r"\b(is|are) (no|none|told)\b", "is not, do not, prints"),
    (r"\b(tells|told)\b|\bheed", "print, show, report"),
    (r"\bexclud|\banew\b|\btrue of\b", "cannot use X with Y; again; works in"),
    (r"\bso (long|large|many|much|often)\b", "name the time, size or number"),
    (r"has the foreground|\blooks? on\b", "foreground program; attach"),
    (r"\b([Ss]omebody|[Ww]hoever)\b", "name who it is"),
    (r"\b(a|an|the|its|each|of|in|state|other|that|whose) folder\b|\bfolders\b", "directory"),
    (r"\b[Mm]end(s|ed|ing)?\b", "fix"),
];

/// Correct English that the idioms would find.
const ALLOWED: [&str; 4] = ["here is no", "here are no", "is no longer", "are no longer"];

const MEAN_WORDS: usize = 18;
const MOST_WORDS: usize = 30;

struct Text {
    place: String,
    /// Whether its sentences are measured. Others, as error messages, are only fragments.
    is_prose: bool,
    paragraphs: Vec<String>,
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// All files below a directory of the sources, by their paths.
fn files_below(directory: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// The paragraphs, items, headings and cells of a page, without its blocks and its code.
fn paragraphs(page: &str) -> Vec<String> {
    let (mut paragraphs, mut is_block, mut is_new) = (Vec::<String>::new(), false, true);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            (is_block, is_new) = (!is_block, true);
            continue;
        }
        let is_apart = is_block || line.trim().is_empty() || line.starts_with("    ");
        let text = line.trim().trim_start_matches(['#', '`']).trim();
        if let Some(row) = text.strip_prefix('|') {
            paragraphs.extend(row.split('|').map(|cell| cell.trim().to_owned()));
            is_new = true;
        } else if is_apart || text.starts_with("![") {
            is_new = true;
        } else if let Some(item) = text.strip_prefix("- ").or_else(|| numbered(text)) {
            paragraphs.push(item.to_owned());
            is_new = false;
        } else if line.starts_with('#') {
            paragraphs.push(text.to_owned());
            is_new = true;
        } else if is_new {
            paragraphs.push(line.trim().to_owned());
            is_new = false;
        } else {
            *paragraphs.last_mut().unwrap() += &format!(" {}", line.trim());
        }
    }
    paragraphs.iter().map(|paragraph| without_code(paragraph)).collect()
}

fn numbered(text: &str) -> Option<&str> {
    text.strip_prefix(|first: char| first.is_ascii_digit())?.strip_prefix(". ")
}

/// A paragraph in which each piece of code, and each address of a link, is one word.
fn without_code(paragraph: &str) -> String {
    let code = Regex::new("`[^`]*`").unwrap().replace_all(paragraph, "CODE");
    Regex::new(r"\]\([^)]*\)").unwrap().replace_all(&code, "]").into_owned()
}

fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    paragraph
        .split_inclusive([' '])
        .scan(0, |at, word| {
            let begin = *at;
            *at += word.len();
            Some((begin, *at, word.trim_end().ends_with(['.', '?', '!'])))
        })
        .fold((Vec::new(), 0), |(mut found, begin), (_, end, is_end)| {
            if is_end || end == paragraph.len() {
                found.push(paragraph[begin..end].trim());
                return (found, end);
            }
            (found, begin)
        })
        .0
        .into_iter()
}

/// A header's text about its command, and the text of its options.
fn header(source: &str) -> Option<(Vec<String>, Vec<String>)> {
    let is_command = source.starts_with("//! ") && source.lines().next()?.contains(" - ");
    let lines =
        source.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.trim_start_matches(' '));
    let page: Vec<&str> = lines.collect();
    let page = is_command.then(|| page.join("\n"))?;
    let (about, options) = page.split_once("\nOptions:\n").unwrap_or((&page, ""));
    let about =
        about.split("\n\n").filter(|part| !part.starts_with("Usage: ")).collect::<Vec<_>>().join("\n\n");
    let options = options.split("\n\n").filter(|part| !part.starts_with("Example"));
    Some((paragraphs(&about), options.map(without_code).collect()))
}

/// The string literals of a source that are more than a word, without its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let source = lines.collect::<Vec<_>>().join("\n");
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(&source, "");
    // A placeholder is a name in the code.
    let joined = Regex::new(r"\{[a-z_]+\}")
        .unwrap()
        .replace_all(&joined, "{}")
        .replace("'\"'", "")
        .replace("\\\\", "");
    let literal = Regex::new(r#""((?:[^"\\\n]|\\.)*)""#).unwrap();
    let found = literal.captures_iter(&joined).map(|found| found[1].to_owned());
    found.filter(|text| text.contains(' ')).collect()
}

/// All that users read.
fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    let mut add = |place: &str, is_prose, paragraphs| {
        texts.push(Text { place: place.to_owned(), is_prose, paragraphs });
    };
    let topics = files_below("src/help/topics");
    let pages = ["README.md", "src/applets/ts/skill.md"].into_iter().chain(topics.iter().map(String::as_str));
    for page in pages {
        add(page, true, paragraphs(&read(page)));
    }
    for page in [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "src/README.md",
        "src/mcp/instructions.md",
        "tests/README.md",
        "tests/bench/README.md",
    ] {
        add(page, false, paragraphs(&read(page)));
    }
    for path in files_below("src") {
        let source = read(&path);
        if path.ends_with(".rs") && !path.ends_with("/tests.rs") {
            let head = header(&source).filter(|_| path.starts_with("src/applets/"));
            if let Some((about, options)) = head {
                add(&path, true, about);
                add(&path, false, options);
            }
            add(&path, false, literals(&source));
        } else if path.ends_with(".js") {
            add(&path, false, literals(&source));
        } else if path.ends_with(".html") {
            let text = Regex::new(r">([^<]+)<|(?:label|placeholder)=.([^>]*?)[\x22]").unwrap();
            let found = text.captures_iter(&source);
            let found = found.filter_map(|found| found.get(1).or(found.get(2)));
            add(&path, false, found.map(|text| text.as_str().to_owned()).collect());
        }
    }
    texts
}

#[test]
fn users_read_no_idioms() {
    let idioms: Vec<(Regex, &str)> =
        IDIOMS.iter().map(|(idiom, instead)| (Regex::new(idiom).unwrap(), *instead)).collect();
    let mut found = Vec::new();
    for text in texts() {
        for sentence in text.paragraphs.iter().flat_map(|paragraph| sentences(paragraph)) {
            let plain = ALLOWED.iter().fold(sentence.to_owned(), |plain, allowed| plain.replace(allowed, ""));
            for (idiom, instead) in &idioms {
                if idiom.is_match(&plain) {
                    found.push(format!("{}: {sentence}\n    ({instead})", text.place));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} idioms; write instead what stands in brackets:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn users_read_short_sentences() {
    let (mut long, mut sentences_of_all, mut words_of_all) = (Vec::new(), 0, 0);
    for text in texts().iter().filter(|text| text.is_prose) {
        for sentence in text.paragraphs.iter().flat_map(|paragraph| sentences(paragraph)) {
            // Headings, cells and labels end without a full stop.
            if sentence.ends_with(['.', '?', '!', ':']) {
                let words = sentence.split_whitespace().count();
                (sentences_of_all, words_of_all) = (sentences_of_all + 1, words_of_all + words);
                if words > MOST_WORDS {
                    long.push(format!("{}: {words} words: {sentence}", text.place));
                }
            }
        }
    }
    assert!(
        long.is_empty(),
        "{} sentences have more than {MOST_WORDS} words:\n{}",
        long.len(),
        long.join("\n")
    );
    assert!(
        sentences_of_all > 500 && words_of_all <= MEAN_WORDS * sentences_of_all,
        "{words_of_all}/{sentences_of_all}"
    );
}

#[test]
fn idioms_and_sentences_are_found_in_text() {
    let page = "# a - b\n\nOne `a b. c`, two. Three\nfour?\n\n- Five\n  six.\n- Seven\n\n```sh\nno. No.\n```\n\n| a | b |\n";
    let all: Vec<String> = paragraphs(page);
    assert_eq!(all[..5], ["a - b", "One CODE, two. Three four?", "Five six.", "Seven", "a"]);
    assert_eq!(sentences(&all[1]).collect::<Vec<_>>(), ["One CODE, two.", "Three four?"]);
    let (about, options) = header(
        "//! a - do b\n//!\n//! Usage: nbs a\n//!\n//! Does\n//! b.\n//!\n//! Options:\n//!   --c  d\n",
    )
    .unwrap();
    assert_eq!(
        (about, options),
        (vec!["a - do b".to_owned(), "Does b.".to_owned()], vec!["--c  d".to_owned()])
    );
    assert_eq!(
        literals("let a = \"b c\"; // \"no one\"\n    // \"x y\"\nf('\"', \"d \\\n    e\\\" f\");\n"),
        ["b c", "no one", "d e\\\" f"]
    );
}
