use crate::support::Scratch;

#[test]
fn what_a_session_is_told_of_itself_is_shown() {
    let scratch = Scratch::new();
    let options = [
        "--title=a \\ b\nc: \u{e9}",
        "--description=two words",
        "--parent=me",
        "--timeout=1.5h",
        "--idle-timeout=90m",
        "--max-log=64K",
    ];
    let told = scratch.create_with(&options, "exec sleep 1000");
    let untold = scratch.create("exec sleep 1000");
    let expected = [
        ("title", "\"a \\\\ b\\nc: \u{e9}\""),
        ("description", "\"two words\""),
        ("parent", "\"me\""),
        ("timeout", "5400.000000"),
        ("idle_timeout", "5400.000000"),
        ("owner", "null"),
        ("max_log", "65536"),
    ];
    let listed = scratch.ts(&["list", "--json"]).code(0).out();
    let of = |handle: &str| listed.lines().find(|line| line.contains(handle)).unwrap().to_owned();
    for shown in [scratch.ts(&["status", "--json", &told]).code(0).out(), of(&told)] {
        for (name, value) in expected {
            assert_eq!(crate::support::field(&shown, name), value, "{shown}");
        }
    }
    for shown in [scratch.ts(&["status", "--json", &untold]).code(0).out(), of(&untold)] {
        for (name, _) in expected {
            assert_eq!(crate::support::field(&shown, name), "null", "{shown}");
        }
    }
    let mut arguments = vec!["ensure", "--name=n", "--no-helper"];
    arguments.extend(options);
    scratch.ts(&arguments).code(0);
    assert_eq!(scratch.ts(&["status", "--json", "@n"]).field("parent"), "\"me\"");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let scratch = Scratch::new();
    for option in [
        "--title=",
        "--description=",
        "--parent=",
        "--timeout=0",
        "--timeout=-1",
        "--timeout=",
        "--timeout=x",
        "--idle-timeout=0ms",
        "--idle-timeout=1000000000h",
        "--owner=0",
        "--owner=-1",
        "--owner=x",
        "--owner=4294967297",
        "--max-log=0",
        "--max-log=-1K",
        "--max-log=99999999999G",
    ] {
        scratch.ts(&["create", option, "true"]).code(4).stdout("").complains(&option[2..6]);
        scratch.ts(&["ensure", "--name=n", option]).code(4).stdout("");
    }
    scratch.ts(&["create", "--timeout"]).code(4).stdout("");
    scratch.ts(&["list"]).stdout("");
}
