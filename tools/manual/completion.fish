# fish completion for weightpager. tools/manual appends the commands and their options.

# Whether the words typed so far lead to the command $argv, and to no command below it.
function __weightpager_at
    set -l tokens (commandline -opc)
    contains -- -- $tokens; and return 1
    set -l command weightpager
    for token in $tokens[2..]
        contains -- "$command $token" $__weightpager_commands; and set command "$command $token"
    end
    test "$command" = "$argv"
end

function __weightpager_behind_separator
    contains -- -- (commandline -opc)
end

# A command line of its own begins after `--`.
function __weightpager_engine
    set -l tokens (commandline -opc)
    set -l separator (contains -i -- -- $tokens); or return
    set -l engine
    set separator (math $separator + 1)
    if test $separator -le (count $tokens)
        set engine (string escape -- $tokens[$separator..])
    end
    complete -C (string join ' ' -- $engine (commandline -ct))
end

function __weightpager_pagers
    weightpager ps 2>/dev/null | string replace -rf '^ *([0-9]+) .*' '$1'
end

complete -c weightpager -f
