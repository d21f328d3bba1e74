use std::{fs, path::Path, process::Command};

use crate::support::{Scratch, binary, run};

/// Compares with `golden/NAME`, or, with `NBS_BLESS` set, writes it.
fn golden(name: &str, actual: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name);
    if std::env::var_os("NBS_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(expected == actual, "{name} has changed; if it should, run `just bless`\n--- now:\n{actual}");
}

#[test]
fn every_help_text_is_as_it_was_blessed() {
    let scratch = Scratch::new();
    golden("nbs.txt", &run(&mut Command::new(binary())).out());
    golden("ts.txt", &scratch.ts(&["help"]).code(0).silent().out());
    for applet in ["spawn-worker", "launch-agent", "mcp", "page"] {
        let help = run(scratch.applet(&format!("nbs-{applet}")).arg("--help")).code(0).silent().out();
        assert!(help.lines().all(|line| line.len() <= 79), "{help}");
        golden(&format!("{applet}.txt"), &help);
    }
    for verb in verbs(&scratch) {
        golden(&format!("ts-{verb}.txt"), &scratch.ts(&["help", &verb]).code(0).silent().out());
    }
}

fn verbs(scratch: &Scratch) -> Vec<String> {
    let overview = scratch.ts(&["help"]).out();
    let list = overview.split_once("\nCommands:\n").unwrap().1.split_once("\n\n").unwrap().0.to_owned();
    // A line that is less far in names a task.
    let rows = list.lines().filter_map(|line| line.strip_prefix("  "));
    rows.map(|row| row.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn help_is_the_same_however_it_is_asked_for() {
    let scratch = Scratch::new();
    let overview = scratch.ts(&["help"]).out();
    scratch.ts(&["--help"]).code(0).stdout(&overview).silent();
    scratch.ts(&["-h"]).code(0).stdout(&overview);
    run(scratch.command(binary()).args(["ts", "--help"])).code(0).stdout(&overview);
    for verb in verbs(&scratch) {
        let help = scratch.ts(&["help", &verb]).out();
        scratch.ts(&[&verb, "--help"]).code(0).stdout(&help).silent();
    }
}

#[test]
fn every_command_has_a_usage_and_an_example() {
    let scratch = Scratch::new();
    for verb in verbs(&scratch) {
        let help = scratch.ts(&["help", &verb]).out();
        assert!(help.starts_with(&format!("{verb} - ")), "{help}");
        assert!(help.contains(&format!("\nUsage: nbs-ts {verb}")), "{help}");
        assert!(help.contains("\nExample:\n  "), "{help}");
        assert!(help.lines().all(|line| line.len() <= 79), "{help}");
    }
}
