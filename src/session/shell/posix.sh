# shellcheck shell=sh
# The user's file has any name, and is told by `eval`; nothing is a fine value.
# shellcheck disable=SC1007,SC1090,SC2154

# The startup file of the shell of an nbs session, which finds it by ENV. It puts that
# back, reads the user's own, and makes the shell mark its prompts in what it prints, with
# OSC 133 sequences, which terminals do not show. From them nbs knows when a command has
# ended, and with what code. They are part of the prompt, for there is no other hook that
# all these shells have.

__nbs_mark() {
    # How a line editor is told what takes no room.
    case ${BASH_VERSION+bash}${BB_ASH_VERSION+busybox}$(readlink "/proc/$$/exe" 2>/dev/null)-${KSH_VERSION-} in
    bash* | *busybox*) __nbs_open='\[' __nbs_close='\]' __nbs_first= ;;
    *MIRBSD* | *LEGACY*) __nbs_open='@SOH@' __nbs_close='@SOH@' __nbs_first='@SOH@@CR@' ;;
    *) __nbs_open= __nbs_close= __nbs_first= ;;
    esac
    __nbs_seq=-1
    PS1=$__nbs_first$__nbs_open'@ESC@]133;D;$(($?>256?$?-128:$?));nbs=@SECRET@.$((__nbs_seq=__nbs_seq+1))@BEL@@ESC@]133;A;nbs=@SECRET@.${__nbs_seq}@BEL@'$__nbs_close${PS1:-\$ }$__nbs_open'@ESC@]133;B;nbs=@SECRET@.${__nbs_seq}@BEL@'$__nbs_close
    # Not all of them expand it: 0 stands for the prompt's number.
    PS2=$__nbs_first${PS2-> }$__nbs_open'@ESC@]133;P;nbs=@SECRET@.0@BEL@'$__nbs_close
    unset __nbs_open __nbs_close __nbs_first
}

# Who interrupts a startup file has the prompt at once, and it reports: the signal comes again,
# and does what it does without a trap. ksh93, which would end by it, comes here once more.
trap 'trap - INT; case ${PS1-} in *nbs=@SECRET@*) ;; *) __nbs_mark ;; esac; kill -INT "$$"; :' INT
if [ "${NBS_TS_ENV+x}" ]; then
    ENV=$NBS_TS_ENV
    unset NBS_TS_ENV
else
    unset ENV
fi
# What ksh93 reads where it is not set, and mksh also where it is empty.
case ${ENV+set}-${ENV:+full}-${KSH_VERSION-} in
set-full-*) eval "__nbs_file=\"$ENV\"" ;; # As the shell itself would have: its value is expanded.
--Version*) ENV=$HOME/.kshrc __nbs_file=$HOME/.kshrc ;;
*MIRBSD* | *LEGACY*) __nbs_file=$HOME/.mkshrc ;;
*) __nbs_file= ;;
esac
if [ -r "$__nbs_file" ]; then . "$__nbs_file"; fi
unset __nbs_file
# Of some shells nobody is told which traps there are.
case $(trap) in
'' | *__nbs_mark*) trap '' INT; __nbs_mark; trap - INT ;;
*) __nbs_mark ;;
esac
unset -f __nbs_mark
:
