//! Turns the header of each applet file into a row of a table, and packs all texts that
//! people read.
//!
//! A header is the `//!` block that a file under `src/applets` opens with:
//!
//! ```text
//! //! name - what it does in one line
//! //!
//! //! Usage: name [options] OPERAND
//! //!
//! //! Anything else; all of it is what `--help` prints.
//! ```
//!
//! What it may consist of, `src/help/page.rs` tells; one that is otherwise fails the
//! build. A file without a `Usage:` line is an internal role: it gets a row of
//! its own table, so that it can be started but is listed nowhere. The header of a command of
//! `nbs-ts` also has a line `Task: `, by which `nbs-ts help` lists it, and its place in
//! that list; no page shows that line.

#[path = "src/packed/model.rs"]
mod model;
#[allow(dead_code, reason = "here it is only tried whether a header can be read")]
#[path = "src/help/page.rs"]
mod page;
#[path = "src/call/usage.rs"]
mod usage;

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use ppmd_rust::Ppmd7Encoder;

use model::{memory, order};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let mut texts = Texts::default();
    let (applets, roles) = rows(&root.join("src/applets"));
    let (verbs, _) = rows(&root.join("src/applets/ts"));
    declare(&root.join("src/applets.rs"), applets.iter().chain(&roles));
    declare(&root.join("src/applets/ts.rs"), verbs.iter());
    let applets = table("APPLETS", "What can be called, as `nbs --list` shows it.", &applets, &mut texts);
    let roles = table("ROLES", "What the file starts itself as.", &roles, &mut texts);
    fs::write(out.join("applets.rs"), applets + &roles).unwrap();
    let tasks = tasks(&verbs);
    let verbs = table("VERBS", "The commands of `nbs-ts`.", &verbs, &mut texts);
    fs::write(out.join("verbs.rs"), verbs + &tasks).unwrap();
    for file in TEXTS {
        texts.add(file, &fs::read_to_string(root.join("src").join(file)).unwrap());
    }
    for folder in FOLDERS {
        let mut names: Vec<String> = fs::read_dir(root.join("src").join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for file in names.iter().map(|name| format!("{folder}/{name}")) {
            texts.add(&file, &fs::read_to_string(root.join("src").join(&file)).unwrap());
        }
    }
    for file in PAGE {
        let text = fs::read_to_string(root.join("src").join(file)).unwrap();
        texts.add(file, &without_what_is_for_us(&text));
    }
    texts.write(&out);

    let without_comments = |file: &str| {
        let text = fs::read_to_string(root.join("src/session").join(file)).unwrap();
        // Indentation goes, too.
        let code = |line: &'_ str| {
            line.split_once(" # ").map_or(line, |(code, _)| code.trim_end()).trim_start().to_owned()
        };
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#')).map(code);
        lines.map(|line| line + "\n").collect::<String>()
    };
    // These are read often, or where it counts how long that takes.
    for (file, name) in
        [("shell/bash.bash", "bash.bash"), ("shell/run.bash", "run.bash"), ("rules/agents", "agents")]
    {
        fs::write(out.join(name), without_comments(file)).unwrap();
    }
    let others =
        ["shell/zsh.zsh", "shell/fish.fish", "shell/posix.sh", "shell/read.sh"].map(without_comments);
    let others = others.join("\0");
    fs::write(out.join("shells.packed"), packed(&others)).unwrap();
    fs::write(out.join("shells.length"), others.len().to_string()).unwrap();

    let [commands, options, variables] = ["commands.txt", "options.txt", "variables.txt"].map(|name| {
        let table = fs::read_to_string(root.join("src/tmux").join(name)).unwrap();
        table.trim_end().to_owned()
    });
    let ((often, handlers), (others, other_handlers)) =
        (without_handlers(lines_of(&commands, true)), without_handlers(lines_of(&commands, false)));
    let handlers = [handlers, other_handlers].concat();
    let handlers =
        format!("const HANDLERS: [Handler; {}] = [\n    {},\n];\n", handlers.len(), handlers.join(",\n    "));
    fs::write(out.join("tmux_commands.rs"), handlers).unwrap();
    let is_used = |name: &&str| !name.starts_with("buffer_") && !name.starts_with("client_");
    let numbers = variables.lines().map(|name| name.trim_start_matches('-')).enumerate();
    let numbers = numbers
        .filter(|(_, name)| is_used(name))
        .map(|(number, name)| format!("pub(crate) const {}: usize = {number};\n", name.to_uppercase()));
    fs::write(out.join("tmux_variables.rs"), numbers.collect::<String>()).unwrap();
    // A call can unpack the beginning alone, so the parts that most calls need come first.
    let options_often = lines_of(&options, true).collect::<Vec<_>>().join("\n");
    let options = options.lines().map(|line| line.trim_start_matches('*')).collect::<Vec<_>>().join("\n");
    let (mut tables, mut ends) = (String::new(), String::new());
    for table in [often, options_often, variables, others, options] {
        tables += &table;
        ends += &format!("{}, ", tables.len());
        tables.push('\0');
    }
    fs::write(out.join("tmux.packed"), packed(&tables)).unwrap();
    fs::write(out.join("tmux.ends"), format!("[{ends}]")).unwrap();

    let font = font(&fs::read_to_string(root.join("src/terminal/screen/font.hex")).unwrap());
    fs::write(out.join("font.packed"), packed(&font)).unwrap();
    fs::write(out.join("font.length"), font.len().to_string()).unwrap();

    println!("cargo::rustc-check-cfg=cfg(plain_texts)");
    if is_plain() {
        println!("cargo::rustc-cfg=plain_texts");
    }
    println!("cargo::rustc-env=NBS_TARGET={}", env::var("TARGET").unwrap());
    println!("cargo::rustc-env=NBS_COMMIT={}", commit(&root));
    println!("cargo::rustc-env=NBS_DATE={}", date(&root));
    for part in PARTS {
        println!("cargo::rerun-if-changed={part}");
    }
}

/// The lines of a table that are marked by a leading `*`, without it; or those that are not.
fn lines_of(table: &str, marked: bool) -> impl Iterator<Item = &str> {
    let lines = table.lines().filter(move |line| line.starts_with('*') == marked);
    lines.map(|line| line.trim_start_matches('*'))
}

/// Takes the column of functions out of lines of the table of commands. Returns the lines, and the functions.
fn without_handlers<'a>(table: impl Iterator<Item = &'a str>) -> (String, Vec<String>) {
    let (mut lines, mut handlers) = (Vec::new(), Vec::new());
    for line in table {
        let mut words: Vec<&str> = line.splitn(4, ' ').collect();
        handlers.push(words.remove(2).to_owned());
        lines.push(words.join(" "));
    }
    (lines.join("\n"), handlers)
}

/// As `src/packed.rs` unpacks it.
fn packed(text: &str) -> Vec<u8> {
    if is_plain() {
        return text.as_bytes().to_vec();
    }
    let mut packing = Ppmd7Encoder::new(Vec::new(), order(text.len()), memory(text.len())).unwrap();
    packing.write_all(text.as_bytes()).unwrap();
    packing.finish(false).unwrap()
}

/// The font as `src/terminal/screen/png.rs` reads it: the ranges of its characters, a line, and a character for
/// each row of each glyph. It is two thirds of the hexadecimal digits when packed.
fn font(hex: &str) -> String {
    let (mut ranges, mut rows) = (Vec::<[u32; 2]>::new(), String::new());
    // The first lines say where it is from.
    for (code, glyph) in
        hex.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').unwrap())
    {
        let code = u32::from_str_radix(code, 16).unwrap();
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == code => *last = code,
            _ => ranges.push([code, code]),
        }
        for row in glyph.as_bytes().chunks(3) {
            let row = u32::from_str_radix(str::from_utf8(row).unwrap(), 16).unwrap();
            // The column on the right is empty in most glyphs: they are ASCII, and pack better.
            rows.push(char::from_u32(row >> 1 | (row & 1) << 8).unwrap());
        }
    }
    let ranges: String = ranges.iter().flatten().map(|code| char::from_u32(*code).unwrap()).collect();
    ranges + "\n" + &rows
}

/// All that goes into the file.
const PARTS: [&str; 4] = ["Cargo.lock", "Cargo.toml", "build.rs", "src"];

/// A program that is not optimised takes 0.3 s to unpack the texts, for each help page of the tests.
fn is_plain() -> bool {
    env::var("OPT_LEVEL").unwrap() == "0"
}

/// What is packed, beside the headers: files under `src`, and all in folders there.
const TEXTS: [&str; 3] = ["applets/ts/skill.md", "machine/bootstrap.sh", "mcp/instructions.md"];
const FOLDERS: [&str; 2] = ["help/completion", "help/topics"];
const PAGE: [&str; 3] = ["page/index.html", "page/page.css", "page/page.js"];

/// All texts, one after the other, and where each stands.
#[derive(Default)]
struct Texts {
    all: String,
    places: String,
}

impl Texts {
    /// Gives where it begins and ends.
    fn add(&mut self, name: &str, text: &str) -> (usize, usize) {
        let start = self.all.len();
        self.all += text;
        let end = self.all.len();
        self.places += &format!("    ({name:?}, {start}, {end}),\n");
        (start, end)
    }

    fn write(&self, out: &Path) {
        fs::write(out.join("texts.packed"), packed(&self.all)).unwrap();
        let table = format!(
            "/// How long all of them are together.\nconst LENGTH: usize = {};\n\n\
             /// Where each begins and ends.\nconst PLACES: &[(&str, usize, usize)] = &[\n{}];\n",
            self.all.len(),
            self.places
        );
        fs::write(out.join("texts.rs"), table).unwrap();
    }
}

/// A file of the page without indentation and lines that are comments: a sixth of it.
fn without_what_is_for_us(text: &str) -> String {
    let is_comment = |line: &str| line.starts_with("//") || line.starts_with("/*") && line.ends_with("*/");
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !is_comment(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Under which `nbs-ts help` lists the commands.
const TASKS: [&str; 7] = ["Start", "Do", "Wait", "See", "End", "On machines", "Maintain"];

fn tasks(verbs: &[Row]) -> String {
    // The task, and the command's place among those of the task: behind them if it has none.
    let place = |verb: &Row| -> Option<(&'static str, u32)> {
        let task = verb.task.as_deref()?;
        let (task, place) =
            task.split_once(", ").map_or((task, Ok(u32::MAX)), |(task, place)| (task, place.parse()));
        Some((TASKS.into_iter().find(|known| *known == task)?, place.ok()?))
    };
    for verb in verbs {
        assert!(
            place(verb).is_some(),
            "src/applets/ts/{}.rs: the header needs a line `//! Task: T` or `//! Task: T, PLACE`, T in {TASKS:?}",
            verb.module
        );
    }
    let of_task = |task: &str| -> Vec<&str> {
        let mut verbs: Vec<&Row> =
            verbs.iter().filter(|verb| place(verb).is_some_and(|it| it.0 == task)).collect();
        verbs.sort_by_key(|verb| place(verb));
        verbs.iter().map(|verb| verb.name.as_str()).collect()
    };
    let tasks: String = TASKS.map(|task| format!("    ({task:?}, &{:?}),\n", of_task(task))).concat();
    format!(
        "/// The tasks of the overview, each with its commands.\nconst TASKS: &[(&str, &[&str])] = &[\n{tasks}];\n"
    )
}

/// Brings the `mod` lines of `parent` up to date. They stand in the source, and not in a file that is made with
/// each build, because rustfmt and rust-analyzer find files by them.
fn declare<'a>(parent: &Path, rows: impl Iterator<Item = &'a Row>) {
    let mut modules: Vec<String> = rows.map(|row| format!("mod {};\n", row.module)).collect();
    modules.sort();
    let text = fs::read_to_string(parent).unwrap();
    let start = text.find("\nmod ").unwrap() + 1;
    let end = start + text[start..].find("\n\n").unwrap() + 1;
    if text[start..end] != modules.concat() {
        let text = text[..start].to_owned() + &modules.concat() + &text[end..];
        let failed =
            |error| panic!("cannot bring the `mod` lines of {} up to date: {error}", parent.display());
        fs::write(parent, text).unwrap_or_else(failed);
        println!("cargo::warning=brought the `mod` lines of {} up to date", parent.display());
    }
}

struct Row {
    name: String,
    task: Option<String>,
    summary: String,
    is_called: bool,
    help: String,
    syntax: String,
    /// It gets what was given, and not the words.
    is_declared: bool,
    module: String,
}

/// The rows of one folder, by name: those that people call, and the roles.
fn rows(folder: &Path) -> (Vec<Row>, Vec<Row>) {
    let mut all: Vec<Row> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| row(&path))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.into_iter().partition(|row| row.is_called)
}

fn row(path: &Path) -> Row {
    let text = fs::read_to_string(path).unwrap();
    let mut header: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let task = header.iter().find_map(|line| line.strip_prefix("Task: ")).map(str::to_owned);
    header.retain(|line| !line.starts_with("Task: "));
    let help = header.join("\n") + "\n";
    let (name, summary) = header
        .first()
        .and_then(|line| line.split_once(" - "))
        .unwrap_or_else(|| panic!("{}: the header does not begin `//! name - summary`", path.display()));
    let is_declared = text.contains("fn run(call: &CommandLine)");
    let is_called = header.iter().any(|line| line.starts_with("Usage: "));
    let syntax = match page::Page::parse(&help) {
        _ if !is_called => "Syntax { options: \"\", forms: &[], exclusive: &[], needs: &[] }".to_owned(),
        Ok(page) => syntax(&page, is_declared),
        Err(why) => panic!("{}: {why}", path.display()),
    };
    Row {
        name: name.to_owned(),
        task,
        summary: summary.to_owned(),
        is_called,
        syntax,
        is_declared,
        help,
        module: path.file_stem().unwrap().to_str().unwrap().to_owned(),
    }
}

fn table(name: &str, about: &str, rows: &[Row], texts: &mut Texts) -> String {
    let rows: String = rows
        .iter()
        .map(|row| {
            let (start, end) = texts.add(&row.name, &row.help);
            format!(
                "    Applet {{ name: {:?}, summary: {:?}, header: Text::at({start}, {end}), \
                 run: Run::{}({}::run), syntax: &{} }},\n",
                row.name,
                row.summary,
                if row.is_declared { "Call" } else { "Words" },
                row.module,
                row.syntax,
            )
        })
        .collect();
    format!("/// {about}\npub(crate) const {name}: &[Applet] = &[\n{rows}];\n")
}

/// What the page says may be given, as an expression; see `src/call.rs`.
fn syntax(page: &page::Page, is_declared: bool) -> String {
    let options: String = page
        .options
        .iter()
        .map(|option| {
            let name = option.option().trim_start_matches('-');
            let parts = [Some(name), option.value(), option.default()];
            let spelling = parts.into_iter().flatten().collect::<Vec<_>>().join("=");
            if option.help.contains("repeat") { format!("*{spelling}\n") } else { spelling + "\n" }
        })
        .collect();
    let (mut forms, mut exclusive, mut needs) = (String::new(), Vec::new(), Vec::new());
    for line in &page.usage {
        let behind = line.split_once(&format!("{} ", page.name)).map_or("", |(_, behind)| behind);
        let form = usage::Form::parse(behind);
        let named = form.allowed.iter().chain(form.required.iter().flatten());
        for name in named.filter(|name| **name != "json") {
            let is_known = page.options.iter().any(|option| option.option() == format!("--{name}"));
            assert!(is_known, "{}: the usage has --{name}, and the options have not", page.name);
        }
        let operands: String = form
            .operands
            .iter()
            .map(|operand| {
                let usage::Operand { name, is_optional, is_many, is_text } = operand;
                let is_sound = !is_declared || name.starts_with(|first: char| first.is_ascii_uppercase());
                assert!(
                    is_sound,
                    "{}: '{name}' is neither an option (--name) nor an operand (NAME)",
                    page.name
                );
                format!(
                    "Operand {{ name: {name:?}, is_optional: {is_optional}, is_many: {is_many}, \
                     is_text: {is_text} }}, "
                )
            })
            .collect();
        forms += &format!(
            "Form {{ takes_any: {}, required: &{}, allowed: &{:?}, words: &{:?}, operands: &[{operands}] }}, ",
            form.takes_any,
            lists(&form.required),
            form.allowed,
            form.words
        );
        exclusive.extend(form.exclusive);
        needs.extend(form.needs);
    }
    format!(
        "Syntax {{ options: {options:?}, forms: &[{forms}], exclusive: &{}, needs: &{needs:?} }}",
        lists(&exclusive)
    )
}

fn lists(lists: &[Vec<&str>]) -> String {
    let lists: String = lists.iter().map(|list| format!("&{list:?}, ")).collect();
    format!("[{lists}]")
}

/// The commit that is built, with `-dirty` where the files are not as they are
/// in it; `unknown` outside a git checkout.
fn commit(root: &Path) -> String {
    let Some(head) = git(root, &["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    if let Some(log) = git(root, &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={}", root.join(log).display());
    }
    let as_committed = git(root, &[&["diff", "--quiet", "HEAD", "--"][..], &PARTS].concat()).is_some();
    if as_committed { head } else { head + "-dirty" }
}

/// The day of that commit, for the man pages.
fn date(root: &Path) -> String {
    git(root, &["show", "--no-patch", "--format=%cs", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
