use std::fs;

use crate::support::{Scratch, eventually, run};

/// Each agent, and its file below HOME.
const AGENTS: [(&str, &str); 7] = [
    ("claude", ".claude/settings.json"),
    ("codex", ".codex/hooks.json"),
    ("copilot", ".copilot/hooks/nbs.json"),
    ("cursor", ".cursor/hooks.json"),
    ("gemini", ".gemini/settings.json"),
    ("opencode", ".config/opencode/plugin/nbs.js"),
    ("qwen", ".qwen/settings.json"),
];

#[test]
fn hooks_are_installed_once_and_removed_without_a_trace() {
    let scratch = Scratch::new();
    for (agent, file) in AGENTS {
        let path = scratch.home().join(file);
        let shown = scratch.ts(&["hooks", "show", agent]).code(0).silent().out();
        assert!(shown.starts_with(&format!("{}: not installed\n", path.display())), "{shown}");
        assert!(shown.contains("nbs-ts report --quiet"), "{shown}");
        assert!(!path.exists());
        let told = scratch.ts(&["hooks", "install", agent]).code(0).silent().out();
        assert_eq!(told.contains("Trust all"), agent == "codex", "{told}");
        let installed = fs::read_to_string(&path).unwrap();
        scratch.ts(&["hooks", "install", agent]).code(0).stdout_has("installed already");
        assert_eq!(fs::read_to_string(&path).unwrap(), installed);
        let json = scratch.ts(&["hooks", "remove", "--json", agent]).code(0);
        assert_eq!((json.field("installed"), json.field("changed")), ("false".into(), "true".into()));
        assert!(!path.exists(), "{agent}");
        scratch.ts(&["hooks", "remove", agent]).code(0).stdout_has("not installed");
    }
}

#[test]
fn hooks_keep_other_settings_their_order_mode_and_place() {
    let scratch = Scratch::new();
    let mine = "{\n  // mine\n  \"zeta\": 1,\n  \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say\"}]}]},\n  \"alpha\": []\n}\n";
    let (dotfiles, config) = (scratch.path.join("dotfiles.json"), scratch.path.join("config"));
    fs::write(&dotfiles, mine).unwrap();
    fs::create_dir(&config).unwrap();
    std::os::unix::fs::symlink(&dotfiles, config.join("settings.json")).unwrap();
    let hooks = |action: &str| {
        let mut command = scratch.command("nbs-ts");
        run(command.args(["hooks", action, "claude"]).env("CLAUDE_CONFIG_DIR", &config)).code(0).silent();
        fs::read_to_string(&dotfiles).unwrap()
    };
    let installed = hooks("install");
    let kept = |part: &str| installed.find(part).unwrap_or_else(|| panic!("no {part} in {installed}"));
    assert!(kept("// mine") < kept("zeta") && kept("\"say\"") < kept("alpha"));
    assert!(fs::symlink_metadata(config.join("settings.json")).unwrap().is_symlink());
    assert_eq!(hooks("remove"), mine);
    fs::write(&dotfiles, "{\"hooks\": 5}").unwrap();
    let mut command = scratch.command("nbs-ts");
    let refused = run(command.args(["hooks", "install", "claude"]).env("CLAUDE_CONFIG_DIR", &config));
    refused.code(1).complains("cannot change");
    assert_eq!(fs::read_to_string(&dotfiles).unwrap(), "{\"hooks\": 5}");
}

#[test]
fn the_installed_commands_report_in_a_session_and_do_nothing_outside_of_one() {
    let scratch = Scratch::new();
    scratch.ts(&["hooks", "install", "claude"]).code(0);
    let settings = fs::read_to_string(scratch.home().join(".claude/settings.json")).unwrap();
    let commands: Vec<String> = settings
        .split("\"command\": \"")
        .skip(1)
        .map(|rest| rest.split("\"}").next().unwrap().replace("\\\"", "\""))
        .collect();
    assert_eq!(commands.len(), 3);
    fs::write(scratch.path.join("hook.json"), "{\"tool_name\": \"Bash\", \"tool_input\": {}}").unwrap();
    let session = scratch.create("exec sleep 1000");
    for (command, state, text) in commands
        .iter()
        .zip(["working", "waiting", "done"])
        .zip(["", "use Bash?", ""])
        .map(|((a, b), c)| (a, b, c))
    {
        let mut call = scratch.command("sh");
        call.args(["-c", &format!("{{ {command}; }} <hook.json")]).env("NBS_TS_SESSION", &session);
        run(&mut call).code(0).stdout("").silent();
        let status = scratch.ts(&["status", "--json", &session]).code(0).out();
        let expected = format!("\"report\":{{\"state\":\"{state}\",\"text\":\"{text}\",");
        assert!(status.contains(&expected), "{command}: {status}");
        // Outside of a session, in one that has gone, and where there is no nbs.
        run(scratch.command("sh").args(["-c", command])).code(0).stdout("").silent();
        for environment in [("NBS_TS_SESSION", "0badcafe"), ("PATH", "/nowhere")] {
            let mut call = scratch.command("/bin/sh");
            call.args(["-c", command]).env("NBS_TS_SESSION", &session).env(environment.0, environment.1);
            run(&mut call).code(0).stdout("").silent();
        }
    }
    eventually("all of it being read", || scratch.ts(&["list", "--long"]).code(0).out().contains("done"));
}

#[test]
fn hooks_of_nobody_are_refused() {
    let scratch = Scratch::new();
    scratch.ts(&["hooks"]).code(4).complains("install, remove, show");
    scratch
        .ts(&["hooks", "install", "vim"])
        .code(4)
        .complains("claude, codex, copilot, cursor, gemini, opencode, qwen");
    scratch.ts(&["hooks", "install", "claude", "qwen"]).code(4);
}
