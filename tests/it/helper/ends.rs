//! The ends of sessions, helpers, relays and keepers.

use super::*;

#[test]
fn sessions_outlive_their_helper_and_still_tell_how_they_ended() {
    let scratch = Scratch::new();
    for signal in [9, 15] {
        let mut helper = Helper::start(&scratch);
        let handle = scratch.create(&["--require-helper", "read x; exit 42"]);
        let killed = scratch.create(&["--require-helper", "read x; kill -9 $$"]);
        kill(helper.pid(), signal);
        helper.wait();
        assert_eq!(scratch.home().join("helper.sock").exists(), signal == 9);
        // No process has its socket now, so no call waits for it.
        let ran = within(&mut scratch.ts(&["create", "true"]));
        assert!(ran.err.contains("helper not running: ") && !ran.err.contains("answer"), "{ran:?}");
        scratch.ended(ran.ok().trim());
        for handle in [&handle, &killed] {
            assert_eq!(within(&mut scratch.ts(&["status", handle])).ok(), "alive\n");
            within(&mut scratch.ts(&["send", handle, "go"])).ok();
            scratch.ended(handle);
        }
        assert_eq!(scratch.file(&handle, "exit_code"), "42");
        assert_eq!(scratch.file(&killed, "exit_code"), "137");
        // A stale socket is replaced.
        let helper = Helper::start(&scratch);
        let handle = scratch.create(&["--require-helper", "exit 4"]);
        scratch.ended(&handle);
        helper.stop();
    }
}

#[test]
fn an_unseen_end_is_unknown_and_kill_still_works() {
    let (scratch, _helper) = Scratch::with_helper();
    let handle = scratch.create(&["--require-helper", "read x; exit 7"]);
    let other = scratch.create(&["--require-helper", "read x; exit 7"]);
    for handle in [&handle, &other] {
        let keeper = scratch.keeper(handle).unwrap();
        kill(keeper, 9);
        eventually("the keeper has gone", || scratch.keeper(handle).is_none());
        assert_eq!(within(&mut scratch.ts(&["status", handle])).ok(), "alive\n");
    }
    within(&mut scratch.ts(&["send", &handle, "go"])).ok();
    scratch.ended(&handle);
    assert_eq!(
        within(&mut scratch.ts(&["status", &handle])).ok(),
        "dead\nexit_code: unknown\nended_by: unknown\n"
    );
    assert_eq!(within(&mut scratch.ts(&["exit-code", &handle])).ok(), "-1\n");
    let exit_record = scratch.file(&handle, "exit.json");
    assert!(
        exit_record.contains("\"exit_code\":-1") && exit_record.contains("\"ended_by\":\"unknown\""),
        "{exit_record}"
    );
    within(&mut scratch.ts(&["kill", &other])).ok();
    // The relay of the other lets go of it before it ends itself.
    eventually("nobody is left", || scratch.processes().is_empty());
}

#[test]
fn kill_reaches_everybody_and_leaves_no_keeper() {
    let (scratch, _helper) = Scratch::with_helper();
    let unmarked = scratch.unmarked().join(" ");
    let strays = format!(
        "setsid sleep 611 & (setsid sleep 612 &) ; nohup sleep 613 >/dev/null 2>&1 & \
         (trap '' TERM HUP; env -i setsid bash -c 'trap \"\" TERM; {unmarked}; {unmarked}' </dev/null >/dev/null 2>&1 &) ; "
    );
    for (helper, last) in [
        ("--require-helper", "sleep 615"),
        ("--require-helper", "exec sleep 615"),
        ("--no-helper", "exec sleep 615"),
    ] {
        let handle = scratch.create(&[helper, &format!("{strays} {last}")]);
        eventually("all are there", || scratch.sleepers(&handle) >= 5);
        within(&mut scratch.ts(&["kill", &handle])).ok();
        assert_eq!(scratch.keeper(&handle), None);
        assert_eq!(scratch.processes(), [""; 0]);
    }
}

#[test]
fn a_kill_that_has_seen_the_end_before_the_relay_is_its_cause() {
    let (scratch, _helper) = Scratch::with_helper();
    let handle = scratch.create(&["--require-helper", "exec sleep 600"]);
    let (child, keeper) = (scratch.file(&handle, "pid").parse().unwrap(), scratch.keeper(&handle).unwrap());
    // No process collects the child, and so none reports its end to the relay.
    kill(keeper, 19);
    let killing = start(&mut scratch.ts(&["kill", "--keep", &handle]));
    eventually("the child's end", || state_of(child) == Some('Z'));
    eventually("the caller having nothing more to say to the relay", || {
        sockets_of(&killing.pid().to_string()) == 0
    });
    kill(keeper, 18);
    killing.finish().code(0);
    let exit_record = scratch.file(&handle, "exit.json");
    assert!(exit_record.contains("\"ended_by\":\"kill\""), "{exit_record}");
}

#[test]
fn a_session_whose_relay_was_killed_is_hung_up_and_its_keeper_goes() {
    let (scratch, _helper) = Scratch::with_helper();
    let handle = scratch.create(&["--require-helper", "sleep 600"]);
    let stubborn = scratch.create(&["--require-helper", "trap '' HUP; echo ready; sleep 601; sleep 601"]);
    within(&mut scratch.ts(&["wait-pattern", &stubborn, "ready"])).ok();
    for handle in [&handle, &stubborn] {
        kill(scratch.file(handle, "daemon_pid").parse().unwrap(), 9);
    }
    eventually("the keeper has gone", || scratch.keeper(&handle).is_none());
    assert_eq!(
        within(&mut scratch.ts(&["status", &handle])).ok(),
        "dead\nexit_code: unknown\nended_by: unknown\n"
    );
    // This one lives on, and so does its keeper, until it is killed; even if it was stopped.
    kill(scratch.keeper(&stubborn).unwrap(), 19);
    within(&mut scratch.ts(&["kill", &stubborn])).ok();
    assert_eq!(scratch.keeper(&stubborn), None);
    assert_eq!(scratch.processes(), [""; 0]);
}

#[test]
fn a_session_made_from_inside_another_is_not_part_of_it() {
    let (scratch, _helper) = Scratch::with_helper();
    let create =
        format!("{} create --require-helper --name=inner sleep 600", links().join("nbs-ts").display());
    let outer = scratch.create(&["--require-helper", &format!("{create}; exec sleep 600")]);
    // Its handle has been printed; before that it belongs to no one.
    within(&mut scratch.ts(&["wait-pattern", &outer, "\r\n"])).ok();
    within(&mut scratch.ts(&["kill", &outer])).ok();
    assert_eq!(within(&mut scratch.ts(&["status", "@inner"])).ok(), "alive\n");
    // Nor are the sessions of a helper that was started in a session part of that session.
    within(&mut scratch.ts(&["kill", "--all"])).ok();
}

#[test]
fn a_helper_in_a_session_ends_with_it_and_its_sessions_do_not() {
    let scratch = Scratch::new();
    let helper = links().join("nbs-ts-helper");
    let host = scratch.create(&["--no-helper", &helper.display().to_string()]);
    within(&mut scratch.ts(&["wait-pattern", &host, "started (pid"])).ok();
    let guest = scratch.create(&["--require-helper", "sleep 600"]);
    within(&mut scratch.ts(&["kill", &host])).ok();
    assert_eq!(within(&mut scratch.ts(&["status", &guest])).ok(), "alive\n");
    assert!(scratch.keeper(&guest).is_some());
    within(&mut scratch.ts(&["kill", &guest])).ok();
    assert_eq!(scratch.processes(), [""; 0]);
}
