//! The rcfile of an interactive session.
//!
//! The rcfile makes bash report on itself in its own output, as OSC 133 marks
//! (FinalTerm's, as in iTerm2's and Per Bothner's "semantic prompts" pages)
//! that carry the session's secret and the number of the prompt:
//!
//! ```text
//! ESC ] 133 ; D ; <code> ; nbs=<secret>.<seq> BEL   a command has ended
//! ESC ] 133 ; A ; nbs=<secret>.<seq> BEL            a prompt begins
//! ESC ] 133 ; B ; nbs=<secret>.<seq> BEL            and ends: input begins
//! ESC ] 133 ; C ; nbs=<secret>.<seq> BEL            a command begins
//! ```
//!
//! `run` adds, between C and the command's output, what it alone looks for:
//!
//! ```text
//! ESC ] 133 ; R ; nbs=<secret>.<seq> BEL            its text begins
//! ```
//!
//! seq counts the prompts from 0. D, A and B of a prompt carry its number, C
//! that of the next prompt, whose D tells how the command ended. The first
//! prompt has a D too, of code 0. `marks.rs` reads all this. OSC 7 tells the
//! folder when it has changed.
//!
//! Always true of the shell: a number is printed before it is counted, so one
//! may come twice (after a `^C` in between) but none is ever left out; `$?`,
//! `$_` and `PIPESTATUS` are for the user's own PROMPT_COMMAND what they would
//! be without us; nothing forks, nothing is written to a file, nothing is
//! exported.
//!
//! What surprised us:
//!
//! - Many scripts edit `$PROMPT_COMMAND` as a string, and bash takes element 0
//!   of an array for it. So the user's first element stays in element 0,
//!   behind a line of ours, and such edits do what they would do without us.
//! - Hooks that print to /dev/null can be silent: traces and what the user's
//!   DEBUG trap prints about our commands go there with them. bash-preexec
//!   even overlooks commands whose stdout is no terminal, which it must: it
//!   would take our last hook for the user's next command.
//! - PIPESTATUS can be set, in an arithmetic expansion, where no simple
//!   command follows to reset it: in a pattern of `case`.
//! - `local -` is not for us: on leaving, bash 4.4 and 5.0 set each option
//!   anew, which switches `expand_aliases` on and the line editor's mode back.

/// The text of the rcfile. `secret` is what the marks are known by: hexadecimal
/// digits, new for each session.
pub(crate) fn rcfile(secret: &str) -> String {
    debug_assert!(secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    RCFILE.replace("@SECRET@", secret)
}

/// How many bytes at the end of a command's output are the line of PROMPT_COMMAND
/// that reports its end, which `set -v` shows; or, where more may come, may be
/// the beginning of it.
pub(crate) fn shown_hook(output: &[u8], complete: bool) -> usize {
    let (_, rest) = RCFILE.split_once("__nbs_first='").expect("it is in there");
    let line = rest.lines().next().and_then(|line| line.strip_suffix('\'')).expect("it ends there");
    let lines = ["\r\n", "\n"].map(|end| [line, end].concat().into_bytes());
    let ends_with = |part: &&[u8]| output.ends_with(part);
    let lengths = lines.iter().map(|line| match complete {
        true => Some(&line[..]).filter(ends_with).map_or(0, <[u8]>::len),
        false => (0..=line.len()).rev().find(|length| output.ends_with(&line[..*length])).unwrap_or(0),
    });
    lengths.max().unwrap_or(0)
}

/// More than [`shown_hook`] ever tells.
pub(crate) const LONGEST_SHOWN_HOOK: u64 = 256;

// How to read it:
//
// The functions are parsed before the user's ~/.bashrc, so its aliases are not
// in them; `builtin` keeps its functions out. Every name begins with `__nbs_`,
// locals too: a `local` of a name that is readonly elsewhere fails.
//
// They run under whatever `set` and `shopt` the user likes. So: nothing unset
// is expanded (-u), no command fails outside a condition (-e, ERR traps), no
// assignment is an argument (-k), nothing unquoted could be split or globbed
// (IFS, failglob), `>|` and not `>` (-C), no extglob patterns. Options which
// can not be written around, -a, -k and -x, are off inside.
//
// A and D go to /dev/tty, so `exec >file 2>&1` does not stop them. B and C go
// where bash itself puts prompts: to stderr. After `exec 2>file` they are in
// that file with the prompts themselves; there is no hook of bash after the
// prompt, nor one before a command but PS0 and the DEBUG trap, which is the
// user's.
//
// bash never tells a hook that a command begins, and a hook never learns
// whether it runs for the first time since: __nbs_told is what D has to go by.
const RCFILE: &str = r##"# The startup file of the shell of an nbs session. bash reads it in place of
# ~/.bashrc, which it reads itself; the system's own bashrc, where bash has been
# built to read one, bash has read before.
#
# Then it makes the shell mark its prompts and commands in what it prints, with
# OSC 133 sequences, which terminals do not show. From them nbs knows when a
# command has ended, with what code, and what it has printed. If something has
# removed that from PROMPT_COMMAND, __nbs_hook puts it back.

if [[ ${__nbs_shell-} != "$$" ]]; then
    __nbs_shell=$$     # sourced again, this file goes on counting
    __nbs_seq=-1       # the last D
    __nbs_told=        # 1: D is out, and A of that prompt is not
    __nbs_folder=      # as the last OSC 7 had it
    __nbs_pipe=0       # an expression that makes PIPESTATUS what it was
fi
__nbs_tag='nbs=@SECRET@.'
# What PROMPT_COMMAND begins with. Its status is that of the user's command,
# which must not set off -e or an ERR trap here: hence the &&. The pattern is
# expanded after that, never matches, and so changes PIPESTATUS and nothing else.
__nbs_first='{ case . in .) __nbs_done "$?" "${PIPESTATUS[@]}" "$_" && \builtin : "$_" ;;& "$((${__nbs_pipe-0}))") ;; esac; } >/dev/null 2>&1'
# And what it ends with.
__nbs_last='{ __nbs_prompt "$?" "$_"; } >/dev/null 2>&1'

# Puts the two into PROMPT_COMMAND, around what the user has there; does nothing
# if they are in place. Each prompt checks it, as scripts edit PROMPT_COMMAND.
__nbs_hook() {
    builtin local __nbs_set __nbs_item __nbs_all
    # PS0, which C needs, is of bash 4.4.
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)) || [[ $- != *i* ]]; then
        builtin return 0
    fi
    if [[ ${PROMPT_COMMAND+${PROMPT_COMMAND@a}} == *[rA]* ]]; then
        builtin return 0 # readonly, or no array that bash would execute
    fi
    if [[ ${PROMPT_COMMAND-} == "$__nbs_first"* && ${PROMPT_COMMAND[@]: -1} == *"$__nbs_last" ]]; then
        builtin return 0
    fi
    __nbs_set=${-//[!akx]/}
    if [[ $__nbs_set ]]; then builtin set "+$__nbs_set"; fi
    __nbs_all=()
    for __nbs_item in "${PROMPT_COMMAND[@]-}"; do
        # Without ours, a script's `x; $PROMPT_COMMAND; y` is what it meant.
        __nbs_item=${__nbs_item//"$__nbs_first"$'\n'/}
        __nbs_item=${__nbs_item//$'\n'"$__nbs_last"/}
        __nbs_item=${__nbs_item//"$__nbs_first"/:}
        __nbs_item=${__nbs_item//"$__nbs_last"/:}
        if [[ $__nbs_item == : ]]; then __nbs_item=; fi
        if [[ $__nbs_item || ${#__nbs_all[@]} == 0 ]]; then __nbs_all+=("$__nbs_item"); fi
    done
    __nbs_all[0]=$__nbs_first${__nbs_all[0]:+$'\n'${__nbs_all[0]}}
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)); then
        # Each element finds $? and PIPESTATUS as the user's command left them,
        # and one that can not be parsed does not take the others with it.
        PROMPT_COMMAND=("${__nbs_all[@]}" "$__nbs_last")
    else
        # bash executes a string, or element 0 alone.
        PROMPT_COMMAND=${__nbs_all[0]}$'\n'$__nbs_last
    fi
    if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
    builtin return 0
}

# First of all at a prompt: reports the user's command, and returns its status.
# $1 is that, the last argument is $_ (so that it is that again on return), and
# PIPESTATUS is between them. What `run` has kept counts for more than $1.
__nbs_done() {
    builtin local __nbs_set __nbs_at __nbs_comes __nbs_status
    __nbs_set=${-//[!akx]/}
    if [[ $__nbs_set ]]; then builtin set "+$__nbs_set"; fi
    __nbs_status=${__nbs_code:-$1}
    builtin unset -v __nbs_code
    __nbs_pipe=0
    for ((__nbs_at = 2; __nbs_at < $#; __nbs_at++)); do
        __nbs_pipe+=",PIPESTATUS[$((__nbs_at - 2))]=${!__nbs_at}"
    done
    # __nbs_prompt comes in this prompt, unless somebody has removed it.
    __nbs_comes=
    if [[ ${PROMPT_COMMAND[*]-} == *"$__nbs_last"* ]]; then __nbs_comes=1; else __nbs_told=; fi
    # Behind commands of others $? is theirs. An element of its own has the
    # true one, so leave it to that, if there is one.
    if [[ ! $__nbs_told ]] && { [[ ! $__nbs_comes || ${PROMPT_COMMAND-} == "$__nbs_first"* ]] ||
        ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); }; then
        __nbs_report "$__nbs_status"
        __nbs_told=$__nbs_comes
    fi
    __nbs_hook
    if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
    builtin return "$__nbs_status"
}

# Last of all at a prompt: the folder, A, and B and C for bash to print.
__nbs_prompt() {
    builtin local __nbs_set
    __nbs_set=${-//[!akx]/}
    if [[ $__nbs_set ]]; then builtin set "+$__nbs_set"; fi
    if [[ ! $__nbs_told ]]; then __nbs_report "$1"; fi
    __nbs_told=
    __nbs_hook
    if [[ ${PWD-} != "$__nbs_folder" ]]; then __nbs_report_folder; fi
    builtin printf '\e]133;A;%s%s\a' "$__nbs_tag" "$__nbs_seq" >|/dev/tty || builtin :
    # Literal text, which needs no promptvars, new at each prompt: the user may
    # have changed either. PS0 is printed as it is; in PS1 readline must know
    # what takes no room.
    __nbs_end PS1 '\[\e]133;B;'"$__nbs_tag" "$__nbs_seq" '\a\]'
    __nbs_end PS0 '\e]133;C;'"$__nbs_tag" "$((__nbs_seq + 1))" '\a'
    if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
    builtin return 0
}

# Prints D for the status $1.
__nbs_report() {
    builtin local __nbs_code
    __nbs_code=$1
    if [[ $__nbs_seq == -1 ]]; then __nbs_code=0; fi # no command was before it
    if builtin printf '\e]133;D;%s;%s%s\a' "$__nbs_code" "$__nbs_tag" "$((__nbs_seq + 1))" >|/dev/tty; then
        __nbs_seq=$((__nbs_seq + 1))
    fi
}

# Prints OSC 7, a file: URL. In the C locale a character is a byte.
__nbs_report_folder() {
    builtin local LC_ALL=C || builtin : # readonly, it fails
    builtin local __nbs_rest __nbs_url __nbs_byte
    __nbs_rest=${HOSTNAME-}${PWD-}
    __nbs_url=
    while [[ $__nbs_rest ]]; do
        __nbs_byte=${__nbs_rest%%[!a-zA-Z0-9/._~-]*}
        __nbs_url+=$__nbs_byte
        __nbs_rest=${__nbs_rest:${#__nbs_byte}}
        if [[ $__nbs_rest ]]; then
            # The number is negative, or high, for bytes from 128 in some libcs.
            builtin printf -v __nbs_byte %d "'$__nbs_rest"
            builtin printf -v __nbs_byte '%%%02X' "$((__nbs_byte & 255))"
            __nbs_url+=$__nbs_byte
            __nbs_rest=${__nbs_rest:1}
        fi
    done
    if builtin printf '\e]7;file://%s\a' "$__nbs_url" >|/dev/tty; then __nbs_folder=${PWD-}; fi
}

# Makes the variable $1 end in the mark $2$3$4, which it then has only once: an
# older one may be anywhere in it (PS1="$PS1 ", or a PS1 kept for later).
__nbs_end() {
    builtin local __nbs_text __nbs_tail
    builtin declare -g +i "$1" || builtin : # as a number it would fail each prompt, for ever
    __nbs_text=${!1-}
    while [[ $__nbs_text == *"$2"*"$4"* ]]; do
        __nbs_tail=${__nbs_text#*"$2"}
        __nbs_text=${__nbs_text%%"$2"*}${__nbs_tail#*"$4"}
    done
    # printf, for a readonly variable fails it, where an assignment would stop us.
    builtin printf -v "$1" %s "$__nbs_text$2$3$4" || builtin :
}

# One line, for bash has read it before ~/.bashrc can say `set -v`; and a status
# of ~/.bashrc is none that its own `set -e` may end the shell for. Sourced again
# (by `run`, where something has removed a function), it is not about ~/.bashrc.
[[ ${__nbs_again-} || ! -r ~/.bashrc ]] || . ~/.bashrc || builtin :; { __nbs_hook ''; } >/dev/null 2>&1
"##;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn bash_can_parse_the_rcfile() {
        let mut bash = Command::new("bash");
        // It would complain of a locale that this machine does not have.
        let bash = bash.arg("-n").env("LC_ALL", "C").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut bash = bash.spawn().unwrap();
        let text = rcfile(SECRET);
        bash.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ran = bash.wait_with_output().unwrap();
        assert!(ran.status.success());
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    }

    #[test]
    fn the_rcfile_carries_the_secret_once_and_is_plain_text() {
        let text = rcfile(SECRET);
        assert_eq!(text.matches(SECRET).count(), 1);
        assert!(!text.contains("@SECRET@"));
        assert!(text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')));
        assert!(text.starts_with("# The startup file of the shell of an nbs session"));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn the_line_that_set_v_shows_is_known_from_its_beginning_on() {
        let text = rcfile(SECRET);
        let line = text.lines().find_map(|line| line.strip_prefix("__nbs_first='")).unwrap();
        let line = line.trim_end_matches('\'');
        for (output, complete, length) in [
            (format!("a\n{line}\r\n"), true, line.len() + 2),
            (format!("a{line}\n"), true, line.len() + 1),
            (format!("a{line}"), true, 0),
            (format!("a{line}"), false, line.len()),
            ("a { cas".into(), true, 0),
            ("a { cas".into(), false, 5),
            ("a".into(), false, 0),
            (String::new(), false, 0),
        ] {
            assert_eq!(shown_hook(output.as_bytes(), complete), length, "{output:?}");
        }
        assert!((line.len() as u64) + 2 <= LONGEST_SHOWN_HOOK);
    }

    #[test]
    fn every_name_in_the_rcfile_is_our_own() {
        let text = rcfile(SECRET);
        let functions = text.lines().filter_map(|line| line.strip_suffix("() {"));
        let locals = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("builtin local "))
            .filter_map(|names| names.split(" || ").next())
            .flat_map(|names| names.split(' '));
        let mut seen = 0;
        // LC_ALL is not a name but a meaning, and local to its function.
        for name in functions.chain(locals).filter(|&name| name != "LC_ALL=C") {
            assert!(name.starts_with("__nbs_"), "{name}");
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }
}
