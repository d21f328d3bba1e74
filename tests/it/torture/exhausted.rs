//! Full tables and disks, odd times and stopped processes.

use super::*;

/// In a PID namespace of its own the next PID can be chosen.
#[test]
fn a_recycled_pid_is_nobody_of_a_session() {
    let scratch = Scratch::new();
    let script = r#"
        set -e
        h=$(nbs-ts create --no-helper 'exec sleep 1000')
        d=$NBS_TS_HOME/sessions/$h child=$(< $NBS_TS_HOME/sessions/$h/pid) relay=$(< $NBS_TS_HOME/sessions/$h/daemon_pid)
        kill -KILL $relay
        nbs-ts wait $h --exit --timeout=20
        take() {
            for try in {1..50}; do
                echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid
                sleep 999 &
                [[ $! == $1 ]] && return
                kill -KILL $!
            done
            exit 9
        }
        until ! kill -0 $relay; do wait; done 2>/dev/null
        until ! kill -0 $child; do wait; done 2>/dev/null
        take $relay
        take $child
        nbs-ts status $h
        nbs-ts doctor
        nbs-ts send $h x && exit 8
        nbs-ts kill $h
        kill -0 $relay
        kill -0 $child
        kill -KILL $relay $child
    "#;
    let mut command = scratch.command("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", script]);
    run(&mut command)
        .code(0)
        .stdout_has("dead\nexit_code: unknown\nended_by: unknown\n")
        .stdout_has("all in order");
}

/// A directory that is another user's for a while.
struct Given<'a>(&'a Path);

impl Given<'_> {
    fn to<'a>(path: &'a Path, user: &str) -> Given<'a> {
        run(Command::new("chown").args(["-hR", user]).arg(path)).code(0);
        Given(path)
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        run(Command::new("chown").args(["-hR", "0"]).arg(self.0));
    }
}

/// The kernel counts the processes of each user, and limits all but root: so this is another user, who has no
/// process yet.
#[test]
fn a_full_process_table_is_told_and_leaves_nothing_and_passes() {
    let world = World::new();
    world.make_project();
    let scratch = &world.scratch;
    let bin = scratch.path.join("bin");
    copy_of_binary(&bin.join("nbs"));
    for link in ["nbs-ts", "nbs-spawn-worker", "nbs-launch-agent", "nbs-ts-helper"] {
        symlink("nbs", bin.join(link)).unwrap();
    }
    fs::create_dir(scratch.path.join("project/.nbs/workers")).unwrap();
    let user = (20_000 + std::process::id() % 40_000).to_string();
    let _given = Given::to(&scratch.path, &user);
    // A limit is checked against where a user is taken on, too: so it comes after that.
    let call = |limit: &str, words: &[&str]| {
        let mut command = scratch.command("setpriv");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "prlimit"]);
        command.arg(format!("--nproc={limit}:")).args(words);
        command
    };
    let ts = |limit: &str, words: &[&str]| run(&mut call(limit, &[&["nbs-ts"], words].concat()));
    let limit = |pid: &str, limit: &str| {
        run(&mut call(MANY, &["prlimit", "--pid", pid, &format!("--nproc={limit}:")])).code(0);
    };
    let left = |folder: &str| fs::read_dir(scratch.path.join(folder)).unwrap().count();
    const MANY: &str = "1000";

    ts(MANY, &["doctor"]);
    let spawn =
        ["nbs-spawn-worker", "--startup=0", "--timeout=0", "tester", "project", "skill.md", "Test it."];
    let launch =
        ["nbs-launch-agent", "tester-0123abcd", "project", "project/.nbs/bin/nbs-claude", "Test it."];
    let calls: [(&[&str], &[&str]); 5] = [
        (&["nbs-ts", "create", "--no-helper", "true"], &["1", "2"]),
        (&["nbs-ts", "create", "--no-helper", "bash"], &["1", "2"]),
        (&["nbs-ts", "ensure", "--no-helper", "--name=e"], &["1", "2"]),
        (&spawn, &["1", "2"]),
        // With one more bash is started, and tries to start another for 15 seconds.
        (&launch, &["1"]),
    ];
    for (words, limits) in calls {
        for limit in limits {
            run(&mut call(limit, words))
                .code(1)
                .stdout("")
                .complains("cannot start the ")
                .complains("Resource temporarily unavailable");
            eventually("no process being left", || scratch.processes().is_empty());
            assert_eq!(["state/sessions", "project/.nbs/workers", "tmp"].map(left), [0; 3], "{words:?}");
        }
    }
    ts("1", &["doctor"]).code(1).stdout_has("bad  shell: cannot run 'bash'").stdout_has("ulimit -u");

    let owner = start(Command::new("sleep").arg("1000"));
    let create = |words: &[&str]| ts(MANY, &[&["create"], words].concat()).code(0).out().trim().to_owned();
    let shell = create(&["bash"]);
    let out_of_reach = "setsid bash -c 'echo L; exec sleep 1000' & sleep 1001";
    let owned = create(&[&format!("--owner={}", owner.pid()), out_of_reach]);
    ts(MANY, &["wait-pattern", &owned, "L"]).code(0);
    for handle in [&shell, &owned] {
        limit(&scratch.file(handle, "daemon_pid"), "1");
    }
    ts("1", &["run", &shell, "echo $((6 * 7))"]).code(0).stdout("42\n");
    ts("1", &["send", &shell, "echo L$((9 * 9))"]).code(0);
    ts("1", &["wait-pattern", &shell, "L81"]).code(0);
    for words in [&["read-new", &shell][..], &["screen", &shell], &["status", &shell], &["list"], &["gc"]] {
        ts("1", words).code(0);
    }
    // No process can end it until there is room for one: maybe its own.
    let child = scratch.file(&owned, "pid");
    drop(owner);
    eventually("the end of what has its terminal", || !is_running(&child));
    ts("1", &["status", &owned]).code(0).stdout("alive\n");
    limit(&scratch.file(&owned, "daemon_pid"), MANY);
    ts("1", &["wait", &owned, "--exit"]).code(0);
    assert_eq!(field(&scratch.file(&owned, "exit.json"), "ended_by"), "\"owner\"");

    let helper = start(&mut call(MANY, &["nbs-ts-helper"]));
    eventually("the helper", || ts(MANY, &["doctor"]).out().contains("ok   helper"));
    limit(&helper.pid().to_string(), "1");
    ts(MANY, &["create", "--require-helper", "true"]).code(1).stdout("").complains("see its log");
    limit(&helper.pid().to_string(), MANY);
    create(&["--require-helper", "sleep 1000"]);
    ts(MANY, &["doctor"]).code(0).stdout_has("2 alive and 1 dead, all in order");
    ts("1", &["kill", "--all"]).code(0);
    assert_eq!(left("state/sessions"), 0);
    run(&mut call(MANY, &spawn)).code(0);
    ts("1", &["kill", "--all"]).code(0);
    rustix::process::kill_process(Pid::from_raw(helper.pid() as i32).unwrap(), Signal::TERM).unwrap();
    helper.finish().code(0);
    eventually("the monitor's end", || {
        run(&mut call("1", &["nbs-ts", "kill", "--all"])).code(0);
        scratch.processes().is_empty()
    });
}

/// In namespaces of our own we can say how much there is.
#[test]
fn an_exhausted_resource_is_an_error_and_not_a_hang() {
    let scratch = Scratch::new();
    let script = r#"
        set -e
        mount -t devpts -o newinstance,ptmxmode=666,max=2 devpts /dev/pts
        mount --bind /dev/pts/ptmx /dev/ptmx
        a=$(nbs-ts create --no-helper 'read x; echo L$x; read x')
        b=$(nbs-ts create --no-helper 'read x')
        nbs-ts create --no-helper true && exit 8
        nbs-ts doctor && exit 8
        echo 0 > /proc/sys/user/max_inotify_instances
        nbs-ts send $a 1
        nbs-ts wait-pattern $a L1 --timeout=20 && got=yes || got=no
        nbs-ts events --follow && exit 8
        nbs-ts kill $b
        echo 9 > /proc/sys/user/max_inotify_instances
        nbs-ts wait-pattern $a L1 --timeout=20
        nbs-ts doctor
        nbs-ts kill $a
    "#;
    let mut command = scratch.command("unshare");
    command.args(["-Ur", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]);
    run(&mut command).code(0).stdout_has("bad  terminals").stdout_has("all in order");
}

/// A test cannot set the machine's clock, and a time namespace has no other time of day (time_namespaces(7)):
/// so the effects of a clock that was set back are made by hand.
#[test]
fn files_of_a_time_to_come_confuse_nobody() {
    let (scratch, handle) = Scratch::with_session("exit 7");
    scratch.wait_for_end(&handle);
    let live = scratch.create("read x");
    // As a clock that has been set back leaves them.
    for folder in [scratch.folder(&handle), scratch.folder(&live), scratch.state().join("events")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            run(Command::new("touch").args(["-h", "-d", "tomorrow"]).arg(path)).code(0);
        }
    }
    scratch.ts(&["gc"]).code(0).stdout_has("kept 1 alive + 1 recent dead");
    assert!(scratch.ts(&["events"]).code(0).field("exit_code") == "7");
    scratch.ts(&["list"]).code(0).stdout_has(&handle);
    scratch.ts(&["send", &live, "x"]).code(0);
    scratch.ts(&["wait", &live, "--exit"]).code(0);
    in_order(&scratch);
    cleared(&scratch);
}

#[test]
fn a_stopped_helper_and_a_client_that_never_reads_hold_up_nobody_else() {
    let mut world = World::new();
    world.start_helper();
    let helper = world.calls[0].pid();
    let theirs = world.scratch.ts(&["create", "stty -echo; read x; seq -f L%.0f 0 29999; exit 7"]).code(0);
    let theirs = theirs.out().trim().to_owned();
    // Its output is a pipe that is never emptied.
    let script = format!("nbs-ts attach {theirs} | sleep 1000");
    let dawdling = start(world.scratch.command("setsid").args(["-w", "bash", "-c", &script]));
    let signal =
        |signal| rustix::process::kill_process(Pid::from_raw(helper as i32).unwrap(), signal).unwrap();
    world.scratch.ts(&["wait", &theirs, "--input"]).code(0);
    signal(Signal::STOP);
    world.scratch.ts(&["send", &theirs, "go"]).code(0);
    world.scratch.ts(&["wait", &theirs, "--exit"]).code(0);
    let own = world.scratch.create("exit 3");
    world.scratch.wait_for_end(&own);
    signal(Signal::CONT);
    world.printers.push(Printer { handle: theirs, lines: 30_000, once: true });
    world.scratch.ts(&["create", "--require-helper", "true"]).code(0);
    run(Command::new("pkill").args(["-KILL", "-g", &dawdling.pid().to_string()])).code(0);
    let _ = dawdling.finish();
    world.finish();
    world.check();
    cleared(&world.scratch);
}

/// Can a state directory be read that no user may write to, root only by its mount?
#[test]
fn a_read_only_state_folder_can_be_looked_at() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.state()).unwrap();
    fs::set_permissions(scratch.state(), fs::Permissions::from_mode(0o700)).unwrap();
    let mounted = Mount::tmpfs(&scratch.state(), "size=4m");
    let handle = scratch.create("echo L0; exit 7");
    scratch.wait_for_end(&handle);
    mounted.remount("ro");
    scratch.ts(&["list"]).code(0).stdout_has("dead");
    scratch.ts(&["status", &handle]).code(0).stdout("dead\nexit_code: 7\n");
    scratch.ts(&["read", &handle]).code(0).stdout("L0\r\n");
    scratch.ts(&["screen", &handle]).code(0).stdout_has("L0");
    scratch.ts(&["doctor"]).code(1).stdout_has("bad  state directory").stdout_has("all in order");
    scratch.ts(&["create", "--no-helper", "true"]).code(1);
    mounted.remount("rw");
    cleared(&scratch);
    assert!(Path::new(&scratch.state()).exists());
    drop(mounted);
}
