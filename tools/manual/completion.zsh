#compdef weightpager
# zsh completion for weightpager. tools/manual appends the functions of the commands.

_weightpager_pagers() {
  local -a pagers
  pagers=(${${(f)"$(weightpager ps 2>/dev/null)"}[2,-1]})
  pagers=(${${pagers## #}%% *})
  _wanted pagers expl pager compadd -a pagers
}
