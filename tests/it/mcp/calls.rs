//! Calls of nbs-mcp: several at once, cancelled ones, questions, tasks, and the end of the client.

use super::*;

#[test]
fn calls_run_side_by_side() {
    let (_scratch, mut client) = started();
    client.shell();
    let waits = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["marker"]}));
    let runs = client.begin("run", json!({"session": "@work", "command": "echo mar''ker"}));
    let lists = client.begin("list", json!({}));
    for id in [lists, runs, waits] {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
    let many: Vec<i64> = (0..40).map(|_| client.begin("list", json!({}))).collect();
    for id in many {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
    client.is_well();
}

#[test]
fn more_calls_at_once_than_it_executes_are_told_to_wait() {
    let (_scratch, mut client) = started();
    client.shell();
    let wait = json!({"sessions": ["@work"], "pattern": ["marker"]});
    let calls: Vec<i64> = (0..64).map(|_| client.begin("wait", wait.clone())).collect();
    let said = client.failure("list", json!({}));
    assert!(said.contains("64 calls are running"), "{said}");
    for id in calls {
        client.notify("notifications/cancelled", json!({"requestId": id}));
    }
    eventually("the end of the calls", || client.calls().is_empty());
    client.is_well();
}

#[test]
fn a_call_that_is_cancelled_ends_and_its_session_does_not() {
    let (scratch, mut client) = started();
    client.shell();
    let id = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "1h"}));
    eventually("a call", || client.calls().len() == 1);
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "no more"}));
    eventually("the end of the call", || client.calls().is_empty());

    let id = client.begin("run", json!({"session": "@work", "command": "touch begun; sleep 1000; echo no"}));
    eventually("the command", || scratch.path.join("begun").exists());
    client.notify("notifications/cancelled", json!({"requestId": id}));
    // An unknown id, and an invalid one.
    client.notify("notifications/cancelled", json!({"requestId": 10_000}));
    client.notify("notifications/cancelled", json!({"requestId": {}}));
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo still here"})), "still here\n");
    client.is_well();
}

#[test]
fn subscriptions_are_acknowledged_and_can_be_cancelled() {
    let (_scratch, mut client) = started();
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["file:///x"]}});
    for _ in 0..2 {
        let ids: Vec<i64> = (0..64).map(|_| client.request("subscriptions/listen", wanted.clone())).collect();
        for id in &ids {
            let told = client.next("the acknowledgment", |message| message["method"].is_string());
            assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
            assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], *id);
            assert_eq!(told["params"]["notifications"], json!({}));
        }
        assert_eq!(client.ask("subscriptions/listen", wanted.clone())["error"]["code"], -32603);
        for id in ids {
            client.notify("notifications/cancelled", json!({"requestId": id}));
        }
        client.is_well();
    }
}

#[test]
fn a_long_call_tells_its_progress() {
    let (_scratch, mut client) = started();
    client.shell();
    let arguments = json!({"sessions": ["@work"], "pattern": ["marker"]});
    let params = json!({"name": "wait", "arguments": arguments, "_meta": {"progressToken": "a \"token\""}});
    let id = client.request("tools/call", params);
    let mut before = 0;
    for _ in 0..2 {
        let told = client.next("progress", |message| message["method"] == "notifications/progress");
        assert_eq!(told["params"]["progressToken"], "a \"token\"");
        let progress = told["params"]["progress"].as_i64().unwrap();
        assert!(progress > before, "{told}");
        before = progress;
    }
    client.text("run", json!({"session": "@work", "command": "echo mar''ker"}));
    assert_eq!(client.answer(id)["result"]["isError"], false);
    client.heard.clear();
    client.is_well();
}

#[test]
fn when_the_client_goes_what_runs_in_sessions_goes_on() {
    let scratch = Scratch::new();
    let gate = scratch.path.join("gate");
    // It says so, is killed, or is interrupted by a terminal, with all its processes.
    for signal in [None, Some("-KILL"), Some("-INT")] {
        let mut client = Client::start(&scratch, &[]);
        client.text("create", json!({"command": "bash", "name": "work"}));
        let script = "touch begun; until test -e gate; do sleep 0.1; done; touch done";
        client.begin("run", json!({"session": "@work", "command": script}));
        eventually("the command", || scratch.path.join("begun").exists());
        client.begin("wait", json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "1h"}));
        eventually("both calls", || client.calls().len() == 2);
        let calls = client.calls();
        if let Some(signal) = signal {
            let group = format!("-{}", client.server.id());
            run(scratch.command("kill").args([signal, "--", &group])).code(0);
        }
        let (last, status) = client.end();
        assert!(last.is_empty() && (signal.is_some() || status.code() == Some(0)), "{last:?} {status}");
        eventually("the end of the calls", || !calls.iter().any(|pid| is_running(pid)));
        fs::write(&gate, "").unwrap();
        eventually("the end of the command", || scratch.path.join("done").exists());
        // The next one finds the session as if nothing had been.
        let mut client = Client::start(&scratch, &[]);
        assert_eq!(client.text("run", json!({"session": "@work", "command": "echo on"})), "on\n");
        client.text("kill", json!({"sessions": ["@work"]}));
        for file in ["begun", "gate", "done"] {
            fs::remove_file(scratch.path.join(file)).unwrap();
        }
    }
}

#[test]
fn brief_calls_are_answered_though_the_input_has_ended() {
    let (scratch, mut client) = started();
    client.begin("create", json!({"command": "sleep 1000", "name": "one"}));
    let subscription =
        client.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let (said, status) = client.end();
    assert_eq!(status.code(), Some(0));
    let told = |part: &str| said.iter().any(|message| message.to_string().contains(part));
    assert!(told("helper not running") && told("notifications/subscriptions/acknowledged"), "{said:?}");
    let over = said.iter().find(|message| message["id"] == subscription).unwrap();
    assert_eq!(over["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], subscription);
    scratch.ts(&["find", "one"]).code(0);
    // Nor is a command's result lost, if the command is short.
    let mut client = Client::start(&scratch, &[]);
    client.text("create", json!({"command": "bash", "name": "work"}));
    client.text("run", json!({"session": "@work", "command": "true"}));
    client.begin("run", json!({"session": "@work", "command": "echo said"}));
    let (said, _) = client.end();
    assert!(said.iter().any(|message| message.to_string().contains("\"said\\n\"")), "{said:?}");
}

#[test]
fn no_call_keeps_the_server_when_its_client_has_gone() {
    let (scratch, mut client) = started();
    // More than a terminal takes, for a program that never reads.
    let typed = scratch.path.join("typed");
    client.text(
        "create",
        json!({"command": format!("stty raw; touch {}; exec sleep 1000", typed.display()), "name": "deaf"}),
    );
    eventually("the terminal", || typed.exists());
    client.begin("send", json!({"session": "@deaf", "text": "x".repeat(1 << 20), "timeout": "1h"}));
    eventually("the call", || client.calls().len() == 1);
    let calls = client.calls();
    let (said, status) = client.end();
    assert_eq!((said, status.code()), (Vec::new(), Some(0)));
    assert!(!calls.iter().any(|pid| is_running(pid)), "{calls:?}");
    scratch.ts(&["find", "deaf"]).code(0);
}

#[test]
fn sessions_end_with_the_server_only_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &["--owner"]);
    client.text("create", json!({"command": "bash", "name": "owned"}));
    let handle = scratch.ts(&["find", "owned"]).code(0).out().trim().to_owned();
    drop(client);
    scratch.wait_for_end(&handle);
    let exit = scratch.file(&handle, "exit.json");
    assert!(exit.contains("\"ended_by\":\"owner\""), "{exit}");
}

#[test]
fn a_command_that_asks_is_told_of_and_gone_on_with() {
    let (_scratch, mut client) = started();
    client.text("create", json!({"command": "bash", "name": "work"}));
    let asks =
        json!({"session": "@work", "command": "read -p 'Go? ' x; echo \"got $x\"", "input_after": "200ms"});
    let asked = client.text("run", asks);
    assert!(
        asked.starts_with("Go? ") && asked.contains("waits for input") && asked.contains("line"),
        "{asked}"
    );
    client.text("send", json!({"session": "@work", "text": "on"}));
    assert_eq!(client.text("run", json!({"session": "@work", "resume": true})), "got on\n");
}

/// The task, when it is like that.
fn task_when(client: &mut Client, id: &Value, status: &str) -> Value {
    let mut task = Value::Null;
    eventually(&format!("a task that is {status}"), || {
        task = client.ask("tasks/get", json!({"taskId": id}))["result"].clone();
        assert_eq!(task["resultType"], "complete", "{task}");
        task["status"] == status
    });
    task
}

#[test]
fn a_call_that_takes_long_is_a_task_for_a_client_that_has_those() {
    let (scratch, mut client) = started();
    client.shell();
    let slow = json!({"session": "@work", "command": "until test -e gate; do sleep 0.1; done; echo late"});
    // A client that does not declare them gets none, and may not ask for any.
    let waits = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["marker"], "timeout": "1h"}));
    let refused = client.ask("tasks/get", json!({"taskId": "x"}))["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["data"]["requiredCapabilities"]["extensions"][TASKS]),
        (&json!(-32021), &json!({}))
    );

    client.capabilities = json!({"extensions": {TASKS: {}}});
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo brief"})), "brief\n");
    let id = client.begin("run", slow);
    let created = client.answer(id)["result"].clone();
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    let task = created["taskId"].clone();
    assert!(task.as_str().is_some_and(|id| id.len() == 32) && created["createdAt"].is_string(), "{created}");
    assert!(created["ttlMs"].is_u64() && created["pollIntervalMs"].is_u64());
    task_when(&mut client, &task, "working");
    fs::write(scratch.path.join("gate"), "").unwrap();
    let done = task_when(&mut client, &task, "completed");
    assert_eq!((text(&done["result"]), &done["result"]["isError"]), ("late\n", &json!(false)));
    client.text("run", json!({"session": "@work", "command": "echo mar''ker"}));
    assert_eq!(client.answer(waits)["result"]["isError"], false);
    assert_eq!(client.ask("tasks/get", json!({"taskId": "none"}))["error"]["code"], -32602);

    let wait = json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "1h"});
    let id = client.begin("wait", wait);
    let task = client.answer(id)["result"]["taskId"].clone();
    assert_eq!(client.ask("tasks/cancel", json!({"taskId": task}))["result"]["resultType"], "complete");
    task_when(&mut client, &task, "cancelled");
    eventually("the end of the call", || client.calls().is_empty());
    client.is_well();
}

#[test]
fn a_task_asks_the_user_what_its_command_asks() {
    let (_scratch, mut client) = started();
    client.shell();
    client.capabilities = json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
    let asks = |command: &str| json!({"session": "@work", "command": command, "input_after": "200ms"});
    let begin = |client: &mut Client, command| {
        let id = client.begin("run", asks(command));
        client.answer(id)["result"].clone()
    };
    let created = begin(&mut client, "read -p 'Go? ' x; read -p 'Sure? ' y; echo \"got $x $y\"");
    assert_eq!(created["status"], "input_required", "{created}");
    let task = &created["taskId"];
    for (question, key, answer) in [("Go?", "question-1", "on"), ("Sure?", "question-2", "yes")] {
        let mut told = Value::Null;
        eventually(question, || {
            told = client.ask("tasks/get", json!({"taskId": task}))["result"]["inputRequests"][key].clone();
            told["params"]["message"] == question
        });
        assert_eq!(
            (&told["method"], &told["params"]["mode"]),
            (&json!("elicitation/create"), &json!("form"))
        );
        assert_eq!(told["params"]["requestedSchema"]["required"], json!(["answer"]));
        // An answer to another question does not count.
        for key in ["question-0", key, key] {
            let answers = json!({key: {"action": "accept", "content": {"answer": answer}}});
            let told = client.ask("tasks/update", json!({"taskId": task, "inputResponses": answers}));
            assert_eq!(told["result"]["resultType"], "complete", "{told}");
        }
    }
    let done = task_when(&mut client, task, "completed");
    assert!(text(&done["result"]).ends_with("got on yes\n"), "{done}");

    // If the user does not answer, the model gets the question, as without tasks.
    let created = begin(&mut client, "read -p 'Go? ' x; echo \"got $x\"");
    let answers = json!({"question-1": {"action": "decline"}});
    client.ask("tasks/update", json!({"taskId": created["taskId"], "inputResponses": answers}));
    let declined = task_when(&mut client, &created["taskId"], "completed");
    assert!(text(&declined["result"]).contains("the tool `run` with resume=true"), "{declined}");
    client.text("send", json!({"session": "@work", "text": "on"}));
    assert_eq!(client.text("run", json!({"session": "@work", "resume": true})), "got on\n");
    // A secret does not go through a client.
    let asked = client.text("run", asks("read -s -p 'Password: ' x"));
    assert!(asked.contains("nbs-ts send --secret-stdin"), "{asked}");
    client.text("send", json!({"session": "@work", "keys": ["C-c"]}));
    client.is_well();
}

#[test]
fn send_answers_the_question_of_a_program() {
    let (_scratch, mut client) = started();
    client.text(
        "create",
        json!({"command": "read -p 'Go on? [y/N] ' x; echo \"got $x\"; read z", "name": "asks"}),
    );
    client.text("wait", json!({"sessions": ["@asks"], "waiting": true}));
    let listed = client.text("list", json!({"waiting": true}));
    assert!(listed.contains("waiting: Go on? [y/N] (y | n)"), "{listed}");
    let said = client.failure("send", json!({"session": "@asks", "answer": "yes", "keys": ["Enter"]}));
    assert!(said.contains("cannot answer and type"), "{said}");
    client.failure("send", json!({"session": "@asks", "answer": "yes", "question_id": "none"}));
    assert_eq!(client.text("send", json!({"session": "@asks", "answer": "yes"})), "answered: y\n");
    client.text("wait", json!({"sessions": ["@asks"], "pattern": ["got y"]}));
    client.is_well();
}

#[test]
fn a_session_of_a_client_is_restricted_as_it_asks() {
    let scratch = Scratch::new();
    let [inside, outside] = ["inside", "outside"].map(|name| {
        fs::create_dir(scratch.path.join(name)).unwrap();
        fs::write(scratch.path.join(name).join("file"), name).unwrap();
        scratch.path.join(name).display().to_string()
    });
    let profiles = scratch.state().join("profiles");
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join("mine"), "write-root=.\nread-root=none\nno-network\n").unwrap();
    for (name, mut options) in [
        ("roots", json!({"read_root": ["none"], "write_root": [inside], "no_network": true})),
        ("profile", json!({"profile": "mine", "cwd": inside})),
    ] {
        options["command"] = "bash".into();
        options["name"] = name.into();
        if !can_confine() {
            let said = client.failure("create", options);
            assert!(said.contains("the kernel has no Landlock"), "{said}");
            continue;
        }
        client.text("create", options);
        let session = format!("@{name}");
        let mut run = |command: &str| client.object("run", json!({"session": session, "command": command}));
        let read = run(&format!("cat {inside}/file && touch {inside}/{name}"));
        assert_eq!([&read["exit_code"], &read["output"]], [&json!(0), &json!("inside")]);
        for attack in [
            format!("cat {outside}/file"),
            format!("touch {outside}/{name}"),
            "/usr/bin/python3 -c 'import socket; socket.socket()'".into(),
        ] {
            let refused = run(&attack);
            assert_ne!(refused["exit_code"], 0, "{refused}");
            assert!(refused["output"].as_str().unwrap().contains("Permission denied"), "{refused}");
        }
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
