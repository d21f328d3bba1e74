//! Senseless calls, from fixed seeds: `NBS_SEED` repeats one, `NBS_ROUNDS` asks for more.

use std::{collections::BTreeSet, ffi::OsString, fs, os::unix::ffi::OsStringExt, process::Stdio};

use crate::support::{Scratch, binary, run};

/// The words for any place on a command line.
const WORDS: [&[u8]; 40] = [
    b"",
    b"-",
    b"--",
    b"---",
    b"-x",
    b"-h",
    b"--help",
    b"--json",
    b"--json=1",
    b"@",
    b"@n",
    b"@..",
    b"../x",
    b"n",
    b"01234567",
    b"0123456g",
    b"bash",
    b"true",
    b"exit 3",
    b"echo hi",
    b"0",
    b"1",
    b"-1",
    b"1.5",
    b"5ms",
    b"1h",
    b"64K",
    b"99999999999G",
    b"80x24",
    b"0x0",
    b"18446744073709551616",
    b"9223372036854775807",
    b"1e9",
    b"C-c",
    b"\x1b]0;x\x07\x1b[2J",
    b"\xff\xfe",
    b"a=b",
    b"=",
    b"/dev/null",
    "\u{9b}\u{202e}\u{e9}".as_bytes(),
];

#[test]
fn no_command_line_makes_it_panic_or_print_what_a_terminal_acts_on() {
    let scratch = Scratch::new();
    let dead = || {
        let handle = scratch.create_with(&["--name=n"], "printf 'one\\n\\033[1mtwo'; exit 7");
        scratch.wait_for_end(&handle);
        handle
    };
    let mut handle = dead();
    let nbs = |words: &[&str]| run(scratch.command(binary()).args(words)).code(0).out();
    let verbs: Vec<String> = nbs(&["ts", "help"])
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned))
        .filter(|word| !word.is_empty() && !word.starts_with('-'))
        .collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    let options: BTreeSet<String> = verbs
        .iter()
        .flat_map(|verb| {
            let help = run(scratch.command(binary()).args(["ts", "help", verb])).out();
            let found = help.split(|at: char| !(at.is_ascii_alphanumeric() || at == '-'));
            found
                .filter(|word| word.starts_with("--") && word.len() > 2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(options.len() > 20, "{options:?}");
    let (verbs, options): (Vec<String>, Vec<String>) = (verbs, options.into_iter().collect());

    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seeds = match number("NBS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NBS_ROUNDS").unwrap_or(400),
    };
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut words: Vec<OsString> = vec!["ts".into(), random.choice(&verbs).unwrap().into()];
        for _ in 0..random.usize(..6) {
            let word =
                |random: &mut fastrand::Rng| OsString::from_vec(random.choice(WORDS).unwrap().to_vec());
            words.push(match random.u8(..8) {
                0..=1 => random.choice(&options).unwrap().into(),
                2..=3 => {
                    let mut option = OsString::from(random.choice(&options).unwrap());
                    option.push("=");
                    option.push(word(&mut random));
                    option
                }
                4 => handle.clone().into(),
                5 => OsString::from_vec((0..random.usize(1..9)).map(|_| random.u8(1..)).collect()),
                _ => word(&mut random),
            });
        }
        // A call that waits for something that never comes is ended, and that is not a fault.
        let mut command = scratch.command("timeout");
        command.args(["--kill-after=60", "0.4"]).arg(binary()).args(&words).stdin(Stdio::null());
        let ran = run(&mut command);
        let shown = format!("seed {seed}: {words:?}\n{ran:?}");
        let code = ran.status.code().unwrap_or(-1);
        // A command that is run hands its own code on; ours are not among them.
        let is_unreachable = code == 255 && ["exec", "cp", "forward"].contains(&words[1].to_str().unwrap());
        assert!((0..=4).contains(&code) || (124..=126).contains(&code) || is_unreachable, "{shown}");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(!said.contains("internal error at"), "{shown}");
        let acts = |character: char| character.is_control() && character != '\n';
        assert!(!said.chars().any(acts), "{shown}");
        // A session's output is printed unchanged; all else is escaped.
        if !["read", "read-new", "attach", "run", "ask"].contains(&words[1].to_str().unwrap()) {
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(!said.chars().any(|character| acts(character) && character != '\t'), "{shown}");
        }
        if fs::read_dir(scratch.state().join("sessions")).unwrap().count() > 20 {
            scratch.ts(&["kill", "--all"]).code(0);
        }
        if !scratch.folder(&handle).exists() {
            // It was removed, as was said.
            handle = dead();
        }
    }
}
