# shellcheck shell=sh
# The startup file sets __nbs_seq.
# shellcheck disable=SC2154

# For a shell that no file of ours can be handed to: reads a text from the terminal, unseen,
# shows what it is told to, and prints the text, for `eval` to execute.
__nbs_read() (
    __nbs_status=$?
    # Its shell waits for it also where it is interrupted.
    trap 'stty echo 2>&-; exit 130' INT
    stty -echo 2>&-
    printf '\033]133;Q;nbs=@SECRET@.%s\a' "$__nbs_seq" >&2
    for __nbs_part in shown text; do
        __nbs_text=
        while IFS= read -r __nbs_line && [ "$__nbs_line" != . ]; do __nbs_text=$__nbs_text$__nbs_line; done
        if [ "$__nbs_part" = shown ]; then __nbs_shown=$__nbs_text; fi
    done
    stty echo 2>&-
    @CHECK@
    printf '%b' "$__nbs_shown" >&2
    printf '%b' "$__nbs_text"
    exit "$__nbs_status"
)
