//! The resources that a session has used.

use super::Places;
use crate::support::{binary, eventually, field, start};

#[test]
fn the_processor_time_of_a_session_is_in_its_exit_record() {
    let places = Places::new();
    let scratch = &places.scratch;
    let _helper = start(scratch.command(binary()).arg("ts-helper"));
    eventually("the helper", || scratch.state().join("helper.sock").exists());
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; (true)";
    for way in ["--no-helper", "--require-helper"] {
        let handle = scratch.ts(&["create", way, &format!("sh -c '{busy}'; true")]).code(0).out();
        let handle = handle.trim_end();
        scratch.wait_for_end(handle);
        for object in [scratch.file(handle, "exit.json"), scratch.ts(&["status", "--json", handle]).out()] {
            let cpu = field(&object, "cpu_ms").parse::<u32>().unwrap();
            assert!((10..60_000).contains(&cpu), "{object}");
            assert_eq!(field(&object, "memory_peak_bytes"), "null");
        }
    }
}

#[test]
fn a_live_session_tells_what_it_has_used() {
    let places = Places::new();
    let scratch = &places.scratch;
    let _helper = start(scratch.command(binary()).arg("ts-helper"));
    eventually("the helper", || scratch.state().join("helper.sock").exists());
    let nbs = binary().canonicalize().unwrap().display().to_string();
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; (true)";
    for way in ["--no-helper", "--require-helper"] {
        let create = |command: &str| {
            scratch.ts(&["create", way, command]).code(0).silent().out().trim_end().to_owned()
        };
        let used = |handle: &str, field: &str| scratch.ts(&["status", "--json", handle]).code(0).field(field);
        // A child of the shell, and one that has left it, have ended; two processes are there.
        let ended =
            create(&format!("sh -c '{busy}'; (setsid sh -c '{busy}; touch ./gone{way}' &); cat; true"));
        let has_gone = || scratch.path.join(format!("gone{way}")).exists();
        let cpu = |handle: &str| used(handle, "cpu_ms").parse::<u32>().unwrap();
        eventually("both ends", || has_gone() && used(&ended, "processes") == "2");
        assert!((20..60_000).contains(&cpu(&ended)), "{}", cpu(&ended));
        assert_eq!(used(&ended, "memory_peak_bytes"), "null");
        let before = cpu(&ended);
        scratch.ts(&["eof", &ended]).code(0);
        scratch.wait_for_end(&ended);
        assert!(cpu(&ended) >= before, "{before}");
        let running = create("while :; do :; done");
        eventually("some use", || cpu(&running) >= 20);
        // A session made in another one has processes of its own.
        let outer = create("bash");
        scratch.ts(&["run", &outer, &format!("{nbs} ts create {way} sleep 1000")]).code(0);
        assert_eq!(used(&outer, "processes"), "1");
        scratch.ts(&["kill", &running, &outer]).code(0);
    }
}
