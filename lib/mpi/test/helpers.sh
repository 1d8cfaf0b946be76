# What the scripts beside this one share: each line of a test says "ok" or "FAIL", and `failed` becomes 1.
# The helpers themselves are tested by `run`.
failed=0
judge() { # name, whether its status is right, text that must appear, what it said
    case $2,$4 in
    yes,*"$3"*) echo "ok    $1" ;;
    *) echo "FAIL  $1"; echo "$4" | head -20 | cut -c1-160; failed=1 ;;
    esac
}
timed() { # runs a command: `said`, `status`, and where it took long, the time in its `name`
    begin=$(date +%s)
    said=$("$@") && status=0 || status=$? # under set -e too
    seconds=$(($(date +%s) - begin))
    [ $seconds -lt 20 ] || name="$name ($seconds s)"
}
hung() { # whether a status is one of `timeout -k`
    case $1 in 124 | 137) ;; *) return 1 ;; esac
}
expect() { # name, text that must appear, command that must succeed...
    name=$1 text=$2; shift 2
    timed "$@"
    case $status in 0) right=yes ;; *) right="no, $status" ;; esac
    judge "$name" "$right" "$text" "$said"
}
expect_failure() { # name, text that must appear, command that must fail but not hang...
    name=$1 text=$2; shift 2
    timed "$@"
    case $status in 0 | 124) right="no, $status" ;; *) right=yes ;; esac
    judge "$name" "$right" "$text" "$said"
}
expect_survivors() { # as expect; what the launcher makes of the dead does not matter, a hang does
    name=$1 text=$2; shift 2
    timed "$@"
    if hung $status; then right="no, $status"; else right=yes; fi
    judge "$name" "$right" "$text" "$said"
}
gone() { # whether a process has ended; one that nobody has waited for yet has
    case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | [ZX]*) ;; *) return 1 ;; esac
}
wait_until() { # command...: false when it takes too long: limit_s
    tenths=$((limit_s * 10))
    while ! "$@"; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || return 1
        sleep 0.1
    done
}
