# Completion for nbs in bash: the program itself tells what may follow.

_nbs() {
    local line=${COMP_LINE:0:COMP_POINT} words typed
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    mapfile -t COMPREPLY < <("${words[0]/#\~/$HOME}" --complete "${words[@]}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    # bash replaces only what follows the last = or :; an @ belongs to that.
    typed=${words[-1]}
    typed=${typed%"${typed##*["${COMP_WORDBREAKS//@/}"]}"}
    COMPREPLY=("${COMPREPLY[@]#"$typed"}")
    [[ ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace
}

complete -o default -F _nbs NBS_NAMES
