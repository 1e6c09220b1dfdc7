#compdef weightpager
# zsh completion for weightpager. The functions of the commands are appended by tools/manual.

_weightpager_pagers() {
  local -a pagers
  pagers=(${${(f)"$(weightpager ps 2>/dev/null)"}[2,-1]})
  pagers=(${${pagers## #}%% *})
  _wanted pagers expl pager compadd -a pagers
}
