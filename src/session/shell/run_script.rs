//! What `run` types into a shell, and the files that the typed line loads.
//!
//! The command's text goes through a file, so it may be of any length and any
//! bytes; the one line that is typed loads it and hands it to `eval`, at the top
//! level. So what is wrong with the text is an error that bash reports, not an
//! open quote at a prompt; and the text is neither history-expanded nor seen by
//! readline.
//!
//! The script is loaded twice, before the text and after it: the text may have
//! removed functions of ours (then the rcfile is read again, without ~/.bashrc)
//! or the hooks in PROMPT_COMMAND, without which bash would not report its end.
//! It stands under the same rules as the rcfile (`startup.rs`), and besides:
//! interactive shells need not know comments, and may have aliases by now.
//!
//! `$?` is for the text what it would be had it been typed. `$_` and PIPESTATUS
//! of the `run` before are not: `eval` sets them anew.
//!
//! A text that fails would fail the `eval` too, and so count a second time for
//! `set -e` (which lets `! true` pass) and for an ERR trap. Where the user has
//! one of these, a line behind the text keeps its status from the `eval`; only
//! behind a text that bash finds complete, or it would be part of an open quote
//! or here-document; an incomplete one is kept in an `eval` of its own, in which
//! `set -e` is off; the next `run` puts it back (bash undoes a `set -e` in a
//! file that is sourced within an && list). Whether it is complete a subshell
//! finds out: an error there would end the script. Not under `set -v`, which would print that line.
//! Whether there is an ERR trap only an output of `trap` tells; it goes to a file,
//! where the shell may write to that, for a fork would be half the time of a `run`.
//!
//! The status of the text is kept in a variable as well, which the hook in
//! PROMPT_COMMAND reads: what follows the text may fail (`enable -n .`), and
//! must not have its status taken for the text's.
//!
//! In the history stands the text, by the user's own HISTCONTROL, in place of
//! the line. Only a builtin called by the line itself, or by a function, can do
//! that; in a file that is sourced, and in `eval`, bash suspends the history.

use std::{os::unix::ffi::OsStrExt, path::Path};

/// Longer ones would only be in the way of whoever looks for another.
const LONGEST_IN_HISTORY: usize = 64 * 1024;

/// The script. `last` is the number of the shell's last completion.
pub(crate) fn script(
    secret: &str,
    last: u64,
    rcfile: &Path,
    text: &Path,
    trap: &Path,
    command: &[u8],
) -> String {
    // A ^C at the prompt counts it up by one, and may not have been seen yet.
    let numbers: Vec<String> = (last..last.saturating_add(8)).map(|seq| seq.to_string()).collect();
    let history = if command.len() > LONGEST_IN_HISTORY || is_nothing(command) {
        "-p ''"
    } else {
        "-s -- \"$__nbs_line\""
    };
    SCRIPT
        .replace("@BACK@", BACK)
        .replace("@SECRET@", secret)
        .replace("@NUMBERS@", &numbers.join("|"))
        .replace("@LAST@", &last.to_string())
        .replace("@STATUS@", if is_nothing(command) { "0" } else { "\"$2\"" })
        .replace("@HISTORY@", history)
        .replace("@RCFILE@", &quoted(rcfile))
        .replace("@TEXT@", &quoted(text))
        .replace("@TRAP@", &quoted(trap))
}

const SCRIPT: &str = r#"__nbs_aliases=-u
\builtin shopt -q expand_aliases && __nbs_aliases=-s
\builtin shopt -u expand_aliases
__nbs_options=$-${__nbs_broken_e:+e}
__nbs_set=${-//[!akx]/}
if [[ $__nbs_set ]]; then \builtin set "+$__nbs_set"; fi
if ! \builtin declare -F __nbs_hook __nbs_done __nbs_prompt __nbs_report __nbs_report_folder __nbs_end ||
    [[ ${__nbs_tag-} != 'nbs=@SECRET@.' || ! ${__nbs_first-} || ! ${__nbs_last-} || ! ${__nbs_pipe-} ]] ||
    [[ ${__nbs_shell-} != $$ || ! ${__nbs_told+1} || ! ${__nbs_folder+1} ]]; then
    __nbs_again=1
    \builtin unset -v __nbs_shell
    if \builtin shopt -q interactive_comments; then
        \builtin . @RCFILE@
    else
        \builtin shopt -s interactive_comments
        \builtin . @RCFILE@
        \builtin shopt -u interactive_comments
    fi
    \builtin unset -v __nbs_again
fi
case ${__nbs_seq-} in @NUMBERS@) ;; *) __nbs_seq=@LAST@ ;; esac
[[ ${PROMPT_COMMAND-} == "$__nbs_first"* && ${PROMPT_COMMAND[@]: -1} == *"$__nbs_last" ]] || __nbs_hook
if [[ $1 != begin ]]; then
    @BACK@
    \builtin return "$2"
fi
\builtin unset -v __nbs_status __nbs_under __nbs_text __nbs_line __nbs_code __nbs_broken
__nbs_status=@STATUS@
__nbs_under=$3
\builtin mapfile -t -d '' -n 1 __nbs_text <@TEXT@
__nbs_line=${__nbs_text#*$'\n'}
case $__nbs_options in
*v*) ;;
*e*) __nbs_guard=1 ;;
*)
    if ! \builtin trap -p ERR >|@TRAP@; then
        __nbs_guard=$(\builtin trap -p ERR)
    elif [[ -s @TRAP@ ]]; then
        __nbs_guard=1
    fi
    ;;
esac
if [[ ! ${__nbs_guard-} ]]; then
    :
elif (\builtin eval "__nbs_whole() {"$'\n'"$__nbs_text"$'\n'"}"); then
    __nbs_text+=$'\n{ __nbs_leave "$?"; } >/dev/null 2>&1'
else
    __nbs_broken=$__nbs_line
    __nbs_text=${__nbs_text%%$'\n'*}$'\n\\builtin eval "$__nbs_broken" && \\builtin :; '
    __nbs_text+='{ __nbs_leave "$?"; } >/dev/null 2>&1'
fi
\builtin unset -v __nbs_guard
__nbs_leave() {
    __nbs_code=$1
    \builtin return 0
}
__nbs_enter() {
    if [[ ${__nbs_broken_e-} ]]; then \builtin set -e; fi
    \builtin unset -v __nbs_broken_e
    if [[ -o history ]]; then \builtin history @HISTORY@; fi
    \builtin return 0
}
__nbs_begin() {
    \builtin printf '\e]133;R;nbs=@SECRET@.%s\a' "$((__nbs_seq + 1))" >|/dev/tty
    \builtin unset -v __nbs_text __nbs_line
    if [[ ${__nbs_broken+1} && $- == *e* ]]; then
        __nbs_broken_e=1
        \builtin set +e
    fi
    \builtin return "$__nbs_status"
}
@BACK@
\builtin return "$2"
"#;

/// What puts back the user's own options.
const BACK: &str = r#"if [[ $__nbs_set ]]; then \builtin set "-$__nbs_set"; fi
\builtin unset -v __nbs_set __nbs_options
\builtin shopt "$__nbs_aliases" expand_aliases
\builtin unset -v __nbs_aliases"#;

/// What the file of the text holds: the text, behind a line that tells where its
/// output begins. That line is within the `eval`, so what `set -x`, `set -v` and
/// a DEBUG trap print about the `eval` itself comes before.
pub(crate) fn text(command: &[u8]) -> Vec<u8> {
    let begin = br#"{ __nbs_begin "${__nbs_under-}" && \builtin : "${__nbs_under-}"; } >/dev/null 2>&1"#;
    [begin, &b"\n"[..], command].concat()
}

/// What is typed. ^U, for something may have been typed ahead; the space before
/// it, for on an empty line it rings the bell.
///
/// The groups send to /dev/null what a DEBUG trap or `set -x` prints about them;
/// and no status of theirs sets off `set -e` or an ERR trap.
pub(crate) fn line(script: &Path) -> Vec<u8> {
    let script = quoted(script);
    format!(
        " \x15 {{ \\builtin . {script} begin \"$?\" \"${{_-}}\" && \\builtin :; __nbs_enter; }} >/dev/null 2>&1; \
         \\builtin eval \"${{__nbs_text-}}\"; \
         {{ __nbs_code=${{__nbs_code:-$?}}; \\builtin . {script} end \"$__nbs_code\" && \\builtin : ''; }} \
         >/dev/null 2>&1\r"
    )
    .into_bytes()
}

/// Blank lines and comments: commands that have no status of their own. Not for
/// bash to answer with the status of the command before.
fn is_nothing(command: &[u8]) -> bool {
    command
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .all(|line| line.is_empty() || line[0] == b'#')
}

/// As a word of bash, in ASCII: what is typed is read by a line editor.
fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if bytes.iter().all(is_plain) {
        return path.display().to_string();
    }
    let escaped = |byte: &u8| {
        if is_plain(byte) { char::from(*byte).to_string() } else { format!("\\{byte:03o}") }
    };
    format!("$'{}'", bytes.iter().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_ascii() {
        assert_eq!(quoted(Path::new("/home/a-b/.nbs-ts")), "/home/a-b/.nbs-ts");
        assert_eq!(quoted(Path::new("/a b/it's\u{e9}!")), "$'/a\\040b/it\\047s\\303\\251\\041'");
    }

    #[test]
    fn blank_lines_and_comments_are_nothing() {
        for nothing in ["", " ", "\n\n", "# x", " \t# x\n\n#y"] {
            assert!(is_nothing(nothing.as_bytes()), "{nothing:?}");
        }
        for something in ["a", "# x\na", ":", "a # x"] {
            assert!(!is_nothing(something.as_bytes()), "{something:?}");
        }
    }
}
