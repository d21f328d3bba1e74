#compdef NBS_NAMES
# Completion for nbs in zsh: the program itself tells what may follow.

_nbs() {
    local program=${words[1]/#\~/$HOME} line word
    local -a whole wholes open opens
    for line in "${(@f)$($program --complete "${(@)words[1,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
        word=${line%%$'\t'*}
        if [[ $word == *= ]]; then
            open+=("$word") opens+=("${line/$'\t'/  }")
        elif [[ -n $word ]]; then
            whole+=("$word") wholes+=("${line/$'\t'/  }")
        fi
    done
    if ((! $#whole && ! $#open)); then
        compset -P '--*='
        _files
        return
    fi
    compadd -l -d wholes -a whole
    compadd -l -S '' -d opens -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _nbs "$@"
else
    compdef _nbs NBS_NAMES
fi
