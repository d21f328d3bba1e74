//! The same restrictions on another machine.

use std::fs;

use super::can_limit;
use crate::{confined::can_confine, machines::Elsewhere};

/// Both places of this test, on the other machine.
fn places_there(there: &Elsewhere) -> [String; 2] {
    ["inside", "outside"].map(|name| {
        let folder = there.scratch.path.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), name).unwrap();
        folder.display().to_string()
    })
}

#[test]
fn restrictions_hold_on_another_machine() {
    let there = Elsewhere::new();
    let [inside, outside] = places_there(&there);
    let write = format!("--write-root={inside}");
    let options = ["create", "--on=box", "--no-helper"];
    let jailed = ["--read-root=none", &write, "--no-network", "--hide-env=SECRET", "bash"];
    let ran = there.ts(&[&options[..], &jailed].concat());
    if !can_confine() {
        ran.code(1).stdout("").complains("the kernel has no Landlock");
        return;
    }
    let first = ran.code(0).silent().out().trim_end().to_owned();
    // A profile is a file of that machine.
    let profiles = there.home.join(".nbs-ts/profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join("there"), "write-root=.\nread-root=none\nno-network\nclear-env\n").unwrap();
    let cwd = format!("--cwd={inside}");
    let ran = there.ts(&[&options[..], &["--profile=there", &cwd, "bash"]].concat());
    let second = ran.code(0).silent().out().trim_end().to_owned();
    for (handle, profile) in [(&first, "null"), (&second, "\"there\"")] {
        let run = |command: &str| there.ts(&["run", handle, command]);
        run(&format!("cat {inside}/file && echo {handle} >{inside}/new && cat {inside}/new"))
            .code(0)
            .stdout(format!("inside{handle}\n"));
        for attack in [
            format!("cat {outside}/file"),
            format!("echo x >{outside}/new"),
            format!("ls {}", there.home.display()),
            format!("{} -c 'import socket; socket.socket()'", super::PYTHON),
            format!("cat {}/.nbs-ts/sessions/*/output.log", there.home.display()),
        ] {
            let ran = run(&attack);
            assert!(!ran.status.success(), "{ran:?}");
        }
        let told = there.ts(&["status", "--json", handle]).code(0).out();
        let roots = format!(
            "\"confinement\":{{\"write_roots\":[\"{inside}\"],\"read_roots\":[],\"no_network\":true,"
        );
        assert!(told.contains(&roots) && told.contains(&format!("\"profile\":{profile}")), "{told}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Errors are those of that machine.
    let missing = there.ts(&[&options[..], &["--profile=none", "bash"]].concat());
    missing.code(1).stdout("").complains("profiles/none");
    if !can_limit() {
        let limited = there.ts(&[&options[..], &["--memory=64M", "bash"]].concat());
        limited.code(1).stdout("").complains("--memory");
    }
}
