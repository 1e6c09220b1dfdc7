# bash completion for weightpager: goes through the words that are typed so far. tools/manual
# appends the tables of commands and values. The bash-completion package is needed only for the
# engine's arguments.
# shellcheck shell=bash

_weightpager_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

_weightpager_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
}

# Completes the value of an option or operand, of which $1 is typed. $kind and $choices tell the
# possible values.
_weightpager_complete() {
  local before=
  case $kind in
    word) _weightpager_words "$choices" "$1" ;;
    words)
      [[ $1 != *,* ]] || before=${1%,*},
      _weightpager_words "$choices" "${1##*,}"
      COMPREPLY=("${COMPREPLY[@]/#/$before}")
      compopt -o nospace 2>/dev/null
      ;;
    file) _weightpager_files -f "$1" ;;
    directory) _weightpager_files -d "$1" ;;
    pager) _weightpager_words "$(weightpager ps 2>/dev/null | sed -n 's/^ *\([0-9][0-9]*\) .*/\1/p')" "$1" ;;
  esac
}

# A command line of its own begins at word $1.
_weightpager_engine() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    _weightpager_files -c "${COMP_WORDS[COMP_CWORD]}"
  else
    _weightpager_files -f "${COMP_WORDS[COMP_CWORD]}"
  fi
}

_weightpager() {
  local command=weightpager word option='' i
  local subcommands operands options kind choices
  COMPREPLY=()
  _weightpager_command "$command"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue
    elif [[ $option ]]; then
      option=
    elif [[ $word == -- && $operands == engine ]]; then
      _weightpager_engine $((i + 1))
      return
    elif [[ $word == -* ]]; then
      ! _weightpager_value "$command" "$word" || option=$word
    elif [[ " $subcommands " == *" $word "* ]]; then
      if _weightpager_command "$command $word"; then
        command+=" $word"
      else
        subcommands=
      fi
    else
      subcommands=
    fi
  done
  word=${COMP_WORDS[COMP_CWORD]}
  [[ $word != = ]] || word=
  if [[ $option ]]; then
    _weightpager_value "$command" "$option"
    _weightpager_complete "$word"
  elif [[ $word == -* ]]; then
    _weightpager_words "$options" "$word"
  elif [[ $subcommands ]]; then
    _weightpager_words "$subcommands" "$word"
  fi
  # Some commands take either a subcommand or operands.
  if [[ ! $option && $word != -* && ${#COMPREPLY[@]} == 0 ]]; then
    kind=$operands
    _weightpager_complete "$word"
  fi
}

complete -F _weightpager weightpager
