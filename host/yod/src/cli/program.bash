
# Behind the options come a command and its arguments.
_yod_or_program() {
    local cur=${COMP_WORDS[COMP_CWORD]} i=1
    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
            --) ((i++)); break ;;
            @WITH_VALUE@)
                # readline takes "=" for a word.
                [[ ${COMP_WORDS[i + 1]} == = ]] && ((i++))
                ((i += 2)) ;;
            -*)
                ((i++))
                [[ ${COMP_WORDS[i]} == = ]] && ((i += 2)) ;;
            *) break ;;
        esac
    done
    if ((i < COMP_CWORD)); then
        if declare -F _command_offset > /dev/null; then
            _command_offset "$i"
        else
            COMPREPLY=($(compgen -f -- "$cur"))
        fi
    elif ((i == COMP_CWORD)) && [[ $cur != -* || ${COMP_WORDS[i - 1]} == -- ]]; then
        if [[ $cur == */* ]]; then
            COMPREPLY=($(compgen -f -- "$cur"))
        else
            COMPREPLY=($(compgen -c -- "$cur"))
        fi
    else
        local prev=${COMP_WORDS[COMP_CWORD - 1]}
        [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
        [[ $cur == = ]] && cur=
        _yod "$1" "$cur" "$prev"
    fi
}
complete -F _yod_or_program -o bashdefault -o default yod
