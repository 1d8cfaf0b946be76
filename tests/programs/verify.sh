#!/bin/bash
# Runs the conformance programs natively: every row of programs.tsv,
# threads.tsv and children.tsv (or of TABLES) twice, and compares stdout, stderr, status and files
# of both runs and the status with the manifest. With --deny, also runs each row
# once more for every system call that it claims to notice, with that call taken
# away: the outcome must differ.
#
#   verify.sh [--deny] OUT [NAME...]        SIZE=1G verify.sh OUT
#   TABLES=threads.tsv verify.sh OUT
set -u
deny=
[ "${1-}" = --deny ] && deny=1 && shift
out=$(realpath "${1:?usage: verify.sh [--deny] OUT [NAME...]}")
shift
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: "${SIZE:=4M}" "${TABLES:=programs.tsv threads.tsv children.tsv}"
failures=0

# The words of an args column: single quotes group, SIZE is the size of streams,
# A..B the numbers from A to B. Sets the array `words`.
split() {
    words=()
    [ "$1" = - ] && return
    local -a raw
    eval "raw=(${1//\$/\\\$})" 2>/dev/null
    local w
    set -f
    for w in "${raw[@]}"; do
        case $w in
        SIZE) words+=("$SIZE") ;;
        [0-9]*..[0-9]*) words+=($(seq "${w%%.*}" "${w##*.}")) ;;
        *) words+=("$w") ;;
        esac
    done
    set +f
}

# run DIR COMMAND...: in a fresh DIR/cwd, with the row's stdin, limits and
# variables; leaves DIR/out, DIR/err, DIR/status.
run() {
    local dir=$1 stack= word
    shift
    local -a vars=()
    rm -rf "$dir"
    mkdir -p "$dir/cwd"
    for word in $extra; do
        case $word in
        env.*) vars+=("${word#env.}") ;;
        stack=*) stack=${word#stack=} ;;
        esac
    done
    (
        cd "$dir/cwd" || exit 99
        [ -n "$stack" ] && ulimit -s "$stack"
        case $stdin in
        none) exec </dev/null ;;
        pipe:*) exec < <("$out/tools/seq" "${stdin#pipe:}") ;;
        file:*) "$out/tools/seq" "${stdin#file:}" >"$dir/in"; exec <"$dir/in" ;;
        esac
        exec timeout --foreground 60 env -i "${vars[@]}" "$@" >"$dir/out" 2>"$dir/err"
    ) 2>/dev/null
    echo $? >"$dir/status"
    rm -f "$dir/in"
    # What the program left: kinds, modes, sizes and targets, then contents.
    (
        cd "$dir/cwd" && find . -printf '%P %y %m %l\n' | sort
        find . -type f -exec cksum {} + | sort
    ) >"$dir/files" 2>&1
    chmod -R u+rwX "$dir/cwd"
    rm -rf "$dir/cwd"
} 2>/dev/null

complain() {
    echo "FAIL $name: $*"
    failures=$((failures + 1))
}

count=0
while IFS=$'\t' read -r name category source kind args stdin status extra notices; do
    case $name in '#'* | '') continue ;; esac
    [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] && continue
    stdin=${stdin/SIZE/$SIZE}
    binary=$out/$kind/$(basename "${source%.*}")
    split "$args"
    run "$scratch/a" "$binary" ${words[@]+"${words[@]}"}
    run "$scratch/b" "$binary" ${words[@]+"${words[@]}"}
    difference=$(diff -r "$scratch/a" "$scratch/b" 2>&1) || complain "two runs differ: ${difference:0:500}"
    got=$(cat "$scratch/a/status")
    [ "$got" = "$status" ] || complain "status $got, expected $status: $(tail -n 3 "$scratch/a/err")"
    grep -a '^FAIL' "$scratch/a/out" | sed "s/^/  $name: /"
    if [ -n "$deny" ] && [ "$notices" != - ]; then
        for call in $notices; do
            run "$scratch/b" "$out/tools/deny" "$call" "$binary" ${words[@]+"${words[@]}"}
            diff -rq "$scratch/a" "$scratch/b" >/dev/null 2>&1 && complain "does not notice the loss of $call"
        done
    fi
    count=$((count + 1))
done < <(cd "$here" && cat $TABLES)
echo "$count rows, $failures failures"
[ "$failures" = 0 ]
