//! The rules of src/README.md that the sources themselves can show: the files that each file uses.
//!
//! A file uses another one if it names an item that is defined there, in a `use` or by a path; a name from a
//! re-export counts as a use of the file that defines it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The rooms from the top down, those beside each other in one line. A file may use its own
/// line, and those below.
const ROOMS: [&[&str]; 13] = [
    &["main"],
    &["applets", "panics"],
    &["applet"],
    &["tmux"],
    &["install", "mcp", "page", "ts", "worker"],
    &["feed"],
    &["help", "helper", "machine", "relay"],
    &["call"],
    &["cli"],
    &["session"],
    &["jail", "json", "outcome", "terminal"],
    &["sys"],
    &["numbers", "packed", "sorted", "worded"],
];

type Names = Vec<String>;

/// A file of the sources, without its tests and its comments.
struct Source {
    module: Names,
    text: String,
    /// The same without its re-exports.
    code: String,
    /// The target of each name in it, and whether others may use the name from here.
    names: Vec<(String, Names, bool)>,
}

struct House {
    sources: Vec<Source>,
}

impl House {
    fn read() -> House {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let module = path.strip_prefix(&root).unwrap().with_extension("");
                    let module: Names = module.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                    sources.push(source(module, &fs::read_to_string(&path).unwrap()));
                }
            }
        }
        sources.retain(|source| !["rounds", "tests"].contains(&&**source.module.last().unwrap()));
        sources.sort_by(|a, b| a.module.cmp(&b.module));
        House { sources }
    }

    fn source(&self, module: &[String]) -> Option<&Source> {
        self.sources.iter().find(|source| source.module == module)
    }

    /// A path in a file, from the root on: it may begin with a file in that file's folder.
    fn whole_path(&self, source: &Source, path: &[String]) -> Names {
        if path.first().is_some_and(|first| first == "crate") {
            return path[1..].to_vec();
        }
        let child = [&source.module[..], path].concat();
        if self.source(&child[..=source.module.len()]).is_some() { child } else { path.to_vec() }
    }

    /// The file that defines the item of a path from the root on.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&Source> {
        let length = (1..=path.len()).rev().find(|length| self.source(&path[..*length]).is_some())?;
        let source = self.source(&path[..length])?;
        let Some(name) = path.get(length).filter(|_| depth < 8) else { return Some(source) };
        let known = source.names.iter().find(|(known, _, is_public)| known == name && *is_public);
        let Some((_, target, _)) = known else { return Some(source) };
        let further = [self.whole_path(source, target), path[length + 1..].to_vec()].concat();
        Some(self.file_of(&further, depth + 1).unwrap_or(source))
    }

    /// The files that each file uses. A file in another's folder is a part of it, and the two may use each
    /// other; a room's files are not parts of the room's own file.
    fn uses(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut uses = BTreeMap::new();
        for source in &self.sources {
            let mut used = BTreeSet::new();
            for path in source.paths(self) {
                used.extend(self.file_of(&path, 0).map(|file| file.module.join("/")));
            }
            let own = source.module.join("/");
            used.remove(&own);
            if source.module.len() > 2 {
                used.remove(&source.module[..source.module.len() - 1].join("/"));
            }
            uses.insert(own, used);
        }
        uses
    }
}

fn source(module: Names, text: &str) -> Source {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    let code = |line: &str| line.split("//").next().unwrap().to_owned();
    let text: String = text.lines().map(|line| code(line) + "\n").collect();
    let (mut names, mut code) = (Vec::new(), text.clone());
    for (is_public, tree) in statements(&text) {
        if is_public {
            code = code.replace(&tree, "");
        }
        let mut found = Vec::new();
        expand(&module, &[], tree.trim(), &mut found);
        names.extend(found.into_iter().map(|(name, path)| (name, path, is_public)));
    }
    Source { module, text, code, names }
}

/// The trees of all `use` lines.
fn statements(text: &str) -> Vec<(bool, String)> {
    let mut statements = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let before = rest[..at].rsplit('\n').next().unwrap();
        // A name may end with it.
        let is_word = !before.ends_with(char::is_alphanumeric);
        let before = before.trim();
        rest = &rest[at + 4..];
        if is_word && (before.is_empty() || before.starts_with("pub")) {
            let end = rest.find(';').unwrap();
            statements.push((before.starts_with("pub"), rest[..end].to_owned()));
        }
    }
    statements
}

/// A tree of a `use` as names, and the target of each from the root on.
fn expand(module: &[String], before: &[String], tree: &str, found: &mut Vec<(String, Names)>) {
    if let Some(at) = tree.find('{') {
        let before = joined(module, before, tree[..at].trim_end_matches("::"));
        let inner = tree[at + 1..].trim().strip_suffix('}').unwrap();
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let part = inner[start..at].trim();
                    if !part.is_empty() {
                        expand(module, &before, part, found);
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
    let path = joined(module, before, path.trim());
    let name =
        if name.is_empty() { path.last().cloned().unwrap_or_default() } else { name.trim().to_owned() };
    found.push((name, path));
}

fn from_crate(module: &[String]) -> Names {
    [&["crate".to_owned()], module].concat()
}

/// The full path of `path` behind `before`; from the root on it begins with `crate`.
fn joined(module: &[String], before: &[String], path: &str) -> Names {
    let mut all = before.to_vec();
    for part in path.split("::").filter(|part| !part.is_empty()) {
        match part {
            "crate" => all = vec![part.to_owned()],
            "self" if before.is_empty() && all.is_empty() => all = from_crate(module),
            "self" => {}
            "super" => {
                if all.is_empty() {
                    all = from_crate(module);
                }
                all.pop();
            }
            part => all.push(part.to_owned()),
        }
    }
    all
}

impl Source {
    /// All paths that it names, from the root on.
    fn paths(&self, house: &House) -> Vec<Names> {
        let mut paths: Vec<Names> = Vec::new();
        for (name, path, is_public) in &self.names {
            let path = house.whole_path(self, path);
            if !is_public {
                paths.push(path.clone());
            }
            // A module: the names in it.
            if house.source(&path).is_some() {
                paths.retain(|known| *known != path);
                paths.extend(self.behind(name).into_iter().map(|item| [&path[..], &[item]].concat()));
            }
        }
        paths.extend(self.children(house));
        for part in self.text.split("crate::").skip(1) {
            let end = part.find(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
            let path = joined(&[], &["crate".to_owned()], &part[..end.unwrap_or(part.len())]);
            let path = path[1..].to_vec();
            if !path.is_empty() && house.source(&path).is_none() {
                paths.push(path);
            }
        }
        paths
    }

    /// The names of its own children.
    fn children(&self, house: &House) -> Vec<Names> {
        let children = house.sources.iter().filter(|child| {
            child.module.len() == self.module.len() + 1 && child.module.starts_with(&self.module)
        });
        let named = children.flat_map(|child| {
            let items = self.behind(child.module.last().unwrap());
            items.into_iter().map(|item| [&child.module[..], &[item]].concat())
        });
        named.collect()
    }

    /// The names behind `name::` in the code.
    fn behind(&self, name: &str) -> BTreeSet<String> {
        let mut items = BTreeSet::new();
        let mut code = self.code.as_str();
        let prefix = format!("{name}::");
        while let Some(at) = code.find(&prefix) {
            let is_whole =
                !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || "_:".contains(letter));
            code = &code[at + prefix.len()..];
            let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let item = &code[..end.unwrap_or(code.len())];
            if is_whole && !item.is_empty() {
                items.insert(item.to_owned());
            }
        }
        items
    }
}

/// Follows uses from a file, and gives the first way that leads back to a file on it.
fn circle<'a>(
    file: &'a str,
    uses: &'a BTreeMap<String, BTreeSet<String>>,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(at) = way.iter().position(|before| *before == file) {
        return Some([&way[at..], &[file]].concat().join(" -> "));
    }
    if !done.insert(file) {
        return None;
    }
    way.push(file);
    let found = uses[file].iter().find_map(|next| circle(next, uses, way, done));
    way.pop();
    found
}

#[test]
fn no_file_uses_what_uses_it() {
    let uses = House::read().uses();
    let mut done = BTreeSet::new();
    let found = uses.keys().find_map(|file| circle(file, &uses, &mut Vec::new(), &mut done));
    assert_eq!(found, None, "a circle: move what is needed below both, or hand it over as an argument");
}

#[test]
fn no_room_uses_one_above_it() {
    let floor = |file: &str| {
        let room = file.split('/').next().unwrap();
        let floor = ROOMS.iter().position(|rooms| rooms.contains(&room));
        floor.unwrap_or_else(|| panic!("'{room}' is in no line of ROOMS in {}", file!()))
    };
    let uses = House::read().uses();
    let all = uses.iter().flat_map(|(file, used)| used.iter().map(move |other| (file, other)));
    let upwards: Vec<String> = all
        .filter(|(file, other)| floor(other) < floor(file))
        .map(|(file, other)| format!("{file} -> {other}"))
        .collect();
    assert!(upwards.is_empty(), "upwards: {upwards:?}");
}

/// The values that outlive the function that knows them, and why.
const GLOBAL_STATE: [(&str, &str); 7] = [
    ("help/texts", "TEXTS"),            // what is packed in the file, unpacked
    ("main", "ALLOCATOR"),              // Rust has no other way to choose one
    ("session/shell/startup", "ALL"),   // what is packed in the file, unpacked
    ("sys/files", "CALLERS_UMASK"),     // our own is 077 from the first moment on
    ("sys/inherited", "HAD_NO_STDOUT"), // known only until /dev/null takes its place
    ("sys/spawn", "environ"),           // the C library's own
    ("tmux/tables", "TEXTS"),           // what is packed in the file, unpacked
];

#[test]
fn there_is_no_global_state_but_what_is_named() {
    let mut found = BTreeSet::new();
    for source in House::read().sources {
        let module = source.module.join("/");
        for line in source.text.lines().map(str::trim) {
            let item = line.strip_prefix("pub(crate) ").unwrap_or(line);
            let Some((name, kind)) = item
                .strip_prefix("static ")
                .and_then(|item| item.trim_start_matches("mut ").split_once(": "))
            else {
                assert!(!line.starts_with("thread_local!"), "{module}: {line}");
                continue;
            };
            let is_constant = kind.starts_with("[[u32;") || kind.starts_with("extern \"C\" fn()");
            if !is_constant {
                found.insert((module.clone(), name.to_owned()));
            }
        }
    }
    let named = GLOBAL_STATE.map(|(file, name)| (file.to_owned(), name.to_owned()));
    assert_eq!(found, BTreeSet::from(named), "hand it to who needs it as an argument");
}

/// `.ci/dependencies` checks which files are unsafe.
#[test]
fn only_sys_speaks_with_the_kernel() {
    let mut foreign = BTreeSet::new();
    for source in House::read().sources {
        let module = source.module.join("/");
        if !module.starts_with("sys")
            && ["rustix::", "libc::", "landlock::"].iter().any(|name| source.text.contains(name))
        {
            foreign.insert(module);
        }
    }
    assert_eq!(foreign, BTreeSet::new(), "a kernel thing is a room in sys");
}
