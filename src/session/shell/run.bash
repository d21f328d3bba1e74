# shellcheck shell=bash
# Who sources it sets __nbs_before; and $$ is a number.
# shellcheck disable=SC2053,SC2154

# What the key of `run` has readline do: hand over the line, or where the prompt that
# stands cannot report what becomes of it, mend that first, and say so. bash sources it;
# its argument is $_, and $? is the status of the command before.

__nbs_status=$?
\builtin unset -v __nbs_null __nbs_aliases __nbs_set __nbs_broken __nbs_line __nbs_expands __nbs_elsewhere __nbs_out
__nbs_aliases=-u
\builtin shopt -q expand_aliases && __nbs_aliases=-s
\builtin shopt -u expand_aliases
__nbs_set=${-//[!akx]/}
if [[ $__nbs_set ]]; then \builtin set "+$__nbs_set"; fi
__nbs_broken=
# D is out already, if somebody has removed only what comes behind it.
__nbs_out=${__nbs_told-}
# The line is handed over once. The key comes again where nobody has reported its end;
# and readline serves `read -e`, too.
case ${__nbs_handed-} in
"@ID@ ${__nbs_seq-}") if [[ $__nbs_before == *read* ]]; then __nbs_broken=not; else __nbs_broken=again; fi ;;
"@ID@ "*) __nbs_broken=not ;; # its end is out
esac
if [[ $__nbs_broken == not ]]; then
    :
elif ! \builtin declare -F __nbs_hook __nbs_done __nbs_prompt __nbs_marks __nbs_report __nbs_report_folder __nbs_end __nbs_begin ||
    [[ ${__nbs_tag-} != 'nbs=@SECRET@.' || ! ${__nbs_first-} || ! ${__nbs_last-} || ! ${__nbs_pipe-} ]] ||
    [[ ${__nbs_shell-} != $$ || ! ${__nbs_told+1} || ! ${__nbs_folder+1} ]]; then
    __nbs_broken=1
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
case $__nbs_broken in
not) ;;
*)
    case ${__nbs_seq-} in @NUMBERS@) ;; *) __nbs_broken=1 __nbs_seq=@LAST@ ;; esac
    if [[ ${PROMPT_COMMAND-} != "$__nbs_first"* || "${PROMPT_COMMAND[${#PROMPT_COMMAND[@]}-1]}" != *"$__nbs_last" ]]; then
        __nbs_broken=1
        __nbs_hook
    fi
    if [[ ! -t 3 ]]; then
        # Where stderr goes elsewhere, C goes there too.
        __nbs_elsewhere=1
    else
        __nbs_elsewhere=
        case ${PS0-} in *@SECRET@.$((__nbs_seq + 1))'\a') ;; *) __nbs_broken=1 ;; esac
    fi
    READLINE_LINE=
    if [[ $__nbs_broken ]]; then
        # The prompt that stands does not tell what is to be known; the next will.
        \builtin printf '\e]133;N;%s%s\a' "$__nbs_tag" "$((__nbs_seq - ${__nbs_out:-0}))" >|/dev/tty
        if [[ ! $__nbs_out ]]; then __nbs_report "$__nbs_status"; fi
        __nbs_told=1
    else
        __nbs_line=@LINE@
        if [[ $__nbs_line == *$'\n'* ]]; then
            # Of several lines readline's bash executes the first before it reads the last,
            # so what is wrong with them is known too late; and before 5.1 each has a prompt.
            if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 501)) ||
                ! (\builtin eval "__nbs_whole() {"$'\n'"$__nbs_line"$'\n'"}"); then
                __nbs_line=@LOADING@
            fi
        fi
        __nbs_expands=${histchars-!^#}
        if [[ -o histexpand && $'\n'$__nbs_line == *["${__nbs_expands:0:1}"]* || $'\n'$__nbs_line == *$'\n'["${__nbs_expands:1:1}"]* ]]; then
            __nbs_histchars=${histchars-}
            \builtin printf -v histchars '@UNUSED@%s' "${__nbs_expands:2:1}"
        fi
        __nbs_handed="@ID@ $__nbs_seq"
        \builtin printf '\e]133;R;%s%s\a' "$__nbs_tag" "$__nbs_seq" >|/dev/tty
        if [[ $__nbs_elsewhere ]]; then
            \builtin printf '\e]133;C;%s%s\a' "$__nbs_tag" "$((__nbs_seq + 1))" >|/dev/tty
        fi
        READLINE_LINE=$__nbs_line
    fi
    READLINE_POINT=${#READLINE_LINE}
    ;;
esac
if [[ $__nbs_set ]]; then \builtin set "-$__nbs_set"; fi
\builtin shopt "$__nbs_aliases" expand_aliases
\builtin unset -v __nbs_status __nbs_set __nbs_aliases __nbs_broken __nbs_line __nbs_expands __nbs_elsewhere __nbs_out __nbs_before
\builtin : "$1"
