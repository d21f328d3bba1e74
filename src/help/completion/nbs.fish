# Completion for nbs in fish: the program itself tells what may follow.

function __nbs_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l program (string replace -r '^~' $HOME $before[1])
    set -l found ($program --complete $before "$typed" 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else if set -l option (string match -r -- '^--[^=]*=' "$typed")
        string replace -r '^' -- $option (__fish_complete_path (string replace -- $option '' $typed))
    else
        __fish_complete_path "$typed"
    end
end

for name in NBS_NAMES
    complete -c $name -f -a '(__nbs_complete)'
end
