//! The documents made from the headers besides `--help`: JSON, man pages, completions.

use std::process::Command;

use crate::support::{Ran, Scratch, binary, run};

/// Runs a Python that has `text` as JSON in `it`, and fails where the script does.
fn python(scratch: &Scratch, text: &str, script: &str) -> Ran {
    let script = format!("import json, sys\nit = json.loads(sys.argv[1])\n{script}");
    run(scratch.command("python3").args(["-c", &script, text])).code(0).silent()
}

fn nbs(scratch: &Scratch, words: &[&str]) -> Ran {
    run(scratch.command(binary()).args(words))
}

#[test]
fn json_tells_of_all_commands_what_their_help_does() {
    let scratch = Scratch::new();
    let all = scratch.ts(&["help", "--json"]).code(0).silent().out();
    scratch.ts(&["--help", "--json"]).code(0).stdout(&all);
    let told = python(
        &scratch,
        &all,
        "for one in it['commands']:\n\
         \x20 assert list(one) == ['name', 'summary', 'usage', 'options', 'operands', 'exits'], one\n\
         \x20 assert all(list(option) == ['name', 'value', 'default', 'repeatable', 'help'] for option in one['options'])\n\
         \x20 print(one['name'], '-', one['summary'])\n\
         \x20 print('Usage:', one['usage'].replace('\\n', '\\n       '))\n\
         \x20 for option in one['options']: print(' ', option['name'], option['value'], option['default'])\n\
         \x20 print('end')",
    );
    let told = told.out();
    let told: Vec<&str> = told.split("end\n").filter(|told| !told.is_empty()).collect();
    assert!(told.len() > 20, "{told:?}");
    for told in told {
        let name = told.split(" - ").next().unwrap();
        let one = scratch.ts(&["help", name, "--json"]).code(0).silent().out();
        scratch.ts(&[name, "--help", "--json"]).code(0).stdout(&one);
        assert!(all.contains(one.trim_end()), "{name}");
        let help = scratch.ts(&["help", name]).out();
        let (head, options) = told.split_at(told.find("\n  --").map_or(told.len(), |at| at + 1));
        assert!(help.replacen("\n\n", "\n", 1).starts_with(head.trim_end()), "{help}\n{head}");
        for option in options.lines() {
            let words: Vec<&str> = option.split_whitespace().collect();
            let term =
                if words[1] == "None" { words[0].to_owned() } else { format!("{}={}", words[0], words[1]) };
            assert!(help.contains(&format!("\n  {term}")), "{term}\n{help}");
            let default = words[2..].join(" ");
            assert!(
                default == "None" || help.contains(&format!("(default: {default})")),
                "{default}\n{help}"
            );
        }
        let written = help.lines().filter(|line| line.starts_with("  --")).count();
        assert_eq!(written, options.lines().count(), "{help}");
    }
}

#[test]
fn json_has_the_exit_codes_and_run_has_its_own() {
    let scratch = Scratch::new();
    let send = scratch.ts(&["help", "send", "--json"]).out();
    assert!(send.contains(
        r#""exits":{"0":"success","1":"error","2":"not found","3":"timeout","4":"bad arguments","255":"a machine cannot be reached"}"#
    ));
    assert!(
        send.contains(
            r#"{"name":"--no-enter","value":null,"default":null,"repeatable":false,"help":"do not type"#
        ),
        "{send}"
    );
    assert!(
        send.contains(
            r#"{"name":"--timeout","value":"TIME","default":"10","repeatable":false,"help":"wait this long"#
        ),
        "{send}"
    );
    scratch.ts(&["help", "run", "--json"]).stdout_has(r#""124":"timed out""#);
    nbs(&scratch, &["help", "--json"]).code(0).stdout_has(r#"{"commands":[{"name":"#);
    nbs(&scratch, &["ts-helper", "--help", "--json"]).code(0).stdout_has(r#"{"name":"ts-helper","summary":"#);
}

#[test]
fn every_name_has_a_man_page_with_all_options() {
    let scratch = Scratch::new();
    let overview = nbs(&scratch, &["--man"]).code(0).silent().out();
    assert!(overview.starts_with(".TH NBS 1 "), "{overview}");
    for name in nbs(&scratch, &["--list"]).out().lines() {
        let page = nbs(&scratch, &["--man", name]).code(0).silent().out();
        assert!(page.starts_with(&format!(".TH {} 1 ", name.to_uppercase())), "{page}");
        let help = nbs(&scratch, &[name, "--help"]).out();
        for option in help.lines().filter_map(|line| line.strip_prefix("  --")) {
            let term = option.split("  ").next().unwrap().replace('-', "\\-");
            assert!(page.contains(&format!("\\fB\\-\\-{term}\\fR\n")), "{term}\n{page}");
        }
    }
    let page = nbs(&scratch, &["--man", "nbs-ts"]).out();
    assert!(page.contains(".SS run \\- run a command in a session\\(aqs shell"), "{page}");
    nbs(&scratch, &["--man", "frobnicate"]).code(4).complains("frobnicate");
    // The topics, with their items, blocks and tables.
    for part in [
        ".SH FILES \\- the files of the state directory\n.PP\nThe state directory is ",
        ".SS The files of a session\n",
        ".IP \\(bu 2\n\\fBoutput.log\\fR: what the terminal printed.\n",
        ".PP\n.RS 4\n.nf\n$ nbs\\-ts create \\-\\-name=py python3\n",
        ".TP\n0\nsuccess\n.TP\n1\n",
        ".SH SEE ALSO\n\\fBnbs\\-launch\\-agent\\fR(1), ",
    ] {
        assert!(overview.contains(part), "{part}\n{overview}");
    }
    // groff is not on every machine that runs the tests.
    if Command::new("groff").arg("--version").output().is_ok() {
        for page in [page, overview] {
            let file = scratch.path.join("page.1");
            std::fs::write(&file, page).unwrap();
            run(scratch.command("groff").args(["-man", "-ww", "-z"]).arg(&file)).code(0).silent().stdout("");
        }
    }
}

fn offered(scratch: &Scratch, words: &[&str]) -> Vec<String> {
    let ran = nbs(scratch, &[&["--complete"], words].concat()).code(0).silent();
    ran.out().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn completion_offers_what_may_follow() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--name=work"], "cat");
    let dead = scratch.create_with(&["--name=over"], "true");
    scratch.wait_for_end(&dead);
    let is = |words: &[&str], expected: &[&str]| assert_eq!(offered(&scratch, words), expected, "{words:?}");
    is(&["nbs", "ts-"], &["ts-helper"]);
    is(&["/any/where/nbs", "ts", "wait-"], &["wait-complete", "wait-pattern"]);
    is(&["nbs-ts", "wait-"], &["wait-complete", "wait-pattern"]);
    is(&["nbs-ts", "help", "wait-"], &["wait-complete", "wait-pattern"]);
    is(&["nbs-ts", "help", "lim"], &["limits"]);
    is(&["nbs", "help", "lim"], &["limits"]);
    is(&["nbs", "help", "ts-"], &["ts-helper"]);
    is(&["nbs-ts", "wait", "--an"], &["--any"]);
    is(&["nbs-ts", "create", "--inh"], &["--inherit-cwd="]);
    is(&["nbs-ts-helper", "--un"], &["--uninstall-service"]);
    is(&["nbs-ts", "status", ""], &[&handle, "@work"]);
    is(&["nbs-ts", "status", "@"], &["@work"]);
    is(&["nbs-ts", "status", "@ov"], &["@over"]);
    is(&["nbs-ts", "status", &dead[..7]], &[&dead]);
    is(&["nbs-ts", "create", "--inherit-cwd=@w"], &["--inherit-cwd=@work"]);
    is(&["nbs-ts", "create", "--inherit-cwd", "@w"], &["@work"]);
    is(&["nbs-ts", "wait", "--timeout", "5", "@work", "@w"], &["@work"]);
    is(&["nbs-ts", "key", "--timeout=5", "@work", "Enter", "PageU"], &["PageUp"]);
    // Text is left to the shell, and so are files.
    is(&["nbs-ts", "run", "@work", "--t"], &[]);
    is(&["nbs-ts", "send", "@work", "@w"], &[]);
    is(&["nbs-ts", "create", "bash", "--na"], &[]);
    is(&["nbs-ts", "create", "--cwd=/u"], &[]);
    is(&["nbs-ts", "frobnicate", "x"], &[]);
    is(&["nbs"], &[]);
}

/// In a session of its own, as a person would: Tab, and the shell's result.
#[test]
fn tab_completes_in_bash() {
    let (scratch, shell) = Scratch::with_session("bash --norc -i");
    let work = scratch.create_with(&["--name=work"], "cat");
    let home = format!("HOME={}", scratch.home().display());
    scratch.ts(&["machine", "add", "box", "env", "-u", "NBS_TS_HOME", &home, "sh"]).code(0);
    let there = scratch.ts(&["create", "--on=box", "--no-helper", "--name=task", "cat"]).code(0).out();
    for line in [&format!("PATH={}:$PATH", binary().parent().unwrap().display()), "PS1='$ '"] {
        scratch.ts(&["ask", "--input", &shell, line]).code(0);
    }
    scratch.ts(&["ask", "--input", &shell, "eval \"$(nbs --completions bash)\""]).code(0).stdout("");
    for (typed, expected) in [
        ("nbs ts wait-co", "ts wait-complete "),
        ("nbs ts status @wo", "ts status @work "),
        ("nbs ts create --inherit-cwd=@wo", "ts create --inherit-cwd=@work "),
        ("nbs ts create --inh", "ts create --inherit-cwd="),
        (&format!("nbs ts read --last 5 {}", &work[..7]), &format!("ts read --last 5 {work} ")),
        ("nbs ts status bo", "ts status box:"),
        ("nbs ts status box:@ta", "ts status box:@task "),
        (&format!("nbs ts status {}", &there[..9]), &format!("ts status {} ", there.trim_end())),
        ("nbs ts list --on=bo", "ts list --on=box "),
    ] {
        scratch.ts(&["send", "--no-enter", &shell, typed]).code(0);
        scratch.ts(&["key", &shell, "Tab"]).code(0);
        // A comment, so that it is remembered and not run.
        scratch.ts(&["send", "--no-enter", &shell, "| END"]).code(0);
        scratch.ts(&["key", &shell, "C-a"]).code(0);
        scratch.ts(&["ask", "--input", &shell, "# "]).code(0);
        let told = scratch.ts(&["ask", "--input", &shell, "history 2 | head -1"]).code(0);
        told.stdout_has(&format!("{expected}| END"));
    }
    scratch.ts(&["kill", there.trim_end()]).code(0);
    scratch.ts(&["machine", "remove", "box"]).code(0);
}

#[test]
fn completions_are_for_shells_that_we_know() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        nbs(&scratch, &["--completions", shell])
            .code(0)
            .silent()
            .stdout_has("nbs nbs-launch-agent nbs-mcp nbs-page nbs-spawn-worker nbs-ts nbs-ts-helper");
    }
    nbs(&scratch, &["--completions", "ksh"]).code(4).complains("no completions for 'ksh'; try bash");
    nbs(&scratch, &["--completions"]).code(4).complains("no completions for ''; try bash");
}
