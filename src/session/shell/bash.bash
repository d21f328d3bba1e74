# shellcheck shell=bash
# PROMPT_COMMAND is a string or an array, what is quoted singly is for later, and __nbs_own_PS1
# and its like are set by a name that is put together.
# shellcheck disable=SC2016,SC2053,SC2154,SC2178

# The startup file of the bash of an nbs session. It reads the user's own, and then
# makes the shell mark its prompts and commands in what it prints, with OSC 133
# sequences, which terminals do not show. From them nbs knows when a command has
# ended, with what code, and what it has printed. If something has removed that from
# PROMPT_COMMAND, __nbs_hook puts it back.

if [[ ! ${__nbs_again-} ]]; then builtin trap : INT; @MODE@; fi
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
__nbs_last='{ __nbs_prompt "$?" "$_"; } 3>&2 >/dev/null 2>&1'

# Puts the two into PROMPT_COMMAND, around what the user has there; does nothing
# if they are in place. Each prompt checks it, as scripts edit PROMPT_COMMAND.
__nbs_hook() {
    # As it was left, mostly.
    if [[ ${__nbs_hooked-} && "${PROMPT_COMMAND[*]-}" == "$__nbs_hooked" ]]; then builtin return 0; fi
    builtin local __nbs_set __nbs_item __nbs_all __nbs_end_at
    # PS0, which C needs, is of bash 4.4.
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)) || [[ $- != *i* ]]; then
        builtin return 0
    fi
    # Under nocasematch a pattern would find an a for an A, but not where it takes a prefix away.
    __nbs_set=${PROMPT_COMMAND+${PROMPT_COMMAND@a}}
    if [[ ${__nbs_set#*[rA]} != "$__nbs_set" ]]; then
        builtin return 0 # readonly, or no array that bash would execute
    fi
    __nbs_end_at=0
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)); then
        builtin : # bash executes a string, or element 0 alone
    elif [[ ${PROMPT_COMMAND-} == "$__nbs_first"* ]]; then
        __nbs_end_at=$((${#PROMPT_COMMAND[@]} - 1))
    fi
    if [[ ${PROMPT_COMMAND-} == "$__nbs_first"* && "${PROMPT_COMMAND[__nbs_end_at]}" == *"$__nbs_last" ]]; then
        __nbs_hooked="${PROMPT_COMMAND[*]}"
        __nbs_bare=
        if ((__nbs_end_at > 0)) && [[ $__nbs_hooked == "$__nbs_first"?"$__nbs_last" ]]; then
            __nbs_bare=$__nbs_hooked
        fi
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
        PROMPT_COMMAND=${__nbs_all[0]}$'\n'$__nbs_last
    fi
    if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
    builtin return 0
}

# First of all at a prompt: reports the user's command, and returns its status.
# $1 is that, the last argument is $_ (so that it is that again on return), and
# PIPESTATUS is between them.
__nbs_done() {
    # Where nothing of the user's comes before __nbs_prompt, that one does it all.
    if [[ ${__nbs_bare-} && "${PROMPT_COMMAND[*]-}" == "$__nbs_bare" && $- != *[akvx]* && ! ${__nbs_histchars+1} ]]; then
        __nbs_pipe=0
        builtin return "$1"
    fi
    if [[ ! ${__nbs_tag-} || ! ${__nbs_last-} ]]; then builtin return "$1"; fi
    builtin local __nbs_set __nbs_at __nbs_comes __nbs_status
    __nbs_set=${-//[!akx]/}
    if [[ $__nbs_set ]]; then builtin set "+$__nbs_set"; fi
    __nbs_status=$1
    # `set -v` has shown the line that calls us.
    if [[ $- == *v* && ${PROMPT_COMMAND-} == "$__nbs_first"* ]]; then
        builtin printf '\e]133;V;%s%s\a' "$__nbs_tag" "$((__nbs_seq + 1))" >|/dev/tty || builtin :
    fi
    # What run has hidden from history expansion.
    if [[ ${__nbs_histchars+1} ]]; then
        if [[ $__nbs_histchars ]]; then builtin printf -v histchars %s "$__nbs_histchars"; else builtin unset -v histchars; fi
        builtin unset -v __nbs_histchars
    fi
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
    if [[ ! ${__nbs_tag-} || ! ${__nbs_last-} ]]; then builtin return 0; fi
    builtin local __nbs_set __nbs_at __nbs_text
    __nbs_set=${-//[!akx]/}
    if [[ $__nbs_set ]]; then builtin set "+$__nbs_set"; fi
    __nbs_hook
    # All at once, which wakes who reads it once.
    __nbs_at=$((__nbs_seq + !${__nbs_told:-0}))
    __nbs_text=
    if [[ ${PWD-} != "$__nbs_folder" ]]; then __nbs_add_folder; fi
    __nbs_text+=$'\e]133;A;'$__nbs_tag$__nbs_at$'\a'
    # Where stderr goes elsewhere, the prompt goes there too, and B with it.
    if [[ ! -t 3 ]]; then __nbs_text+=$'\e]133;B;'$__nbs_tag$__nbs_at$'\a'; fi
    if [[ $__nbs_told ]]; then
        builtin printf %s "$__nbs_text" >|/dev/tty || builtin :
    else
        __nbs_report "$1" "$__nbs_text"
    fi
    __nbs_told=
    __nbs_folder=${PWD-}
    __nbs_marks
    if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
    builtin return 0
}

# Literal text, which needs no promptvars, new at each prompt: the user may
# have changed either. PS0 is printed as it is; in PS1 and PS2 readline must know
# what takes no room.
__nbs_marks() {
    # They are as they were left, mostly: then only the numbers are new.
    if [[ ${__nbs_marked-} && ${PS1-}${PS2-}${PS0-} == "$__nbs_marked" && ${PS1@a}${PS2@a}${PS0@a} != *i* ]]; then
        builtin printf -v PS1 %s "$__nbs_own_PS1"'\[\e]133;B;'"$__nbs_tag$__nbs_seq"'\a\]' || builtin :
        builtin printf -v PS2 %s "$__nbs_own_PS2"'\[\e]133;P;'"$__nbs_tag$__nbs_seq"'\a\]' || builtin :
        builtin printf -v PS0 %s "$__nbs_own_PS0"'\e]133;C;'"$__nbs_tag$((__nbs_seq + 1))"'\a' || builtin :
    else
        __nbs_end PS1 '\[\e]133;B;'"$__nbs_tag" "$__nbs_seq" '\a\]'
        __nbs_end PS2 '\[\e]133;P;'"$__nbs_tag" "$__nbs_seq" '\a\]'
        __nbs_end PS0 '\e]133;C;'"$__nbs_tag" "$((__nbs_seq + 1))" '\a'
    fi
    __nbs_marked=${PS1-}${PS2-}${PS0-}
}

# Prints D for the status $1, and $2.
__nbs_report() {
    builtin local __nbs_code
    __nbs_code=$1
    if [[ $__nbs_seq == -1 ]]; then __nbs_code=0; fi # no command was before it
    if builtin printf '\e]133;D;%s;%s%s\a%s' "$__nbs_code" "$__nbs_tag" "$((__nbs_seq + 1))" "${2-}" >|/dev/tty; then
        __nbs_seq=$((__nbs_seq + 1))
    fi
}

# Adds OSC 7, a file: URL, to what is to be printed. In the C locale a character is a byte.
__nbs_add_folder() {
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
    __nbs_text+=$'\e]7;file://'$__nbs_url$'\a'
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
    builtin printf -v "__nbs_own_$1" %s "$__nbs_text"
}

# The key that nbs presses: readline hands the line that is to be run to bash, as if
# it had been typed. What it calls is a file, so that it is there whatever the user
# unsets. The redirections of a group are expanded before bash takes what is in it for
# the command that is being executed: there __nbs_before can be what was so before.
__nbs_begin() {
    builtin local __nbs_keymap __nbs_run
    __nbs_hook
    __nbs_run=@RUN@
    builtin printf -v __nbs_run %q "$__nbs_run"
    for __nbs_keymap in emacs vi-insert vi-command; do
        builtin bind -m "$__nbs_keymap" -x '"\e[25;9~": { \builtin . '"$__nbs_run"' "$_"; } 3>&2 >"${__nbs_null:=/dev/null}" 2>"${__nbs_null#"${__nbs_before:=$BASH_COMMAND}"}"'
        builtin bind -m "$__nbs_keymap" '"\e[25;7~": accept-line'
        builtin bind -m "$__nbs_keymap" '"\e[25;8~": "\e[25;9~\e[25;7~"'
    done
    # The trap for who interrupts a startup file, unless that has set its own.
    if [[ ! ${__nbs_again-} && $(builtin trap -p INT) == *__nbs_begin* ]]; then builtin trap - INT; fi
    builtin return 0
}

# Makes $2, which stands for the command $1, the line of readline, if the prompt that stands can
# report what becomes of it: if all is as __nbs_prompt has left it. $3 is a pattern of the
# numbers that this prompt may have, $4 two characters that the command has not, $5 what
# loads it, where it has several lines, and $6 what stood beside the prompt: readline has cleared
# that row, if it can, and draws its prompt and line where the cursor is.
__nbs_hand() {
    builtin local __nbs_set __nbs_line __nbs_expands __nbs_text
    __nbs_set=${-//[!akx]/}
    if [[ $__nbs_set ]]; then builtin set "+$__nbs_set"; fi
    # The line is handed over once; and where stderr goes elsewhere, C goes there too.
    if [[ ${__nbs_handed-} == "$1 "* || ${__nbs_tag-} != 'nbs=@SECRET@.' || ${__nbs_shell-} != "$$" ||
        ! ${__nbs_first-} || ! ${__nbs_last-} || ! ${__nbs_pipe-} || ! ${__nbs_told+1} || ! ${__nbs_folder+1} ||
        ${__nbs_seq-} != $3 || ! ${__nbs_hooked-} || "${PROMPT_COMMAND[*]-}" != "$__nbs_hooked" ]] ||
        [[ -t 3 && ${PS0-} != *@SECRET@.$((__nbs_seq + 1))'\a' ]]; then
        if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
        builtin return 1
    fi
    __nbs_line=$2
    # Of several lines readline's bash executes the first before it reads the last, so what is
    # wrong with them is known too late; and before 5.1 each has a prompt.
    if [[ $5 ]] && { ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)) ||
        ! (builtin eval "__nbs_whole() {"$'\n'"$2"$'\n'"}"); }; then
        __nbs_line=$5
    fi
    # What history expansion would change is kept from it, until __nbs_done. Without
    # characters it changes nothing.
    __nbs_expands=${histchars-!^#}
    if [[ -o histexpand && $__nbs_expands && ($__nbs_line == *["${__nbs_expands:0:1}"]* || $'\n'$__nbs_line == *$'\n'["${__nbs_expands:1:1}"]*) ]]; then
        __nbs_histchars=${histchars-}
        builtin printf -v histchars "$4%s" "${__nbs_expands:2:1}"
    fi
    __nbs_handed="$1 $__nbs_seq"
    __nbs_text=$'\e]133;R;'$__nbs_tag$__nbs_seq$'\a'
    if [[ ! -t 3 ]]; then
        __nbs_text+=$'\e]133;C;'$__nbs_tag$((__nbs_seq + 1))$'\a'
    elif [[ ${TERM-} != dumb ]]; then
        __nbs_text=$6$__nbs_text
    fi
    builtin printf %s "$__nbs_text" >|/dev/tty
    READLINE_LINE=$__nbs_line
    READLINE_POINT=${#READLINE_LINE}
    builtin unset -v __nbs_status __nbs_null __nbs_before
    if [[ $__nbs_set ]]; then builtin set "-$__nbs_set"; fi
    builtin return 0
}

# The user's own startup files, as bash itself would have read them: bash reads this
# file as an rcfile, or where that is not read (a login shell, POSIX mode) as $ENV.
# One line, for bash has read it before they can say `set -v`; and a status of theirs
# is none that their own `set -e` may end the shell for. Who interrupts them has the
# prompt at once, and it reports: bash drops all of this before the command behind `kill`.
[[ ${__nbs_again-} ]] || { builtin trap '{ \__nbs_begin; } >/dev/null 2>&1; \builtin kill -INT "$$"; \builtin :' INT; @STARTUP@; }; { __nbs_begin; } >/dev/null 2>&1
