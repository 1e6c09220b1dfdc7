#!/usr/bin/env bash
# Every flag in a command's --help is in its man page and in the completions of bash, zsh and fish; each
# completion is asked as its shell asks it. Commands and flags are taken from what --help prints, not
# from the tables that all of them are made of.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

MADE=$WEIGHTPAGER_BUILD/tools/manual/made
[[ -e $MADE/made ]] || skip "the manual is not made in this build"
PATH=$(dirname -- "$WEIGHTPAGER"):$PATH

# help_section TITLE: that section of the help in $OUT.
help_section() { sed -n "/^$1:\$/,/^\$/p" "$OUT"; }
subcommands() { help_section Commands | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }
flags() { help_section Options | sed -nE 's/^  (-., |    )(--[a-z-]+).*/\2/p'; }

# bash_completions WORD…: what TAB offers behind these words, of which the last is being typed.
bash_completions() {
  bash --norc -c '
    source "$1"
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _weightpager
    printf "%s\n" "${COMPREPLY[@]}"' - "$MADE/completion/weightpager" "$@" 2>/dev/null | sort -u
}

# zsh_specs WORD…: what the command's function gives to _arguments.
zsh_specs() {
  local function=_$*
  # shellcheck disable=SC2016  # zsh expands it
  zsh -f -c '
    _arguments() { print -l -- "$@" }
    _describe() { :; }
    source "$1" >/dev/null
    "${2// /_}" || true' - "$MADE/completion/_weightpager" "$function"
}

fish_completions() {
  fish --no-config -c "source '$MADE/completion/weightpager.fish'; complete -C '$*'" | cut -f 1
}

offers() { grep -qxF -- "$2" <<<"$1" || fail "$3 does not offer $2"; }

check_man_page() {
  local page=$MADE/man/$1.1 flag text
  [[ -s $page ]] || fail "there is no man page $1"
  text=$(groff -Kutf8 -man -ww -Tutf8 -P-cbou "$page" 2>"$SCRATCH/warnings")
  [[ ! -s $SCRATCH/warnings ]] || fail "$1: $(cat "$SCRATCH/warnings")"
  for flag in "${@:2}"; do
    grep -qE -- "^ +(-., )?$flag( |\$)" <<<"$text" || fail "$1(1) does not have $flag"
  done
}

check_completions() {
  local command=$1 flag bash zsh='' fish=''
  shift
  # shellcheck disable=SC2086  # the command's words
  bash=$(bash_completions $command --)
  # shellcheck disable=SC2086
  ! have zsh || zsh=$(zsh_specs $command)
  ! have fish || fish=$(fish_completions "$command --")
  for flag in "$@"; do
    offers "$bash" "$flag" "bash behind $command"
    ! have zsh || grep -qE -- "^\*$flag=?\[" <<<"$zsh" || fail "zsh does not know $command $flag"
    ! have fish || offers "$fish" "$flag" "fish behind $command"
  done
}

# check_command WORD…: a command and those below it. Leaves their number in CHECKED.
CHECKED=0
check_command() {
  local own_help below subcommand
  weightpager "${@:2}" --help
  expect_status 0
  local known=() names=()
  mapfile -t known < <(flags)
  mapfile -t names < <(subcommands)
  [[ " ${known[*]} " == *" --help "* ]] || fail "$* --help lists no --help"
  own_help=$(cat "$OUT")
  ! have scdoc || check_man_page "$(IFS=- && echo "$*")" "${known[@]}"
  check_completions "$*" "${known[@]}"
  CHECKED=$((CHECKED + 1))
  below=$(bash_completions "$@" '')
  for subcommand in "${names[@]}"; do
    offers "$below" "$subcommand" "bash behind $*"
    weightpager "${@:2}" "$subcommand" --help
    # Some have no help of their own.
    [[ $(cat "$OUT") == "$own_help" ]] || check_command "$@" "$subcommand"
  done
}

shellcheck "$MADE/completion/weightpager"
! have zsh || zsh -n "$MADE/completion/_weightpager"
! have fish || fish --no-execute "$MADE/completion/weightpager.fish"
have scdoc || note "no scdoc: man pages are not checked"
have zsh || note "no zsh: its completion is not checked"
have fish || note "no fish: its completion is not checked"
check_command weightpager
((CHECKED >= 19)) || fail "only $CHECKED commands were found"
! have scdoc || [[ $(find "$MADE/man" -name '*.1' | wc -l) == "$CHECKED" ]] || fail "there are pages of no command"

# Values: names, lists of names, files, behind = and behind a letter.
cd "$SCRATCH"
touch 'a model.gguf'
expect_completion() { [[ $(bash_completions "${@:2}") == "$1" ]] || fail "bash: $(bash_completions "${@:2}")"; }
expect_completion move weightpager run --mapper mov
expect_completion move weightpager run --mapper = mov
expect_completion lru,belady weightpager bench policies --policy lru,bel
expect_completion 'a model.gguf' weightpager model show a
expect_completion 'a model.gguf' weightpager infer --window 1MiB --names a
expect_completion llama-moe weightpager model make --arch llama-
expect_completion 'a model.gguf' weightpager plan a\ m
expect_completion 'activations' weightpager plan a
expect_completion touch weightpager run -w 1GiB -- touch
if have fish; then
  offers "$(fish_completions 'weightpager run --mapper mov')" move fish
  offers "$(fish_completions 'weightpager bench policies --policy lru,bel')" lru,belady fish
  offers "$(fish_completions 'weightpager run -w 1GiB -- touc')" touch fish
  offers "$(fish_completions 'weightpager pl')" plan fish
fi
