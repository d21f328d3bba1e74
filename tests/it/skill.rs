use crate::support::{Scratch, executable};

fn page(scratch: &Scratch) -> String {
    scratch.ts(&["help", "--skill"]).code(0).silent().out()
}

/// The lines of the blocks that begin with ```sh, one block after another.
fn blocks(page: &str) -> String {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// What stands between backticks elsewhere, and is a call.
fn calls(page: &str) -> Vec<&str> {
    let outside = page.split("```").step_by(2);
    outside
        .flat_map(|text| text.split('`').skip(1).step_by(2))
        .filter(|code| code.starts_with("nbs-ts "))
        .collect()
}

#[test]
fn the_page_is_short() {
    let scratch = Scratch::new();
    let page = page(&scratch);
    // A token is four bytes of English and code, rather more than less.
    assert!(page.len() < 6_000, "{} bytes", page.len());
}

#[test]
fn its_examples_do_what_they_say() {
    let scratch = Scratch::new();
    let script = format!("set -e -o pipefail; export SECRET='a b'\n{}", blocks(&page(&scratch)));
    let ran = scratch.bash(&script).code(0);
    let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    assert!(lines[0].parse::<u32>().is_ok(), "{ran:?}");
    assert_eq!(lines[1..3], ["/tmp", "42"], "{ran:?}");
    assert!(lines.iter().any(|line| line.ends_with("\texit\t0")), "{ran:?}");
    assert!(lines.last().unwrap().starts_with("gc: removed 0 sessions"), "{ran:?}");
}

#[test]
fn the_readme_s_examples_do_what_they_say() {
    let scratch = Scratch::new();
    let readme = include_str!("../../README.md");
    std::fs::create_dir(scratch.home().join("project")).unwrap();
    std::fs::write(scratch.home().join("project/Makefile"), "all:\n\t@echo made\n").unwrap();
    // A screen may be at rest because its program has not been given the time to draw.
    let rest = "nbs-ts wait \"$e\" --stable";
    let drawn = "until nbs-ts screen \"$e\" | grep -qx hi; do :; done";
    let (before, after) = readme.split_once(rest).unwrap();
    let script = blocks(&format!("{before}{drawn}\n{rest}{after}"));
    let ran = scratch.bash(&format!("set -e -o pipefail\n{script}")).code(0);
    let out = ran.out();
    let minute = format!("made\n{}/project\n45\n", scratch.home().display());
    assert!(out.starts_with(&minute) && out.contains("\nmade\n42\n"), "{ran:?}");
    let printed =
        ["\tpattern\tready\n", "\tinput\traw\n", "\nhi\n~\n", "\tvim notes.txt\n", "\"ended_by\":\"kill\""];
    assert!(printed.iter().all(|printed| out.contains(printed)), "{ran:?}");
}

#[test]
fn every_call_in_its_text_works() {
    let scratch = Scratch::new();
    let page = page(&scratch);
    let calls = calls(&page);
    assert!(calls.len() > 12, "{calls:?}");
    executable(&scratch.path.join("server"), "echo listening on 80\n");
    for call in calls {
        let call = call.replace("COMMAND", "send");
        let mut script = "set -e; h=$(nbs-ts create --no-helper bash)\n".to_owned();
        script += "nbs-ts run $h 'make() { echo made; }'\n";
        for (name, command) in [("p", "python3"), ("q", "read -p \"Sure? \" x"), ("j", "exit 0")] {
            if call.contains(&format!("${name}")) {
                script += &format!("{name}=$(nbs-ts create --no-helper '{command}')\n");
            }
        }
        if call.starts_with("nbs-ts wait") {
            script += "nbs-ts send $h './server'\n";
        }
        scratch.bash(&format!("{script}{call}")).code(0);
    }
}
