# The first startup file of the zsh of an nbs session, which finds it by ZDOTDIR. It puts
# that back, reads the user's own, and makes the shell mark its prompts and commands in
# what it prints, with OSC 133 sequences, which terminals do not show. From them nbs knows
# when a command has ended, with what code, and what it has printed.

if [[ -n ${NBS_TS_ZDOTDIR+x} ]]; then
    ZDOTDIR=$NBS_TS_ZDOTDIR
    'builtin' 'unset' NBS_TS_ZDOTDIR
else
    'builtin' 'unset' ZDOTDIR
fi

'builtin' 'typeset' -gi __nbs_seq=-1 __nbs_executed=0 __nbs_last=0
'builtin' 'typeset' -g __nbs_tag='nbs=@SECRET@.' __nbs_folder= __nbs_text= __nbs_histchars= __nbs_told= __nbs_handed=

# What comes before the traps are switched off, for as long as a hook of ours lasts, the user's
# DEBUG trap sees. Whatever a hook returns, the next one has $? as it was.

# First of all at a prompt: how the command ended. Where its output ends,
# PROMPT_EOL_MARK has told already, if zsh prints that: it comes before the padding
# that moves a prompt to a new line, and before any hook.
__nbs_done() {
    {
        builtin local -i __nbs_status=$?
        builtin emulate -L zsh && builtin trap - ZERR DEBUG
        if [[ -z $histchars ]]; then histchars=$__nbs_histchars; fi
        __nbs_histchars=
        if [[ $__nbs_told ]]; then
            __nbs_told=
            builtin return 0
        elif (( __nbs_seq < 0 )); then
            __nbs_status=0
        elif [[ $__nbs_text = *[^[:space:]]* ]] && (( ! __nbs_executed && __nbs_status == __nbs_last )); then
            __nbs_status=1 # it could not be parsed, and zsh leaves $? as it was
        fi
        __nbs_last=$__nbs_status
        (( __nbs_executed = 0, __nbs_seq += 1 ))
        __nbs_text=
        builtin printf '\e]133;D;%d;%s%d\a' $__nbs_status $__nbs_tag $__nbs_seq >|/dev/tty
    } >/dev/null 2>&1
}

# Last of all at a prompt: the folder, A, and B and its like for zsh to print.
__nbs_prompt() {
    {
        builtin emulate -L zsh && builtin trap - ZERR DEBUG
        __nbs_hook
        if [[ $PWD != "$__nbs_folder" ]]; then __nbs_report_folder; fi
        builtin printf '\e]133;A;%s%d\a' $__nbs_tag $__nbs_seq >|/dev/tty
        __nbs_end PROMPT B $__nbs_seq
        __nbs_end PROMPT2 P $__nbs_seq
        # It begins with the mark, and so does the padding.
        : ${PROMPT_EOL_MARK='%B%S%#%s%b'}
        __nbs_end PROMPT_EOL_MARK E $(( __nbs_seq + 1 ))
    } >/dev/null 2>&1
}

# Makes the prompt $1 hold the mark $2 of number $3, which it then has only once.
# An older one may be anywhere in it.
__nbs_end() {
    builtin local __nbs_mark='%{'$'\e'"]133;$2;$__nbs_tag" __nbs_rest=${(P)1}
    builtin local __nbs_head __nbs_tail
    while [[ $__nbs_rest = *"$__nbs_mark"*$'\a%}'* ]]; do
        __nbs_head=${__nbs_rest%%"$__nbs_mark"*}
        __nbs_tail=${__nbs_rest#*"$__nbs_mark"}
        __nbs_rest=$__nbs_head${__nbs_tail#*$'\a%}'}
    done
    __nbs_mark+=$3$'\a%}'
    if [[ $2 = E ]]; then __nbs_rest=$__nbs_mark$__nbs_rest; else __nbs_rest+=$__nbs_mark; fi
    : ${(P)1::=$__nbs_rest}
}

# Right before a command is executed, after all other hooks.
__nbs_begin() {
    {
        builtin emulate -L zsh && builtin trap - ZERR DEBUG
        __nbs_executed=1
        builtin printf '\e]133;C;%s%d\a' $__nbs_tag $(( __nbs_seq + 1 )) >|/dev/tty
    } >/dev/null 2>&1
}

# Puts our functions where they belong among the user's: first and last.
__nbs_hook() {
    builtin typeset -ga precmd_functions preexec_functions
    precmd_functions=(__nbs_done ${precmd_functions:#__nbs_(done|prompt|first)} __nbs_prompt)
    preexec_functions=(${preexec_functions:#__nbs_begin} __nbs_begin)
    __nbs_bind
}

# Prints OSC 7, a file: URL.
__nbs_report_folder() {
    builtin local LC_ALL=C __nbs_rest=${HOST-}$PWD __nbs_url= __nbs_byte
    builtin local -i __nbs_at
    for (( __nbs_at = 1; __nbs_at <= $#__nbs_rest; __nbs_at += 1 )); do
        __nbs_byte=$__nbs_rest[__nbs_at]
        if [[ $__nbs_byte != [a-zA-Z0-9/._~-] ]]; then
            builtin printf -v __nbs_byte '%%%02X' $(( #__nbs_byte & 255 ))
        fi
        __nbs_url+=$__nbs_byte
    done
    builtin printf '\e]7;file://%s\a' $__nbs_url >|/dev/tty && __nbs_folder=$PWD
}

# The key that nbs presses: hands the command that is to be run to the editor, or where the
# prompt that stands cannot report what becomes of it, mends that first, and says so.
__nbs_take() {
    __nbs_look && builtin zle .accept-line
}

# The same, before the editor accepts the line.
__nbs_look() {
    {
        builtin local -i __nbs_status=$?
        builtin emulate -L zsh && builtin trap - ZERR DEBUG
        builtin local __nbs_id
        builtin source @RUN@
        if [[ $CONTEXT != start || ($__nbs_handed = "$__nbs_id "* && $__nbs_handed != "$__nbs_id $__nbs_seq") ]]; then
            # It reads a line (vared), or the end is out.
            __nbs_text=
            builtin return 1
        elif [[ $__nbs_handed = "$__nbs_id "* || " $precmd_functions " != *' __nbs_done '*'__nbs_prompt '* || " $preexec_functions " != *' __nbs_begin '* ]]; then
            __nbs_hook
            __nbs_text=
            builtin printf '\e]133;N;%s%d\a' $__nbs_tag $__nbs_seq >|/dev/tty
            () { builtin return $1 } $__nbs_status
            __nbs_done
            __nbs_told=1
        else
            # What history expansion would change is kept from it. An option would not last.
            : ${__nbs_histchars:=$histchars}
            histchars=$'\0\0'$__nbs_histchars[3]
            __nbs_hook
            __nbs_handed="$__nbs_id $__nbs_seq"
            builtin printf '\e]133;R;%s%d\a' $__nbs_tag $__nbs_seq >|/dev/tty
            __nbs_end PROMPT_EOL_MARK E $(( __nbs_seq + 1 ))
        fi
    } >/dev/null 2>&1
    BUFFER=$__nbs_text
    CURSOR=$#BUFFER
}
builtin zle -N __nbs_take
builtin zle -N __nbs_look

__nbs_bind() {
    builtin local __nbs_keymap
    for __nbs_keymap in emacs viins vicmd main; do
        builtin bindkey -M $__nbs_keymap '\e[25;9~' __nbs_look
        builtin bindkey -M $__nbs_keymap '\e[25;8~' __nbs_take
        builtin bindkey -M $__nbs_keymap '\e[25;7~' .accept-line
    done
}

# The startup files that are still to be read may set all of it anew: it is done
# before the first prompt, when they have been.
__nbs_first() {
    {
        builtin emulate -L zsh && builtin trap - ZERR DEBUG
        __nbs_hook
        __nbs_done
        __nbs_prompt
    } >/dev/null 2>&1
}
builtin typeset -ga precmd_functions
precmd_functions+=(__nbs_first)
# Last, for who interrupts it ends this file, too.
@STARTUP@
