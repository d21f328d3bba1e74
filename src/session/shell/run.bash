# shellcheck shell=bash
# Who sources it sets __nbs_before; and $$ is a number.
# shellcheck disable=SC2053,SC2154

# What the key of `run` has readline do: hand over the line, or where the prompt that
# stands cannot report what becomes of it, mend that first, and say so. bash sources it;
# its argument is $_, and $? is the status of the command before.

__nbs_status=$?
# All is as __nbs_prompt has left it, mostly.
\builtin declare -F __nbs_hand __nbs_hook __nbs_done __nbs_prompt __nbs_marks __nbs_report __nbs_add_folder __nbs_end __nbs_begin &&
    \__nbs_hand @ID@ @LINE@ '@(@NUMBERS@)' '@UNUSED@' @LOADING@ @BESIDE@ && \builtin : "$1" && \builtin return 0
# What follows bash does not even parse before this. The prompt that stands does not tell
# what is to be known; the next will. The key comes again where nobody has reported the line's
# end; and readline serves `read -e`, too.
\builtin unset -v __nbs_null __nbs_aliases __nbs_set __nbs_broken __nbs_out
__nbs_aliases=-u
\builtin shopt -q expand_aliases && __nbs_aliases=-s
\builtin shopt -u expand_aliases
__nbs_set=${-//[!akx]/}
if [[ $__nbs_set ]]; then \builtin set "+$__nbs_set"; fi
__nbs_broken=1
# D is out already, if somebody has removed only what comes behind it.
__nbs_out=${__nbs_told-}
case ${__nbs_handed-} in
"@ID@ ${__nbs_seq-}") if [[ $__nbs_before == *read* ]]; then __nbs_broken=; fi ;;
"@ID@ "*) __nbs_broken= ;; # its end is out
esac
if [[ $__nbs_broken ]]; then
    if ! \builtin declare -F __nbs_hand __nbs_hook __nbs_done __nbs_prompt __nbs_marks __nbs_report __nbs_add_folder __nbs_end __nbs_begin ||
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
    __nbs_hooked=
    __nbs_hook
    \builtin printf '\e]133;N;%s%s\a' "$__nbs_tag" "$((__nbs_seq - ${__nbs_out:-0}))" >|/dev/tty
    if [[ ! $__nbs_out ]]; then __nbs_report "$__nbs_status"; fi
    __nbs_told=1
    READLINE_LINE=
    READLINE_POINT=0
fi
if [[ $__nbs_set ]]; then \builtin set "-$__nbs_set"; fi
\builtin shopt "$__nbs_aliases" expand_aliases
\builtin unset -v __nbs_status __nbs_set __nbs_aliases __nbs_broken __nbs_out __nbs_before
\builtin : "$1"
