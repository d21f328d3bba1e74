use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::support::{PATIENCE, Scratch, eventually, field, run};

fn rows(lines: &[&str], count: usize) -> String {
    let mut rows: Vec<&str> = lines.to_vec();
    rows.resize(count, "");
    rows.join("\n") + "\n"
}

/// A session that has printed this and waits.
fn printed(scratch: &Scratch, options: &[&str], text: &str) -> String {
    let handle = scratch.create_with(options, &format!("stty -opost; printf '{text}END'; read -r line"));
    scratch.ts(&["wait-pattern", &handle, "END"]).code(0);
    handle
}

#[test]
fn the_screen_is_what_a_person_sees() {
    let scratch = Scratch::new();
    let text = "first\\r\\n\\033[31mred\\033[m 漢字\\033[5;3Hthere\\033]2;name\\a\\033[?25l\\033[2;1H";
    let handle = printed(&scratch, &["--size=20x6"], text);
    let expected = ["first", "END 漢字", "", "", "  there"];
    scratch.ts(&["screen", &handle]).code(0).silent().stdout(rows(&expected, 6));
    scratch.ts(&["screen", "--ansi", &handle]).code(0).stdout_has("\nEND 漢字\n");
    scratch.ts(&["screen", &handle, "--json"]).code(0).stdout(
        "{\"size\":{\"cols\":20,\"rows\":6},\"cursor\":{\"row\":2,\"col\":4,\"visible\":false},\
         \"title\":\"name\",\"alternate\":false,\"lines\":[\"first\",\"END 漢字\",\"\",\"\",\"  there\",\"\"],\"links\":[]}\n",
    );
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.wait_for_end(&handle);
    scratch.ts(&["screen", &handle]).code(0).stdout_has("first\nEND 漢字\n");
}

#[test]
fn the_alternate_screen_and_no_title_are_told() {
    let scratch = Scratch::new();
    let handle = printed(&scratch, &[], "below\\033[?1049h\\033[H");
    let ran = scratch.ts(&["screen", &handle, "--json"]).code(0);
    assert_eq!((ran.field("alternate"), ran.field("title")), ("true".into(), "null".into()));
    scratch.ts(&["screen", &handle]).code(0).stdout(rows(&["END"], 24));
}

#[test]
fn links_and_the_copied_text_are_printed() {
    let (scratch, handle) =
        Scratch::with_session(r"printf '\033]8;;http://x/\033\\there\033]8;;\033\\\033]52;c;Y29w\033\\'");
    scratch.wait_for_end(&handle);
    let links = r#""links":[{"row":1,"col":1,"length":5,"url":"http://x/"}]"#;
    scratch.ts(&["screen", &handle, "--json"]).code(0).stdout_has(links);
    scratch.ts(&["clipboard", &handle]).code(0).stdout("cop").silent();
    scratch.ts(&["clipboard", "--json", &handle]).code(0).stdout_has(r#""text":"cop""#);
    let nothing = scratch.create("true");
    scratch.ts(&["clipboard", &nothing]).code(1).complains("copied");
}

#[test]
fn scrollback_can_be_read() {
    let (scratch, handle) = Scratch::with_session("seq 3000; read -r line");
    // The newline may come by itself, and scrolls.
    scratch.ts(&["wait-pattern", &handle, "3000\r\n"]).code(0);
    let out = scratch.ts(&["screen", &handle, "--scrollback=5"]).code(0).out();
    assert!(out.starts_with("2973\n2974\n2975\n2976\n2977\n2978\n"), "{out}");
    assert_eq!(out.lines().count(), 29);
    let out = scratch.ts(&["screen", &handle, "--scrollback=99999"]).code(0).out();
    assert_eq!(out.lines().count(), 2_024);
    assert!(out.starts_with("978\n"), "{}", &out[..20]);
}

#[test]
fn a_stream_is_rendered_as_a_session_is() {
    let scratch = Scratch::new();
    let stream = b"a\x1b[1;4;38;5;196mb\x1b[0m\r\n\x1b(0lqk\x1b(B<&\xff";
    scratch
        .ts_with_input(&["render", "--size=10x3"], stream)
        .code(0)
        .silent()
        .stdout("ab\n┌─┐<&\u{fffd}\n\n");
    scratch
        .ts_with_input(&["render", "--size=10x3", "--ansi"], stream)
        .code(0)
        .stdout("a\x1b[0;1;4;38;5;196mb\x1b[0m\n┌─┐<&\u{fffd}\n\n");
    let picture = scratch.ts_with_input(&["render", "--size=10x3", "--svg"], stream).code(0).out();
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("width=\"122\" height=\"113\"") && picture.contains("&lt;&amp;"), "{picture}");
    assert!(picture.contains("fill=\"#ff0000\" font-weight=\"bold\""), "{picture}");
    assert!(!picture.contains('─') && picture.contains("<path fill=\"#d0d0d0\" d="), "{picture}");
    let file = scratch.path.join("picture.svg");
    fs::write(&file, picture).unwrap();
    let parse = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])";
    run(scratch.command("python3").args(["-c", parse]).arg(file)).code(0);

    scratch.ts_with_input(&["render", "--size=9999x9999"], b"\x1b[9999;9999H.").code(0);
    scratch.ts_with_input(&["render"], b"").code(0).stdout(rows(&[], 24));
    scratch.ts_with_input(&["render", "--size=0x5"], b"").code(4).complains("is not a size");
    scratch.ts_with_input(&["render", "--svg", "--json"], b"").code(4).complains("cannot use --");
    scratch.ts_with_input(&["render", "--svg", "--png"], b"").code(4).complains("cannot use --");
    scratch.ts_with_input(&["render", "x"], b"").code(4).complains("unexpected");
    scratch.ts(&["screen"]).code(4).complains("missing SESSION");
    scratch.ts(&["screen", "0123abcd"]).code(2).complains("no session");
}

/// Prints which of the pixels of a picture's rows, taken as cells, differ from its ground:
/// a line for each row that has any, with the number of the row and of each such cell, and
/// of the pixels from its left to the first of them and behind the last.
const INKED: &str = r#"
import struct, subprocess, sys, zlib
png = subprocess.run(['rsvg-convert', sys.argv[1]], check=True, capture_output=True).stdout
at, data = 8, b''
while at < len(png):
    length, kind = struct.unpack('>I4s', png[at:at + 8])
    part = png[at + 8:at + 8 + length]
    if kind == b'IHDR': width, height, depth, colour = struct.unpack('>IIBB', part[:10])
    if kind == b'IDAT': data += part
    at += 12 + length
assert (depth, colour) == (8, 6), (depth, colour)
data, stride, lines, above = zlib.decompress(data), 4 * width, [], bytes(4 * width)
for start in range(0, len(data), stride + 1):
    kind, line = data[start], bytearray(data[start + 1:start + 1 + stride])
    for i in range(stride):
        left, corner = (line[i - 4], above[i - 4]) if i >= 4 else (0, 0)
        guess = left + above[i] - corner
        nearest = min((left, above[i], corner), key=lambda value: abs(guess - value))
        line[i] = line[i] + [0, left, above[i], (left + above[i]) // 2, nearest][kind] & 255
    lines.append(line)
    above = line
ground = bytes([0x10, 0x10, 0x10, 255])
def is_inked(x, y): return any(abs(a - b) > 64 for a, b in zip(lines[y][4 * x:4 * x + 4], ground))
left, top, cols, rows = 16, 40, (width - 32) // 9, (height - 56) // 19
for row in range(rows):
    cells = []
    for col in range(-1, cols + 1):
        inked = [x for x in range(9) if any(is_inked(left + 9 * col + x, top + 19 * row + y) for y in range(19))]
        if inked: cells.append('%d:%d-%d' % (col, inked[0], inked[-1] + 1))
    if cells: print(row, *cells)
"#;

#[test]
fn in_a_picture_everything_is_in_its_cell() {
    let scratch = Scratch::new();
    // A bar has ink only in the middle of its cell, if it is in its place.
    let bars = "|".repeat(80);
    let words = "|||| ".repeat(16);
    let far = format!("\x1b[1mI\x1b[m{:38}|{:39}|", "", "");
    let drawn = "\u{2588}\x1b[7m \x1b[m \u{2502}\u{2500}\u{2503}\u{2551} 漢 \u{28ff}";
    let rows =
        [&far, &bars, &words, &format!("\x1b[31m{bars}\x1b[m"), drawn, "\x1b[4m \x1b[m \x1b[9m  \x1b[m"];
    let stream = format!("\x1b[?25l\x1b]2;<title> & \u{fffe}\x07{}", rows.join("\r\n"));
    let picture = scratch.ts_with_input(&["render", "--svg", "--size=80x8"], stream.as_bytes()).code(0).out();
    let file = scratch.path.join("picture.svg");
    fs::write(&file, picture).unwrap();
    let inked = run(scratch.command("python3").args(["-c", INKED]).arg(&file)).code(0).out();
    let rows: Vec<Vec<(usize, usize, usize)>> = inked
        .lines()
        .map(|line| {
            let cell = |cell: &str| {
                let (col, inked) = cell.split_once(':').unwrap();
                let (first, behind) = inked.split_once('-').unwrap();
                (col.parse().unwrap(), first.parse().unwrap(), behind.parse().unwrap())
            };
            line.split(' ').skip(1).map(cell).collect()
        })
        .collect();
    let cols = |row: usize| rows[row].iter().map(|(col, ..)| *col).collect::<Vec<_>>();
    assert_eq!(cols(0), [0, 39, 79], "{inked}");
    assert_eq!(cols(1), (0..80).collect::<Vec<_>>(), "{inked}");
    assert_eq!(cols(2), (0..80).filter(|col| col % 5 < 4).collect::<Vec<_>>(), "{inked}");
    assert_eq!(cols(3), cols(1), "{inked}");
    for &(_, first, behind) in rows[..4].iter().flatten() {
        assert!(first >= 1 && behind <= 8, "{inked}");
    }
    let whole = (0, 9);
    let exact: Vec<_> = rows[4].iter().map(|&(col, first, behind)| (col, (first, behind))).collect();
    for cell in [(0, whole), (1, whole), (3, (4, 5)), (4, whole), (5, (3, 6)), (6, (3, 6)), (11, (1, 8))] {
        assert!(exact.contains(&cell), "{cell:?}: {inked}");
    }
    assert_eq!(cols(4), [0, 1, 3, 4, 5, 6, 8, 9, 11], "{inked}");
    assert_eq!(rows[5], [(0, 0, 9), (2, 0, 9), (3, 0, 9)], "{inked}");
    assert_eq!(rows.len(), 6, "{inked}");
}

#[test]
fn a_changed_size_holds_from_where_it_was_changed() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(
        &["--size=10x3"],
        "printf '0123456789abc'; read -r line; printf '0123456789abc'; read -r line",
    );
    scratch.ts(&["wait-pattern", &handle, "abc"]).code(0);
    scratch.ts(&["screen", &handle]).code(0).stdout("0123456789\nabc\n\n");
    let sizes = scratch.folder(&handle).join("sizes");
    assert_eq!(fs::read_to_string(&sizes).unwrap(), "0 10 3\n");
    let length = fs::metadata(scratch.folder(&handle).join("output.log")).unwrap().len();
    writeln!(fs::File::options().append(true).open(&sizes).unwrap(), "{length} 20 4").unwrap();
    scratch.ts(&["screen", &handle]).code(0).stdout("0123456789abc\n\n\n\n");
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.ts(&["wait-pattern", &handle, "abc", &format!("--offset={length}")]).code(0);
    scratch.ts(&["screen", &handle]).code(0).stdout("0123456789abc\n0123456789abc\n\n\n");
    fs::write(&sizes, "nonsense\n0 0 5\n0 70000 1\n").unwrap();
    scratch.ts(&["screen", &handle]).code(0).stdout_has("0123456789abc");
    fs::remove_file(&sizes).unwrap();
    scratch.ts(&["screen", &handle]).code(0).stdout_has("0123456789abc");
}

/// More than is worth keeping, so that the first look leaves a screen behind.
const LONG: &str = "seq -f 'line %.0f of many, with \u{1b}[32mcolours\u{1b}[m' 5000; printf 'END\\033[1'; read -r line; printf ';31mred'; read -r line";

#[test]
fn a_kept_screen_is_used_and_a_bad_one_made_anew() {
    let (scratch, handle) = Scratch::with_session(LONG);
    let kept = scratch.folder(&handle).join("screen");
    scratch.ts(&["wait-pattern", &handle, "END\x1b[1"]).code(0);
    let screen = || scratch.ts(&["screen", &handle, "--scrollback=2000", "--ansi"]).code(0).silent().out();
    let first = screen();
    assert!(first.contains("line 5000 of many") && first.contains("END"), "{first}");
    let good = fs::read(&kept).unwrap();
    assert_eq!(screen(), first);

    // The file's contents count, once they are proved to be complete: so the file is used.
    let foreign = scratch.create(&LONG.replace("many", "some"));
    scratch.ts(&["wait-pattern", &foreign, "END\x1b[1"]).code(0);
    scratch.ts(&["screen", &foreign]).code(0);
    let foreign = fs::read(scratch.folder(&foreign).join("screen")).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut damaged = vec![
        b"".to_vec(),
        b"x".to_vec(),
        good[..good.len() - 1].to_vec(),
        [&good[..], b"x"].concat(),
        foreign,
    ];
    for _ in 0..8 {
        let mut bytes = good.clone();
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
        damaged.push(bytes);
    }
    for bytes in damaged {
        fs::write(&kept, bytes).unwrap();
        assert_eq!(screen(), first);
        assert_eq!(fs::read(&kept).unwrap(), good);
    }
    fs::remove_file(&kept).unwrap();
    fs::create_dir(&kept).unwrap();
    assert_eq!(screen(), first);
    fs::remove_dir(&kept).unwrap();
    screen();

    // The sequence that was cut in two goes on where it was.
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.ts(&["wait-pattern", &handle, "red"]).code(0);
    scratch.ts(&["screen", &handle, "--ansi"]).code(0).stdout_has("\x1b[0;1;31mred\x1b[0m");
}

#[test]
fn many_looks_at_once_see_the_same() {
    let (scratch, handle) = Scratch::with_session(LONG);
    scratch.ts(&["wait-pattern", &handle, "END\x1b[1"]).code(0);
    let looks: Vec<_> = (0..12).map(|_| scratch.start(&["screen", &handle, "--scrollback=2000"])).collect();
    let seen: Vec<String> = looks.into_iter().map(|look| look.finish().code(0).silent().out()).collect();
    assert!(seen.iter().all(|screen| *screen == seen[0] && screen.contains("END")));
    scratch.ts(&["screen", &handle, "--scrollback=2000"]).code(0).stdout(&seen[0]);
}

#[test]
fn a_screen_is_stable_though_the_same_is_printed_again() {
    let (scratch, handle) =
        Scratch::with_session("while :; do printf '\\rsame \\033[10G\\033[3G'; sleep 0.02; done");
    scratch.ts(&["wait-pattern", &handle, "same"]).code(0);
    let ran = scratch.ts(&["wait", &handle, "--stable=0.4"]).code(0);
    let out = ran.out();
    let time =
        out.trim_end().strip_prefix(&format!("{handle}\tstable\t")).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(time.parse::<f64>().unwrap() >= 0.4, "{ran:?}");
    let printed = || fs::metadata(scratch.folder(&handle).join("output.log")).unwrap().len();
    let by_then = printed();
    eventually("more of the same", || printed() > by_then);
}

#[test]
fn a_screen_that_changes_is_not_stable() {
    let (scratch, handle) =
        Scratch::with_session("stty -echo; printf '0 '; while read -r line; do printf '\\r%s' $line; done");
    scratch.ts(&["wait-pattern", &handle, "0 "]).code(0);
    // A wait that has seen the change; else the screen was at rest for this long before that.
    let took = (1..).find_map(|number: u64| {
        let waiting = scratch.start(&["wait", "--json", &handle, "--stable=1"]);
        thread::sleep(Duration::from_millis(500));
        let before = fs::metadata(scratch.folder(&handle).join("output.log")).unwrap().len();
        let begun = Instant::now();
        scratch.ts(&["send", &handle, &number.to_string()]).code(0);
        let seen: u64 = waiting.finish().code(0).field("offset").parse().unwrap();
        (seen > before).then(|| begun.elapsed())
    });
    assert!(took >= Some(Duration::from_secs(1)), "{took:?}");
    scratch
        .ts(&["wait", &handle, "--stable=1000", "--timeout=0.1"])
        .code(3)
        .complains("did not keep its screen unchanged");
    scratch.ts(&["kill", &handle]).code(0);
    let handle = scratch.create("true");
    scratch.wait_for_end(&handle);
    scratch.ts(&["wait", &handle, "--stable=5"]).code(1).complains("has ended");
}

fn recordings() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/screens");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "out"))
        .map(|file| (file.file_stem().unwrap().to_str().unwrap().to_owned(), file))
        .collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

/// Each is what a program printed on 80 x 24, its last screen beside it; with
/// `NBS_BLESS` set, that is written.
#[test]
fn real_programs_look_as_they_were_blessed() {
    let scratch = Scratch::new();
    for (name, file) in recordings() {
        let actual = scratch.ts_with_input(&["render", "--ansi"], &fs::read(&file).unwrap()).code(0).out();
        let golden = file.with_extension("txt");
        if std::env::var_os("NBS_BLESS").is_some() {
            fs::write(golden, actual).unwrap();
            continue;
        }
        let expected = fs::read_to_string(golden).unwrap();
        assert!(expected == actual, "{name} has changed; if it should, run `just bless`\n--- now:\n{actual}");
    }
}

/// tmux, with a pane that shows what it is fed.
struct Tmux {
    socket: PathBuf,
    fifo: fs::File,
    home: PathBuf,
    fed: usize,
}

impl Tmux {
    fn start(scratch: &Scratch, cols: usize, rows: usize) -> Tmux {
        let path = scratch.path.join("tmux.fifo");
        run(Command::new("mkfifo").arg(&path)).code(0);
        // Opened for both, so that neither side waits for the other.
        let fifo = fs::File::options().read(true).write(true).open(&path).unwrap();
        let tmux = Tmux { socket: scratch.path.join("tmux.socket"), fifo, home: scratch.home(), fed: 0 };
        let (cols, rows) = (cols.to_string(), rows.to_string());
        let program = format!("stty raw -echo; exec cat <>'{}'", path.display());
        tmux.call(&[
            "-f",
            "/dev/null",
            "start-server",
            ";",
            "set",
            "-g",
            "status",
            "off",
            ";",
            "set",
            "-g",
            "default-shell",
            "/bin/sh",
            ";",
            "new-session",
            "-d",
            "-x",
            &cols,
            "-y",
            &rows,
            &program,
        ]);
        tmux
    }

    fn call(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("HOME", &self.home);
        let ran = run(command.env("LC_ALL", "C.UTF-8").arg("-u").arg("-S").arg(&self.socket).args(words));
        ran.code(0).out()
    }

    /// The rows that it shows of a stream, and the row and column of its cursor.
    fn shows(&mut self, stream: &[u8]) -> (Vec<String>, (usize, usize)) {
        self.fed += 1;
        let name = format!("fed-{}", self.fed);
        let mut bytes = RESET.to_vec();
        bytes.extend_from_slice(stream);
        // As many bytes as a FIFO takes at once are no more than tmux reads soon.
        bytes.extend(format!("\x18\x1b]2;{name}\x07").bytes());
        self.fifo.write_all(&bytes).unwrap();
        let begun = Instant::now();
        let place = loop {
            let place = self.call(&["display", "-p", "#{pane_title} #{cursor_y} #{cursor_x}"]);
            match place.trim_end().strip_prefix(&format!("{name} ")) {
                Some(place) => break place.to_owned(),
                None => assert!(begun.elapsed() < PATIENCE, "tmux does not take {}", stream.escape_ascii()),
            }
        };
        let (row, col) = place.split_once(' ').unwrap();
        // It shows line drawing only with the colours.
        let lines = self.call(&["capture-pane", "-e", "-p"]);
        (uncoloured(&lines), (row.parse::<usize>().unwrap() + 1, col.parse::<usize>().unwrap() + 1))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // It may be that which has failed.
        if !thread::panicking() {
            self.call(&["kill-server"]);
        }
    }
}

/// The sequence that makes tmux forget its input.
const RESET: &[u8] = b"\x18\x1b[?1049l\x1bc\x1b[3J\x1b[m\x1b(B\x1b)B\x0f\x1b[H\x1b7\x1b[?1049h\x1b[?1049l";

fn uncoloured(lines: &str) -> Vec<String> {
    const GRAPHICS: &str = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";
    let (mut text, mut in_sequence, mut drawing) = (String::new(), false, false);
    for character in lines.chars() {
        match character {
            '\x1b' => in_sequence = true,
            'm' if in_sequence => in_sequence = false,
            _ if in_sequence => {}
            '\x0e' | '\x0f' => drawing = character == '\x0e',
            '`'..='~' if drawing => text.extend(GRAPHICS.chars().nth(character as usize - '`' as usize)),
            other => text.push(other),
        }
    }
    text.lines().map(|line| line.trim_end_matches(' ').to_owned()).collect()
}

fn compare(scratch: &Scratch, tmux: &mut Tmux, stream: &[u8], cols: usize, rows: usize, what: &str) {
    let (mut theirs, (row, col)) = tmux.shows(stream);
    theirs.resize(rows, String::new());
    let stream = [RESET, stream].concat();
    let size = format!("--size={cols}x{rows}");
    let ours = scratch.ts_with_input(&["render", &size], &stream).code(0).out();
    let shown = || what.to_owned() + ": " + &stream[RESET.len()..].escape_ascii().to_string();
    assert_eq!(ours.lines().collect::<Vec<_>>(), theirs, "{}", shown());
    let ran = scratch.ts_with_input(&["render", &size, "--json"], &stream).code(0);
    // tmux counts a pending wrap as a column more.
    let cursor = format!("\"cursor\":{{\"row\":{row},\"col\":{},", col.min(cols));
    assert!(ran.out().contains(&cursor), "{}: {cursor} {}", shown(), field(&ran.out(), "title"));
}

#[test]
fn recorded_programs_look_as_in_tmux_at_every_moment() {
    let scratch = Scratch::new();
    let mut tmux = Tmux::start(&scratch, 80, 24);
    for (name, file) in recordings() {
        let stream = fs::read(file).unwrap();
        for part in 1..=6 {
            compare(&scratch, &mut tmux, &stream[..stream.len() * part / 6], 80, 24, &name);
        }
    }
}

#[test]
fn generated_streams_look_as_in_tmux() {
    let scratch = Scratch::new();
    let (cols, rows) = (20, 6);
    let mut tmux = Tmux::start(&scratch, cols, rows);
    let rounds = std::env::var("NBS_ROUNDS").map_or(150, |rounds| rounds.parse().unwrap());
    let seeds = match std::env::var("NBS_SEED") {
        Ok(seed) => seed.parse().unwrap()..seed.parse::<u64>().unwrap() + 1,
        Err(_) => 0..rounds,
    };
    for seed in seeds {
        let stream = generated(&mut fastrand::Rng::with_seed(seed));
        compare(&scratch, &mut tmux, stream.as_bytes(), cols, rows, &format!("seed {seed}"));
    }
}

/// Sequences of all kinds, but for those where we do otherwise on purpose: see `src/terminal/screen.rs`.
fn generated(random: &mut fastrand::Rng) -> String {
    const TEXTS: [&str; 9] =
        ["a", "hello", "  ", "0123456789", "é", "~!@", "e\u{301}", "word word word word ", "x"];
    const FIXED: [&str; 28] = [
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "\t",
        "\x08",
        "\x0b",
        "\x1b[?6l\x1b7",
        "\x1b8",
        "\x1b[?6l\x1b[s",
        "\x1b[u",
        "\x1bD",
        "\x1bM",
        "\x1bE",
        "\x1b[?6h",
        "\x1b[?6l",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x0e",
        "\x0f",
        "\x1bH",
        "\x1b[g",
        "\x1b[3g",
        "\x1b[3J",
        "\x1b[?6l\x1b#8",
        "\x1b]8;;x\x1b\\",
    ];
    let mut stream = String::new();
    if random.u8(..4) == 0 {
        stream += "\x1b[?1049h";
    }
    for _ in 0..60 {
        let mut number =
            || random.choice(["", "0", "1", "2", "3", "5", "9", "14", "19", "21", "999"]).unwrap();
        let (first, second) = (number(), number());
        let few = random.u8(1..4);
        let kind = random.u8(..16);
        if kind > 3 {
            // If a wrap is pending, tmux behaves differently.
            stream += "\x1b[C";
        }
        stream += &match kind {
            0..=3 => random.choice(TEXTS).unwrap().repeat(random.usize(1..5)),
            4..=6 => random.choice(FIXED).unwrap().to_owned(),
            7 => format!(
                "\x1b[{first}{}",
                random.choice(["A", "B", "C", "D", "E", "F", "G", "d", "`", "Z"]).unwrap()
            ),
            8 => format!("\x1b[{first};{second}{}", random.choice(["H", "f"]).unwrap()),
            9 => format!(
                "\x1b[{}{}",
                random.choice(["", "0", "1", "2"]).unwrap(),
                random.choice(["J", "K"]).unwrap()
            ),
            10 => format!("\x1b[{first}{}", random.choice(["P", "X"]).unwrap()),
            11 => format!("\r\x1b[{few}@"),
            12 => format!("\x1b[2;5r\x1b[3;{second}H\x1b[{few}{}\r", random.choice(["L", "M"]).unwrap()),
            13 => format!("\x1b[{few}{}", random.choice(["S", "T"]).unwrap()),
            14 => format!("\x1b[{first};{}r\x1b[H", if second == "0" { "" } else { second }),
            _ => format!("\rq\x1b[{few}b\x1b[{};4{few}m", random.choice(["0", "1", "7", "38;5;99"]).unwrap()),
        };
    }
    stream
}

#[test]
fn a_look_costs_what_has_come_since_the_last_one() {
    let (scratch, handle) =
        Scratch::with_session("head -c 1000000 /dev/zero | tr '\\0' '\\n'; printf END; read -r line");
    scratch.ts(&["wait-pattern", &handle, "END"]).code(0);
    scratch.ts(&["screen", &handle]).code(0).stdout_has("END");
    // Were the log read again from its beginning, what is there now would be seen.
    let log = scratch.folder(&handle).join("output.log");
    let mut file = fs::File::options().write(true).open(log).unwrap();
    file.write_all(b"\x1b[?1049h").unwrap();
    let ran = scratch.ts(&["screen", &handle, "--json"]).code(0);
    assert_eq!(ran.field("alternate"), "false");
}

#[test]
fn a_picture_of_pixels_is_one_that_others_read() {
    let scratch = Scratch::new();
    let script = r"
import struct, sys, zlib
file = open(sys.argv[1], 'rb').read()
assert file[:8] == b'\x89PNG\r\n\x1a\n'
at, chunks = 8, {}
while at < len(file):
    length, name = struct.unpack('>I4s', file[at:at + 8])
    content = file[at + 8:at + 8 + length]
    assert struct.unpack('>I', file[at + 8 + length:at + 12 + length])[0] == zlib.crc32(name + content)
    chunks[name] = content
    at += 12 + length
width, height = struct.unpack('>II', chunks[b'IHDR'][:8])
rows = zlib.decompress(chunks[b'IDAT'])
assert len(rows) == (width + 1) * height and max(rows) < len(chunks[b'PLTE']) // 3
print(list(chunks), width, height, len(chunks[b'PLTE']) // 3)
";
    fs::write(scratch.path.join("read.py"), script).unwrap();
    let read = |input: &str, options: &str| {
        fs::write(scratch.path.join("input"), input).unwrap();
        let line = format!("nbs-ts render --png {options} < input > picture && python3 read.py picture");
        scratch.bash(&line).code(0).out()
    };
    let chunks = "[b'IHDR', b'PLTE', b'IDAT', b'IEND']";
    assert_eq!(read("a\x1b[31mb\x1b[?25l", "--size=10x3"), format!("{chunks} 106 73 3\n"));
    // There are more colours than it may have, and lines above the screen.
    let colours =
        (0..400).map(|step| format!("\x1b[48;2;{};{step};9m \x1b[m\r\n", step / 2)).collect::<String>();
    let picture = read(&colours, "--size=10x3 --scrollback=2000");
    assert_eq!(picture, format!("{chunks} 106 {} 256\n", 16 + 19 * 401));
}

#[test]
fn an_update_is_shown_when_it_is_whole_or_takes_too_long() {
    let scratch = Scratch::new();
    let line = "stty -echo; printf 'old\\033[?2026h\\033[H\\033[2Jhalf'; read -r l; printf ' whole\\033[?2026l'; read -r l; \
                printf '\\033[?2026h\\033[Hnever'; while sleep 0.1; do printf .; done";
    let handle = scratch.create(line);
    let shown = || scratch.ts(&["screen", &handle]).code(0).out().lines().next().unwrap().to_owned();
    scratch.ts(&["wait-pattern", &handle, "half"]).code(0);
    let start = Instant::now();
    let first = shown();
    // Less than the second for which it is hidden.
    if start.elapsed() < Duration::from_millis(500) {
        assert_eq!(first, "old");
    }
    eventually("an update that takes too long", || shown() == "half");
    scratch.ts(&["send", &handle, ""]).code(0);
    eventually("the whole", || shown() == "half whole");
    // One that never ends, of a program that goes on printing.
    scratch.ts(&["send", &handle, ""]).code(0);
    eventually("what it prints", || shown().starts_with("never."));
    // A screen before a resize has another size.
    let handle = scratch.create("printf 'old\\033[?2026h\\033[H\\033[2Jhalf\\033[20Hbottom'; exec cat");
    scratch.ts(&["wait-pattern", &handle, "bottom"]).code(0);
    scratch.ts(&["resize", &handle, "30x10"]).code(0);
    let screen = scratch.ts(&["screen", &handle]).code(0).out();
    assert!(screen.lines().count() == 10 && screen.ends_with("bottom\n"), "{screen}");
    // Queries are answered from all output; a dead session has no unfinished update.
    let handle = scratch.create("printf 'old\\033[?2026h\\033[H\\033[2Jlast'");
    scratch.wait_for_end(&handle);
    assert_eq!(scratch.ts(&["screen", &handle]).code(0).out().lines().next(), Some("last"));
}
