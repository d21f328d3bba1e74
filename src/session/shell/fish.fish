# The startup file of the fish of an nbs session, which reads the user's own before it.
# It makes the shell mark its prompts and commands in what it prints, with OSC 133
# sequences, which terminals do not show. From them nbs knows when a command has ended,
# with what code, and what it has printed.

set -g __nbs_seq -1
set -g __nbs_tag 'nbs=@SECRET@.'
set -g __nbs_folder

function __nbs_begin --on-event fish_preexec
    builtin functions -e __nbs_cancel __nbs_interrupt
    set -g __nbs_begun
    set -q __nbs_told; or builtin printf '\e]133;C;%s%s\a' $__nbs_tag (builtin math $__nbs_seq + 1) >/dev/tty
end

# Of a line that is empty, or cancelled, the prompt that follows tells the end.
function __nbs_done --on-event fish_postexec
    set -l __nbs_status $status
    if set -q __nbs_told
        set -e __nbs_begun
        return
    end
    if test $__nbs_seq -lt 0
        set __nbs_status 0
    else if set -q __nbs_cancelled
        set __nbs_status 130
    end
    # In this order: an interrupt may stop it anywhere, and the next prompt then calls it again.
    builtin printf '\e]133;D;%s;%s%s\a' $__nbs_status $__nbs_tag (builtin math $__nbs_seq + 1) >/dev/tty
    set -g __nbs_seq (builtin math $__nbs_seq + 1)
    set -g __nbs_told
    set -e __nbs_begun
end

# Of an empty line that is cancelled fish tells nothing; and one that is interrupted while
# fish draws it leaves as it is. Only at a prompt, for a command would not be interrupted any more.
function __nbs_heed_cancel
    function __nbs_cancel --on-event fish_cancel
        set -g __nbs_cancelled
        builtin commandline -f repaint
    end
    function __nbs_interrupt --on-signal INT
        builtin commandline -f cancel-commandline
        __nbs_cancel
    end
end

# An interrupt that fish has not come to yet must not end what follows.
function __nbs_pass_cancel
    builtin functions -e __nbs_cancel __nbs_interrupt
    set -e __nbs_cancelled
end

# The key that nbs presses where half a line may stand: the prompt is drawn again, without.
function __nbs_clear
    __nbs_pass_cancel
    builtin commandline -r ''
    builtin printf '\e]133;K;%s%s\a' $__nbs_tag $__nbs_seq >/dev/tty
    builtin commandline -f repaint
end

# fish_prompt may be defined anew by anything: so it is wrapped again where it is
# not ours any more.
function __nbs_prompt --on-event fish_prompt
    __nbs_done
    set -e __nbs_told
    set -e __nbs_cancelled
    __nbs_heed_cancel
    if not string match -q '*__nbs_users_prompt*' -- (builtin functions fish_prompt)
        builtin functions -e __nbs_users_prompt
        builtin functions -c fish_prompt __nbs_users_prompt
        function fish_prompt
            # An interrupt has kept fish from telling the end.
            if set -q __nbs_begun; and string match -q fish -- (builtin status current-command 2>/dev/null)
                set -g __nbs_cancelled
                __nbs_prompt
            end
            __nbs_users_prompt
            set -q __nbs_cancelled; and __nbs_prompt
            builtin printf '\e]133;B;%s%s\a' $__nbs_tag $__nbs_seq
        end
    end
    for mode in default insert visual replace
        builtin bind -M $mode \e'[25;6~' __nbs_clear
        builtin bind -M $mode \e'[25;9~' __nbs_take
    end
    if test "$PWD" != "$__nbs_folder"
        set -g __nbs_folder "$PWD"
        builtin printf '\e]7;file://%s%s\a' $hostname (string escape --style=url -- $PWD) >/dev/tty
    end
    builtin printf '\e]133;A;%s%s\a' $__nbs_tag $__nbs_seq >/dev/tty
end

# The key that nbs presses: hands the command that is to be run to the editor.
# What fish would not execute it would leave there: so it is loaded as a file, which
# tells what is wrong with it.
function __nbs_take
    # A command, or a function that draws the prompt, may read a line of its own.
    set -q __nbs_begun; and not string match -q fish -- (builtin status current-command 2>/dev/null); and return
    set -l __nbs_trace (builtin status print-stack-trace)
    test (count (string match -r '^\S' -- $__nbs_trace)) -gt 2; and return
    __nbs_pass_cancel
    # It is still set if an interrupt has kept fish from telling of its prompt.
    set -e __nbs_told
    set -l __nbs_text
    # It opens no path that is not UTF-8.
    test -r @TEXT@; or return
    read -lz __nbs_text <@TEXT@
    builtin printf '\e]133;R;%s%s\a' $__nbs_tag $__nbs_seq >/dev/tty
    builtin commandline -r -- $__nbs_text
    builtin commandline --is-valid
    set -l __nbs_valid $status
    if not string match -qrv '^\s*(#.*)?$' -- (string split \n -- $__nbs_text)
        # Of what is nothing fish tells no end.
        set __nbs_valid 0
        builtin true
        __nbs_done
    end
    switch $__nbs_valid
        case 1
            builtin commandline -r -- 'source '(string escape -- @TEXT@)
        case 2
            builtin commandline -r ''
            builtin printf '\e]133;P;%s%s\a' $__nbs_tag $__nbs_seq >/dev/tty
            set -g __nbs_seq (builtin math $__nbs_seq + 1)
            builtin printf '\e]133;D;2;%s%s\a' $__nbs_tag $__nbs_seq >/dev/tty
            builtin commandline -f repaint
            __nbs_heed_cancel
            return
    end
    builtin commandline -f suppress-autosuggestion 2>/dev/null
    builtin commandline -f execute
end
