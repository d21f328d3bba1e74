use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{Scratch, executable, links, run};

fn page(scratch: &Scratch) -> String {
    scratch.ts(&["help", "--skill"]).code(0).silent().out()
}

/// The lines of the blocks that begin with ```sh, one block after another.
fn blocks(page: &str) -> String {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The calls between backticks, outside of blocks.
fn calls(page: &str) -> Vec<&str> {
    let outside = page.split("```").step_by(2);
    outside
        .flat_map(|text| text.split('`').skip(1).step_by(2))
        .filter(|code| code.starts_with("nbs-ts ") || code.contains("| nbs-ts "))
        .collect()
}

#[test]
fn the_page_is_short() {
    let scratch = Scratch::new();
    let page = page(&scratch);
    // A token is four bytes of English and code, rather more than less.
    assert!(page.len() < 6_000, "{} bytes", page.len());
    scratch.ts(&["help", "--skill", "--json"]).code(0).stdout_has("{\"skill\":\"");
}

#[test]
fn its_examples_do_what_they_say() {
    let scratch = Scratch::new();
    keep_password(&scratch);
    let script = format!("set -e -o pipefail\n{}", blocks(&page(&scratch)));
    let ran = scratch.bash(&script).code(0);
    let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    assert!(lines[0].parse::<u32>().is_ok(), "{ran:?}");
    assert_eq!(lines[1..3], ["/tmp", "42"], "{ran:?}");
    assert!(lines.iter().any(|line| line.ends_with("\texit\t0")), "{ran:?}");
    assert!(lines.last().unwrap().starts_with("gc: removed 0 sessions"), "{ran:?}");
}

const PASSWORD: &str = "correct horse";

/// Stores the password where the page says.
fn keep_password(scratch: &Scratch) {
    let file = scratch.home().join(".password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn its_ways_to_type_a_secret_leave_none() {
    let scratch = Scratch::new();
    keep_password(&scratch);
    // All that other processes of this user can see of every call.
    let note = format!(
        "#!/bin/bash\ncat /proc/$$/environ /proc/$$/cmdline >>'{}'\nexec '{}' \"$@\"\n",
        scratch.path.join("seen").display(),
        links().join("nbs-ts").display()
    );
    executable(&scratch.path.join("bin/nbs-ts"), note);
    let page = page(&scratch);
    let section = page.split_once("## Secrets\n").unwrap().1.split_once("\n## ").unwrap().0;
    let block = blocks(section);
    let (create, send) = block.split_once('\n').unwrap();
    let pipes = calls(section);
    assert!(pipes.len() == 2 && pipes.iter().all(|call| call.contains("--secret-stdin")), "{pipes:?}");
    let pipes = pipes.iter().map(|call| format!("{call}\nnbs-ts wait --exit $s\n"));
    for send in pipes.chain([send.to_owned()]) {
        let script = format!(
            "set -e -o pipefail; PATH=$PWD/bin:$PATH; pass() {{ cat ~/.password; }}; read -r word <~/.password\n\
             {create}\n{send}"
        );
        let ran = scratch.bash(&script).code(0);
        assert!(ran.out().ends_with("\texit\t0\n"), "{ran:?}");
    }
    let state = scratch.state();
    let left = run(scratch.command("grep").args(["-rl", "horse", "--exclude=.password", "seen"]).arg(state));
    left.code(1).stdout("").silent();
    assert!(fs::read_to_string(scratch.path.join("seen")).unwrap().contains("--secret-stdin"));
}

#[test]
fn every_call_in_its_text_works() {
    let scratch = Scratch::new();
    let page = page(&scratch);
    let calls = calls(&page);
    assert!(calls.len() > 12, "{calls:?}");
    executable(&scratch.path.join("server"), "echo listening on 80\n");
    for call in calls {
        if call.contains('|') {
            // Calls for a secret have a test of their own.
            continue;
        }
        let call = call.replace("COMMAND", "send").replace("TOPIC", "limits");
        let mut script = "set -e; h=$(nbs-ts create --no-helper bash)\n".to_owned();
        script += "nbs-ts run $h 'make() { echo made; }'\n";
        for (name, command) in [("p", "python3"), ("j", "exit 0")] {
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
