//! The startup files of users.

use super::*;

#[test]
fn hooks_and_settings_of_the_users_do_no_harm() {
    let scratch = Scratch::new();
    for (shell, text) in [
        // As oh-my-zsh has them.
        (
            "zsh",
            "autoload -Uz add-zsh-hook; pre() { local x=$?; true }\nadd-zsh-hook precmd pre\n\
             add-zsh-hook preexec pre\nsetopt prompt_subst\nPROMPT='%~ $(echo main)> '\nRPROMPT='%?'",
        ),
        // As starship has.
        ("zsh", "draw() { PROMPT=\"$?> \" }\nprecmd_functions+=(draw)\npreexec_functions+=(draw)"),
        ("fish", "function fish_prompt; set -l s $status; echo -n \"$s> \"; end\nfish_vi_key_bindings"),
        (
            "fish",
            "function s --on-event fish_prompt; function fish_prompt; echo -n 's> '; end; end\n\
             function fish_right_prompt; echo R; end",
        ),
        ("bash", "p() { PS1=\"$?> \"; }\nPROMPT_COMMAND=p"),
        ("zsh", "set -u"),
        ("zsh", "setopt ksh_arrays sh_word_split extended_glob no_prompt_cr verbose"),
        ("zsh", "bindkey -v; alias builtin=false printf=false; printf() { true }"),
        ("zsh", "unsetopt zle"),
        ("zsh", "exec 2>/dev/null"),
        ("zsh", "typeset -r PROMPT='> '"),
        ("zsh", "bindkey -s '\\e[25;8~' x"),
        ("zsh", "precmd() { bindkey -r '\\e[25;8~' }"),
        ("fish", "exec 2>/dev/null"),
        ("fish", "bind \\e'[25;9~' 'echo x'"),
        ("fish", "function printf; end; function commandline; end"),
        ("fish", "stty -echo"),
        ("dash", "set -u; PS1='$(echo main) $PWD> '"),
        ("dash", "stty -echo"),
        ("busybox ash", "stty -echo"),
        ("busybox ash", "exec 2>/dev/null"),
        ("ksh93", "stty -echo"),
        ("mksh", "set -u; PS1='one\ntwo> '"),
    ] {
        let handle = with_startup_file(&scratch, shell, text);
        for _ in 0..2 {
            let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
            run("echo hi").code(0).stdout("hi\n");
            run("sh -c 'exit 7'").code(7).stdout("");
        }
        scratch.ts(&["kill", &handle]).code(0);
    }
}

#[test]
fn a_shell_reports_although_its_startup_file_was_interrupted() {
    let scratch = Scratch::new();
    let posix = "PS1='mine> '\nPROMPT_COMMAND=:\necho begun; env sleep 1000\nlate=yes\n";
    let fish = "echo begun; env sleep 1000\nset -g late yes\n";
    let all = ["bash", "bash -l", "bash --posix", "zsh", "fish", "dash", "busybox ash", "ksh93", "mksh"];
    let interrupt = |handle: &str| {
        scratch.ts(&["wait", "--pattern=begun", handle]).code(0);
        // Before it is itself, a shell may lose the signal.
        eventually("sleep", || scratch.processes().iter().any(|process| process.ends_with(": sleep 1000 ")));
        scratch.ts(&["run", "--no-input", "--timeout=0.1", handle, "echo never"]).code(124);
        scratch.ts(&["key", handle, "C-c"]).code(0);
        scratch.ts(&["wait", "--input", handle]).code(0).stdout(format!("{handle}\tinput\tprompt\n"));
    };
    for shell in all {
        let handle = with_startup_file(&scratch, shell, if shell == "fish" { fish } else { posix });
        interrupt(&handle);
        let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
        run("echo \"<$late>\"").code(0).stdout("<>\n").silent();
        run("sh -c 'exit 7'").code(7).stdout("");
        // The protection from the interrupt is gone.
        assert_eq!(run("trap").out(), "", "{shell}");
        run("echo 'a").code(2).stdout("").complains("is incomplete");
        run("echo on").code(0).stdout("on\n").silent();
        scratch.ts(&["kill", &handle]).code(0);
    }
    // zsh reads this one while it reads ours; and its next one all the same.
    fs::write(scratch.home().join(".zshenv"), posix).unwrap();
    fs::write(scratch.home().join(".zshrc"), "PS1='mine> '").unwrap();
    let handle = scratch.create("zsh");
    interrupt(&handle);
    scratch.ts(&["run", "--timeout=60", &handle, "echo hi"]).code(0).stdout("hi\n").silent();
}

#[test]
fn a_trap_of_the_startup_file_stays() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "busybox ash", "ksh93"] {
        let handle = with_startup_file(&scratch, shell, "trap 'echo mine' INT");
        let traps = scratch.ts(&["run", "--timeout=60", &handle, "trap"]).code(0).out();
        assert!(traps.contains("echo mine") && !traps.contains("nbs"), "{shell}: {traps}");
        scratch.ts(&["kill", &handle]).code(0);
    }
}

#[test]
fn a_shell_reads_the_startup_files_that_it_reads_by_itself() {
    let scratch = Scratch::new();
    let home = scratch.home();
    for file in [".mkshrc", ".kshrc", ".shrc", ".bashrc"] {
        fs::write(home.join(file), format!("seen=\"$seen {file}\"\n")).unwrap();
    }
    let theirs = format!("{}/.shrc", home.display());
    // On Debian, bash reads another file, which sets the prompt.
    let prompt = "echo \"@${PS1%%'\\['*}@\"";
    let files = "echo \"@${seen-}, ${ENV-unset}@\"";
    for (shell, question) in [
        ("dash", files),
        ("busybox ash", files),
        ("mksh", files),
        ("lksh", files),
        ("ksh93", files),
        ("bash --posix", files),
        ("bash --norc", files),
        ("bash --norc", prompt),
        ("bash --noprofile --norc -l", prompt),
    ] {
        for env in [None, Some(""), Some(&*theirs)] {
            let mut own = scratch.command("script");
            own.args(["-qec", &format!("{shell} -i"), "/dev/null"]);
            let mut options = Vec::new();
            if let Some(env) = env {
                own.env("ENV", env);
                options.push(format!("--env=ENV={env}"));
            }
            let input = scratch.path.join("input");
            fs::write(&input, format!("{question}; exit\n")).unwrap();
            let by_hand = crate::support::run(own.stdin(fs::File::open(input).unwrap())).out();
            // It is behind the echo of the question, and maybe behind a prompt.
            let answer = by_hand.rsplit('@').nth(1).unwrap();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let handle = scratch.create_with(&options, shell);
            let ran = scratch.ts(&["run", "--timeout=60", &handle, question]).code(0).silent();
            assert_eq!(ran.out(), format!("@{answer}@\n"), "{shell} {env:?}: {by_hand}");
            scratch.ts(&["kill", &handle]).code(0);
        }
    }
}
