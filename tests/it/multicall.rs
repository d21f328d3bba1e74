use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
};

use crate::support::{Scratch, binary, copy_of_binary, executable, run};

fn nbs(arguments: &[&str]) -> crate::support::Ran {
    run(Command::new(binary()).args(arguments))
}

#[test]
fn alone_it_lists_the_applets() {
    nbs(&[]).code(0).silent().stdout_has("\n  ts ").stdout_has("create and control terminal sessions");
    nbs(&["--help"]).code(0).stdout_has("--install");
}

#[test]
fn version_prints_version_commit_and_target() {
    let version = nbs(&["--version"]).code(0).silent().out();
    assert!(version.starts_with(concat!("nbs ", env!("CARGO_PKG_VERSION"), " (")), "{version}");
    assert_eq!(version.split_whitespace().count(), 4, "{version}");
    let scratch = Scratch::new();
    for name in nbs(&["--list"]).out().lines() {
        let link = scratch.path.join(name);
        symlink(binary(), &link).unwrap();
        run(scratch.command(&link).arg("--version")).code(0).silent().stdout(&version);
        nbs(&[name, "-V"]).code(0).silent().stdout(&version);
    }
}

/// The roles in which the file starts itself.
const ROLES: [&str; 9] = [
    "nbs-relay",
    "nbs-child",
    "nbs-starter",
    "nbs-call",
    "nbs-bridge",
    "nbs-far",
    "nbs-monitor",
    "nbs-screen",
    "nbs-viewer",
];

#[test]
fn list_prints_one_link_name_per_line() {
    let listed = nbs(&["--list"]).code(0).silent().out();
    assert!(listed.lines().any(|line| line == "nbs-ts"), "{listed}");
    assert!(listed.lines().all(|line| line.starts_with("nbs-")), "{listed}");
    for internal in ROLES {
        assert!(!listed.contains(internal), "{listed}");
    }
}

#[test]
fn an_unknown_name_is_told_with_what_there_is() {
    nbs(&["frobnicate"]).code(4).stdout("").complains("nbs has no applet 'frobnicate'; try one of: nbs-");
    nbs(&["--frobnicate"]).code(4).complains("--frobnicate");
    let scratch = Scratch::new();
    for name in ["frobnicate", "busybox", "\u{1b}[31m"] {
        let link = scratch.path.join(name);
        symlink(binary(), &link).unwrap();
        run(&mut Command::new(&link)).code(4).complains("nbs-ts");
    }
}

#[test]
fn a_name_that_begins_with_nbs_and_is_no_links_is_nbs() {
    let scratch = Scratch::new();
    for name in ["nbs-x86_64", "nbs-0.3.0", "nbs-aarch64", "nbs2", "nbs-frobnicate"] {
        let link = scratch.path.join(name);
        symlink(binary(), &link).unwrap();
        let call = |arguments: &[&str]| run(scratch.command(&link).args(arguments));
        call(&["ts", "list"]).code(0).stdout("").silent();
        call(&["nbs-ts", "find", "nobody"]).code(2).stdout("").complains("nbs-ts: ");
        call(&["--list"]).code(0).stdout_has("nbs-ts\n").silent();
        call(&["ts", "--version"]).code(0).stdout_has("nbs ").silent();
        call(&["frobnicate"])
            .code(4)
            .stdout("")
            .complains("nbs: nbs has no applet 'frobnicate'; try one of: ");
    }
}

#[test]
fn only_the_last_component_of_the_name_counts() {
    let scratch = Scratch::new();
    let folder = scratch.path.join("a/nbs-frobnicate/b");
    fs::create_dir_all(&folder).unwrap();
    symlink(binary(), folder.join("nbs-ts")).unwrap();
    let mut command = scratch.command(folder.join("nbs-ts"));
    run(command.arg("list")).code(0).stdout("").silent();
}

#[test]
fn the_internal_roles_refuse_to_run_by_hand() {
    let scratch = Scratch::new();
    for role in ROLES {
        let link = scratch.path.join(role);
        symlink(binary(), &link).unwrap();
        let monitors = &["a-0123abcd", "/tmp", "15000", "600000"];
        for arguments in [&[][..], &["0123abcd", "/tmp", "22", "80x24"], &["22", "true"], monitors] {
            run(scratch.command(&link).args(arguments)).code(4).complains("internal role");
        }
    }
    nbs(&["relay"]).code(4).complains("no applet");
}

#[test]
fn install_makes_links_that_work() {
    let scratch = Scratch::new();
    for kind in ["--symlink", "--hard"] {
        let folder = scratch.path.join(kind);
        fs::create_dir(&folder).unwrap();
        let binary = scratch.path.join("nbs");
        if !binary.exists() {
            copy_of_binary(&binary);
        }
        run(scratch.command(&binary).args(["--install", kind]).arg(&folder)).code(0).silent().stdout("");
        assert_eq!(fs::symlink_metadata(folder.join("nbs-ts")).unwrap().is_symlink(), kind == "--symlink");
        run(scratch.command(folder.join("nbs-ts")).arg("list")).code(0);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), nbs(&["--list"]).out().lines().count());
    }
}

#[test]
fn install_needs_no_proc_where_it_is_called_by_its_path() {
    let scratch = Scratch::new();
    copy_of_binary(&scratch.path.join("nbs"));
    let install = |called_as: &str, folder: &str| {
        let folder = scratch.path.join(folder);
        fs::create_dir(&folder).unwrap();
        let script = "mount -t tmpfs none /proc; PATH=.; exec \"$0\" --install \"$1\"";
        let mut command = scratch.command("unshare");
        run(command.args(["-Ur", "--mount", "bash", "-c", script, called_as]).arg(folder))
    };
    for (called_as, folder) in [("./nbs", "by-path"), ("by-path/../nbs", "by-another")] {
        install(called_as, folder).code(0).silent();
        let link = scratch.path.join(folder).join("nbs-ts");
        assert_eq!(fs::read_link(&link).unwrap(), scratch.path.join("nbs"));
        run(scratch.command(link).arg("list")).code(0).silent();
    }
    install("nbs", "by-name").code(1).complains("try calling it by its path");
}

#[test]
fn install_replaces_nothing_unless_forced() {
    let scratch = Scratch::new();
    let taken = scratch.path.join("nbs-ts");
    fs::write(&taken, "mine").unwrap();
    let install =
        |options: &[&str]| run(scratch.command(binary()).arg("--install").args(options).arg(&scratch.path));
    install(&[]).code(1).complains("nbs-ts");
    assert_eq!(fs::read(&taken).unwrap(), b"mine");
    let made = fs::read_dir(&scratch.path)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("nbs-"));
    assert_eq!(made.count(), 1, "all or nothing");
    install(&["--force"]).code(0).silent();
    assert!(fs::symlink_metadata(&taken).unwrap().is_symlink());
    install(&["--force"]).code(0).silent();
}

#[test]
fn install_leaves_the_links_that_are_right_already() {
    let scratch = Scratch::new();
    let nbs = scratch.path.join("nbs");
    copy_of_binary(&nbs);
    let install = |options: &[&str]| run(scratch.command(&nbs).arg("--install").args(options).arg("."));
    let first = scratch.path.join("nbs-ts");
    for (kind, others) in [("--symlink", "--hard"), ("--hard", "--symlink")] {
        install(&[kind, "--force"]).code(0).silent();
        let inode = fs::symlink_metadata(&first).unwrap().ino();
        // A missing link is made, beside the existing ones.
        fs::remove_file(scratch.path.join("nbs-ts-helper")).unwrap();
        install(&[kind]).code(0).silent();
        install(&[others]).code(0).silent();
        assert_eq!(fs::symlink_metadata(&first).unwrap().ino(), inode);
        run(scratch.command(scratch.path.join("nbs-ts-helper")).arg("--help")).code(0);
    }
    // Another copy of the same bytes is another file.
    fs::remove_file(&first).unwrap();
    copy_of_binary(&first);
    install(&[]).code(1).complains("--force replaces it");
    fs::remove_file(&first).unwrap();
    symlink("no/such/file", &first).unwrap();
    install(&[]).code(1).complains("--force");
}

#[test]
fn install_says_what_is_wrong_with_its_arguments() {
    let scratch = Scratch::new();
    nbs(&["--install"]).code(4).complains("missing DIR");
    nbs(&["--install", "--hard", "--symlink", "/tmp"]).code(4).complains("cannot use --");
    nbs(&["--install", "a", "b"]).code(4).complains("b");
    run(scratch.command(binary()).args(["--install", "no/such/folder"]))
        .code(1)
        .complains("cannot make links in 'no/such/folder': there is no such directory");
    let folder = scratch.path.join("nbs-ts");
    fs::create_dir(&folder).unwrap();
    run(scratch.command(binary()).args(["--install", "--force", "."])).code(1).complains("nbs-ts");
}

#[test]
fn install_puts_all_that_a_package_has_below_a_prefix() {
    let scratch = Scratch::new();
    copy_of_binary(&scratch.path.join("nbs"));
    let install = |words: &[&str]| {
        let mut command = scratch.command(scratch.path.join("nbs"));
        run(command.args(["--install", "--prefix=a/b"]).args(words))
    };
    let prefix = scratch.path.join("a/b");
    install(&[]).code(0).silent().stdout("");
    for name in nbs(&["--list"]).out().lines().chain(["nbs"]) {
        let text = |path: String| fs::read_to_string(prefix.join(path)).unwrap();
        nbs(&["--man", name]).code(0).stdout(text(format!("share/man/man1/{name}.1")));
        let bash = text(format!("share/bash-completion/completions/{name}"));
        nbs(&["--completions", "bash"]).code(0).stdout(bash);
        let fish = text(format!("share/fish/vendor_completions.d/{name}.fish"));
        nbs(&["--completions", "fish"]).code(0).stdout(fish);
    }
    let zsh = prefix.join("share/zsh/site-functions/_nbs");
    nbs(&["--completions", "zsh"]).code(0).stdout(fs::read(&zsh).unwrap());
    let mode = |path: &str| fs::metadata(prefix.join(path)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("bin/nbs"), mode("share/zsh/site-functions/_nbs"), mode("share")),
        (0o755, 0o644, 0o755)
    );

    // Moved as a whole, it still works.
    assert_eq!(fs::read_link(prefix.join("bin/nbs-ts")).unwrap().to_str(), Some("nbs"));
    fs::rename(&prefix, scratch.path.join("moved")).unwrap();
    run(scratch.command(scratch.path.join("moved/bin/nbs-ts")).arg("list")).code(0).silent();
    fs::rename(scratch.path.join("moved"), &prefix).unwrap();

    // Correct files stay; others are replaced on demand only, and nothing before.
    let inode = fs::metadata(&zsh).unwrap().ino();
    let page = prefix.join("share/man/man1/nbs-ts.1");
    fs::write(&page, "mine").unwrap();
    fs::remove_file(prefix.join("bin/nbs-ts")).unwrap();
    install(&[])
        .code(1)
        .complains("a/b/share/man/man1/nbs-ts.1': entity already exists; --force replaces it");
    assert!(!prefix.join("bin/nbs-ts").exists() && fs::read(&page).unwrap() == b"mine");
    install(&["--force", "--hard"]).code(0).silent();
    assert_ne!(fs::read(&page).unwrap(), b"mine");
    assert_eq!(fs::metadata(&zsh).unwrap().ino(), inode);
    assert_eq!(
        fs::metadata(prefix.join("bin/nbs-ts")).unwrap().ino(),
        fs::metadata(prefix.join("bin/nbs")).unwrap().ino()
    );
    install(&["."]).code(4).complains("cannot use --");
    nbs(&["--install", "--prefix="]).code(4).complains("--prefix is empty");
}

#[test]
fn install_mends_what_not_everybody_may_use() {
    let scratch = Scratch::new();
    copy_of_binary(&scratch.path.join("nbs"));
    let install = |options: &[&str]| {
        let mut command = scratch.command(scratch.path.join("nbs"));
        run(command.args(["--install", "--prefix=p"]).args(options))
    };
    install(&[]).code(0).silent();
    let (nbs, page) = (scratch.path.join("p/bin/nbs"), scratch.path.join("p/share/man/man1/nbs.1"));
    let facts = |path| fs::metadata(path).map(|file| (file.ino(), file.mode() & 0o7777)).unwrap();
    let (program, text) = (facts(&nbs), facts(&page));
    for path in [&nbs, &page] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    install(&[]).code(0).silent();
    assert_eq!((facts(&nbs), facts(&page)), (program, text));
    // Wider permissions are kept: there is a reason for them.
    fs::set_permissions(&nbs, fs::Permissions::from_mode(0o775)).unwrap();
    install(&[]).code(0).silent();
    assert_eq!(facts(&nbs), (program.0, 0o775));

    // A link's target is not changed.
    let mine = scratch.path.join("mine");
    fs::copy(&page, &mine).unwrap();
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&page).unwrap();
    symlink(&mine, &page).unwrap();
    install(&[]).code(1).complains("nbs.1': entity already exists; --force replaces it");
    install(&["--force"]).code(0).silent();
    assert_eq!((facts(&mine).1, facts(&page).1), (0o600, 0o644));
}

#[test]
fn install_finds_what_is_in_the_way_before_it_makes_anything() {
    let scratch = Scratch::new();
    copy_of_binary(&scratch.path.join("nbs"));
    let install = |options: &[&str]| {
        let mut command = scratch.command(scratch.path.join("nbs"));
        run(command.args(["--install", "--prefix=p"]).args(options))
    };
    // Obstacles that not even --force replaces.
    for folder in ["bin/nbs", "bin/nbs-ts", "share/man/man1/nbs-ts.1"] {
        fs::create_dir_all(scratch.path.join("p").join(folder)).unwrap();
        for options in [&[][..], &["--force"]] {
            let complaint = install(options).code(1).err();
            assert!(complaint.contains(&format!("p/{folder}': ")), "{complaint}");
            assert!(complaint.to_lowercase().contains("is a directory"), "{complaint}");
            run(scratch.command("find").args(["p", "!", "-type", "d"])).code(0).stdout("");
        }
        fs::remove_dir_all(scratch.path.join("p")).unwrap();
    }
    for file in ["p", "p/share", "p/share/fish"] {
        fs::create_dir_all(scratch.path.join(file).parent().unwrap()).unwrap();
        fs::write(scratch.path.join(file), "mine").unwrap();
        install(&["--force"]).code(1).complains("Not a directory");
        run(scratch.command("find").args(["p", "!", "-type", "d"])).code(0).stdout(format!("{file}\n"));
        fs::remove_file(scratch.path.join(file)).unwrap();
    }
    // A file that would block its reader.
    run(scratch.command("mkdir").arg("-p").arg("p/bin")).code(0);
    run(scratch.command("mkfifo").arg("p/bin/nbs")).code(0);
    install(&[]).code(1).complains("p/bin/nbs': entity already exists; --force replaces it");
    install(&["--force"]).code(0).silent();
}

/// The file under test, as if for another architecture.
fn for_another_architecture() -> (&'static str, Vec<u8>) {
    let (name, number) = if cfg!(target_arch = "x86_64") { ("aarch64", 183) } else { ("x86_64", 62) };
    let mut program = fs::read(binary()).unwrap();
    program[18] = number;
    (name, program)
}

#[test]
fn install_tells_a_wrong_or_incomplete_file() {
    let scratch = Scratch::new();
    let ours = std::env::consts::ARCH;
    let (other, theirs) = for_another_architecture();
    copy_of_binary(&scratch.path.join("nbs"));
    let install = || run(scratch.command(scratch.path.join("nbs")).args(["--install", "--prefix=p"]));

    // Beside us, for another machine.
    let beside = scratch.path.join(format!("nbs-{other}"));
    let name = format!("nbs-{other}");
    fs::copy(binary(), &beside).unwrap();
    install().code(1).complains(&format!("{name}': it is a program for {ours}"));
    fs::write(&beside, "#!/bin/sh\n").unwrap();
    install().code(1).complains(&format!("{name}': it is not a program"));
    fs::remove_file(&beside).unwrap();
    symlink(&beside, &beside).unwrap();
    install().code(1).complains(&format!("{name}': it cannot be read: "));
    fs::remove_file(&beside).unwrap();
    for length in [5, 30, 100, theirs.len() - 1] {
        fs::write(&beside, &theirs[..length]).unwrap();
        install().code(1).complains(&format!("{name}': it is an incomplete copy of a program for "));
    }
    assert!(!scratch.path.join("p").exists());
    fs::write(&beside, &theirs).unwrap();
    install().code(0).silent();
    assert_eq!(fs::read(scratch.path.join("p/bin").join(&name)).unwrap(), theirs);

    // In our place.
    for (content, what) in [(&theirs[..], "a program"), (&theirs[..9999], "an incomplete copy of a program")]
    {
        fs::write(scratch.path.join("p/bin/nbs"), content).unwrap();
        install().code(1).complains(&format!("({what} for {other}"));
    }
    fs::write(scratch.path.join("nbs-ts"), &theirs).unwrap();
    let links = || run(scratch.command(scratch.path.join("nbs")).args(["--install", "."]));
    links().code(1).complains(&format!("already exists (a program for {other}); --force replaces it"));

    // Our own file, without a part that it can run without.
    let whole = fs::read(binary()).unwrap();
    executable(&scratch.path.join("nbs"), &whole[..whole.len() - 1]);
    links().code(1).complains(&format!("it is an incomplete copy of a program for {ours}"));
}
