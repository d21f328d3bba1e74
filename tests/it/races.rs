use std::{collections::BTreeSet, fs};

use crate::support::{Ran, Scratch, eventually, start};

#[test]
fn readers_at_once_share_the_bytes() {
    let scratch = Scratch::new();
    let handle =
        scratch.create("for i in $(seq 200); do seq $((i * 100)) $((i * 100 + 99)); sleep 0.002; done");
    let part = |ran: Ran| {
        let offset: u64 = ran.field("offset").parse().unwrap();
        (offset, ran.field("output").trim_matches('"').to_owned())
    };
    let mut got = Vec::new();
    let mut ended = false;
    while !ended {
        ended = scratch.ts(&["status", &handle]).out().starts_with("dead");
        let readers: Vec<_> = (0..6).map(|_| scratch.start(&["read-new", "--json", &handle])).collect();
        got.extend(readers.into_iter().map(|reader| part(reader.finish().code(0).silent())));
    }
    let (_, whole) = part(scratch.ts(&["read", "--json", &handle]));
    // A reader that found nothing new starts where another one begins.
    got.retain(|(_, output)| !output.is_empty());
    got.sort();
    let got: String = got.into_iter().map(|(_, output)| output).collect();
    assert!(got == whole, "each byte once");
}

#[test]
fn waiters_at_once_share_the_completions() {
    let (scratch, handle) = Scratch::with_session("bash");
    let waiters: Vec<_> = (0..10).map(|_| scratch.start(&["wait-complete", "--json", &handle])).collect();
    for code in 1..=10 {
        scratch.ts(&["send", &handle, &format!("(exit {code})")]).code(0);
    }
    let got: BTreeSet<(u64, u64)> = waiters
        .into_iter()
        .map(|waiter| {
            let ran = waiter.finish().code(0);
            (ran.field("seq").parse().unwrap(), ran.field("exit_code").parse().unwrap())
        })
        .collect();
    assert_eq!(got, (1..=10).map(|n| (n, n)).collect());
}

#[test]
fn creates_at_once_are_all_made_and_told_apart() {
    let scratch = Scratch::new();
    let creates: Vec<_> =
        (0..40).map(|n| scratch.start(&["create", "--no-helper", &format!("exit {n}")])).collect();
    let handles: Vec<String> =
        creates.into_iter().map(|create| create.finish().code(0).silent().out().trim().to_owned()).collect();
    assert_eq!(handles.iter().collect::<BTreeSet<_>>().len(), 40);
    for (n, handle) in handles.iter().enumerate() {
        scratch.ts(&["wait-complete", handle]).code(0).stdout(format!("{n}\n"));
    }
}

#[test]
fn kills_gcs_and_lists_at_once_all_end_well() {
    let scratch = Scratch::new();
    for _ in 0..5 {
        let handle = scratch.create("sleep 1000");
        let calls: Vec<_> = [
            &["kill", "--if-exists", &handle][..],
            &["kill", "--if-exists", &handle],
            &["gc", "--hours=0"],
            &["list"],
            &["list", "--json"],
            &["create", "--no-helper", "true"],
            &["kill", "--if-exists", &handle],
            &["gc", "--hours=0"],
        ]
        .map(|arguments| scratch.start(arguments))
        .into();
        for call in calls {
            call.finish().code(0).silent();
        }
        scratch.ts(&["status", &handle]).code(2);
    }
}

#[test]
fn a_gc_that_comes_before_the_lock_of_a_new_session_is_taken_harms_nobody() {
    let scratch = Scratch::new();
    scratch.create("exit 0");
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", "inject=flock:delay_enter=2000000:when=1"]);
    let creating = start(strace.args(["nbs-ts", "create", "--no-helper", "sleep 1000"]));
    eventually("the lock that is free still", || {
        let sessions = fs::read_dir(scratch.state().join("sessions")).unwrap().flatten();
        let mut new = sessions.filter(|folder| folder.file_name().as_encoded_bytes().starts_with(b".new."));
        new.any(|folder| folder.path().join("meta").exists())
    });
    scratch.ts(&["gc"]).code(0);
    let handle = creating.finish().code(0).out().trim().to_owned();
    scratch.ts(&["status", &handle]).code(0).stdout("alive\n");
}

#[test]
fn a_listing_never_shows_half_a_session() {
    let scratch = Scratch::new();
    let creates: Vec<_> =
        (0..30).map(|_| scratch.start(&["create", "--no-helper", "--name=whole", "sleep 1000"])).collect();
    for _ in 0..30 {
        for line in scratch.ts(&["list"]).code(0).silent().out().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields[1..], ["alive", "whole", "sleep 1000"], "{line}");
            scratch.ts(&["send", fields[0], "x"]).code(0);
        }
    }
    for create in creates {
        create.finish().code(0);
    }
    scratch.ts(&["kill", "--all"]).code(0);
}

/// The point of it all: a program is built in a shell, a hundred times over, in
/// parallel, with no sleep and nothing lost.
#[test]
fn a_hundred_builds_by_send_and_wait() {
    let scratch = Scratch::new();
    let script = r#"
        build() {
            mkdir "dir-$1" && cd "dir-$1" || return 1
            h=$(nbs-ts create --no-helper --name="build-$1" bash) || return 1
            printf 'int main(void) { int unused_%s; return %s; }\n' "$1" "$(($1 % 7))" > main.c
            nbs-ts send "$h" "gcc -Wall -o main main.c" || return 1
            [ "$(nbs-ts wait-complete "$h")" = 0 ] || return 1
            nbs-ts read-new --strip "$h" | grep -q "unused variable .unused_$1." || return 1
            nbs-ts send "$h" ./main || return 1
            [ "$(nbs-ts wait-complete "$h")" = "$(($1 % 7))" ] || return 1
            nbs-ts kill "$h" || return 1
            echo "done $1"
        }
        for n in $(seq "$FIRST" $((FIRST + 9))); do
            (build "$n" || echo "failed $n") &
        done
        wait
    "#;
    for first in (1..=100).step_by(10) {
        let ran = scratch.bash(&format!("FIRST={first}\n{script}")).code(0).silent();
        let done = ran.out().lines().filter(|line| line.starts_with("done ")).count();
        assert_eq!(done, 10, "{ran:?}");
    }
    scratch.ts(&["list"]).stdout("");
}
