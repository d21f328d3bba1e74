//! Random and hostile streams, what sequences do, and what is kept of a screen.

use super::*;
use crate::rounds::{pieces, rounds};

/// Sequences that programs print, others that they never would, and halves of both.
fn noise(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    const BYTES: &[u8] = b"\x1b\x1b[]PX^_\\( #;:?>!3m~\x07\x08\t\r\n\x0e\x0f\x18\0\x7f\xc2\x9b\x9c\xc3\xa9\xe6\xbc\xf0\x9f\xff";
    const FINALS: &[u8] = b"@ABCDEFGHIJKLMPSTXZ`abdefghlmprstuvxz{}~q^";
    const TEXTS: [&str; 21] = [
        "text",
        "a longer text that goes on",
        "漢字",
        "e\u{301}",
        "\u{1f468}\u{200d}\u{1f469}",
        "\r\n",
        "\r\n\n\n",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[?47h",
        "\x1b[?47l",
        "\x1b]8;;http://x/\x1b\\link",
        "\x1b]52;c;Y29weQ==\x07",
        "\x1b[?69h\x1b[2;3s",
        "\x1bV",
        "\x1bP1$t2;5;1;E;A;I;1;2;@;0BBB\x1b\\",
        "\x1bP2$t3/9/17\x1b\\",
        "\x1b[58:5:9m",
        "\x1b]0;title\x07",
        "\x1b(0lqqk",
        "\u{9b}7m",
    ];
    let mut noise = Vec::new();
    for _ in 0..length {
        match random.u8(..8) {
            0..=2 => noise.extend(random.choice(TEXTS).unwrap().bytes()),
            3..=5 => {
                noise.extend(b"\x1b[");
                noise.extend(random.choice(["", "", "", "?", ">"]).unwrap().bytes());
                for _ in 0..random.usize(..4) {
                    let number = random.choice([0, 1, 2, 4, 5, 7, 12, 38, 48, 999, 65_535]).unwrap();
                    noise.extend(format!("{number}{}", random.choice([";", ";", ":"]).unwrap()).bytes());
                }
                noise.extend(random.choice(["", "", "", "", "$", "*", "\"", "'", " "]).unwrap().bytes());
                noise.push(*random.choice(FINALS).unwrap());
            }
            _ => noise.push(*random.choice(BYTES).unwrap()),
        }
    }
    noise
}

fn size(random: &mut fastrand::Rng) -> (u16, u16) {
    (random.choice([1, 2, 3, 20, 80]).unwrap(), random.choice([1, 2, 5, 24]).unwrap())
}

/// Checks the invariants of every screen.
fn check(screen: &Screen, seed: u64) {
    let (cols, rows) = screen.size();
    assert!(screen.cursor.col < cols && screen.cursor.row < rows, "seed {seed}: {:?}", screen.cursor);
    assert!(screen.top < screen.bottom || rows == 1, "seed {seed}");
    assert!(screen.left < screen.right || cols == 1, "seed {seed}");
    assert!(screen.right < cols, "seed {seed}");
    assert!(screen.bottom < rows && screen.tabs.len() == cols, "seed {seed}");
    assert!(screen.held.len() <= 3, "seed {seed}");
    for line in screen.shown(usize::MAX) {
        assert!(line.combining.is_sorted_by_key(|(col, _)| *col), "seed {seed}");
        assert!(line.combining.iter().all(|(col, _)| usize::from(*col) < line.cells.len()), "seed {seed}");
    }
    assert_eq!(screen.lines(0).len(), rows);
    screen.coloured_lines(usize::MAX);
    screen.svg(3);
}

#[test]
fn a_line_as_long_as_the_history_is_broken_anew() {
    let text: Vec<u8> = (0..1_000_000).map(|n: usize| b'a' + (n / 1_000 % 26) as u8).collect();
    let mut screen = Screen::showing(500, 50, &text);
    for cols in [499, 700, 500] {
        screen.resize(cols, 50);
        let shown = screen.lines(usize::MAX).concat();
        assert!(shown.len() > 900_000 && text.ends_with(shown.as_bytes()), "{cols}: {}", shown.len());
    }
}

#[test]
fn on_the_widest_screen_an_accent_that_is_pushed_out_is_gone() {
    let screen = Screen::showing(u16::MAX, 1, "\x1b[1;60001He\u{301}\x1b[1;1H\x1b[10000@".as_bytes());
    assert_eq!(screen.lines(0), [""]);
    assert!(Screen::resumed(&screen.save()).is_some());
}

#[test]
fn a_screen_is_the_same_however_the_stream_is_cut_kept_and_resumed() {
    for (seed, mut random) in rounds(600) {
        let (cols, rows) = size(&mut random);
        let length = random.usize(..120);
        let stream = noise(&mut random, length);
        let whole = Screen::showing(cols, rows, &stream);
        check(&whole, seed);
        let mut cut = Screen::new(cols, rows);
        for piece in pieces(&stream, 12, &mut random) {
            cut.feed(piece);
            if random.u8(..4) == 0 {
                cut = Screen::resumed(&cut.save()).unwrap_or_else(|| panic!("seed {seed}"));
            }
        }
        assert_eq!(cut.save(), whole.save(), "seed {seed}");
    }
}

#[test]
fn a_screen_survives_any_change_of_its_size() {
    for (seed, mut random) in rounds(300) {
        let (cols, rows) = size(&mut random);
        let mut screen = Screen::new(cols, rows);
        for _ in 0..8 {
            let stream = noise(&mut random, 20);
            screen.feed(&stream);
            let (cols, rows) = size(&mut random);
            screen.resize(cols, rows);
            check(&screen, seed);
            let resumed = Screen::resumed(&screen.save()).unwrap_or_else(|| panic!("seed {seed}"));
            assert_eq!(resumed.save(), screen.save(), "seed {seed}");
        }
    }
}

#[test]
fn damaged_bytes_give_no_screen_or_a_usable_one() {
    for (seed, mut random) in rounds(1_000) {
        let mut screen = Screen::new(20, 5);
        let stream = noise(&mut random, 40);
        screen.feed(&stream);
        let mut saved = screen.save();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..saved.len());
            match random.u8(..4) {
                0 => saved.truncate(at.max(1)),
                1 => saved.insert(at, random.u8(..)),
                _ => saved[at] = random.u8(..),
            }
        }
        if let Some(mut other) = Screen::resumed(&saved) {
            check(&other, seed);
            let stream = noise(&mut random, 40);
            other.feed(&stream);
            check(&other, seed);
            other.resize(7, 9);
            check(&other, seed);
        }
    }
}

#[test]
fn rows_that_scroll_off_unseen_make_no_difference() {
    for (seed, mut random) in rounds(3) {
        let mut stream = Vec::new();
        while stream.len() < 1_500_000 {
            match random.u32(..20_000) {
                0 => {
                    stream.extend(noise(&mut random, 5));
                    stream.extend(b"\x1b[?69l");
                }
                1..100 => stream.extend("\x1b]0;größe\x07\x1b]0;title\x07\x1b[?25l".bytes()),
                100..4_000 => {
                    let colour = random.u8(30..50);
                    stream.extend(format!("\x1b[{colour}mcolour\x1b[K\x1b[m").bytes());
                }
                4_000..5_000 => stream.extend("ünï 漢字\t".bytes()),
                number => stream.extend(format!("line {number} of the log\r\n").bytes()),
            }
        }
        let (mut skimmed, mut drawn) = (Screen::new(80, 24), Screen::new(80, 24));
        skimmed.feed(&stream);
        drawn.emulate(&stream);
        assert!(skimmed.save() == drawn.save(), "seed {seed}");
    }
}

#[test]
fn hostile_streams_take_neither_long_nor_much() {
    let mut screen = Screen::new(9_999, 9_999);
    for sequence in [
        "\x1b[99999999999999999999C",
        "\x1b[4294967297X",
        "\x1b[65535@",
        "\x1b[65535P",
        "\x1b[65535L",
        "\x1b[65535M",
        "\x1b[65535S",
        "\x1b[65535T",
        "x\x1b[65535b",
        "\x1b[41m\x1b[2J",
        "\x1b#8",
        "\x1b[65535I",
        "\x1b[65535Z",
        "\x1b[H\x1b[1J",
        "\x1b[9999;9999H\x1b[1J",
        "\x1b[?1049h\x1b[?1049l",
        "\x1bc",
    ] {
        screen.feed(sequence.as_bytes());
    }
    // Each of these writes to the last column of a row.
    screen.feed("x\x1b[65535b\r\n".repeat(20_000).as_bytes());
    let cells: usize = screen.shown(usize::MAX).iter().map(|line| line.cells.len()).sum();
    assert!(cells <= 10 << 20, "{cells}");

    // Each line goes on on the next one, and is cut short then.
    let mut screen = Screen::new(9_999, 2);
    screen.feed("\x1b[H\x1b[9999Gxy\x1b[H\x1b[2G\x1b[K\n\n".repeat(1_000).as_bytes());
    screen.resize(9_998, 2);
    // No line goes for the blanks that all of them would be filled up with.
    assert!(screen.grid.history.len() >= 990, "{}", screen.grid.history.len());

    let mut screen = Screen::new(80, 24);
    screen.feed(b"\x1b]0;");
    screen.feed(&vec![b'x'; 1 << 20]);
    assert!(screen.parser.string.capacity() <= 2 * crate::terminal::parser::LONGEST_STRING);
    screen.feed(b"\x07\x1bP");
    screen.feed(&vec![b'q'; 1 << 20]);
    screen.feed(b"\x1b\\\x1b[");
    screen.feed(&b"1;".repeat(1 << 20));
    screen.feed(b"mtext\x1b[22t");
    screen.feed(&b"\x1b[22t".repeat(1_000));
    screen.feed("\u{301}".repeat(100_000).as_bytes());
    assert_eq!(
        screen.lines(0)[0].chars().filter(|character| *character != '\u{301}').collect::<String>(),
        "text"
    );
    assert!(screen.save().len() < 64 * 1024);
}

#[test]
fn a_megabyte_of_any_kind_leaves_little() {
    let long = "x".repeat(3_000);
    let kinds: [&dyn Fn(usize) -> String; 10] = [
        &|number| format!("\x1b]0;{number}{long}\x07\x1b[22;0t"),
        &|number| format!("\x1b]8;;http://{number}/{long}\x07l"),
        &|number| format!("\x1b]52;c;{}\x07", "YWJj".repeat(number * 17)),
        &|number| format!("\x1b]4;{number};#123456\x07\x1b]1{};#123456\x07", number % 10),
        &|number| format!("\x1b[>{}u\x1b[?{number}h\x1b[?{number}s", number % 32),
        &|number| format!("\x1b[{}G\x1bH\x1b7\x1b[?1049h{long}", number % 200),
        &|_| format!("a{}", "\u{301}".repeat(1_500)),
        &|_| format!("\u{1f468}{}", "\u{200d}\u{1f469}".repeat(400)),
        &|_| format!("\x1bPq{long}"),
        &|_| format!("\x1b[{}", "1;".repeat(1_500)),
    ];
    for (kind, make) in kinds.iter().enumerate() {
        let mut screen = Screen::new(80, 24);
        for number in 0..400 {
            screen.feed(make(number).as_bytes());
        }
        let (string, kept) = (screen.parser.string.capacity(), screen.save().len());
        assert!(string + kept < 700_000, "{kind}: {string} and {kept}");
    }
}

/// Checks how a stream looks on 10 x 4, and where it leaves the cursor.
#[track_caller]
fn shows(stream: &str, rows: [&str; 4], cursor: (usize, usize)) {
    let screen = Screen::showing(10, 4, stream.as_bytes());
    assert_eq!((screen.lines(0), screen.cursor()), (rows.map(str::to_owned).to_vec(), cursor), "{stream:?}");
}

#[test]
fn sequences_do_what_xterm_and_tmux_make_of_them() {
    shows("ab\r\ncd\tx", ["ab", "cd      x", "", ""], (2, 10));
    // The wrap after the last column is pending until a character comes.
    shows("0123456789", ["0123456789", "", "", ""], (1, 10));
    shows("0123456789\rx", ["x123456789", "", "", ""], (1, 2));
    shows("0123456789x", ["0123456789", "x", "", ""], (2, 2));
    shows("0123456789\x1b[Cx", ["012345678x", "", "", ""], (1, 10));
    shows("0123456789\x1b[Kx", ["012345678x", "", "", ""], (1, 10));
    shows("0123456789\x08x", ["01234567x9", "", "", ""], (1, 10));
    shows("0123456789\x1b7\r\x1b8x", ["0123456789", "x", "", ""], (2, 2));
    shows("\x1b[?7l0123456789xy", ["012345678y", "", "", ""], (1, 10));
    shows("0123456789\x1b[?7lx", ["012345678x", "", "", ""], (1, 10));
    shows("0123456789\x1b[?7lx\x1b[?7hy", ["012345678x", "y", "", ""], (2, 2));
    shows("0123456789\x1b[?7l漢\x1b[?7hy", ["012345678y", "", "", ""], (1, 10));
    shows("\x1b[4;1Ha\r\nb\x1bDc\x1bMd", ["", "a", "b d", " c"], (3, 4));
    shows("a\x1bEb\x1b[3Ec\x1b[2Fd", ["a", "d", "", "c"], (2, 2));
    shows("\x1b#8\x1b[2;3r\x1b[3;1H\nx", ["EEEEEEEEEE", "EEEEEEEEEE", "x", "EEEEEEEEEE"], (3, 2));
    shows("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[?6hA\x1b[9;1HB\x1b[?6lC", ["C", "A", "B", "4"], (1, 2));
    shows("1\r\n2\r\n3\x1b[2;1H\x1b[Lx\x1b[S", ["x", "2", "3", ""], (2, 2));
    shows("1\r\n2\r\n3\x1b[1;2r\x1b[3;1H\x1b[Lx\x1b[M", ["1", "2", "x", ""], (3, 2));
    shows("1\r\n2\r\n3\x1b[1;1H\x1b[My\x1b[T", ["", "y", "3", ""], (1, 2));
    shows("abcdef\x1b[3G\x1b[2@\x1b[7G\x1b[P\x1b[9GX\x1b[4X", ["ab  cdf X", "", "", ""], (1, 10));
    shows("abc\x1b[2G\x1b[4hX\x1b[4lY", ["aXYc", "", "", ""], (1, 4));
    shows("a\x1b[5bz\x1b[3G\x1b[1K", ["   aaaz", "", "", ""], (1, 3));
    shows("a\x1b[11b", ["aaaaaaaaaa", "aa", "", ""], (2, 3));
    // No more than fit.
    shows("abcd\r\nx\x1b[9999b", ["xxxxxxxxxx", "xxxxxxxxxx", "xxxxxxxxxx", "x"], (4, 2));
    shows("a\x1b[b\x1b[3bx", ["aax", "", "", ""], (1, 4));
    shows("a\x1b[0Tb", ["ab", "", "", ""], (1, 3));
    shows("\x1b(0lqk\x1b(Bq\x1b)0\x0eq\x0fq", ["┌─┐q─q", "", "", ""], (1, 7));
    shows("\x1b(0\x1b7\x1b(Bq\x1b8q", ["─", "", "", ""], (1, 2));
    shows("\x1b[3g\x1b[5G\x1bH\r\tx\x1b[Zy", ["    y", "", "", ""], (1, 6));
    shows("one\x1b[?1049htwo\x1b[?1049l!", ["one!", "", "", ""], (1, 5));
    shows("one\x1b[?47h\rtwo", ["two", "", "", ""], (1, 4));
    shows("one\x1b[?1049htwo\x1b[?1049l\x1b[?47h", ["   two", "", "", ""], (1, 4));
    shows("\x1b[?47htwo\x1b[?1049h!\x1b8x", ["   x", "", "", ""], (1, 5));
    shows("0123456789\x1b[?47h\x1b[?47lx", ["0123456789", "x", "", ""], (2, 2));
    shows("0123456789\x1b[?1049hx", ["         x", "", "", ""], (1, 10));
    shows("ab\x1b[?69h\x1b[2;4s\x1b[?69h\x1b[2G\x1b[@c", ["acb", "", "", ""], (1, 3));
    shows("0123456789\x1b[ Ax", [" 012345678", "x", "", ""], (2, 2));
    shows(
        "\x1b[?45h\x1b[2;3r\x1b[2;1H\x1b[5Dx\x1b[2;1H\x1b[4C\x1b[20Dy",
        ["", "", "         x", "    y"],
        (4, 6),
    );
    // Rectangles: one that begins outside is none, and zeros stand for the edges.
    shows("\x1b[65;5;2;6;3$x\x1b[66;4;9;9;0$x\x1b[67;1;0;0;1$x", ["C", "C", "C", "C       BB"], (1, 1));
    shows("\x1b[5;5Hx\x1b[!p\x1b[2;2f\x1b[1a\x1b[1ey", ["", "", "  y", "    x"], (3, 4));
    shows("a\u{85}b\u{9b}3Gc", ["a", "b c", "", ""], (2, 4));
    shows("a\x1b[3\x18mb\x1b]0;t\x1b\\c\x1bP1q\x1b\\d", ["ambcd", "", "", ""], (1, 6));
    shows("漢字漢字漢\x1b[2Gx", [" x字漢字漢", "", "", ""], (1, 3));
    shows("012345678漢", ["012345678", "漢", "", ""], (2, 3));
    shows("e\u{301}\u{1f468}\u{200d}\u{1f469}.", ["e\u{301}\u{1f468}\u{200d}\u{1f469}.", "", "", ""], (1, 5));
    for (cluster, width) in [
        ("\u{2764}", 1),
        ("\u{2764}\u{fe0f}", 2),
        ("\u{2764}\u{fe0f}\u{200d}\u{1f525}", 2),
        ("1\u{fe0f}\u{20e3}", 2),
        ("\u{1f600}\u{fe0e}", 2),
        ("\u{231a}\u{fe0e}", 1),
        ("\u{231a}\u{fe0f}", 2),
        ("\u{1f1e9}", 2),
        ("\u{1f1e9}\u{1f1ea}", 2),
        ("\u{1f1e9}\u{1f1ea}\u{1f1eb}\u{1f1f7}", 4),
        ("\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}", 2),
        ("\u{261d}\u{1f3fd}", 1),
        ("\u{1f44d}\u{1f3fd}", 2),
        ("\u{1f469}\u{1f3fd}\u{200d}\u{2764}\u{fe0f}\u{200d}\u{1f48b}\u{200d}\u{1f468}\u{1f3fe}", 2),
        // Two consonants with a virama, and one with a vowel.
        ("\u{915}\u{94d}\u{937}", 2),
        ("\u{915}\u{93e}", 2),
        ("\u{2630}", 2),
    ] {
        shows(&format!("{cluster}."), [&format!("{cluster}."), "", "", ""], (1, width + 2));
    }
    // A joiner with nothing before it, and one that is not followed by a character.
    shows("\u{200d}é\u{200d}\r\né", ["é", "é", "", ""], (2, 2));
}

#[test]
fn protection_and_rectangles_treat_attributes_as_xterm_does() {
    for (stream, row) in [
        // SGR 0 leaves the protection.
        ("\x1b[1\"qab\x1b[mc\x1b[0\"qd\x1b[?2K", "abc"),
        ("\x1b[1mabc\x1b[4m\x1b[1;1;1;2$z", "\x1b[0;1;4m  \x1b[0;1mc\x1b[0m"),
        ("\x1b[4mabc\x1b[1m\x1b[1;1;1;2${", "\x1b[0;4m  c\x1b[0m"),
        ("\x1b[4mabc\x1b[1;2;1;2;0$t", "\x1b[0;4mabc\x1b[0m"),
    ] {
        let screen = Screen::showing(10, 1, stream.as_bytes());
        assert_eq!(screen.coloured_lines(0), [row], "{stream:?}");
    }
    let screen = Screen::showing(10, 1, b"\x1b[8ma");
    assert_eq!(screen.answer(b"\x1b[1;1;1;1;1;1*y"), "\x1bP1!~FFE0\x1b\\");
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    for (stream, row) in [
        (&b"a\xffb"[..], "a\u{fffd}b"),
        (b"\xe6\xbcx", "\u{fffd}x"),
        (b"\xe6\xbc\x1b[mx", "\u{fffd}x"),
        (b"\xe6\xbc", ""),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        let screen = Screen::showing(10, 1, stream);
        assert_eq!(screen.lines(0), [row], "{}", stream.escape_ascii());
    }
}

#[test]
fn titles_and_colours_are_kept() {
    let mut screen = Screen::new(10, 1);
    screen.feed(b"\x1b]2;one\x07\x1b[22;0t\x1b]0;two\x1b\\\x1b[23;0t\x1b]1;icon\x07");
    assert_eq!(screen.title(), Some("one"));
    assert_eq!(screen.answer(b"\x1b[20t"), "\x1b]Licon\x1b\\");
    screen.feed(b"\x1b[1;31ma\x1b[38;5;200;4:3mb\x1b[0;48:2::1:2:3mc\x1b[m\x1b[100md\x1b[mx");
    assert_eq!(
        screen.coloured_lines(0),
        ["\x1b[0;1;31ma\x1b[0;1;4:3;38;5;200mb\x1b[0;48;2;1;2;3mc\x1b[0;100md\x1b[0mx"]
    );
}

#[test]
fn the_alignment_pattern_leaves_the_colours_of_the_pen() {
    let screen = Screen::showing(2, 2, b"\x1b[1;4;33;44m\x1b#8x\x1b[K");
    assert_eq!(screen.coloured_lines(0), ["\x1b[0;33;44mx\x1b[0;44m \x1b[0m", "EE"]);
}

#[test]
fn lines_under_text_have_colours_of_their_own() {
    let mut screen = Screen::new(10, 1);
    screen.feed(b"\x1b[4;58;5;9ma\x1b[58:2::1:2:3mb\x1b[58;2;4;5;6mc\x1b[59md\x1b[58:5:9;24me\x1b[mf");
    let row = "\x1b[0;4;58:5:9ma\x1b[0;4;58:2::1:2:3mb\x1b[0;4;58:2::4:5:6mc\x1b[0;4md\x1b[0mef";
    assert_eq!(screen.coloured_lines(0), [row]);
    let mut resumed = Screen::resumed(&screen.save()).unwrap();
    assert_eq!(resumed.coloured_lines(0), [row]);
    // The colour is kept even without an underline.
    resumed.feed(b"\x1b[58:5:200m");
    assert_eq!(resumed.answer(b"\x1bP$qm\x1b\\"), "\x1bP1$r0;58:5:200m\x1b\\");
    let svg = Screen::showing(2, 1, b"\x1b[4;9;58:2::1:2:3mx").svg(0);
    assert!(
        svg.contains("fill=\"#010203\" d=\"M0 32") && svg.contains("fill=\"#d0d0d0\" d=\"M0 18"),
        "{svg}"
    );
}

#[test]
fn links_are_where_they_were_written_and_room_is_made_for_new_ones() {
    let mut screen = Screen::new(10, 3);
    screen.feed(b"a\x1b]8;;http://x\x1b\\b\x1b[1mc\x1b[md\x1b]8;;\x07e\r\n\x1b]8;id=1;http://y\x07f");
    let links = |screen: &Screen| -> Vec<(usize, usize, usize, String)> {
        screen.links().iter().map(|link| (link.row, link.col, link.length, link.address.into())).collect()
    };
    let expected = [(0, 1, 3, "http://x".to_owned()), (1, 0, 1, "http://y".to_owned())];
    assert_eq!(links(&screen), expected);
    assert_eq!(links(&Screen::resumed(&screen.save()).unwrap()), expected);
    // Those that are gone make room.
    screen.feed(b"\x1b]8;;\x07\x1b[3J\x1b[H");
    for number in 0..3_000 {
        screen.feed(format!("\x1b]8;;http://{number}\x07l\x08").as_bytes());
    }
    assert!(screen.links()[0].address.starts_with("http://2"), "{}", screen.links()[0].address);
    assert!(screen.links.addresses.len() <= links::MOST);
}

#[test]
fn the_state_of_the_cursor_and_tab_stops_are_told_and_restored() {
    let mut screen = Screen::new(20, 4);
    let cursor = |screen: &Screen| screen.answer(b"\x1b[1$w");
    let tabs = |screen: &Screen| screen.answer(b"\x1b[2$w");
    assert_eq!(cursor(&screen), "\x1bP1$u1;1;1;@;@;@;0;2;@;BBBB\x1b\\");
    assert_eq!(tabs(&screen), "\x1bP2$u9/17\x1b\\");
    assert_eq!(screen.answer(b"\x1b[3$w"), "\x1bP0$u\x1b\\");
    screen.feed(b"\x1b[1;4;5;7m\x1b[1\"q\x1b)0\x0e\x1b[2;4r\x1b[?6h\x1b[2;20Hx\x1b[3g\x1b[5G\x1bH\x1b[20Gx");
    assert_eq!(cursor(&screen), "\x1bP1$u3;20;1;O;A;I;1;2;@;B0BB\x1b\\");
    assert_eq!(tabs(&screen), "\x1bP2$u5\x1b\\");
    let before = (cursor(&screen), tabs(&screen));
    screen.feed(b"\x1b[!p\x1b[H\x1bc");
    for told in [&before.0, &before.1] {
        screen.feed(told.replace("$u", "$t").as_bytes());
    }
    assert_eq!((cursor(&screen), tabs(&screen)), before);
    for bad in ["\x1bP1$t1;1\x1b\\", "\x1bP1$t0;0;1;@;@;@;0;2;@;BBBB\x1b\\", "\x1bP3$t1\x1b\\"] {
        screen.feed(bad.as_bytes());
        assert_eq!(cursor(&screen), before.0);
    }
}

#[test]
fn what_is_copied_is_kept_however_it_is_cut_unless_it_is_too_long() {
    for count in [1, 2_000, 50_000, 100_000] {
        let stream = format!("\x1b]52;c;{}\x07x", "YWJj".repeat(count));
        let copied = (count < 80_000).then(|| "abc".repeat(count).into_bytes());
        for length in [1, 2, 5_000, stream.len()] {
            let mut screen = Screen::new(10, 1);
            stream.as_bytes().chunks(length).for_each(|piece| screen.feed(piece));
            assert!(screen.clipboard() == copied.as_deref(), "{count} by {length}");
            assert_eq!(screen.lines(0), ["x"]);
        }
    }
}

#[test]
fn a_screen_that_gets_lower_and_higher_again_keeps_its_lines() {
    let mut screen = Screen::showing(10, 4, b"1\r\n2\r\n3\r\n4");
    screen.resize(10, 2);
    assert_eq!((screen.lines(0), screen.cursor()), (vec!["3".to_owned(), "4".to_owned()], (2, 2)));
    assert_eq!(screen.lines(9), ["1", "2", "3", "4"]);
    screen.resize(10, 4);
    assert_eq!(screen.lines(0), ["1", "2", "3", "4"]);
    let mut screen = Screen::showing(10, 3, b"0123456789abc\r\n$ ");
    screen.resize(5, 3);
    assert_eq!(screen.lines(9), ["01234", "56789", "abc", "$"]);
    screen.resize(20, 3);
    assert_eq!(screen.lines(9), ["0123456789abc", "$", ""]);
}
