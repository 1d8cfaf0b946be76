# Sourced by run and mpi, with the arguments of both: TARGET, cargo's target directory. `same` runs a program natively and under
# yod and compares; `finish` counts. What Makefile built is in $target/apps.
target=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd) passed=0 failed=0
mkdir -p "$target/apps"
folder=$(mktemp -d "$target/apps/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export LC_ALL=C.UTF-8
# What starts the program, or yod, with its arguments; yod's options; a file that lies where the program runs; seconds that each
# run has at most.
launcher= options="-m 2G" file= limit=300

# same NAME STATUS RESULTS INPUT COMMAND...: RESULTS is a shell function that prints, of what the program said (its input) and of
# its files, what must be equal.
same() {
    name=$1 status=$2 results=$3 input=$4; shift 4
    for kind in linux margay; do
        mkdir -p "$folder/$name.$kind" && cd "$folder/$name.$kind" || exit 1
        [ -z "$file" ] || cp "$file" . || exit 1
        yod=; [ $kind = linux ] || yod="$target/release/yod --accel ${MARGAY_TEST_ACCEL:-tcg} --stats=json $options --"
        begun=$(date +%s%N)
        timeout -k 5 $limit $launcher $yod "$@" <"$input" >out 2>err
        echo "status $?" >results
        echo $(($(date +%s%N) - begun)) >ns
        $results <out >>results
    done
    cd "$folder" || exit 1
    if [ "$(head -1 $name.linux/results)" != "status $status" ] || [ "$(wc -l <$name.linux/results)" -lt 2 ]; then
        echo "FAIL  $name: natively: $(head -1 $name.linux/results)"; tail -5 $name.linux/err; failed=$((failed + 1))
    elif ! grep -q '"entries"' $name.margay/err; then
        echo "FAIL  $name: this did not run on Margay"; tail -5 $name.margay/err; failed=$((failed + 1))
    elif ! cmp -s $name.linux/results $name.margay/results; then
        echo "FAIL  $name: (< Linux, > Margay)"; diff $name.linux/results $name.margay/results | head -20
        tail -5 $name.margay/err; failed=$((failed + 1))
    else
        times=$(awk 'NR == 1 { linux = $1 } END { printf "%.1f", $1 / linux }' $name.linux/ns $name.margay/ns)
        echo "ok    $name: $(wc -l <$name.linux/results) lines are the same, $times times as long"; passed=$((passed + 1))
    fi
}

finish() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
said() { cat; }
