# Makes, in the current directory, what the commands of programs.tsv read.
# Everything is the same each time, times and modes included.
set -eu
umask 022
export LC_ALL=C TZ=UTC

gcc -O1 -shared -fPIC -o stay.so "$(dirname "$0")/stay.c"
seq 1 1000 >numbers
seq -f 'line %04g of the text, some of it seven words' 1 200 >text
printf 'delta 4\nalpha 1\ncharlie 3\nbravo 2\nalpha 1\n' >words
printf 'alpha one\nbravo two\ncharlie three\ndelta four\n' >left
printf 'alpha 1\ncharlie 3\necho 5\n' >right
printf 'id,name,price\n1,nut,0.10\n2,bolt,0.25\n3,"screw, long",1.50\n' >table.csv
printf '{"name":"node","cores":[1,2,3],"quiet":true}\n' >data.json
printf 'a b\nb c\nc d\n' >pairs
printf 'one\ttwo\n\tthree\n' >tabs
printf '\000\001\002\377binary\n' >binary
printf 'scale=20\n2^100\n4*a(1)\n' >sums
cat >script <<'END'
trap 'echo a signal' USR1
kill -USR1 $$
cat <<HERE | sort
here: $(wc -l <words)
a document
HERE
for i in 1 2 3; do (exit $i); echo "status $?"; done
sleep 0.1 & wait $!; echo "waited $?"
sh -c 'kill -TERM $$'; echo "ended $?"
nosuchcommand 2>&-; echo "missing $?"
f() { echo "in a function of $(basename "$0")"; }
f | cat
echo a b c | while read -r x y; do echo "$y $x"; done
trap 'echo the end' EXIT
END
cat >script.bash <<'END'
#! /bin/bash -eu
echo "$# of $(basename "$0"): $1, ${BASH_VERSION%%.*}"
read -r name </proc/self/comm; mapfile -d '' args </proc/self/cmdline; printf '%s\n' "$name" "${args[@]}"
[ /proc/self/exe -ef /bin/bash ]
END
printf '#!./script.bash of a script\n' >script.nested
chmod +x script.*
printf 'all: one two\n\t@cat one two\none two: words\n\t@sort words >$@\n' >rules
mkdir -p project
cat >project/Makefile <<'END'
check: program
	@./program words
program: main.o count.o
	@gcc -o $@ $^
%.o: %.c count.h
	@gcc -O1 -c -o $@ $<
END
echo 'int count(const char *path);' >project/count.h
cat >project/count.c <<'END'
#include "count.h"
#include <stdio.h>
int count(const char *path)
{
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    return lines;
}
END
cat >project/main.c <<'END'
#include "count.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    printf("%d lines\n", count(argc > 1 ? argv[1] : "Makefile"));
    return 0;
}
END
cp words project/words
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(lines C)
enable_testing()
add_executable(lines main.c count.c)
add_test(NAME right COMMAND lines ${CMAKE_SOURCE_DIR}/words)
add_test(NAME wrong COMMAND lines --wrong)
set_tests_properties(right PROPERTIES PASS_REGULAR_EXPRESSION "5 lines")
set_tests_properties(wrong PROPERTIES PASS_REGULAR_EXPRESSION "7 lines")
END
cat >cmake.sh <<'END'
# What it says of time is left out, and all that it makes is removed.
cmake -S project -B made >cmake.log 2>&1 || cat cmake.log
cmake --build made -j2 >build.log 2>&1 || cat build.log
ctest --test-dir made 2>&1 | sed -e 's/ *[0-9.]* sec$//' -e '/Total Test time/d' -e '/directory/d'
rm -rf made cmake.log build.log
END
cat >git.sh <<'END'
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b HOME=$PWD GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_DATE='2001-02-03 04:05:06 +0000' GIT_COMMITTER_DATE='2001-02-03 04:05:06 +0000'
git init -q -b main repository && cd repository
cp ../words . && git add words && git commit -q -m first
git checkout -q -b other && sort words >sorted && git add sorted && git commit -q -m second
git checkout -q main && echo echo 9 >>words && git commit -q -a -m third
git merge -q -m merged other && git gc -q && git fsck
git log --graph --oneline && git diff HEAD~1 --stat && git blame words | cut -c1-8
cd .. && git clone -q repository copy && git -C copy log -1 --format=%H%s
rm -rf repository copy
END
cat >tmux.sh <<'END'
export TMUX_TMPDIR=$PWD TERM=screen
tmux -L margay -f /dev/null new-session -d -x 60 -y 6 'PS1="> " dash -i'
tmux -L margay send-keys 'echo $((6*7)) of $(wc -l <words); tmux -L margay wait-for -S said' Enter
tmux -L margay wait-for said
# The server may hear the client that says it before it has read what the terminal shows. The line begins with the prompt when the
# keys came before it.
until tmux -L margay capture-pane -p | grep -o '42 of 5$'; do sleep 0.02; done
tmux -L margay kill-server
rm -rf tmux-*
END
cat >threads.py <<'END'
import multiprocessing, os, threading
def double(n): return 2 * n
if __name__ == "__main__":
    done, results = threading.Event(), []
    waiter = threading.Thread(target=done.wait); waiter.start()
    def fork(code):
        pid = os.fork()
        if pid == 0: os._exit(code + threading.active_count())
        results.append((code, os.waitpid(pid, 0)[1] >> 8))
    forkers = [threading.Thread(target=fork, args=(n,)) for n in (10, 20, 30)]
    for thread in forkers: thread.start()
    for thread in forkers: thread.join()
    done.set(); waiter.join(); print(sorted(results))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=theirs.send, args=(["spawned", double(4)],)); process.start()
    print(ours.recv()); process.join(); print(process.exitcode)
END
cat >pool.py <<'END'
import multiprocessing
def count(number, lock, shared):
    for _ in range(100):
        with number.get_lock(): number.value += 1
        with lock: shared[0] += 0.5
def square(n): return n * n
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    number, lock, shared = context.Value("i", 0), context.Lock(), context.Array("d", 2, lock=False)
    counters = [context.Process(target=count, args=(number, lock, shared)) for _ in range(3)]
    for counter in counters: counter.start()
    for counter in counters: counter.join()
    print(number.value, list(shared), [counter.exitcode for counter in counters])
    with context.Pool(2) as pool: print(pool.map(square, range(10)))
    queue = context.Queue(); process = context.Process(target=queue.put, args=("queued",)); process.start()
    print(queue.get()); process.join()
END
printf '.TH PAGE 1 2001-02-03 "of a test"\n.SH NAME\npage \\- something to set\n.SH DESCRIPTION\n.B Bold\nand\n.I italic\ntext, filled and adjusted until a line is full and another one begins.\n' >page.1
mkdir -p tree/deep
cp text tree/text
cp words tree/deep/words
ln -s ../text tree/link
chmod 750 tree/deep
chmod 640 tree/text
find . -exec touch -h -d @1000000000 {} +
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf archive.tar tree
gzip -n -k archive.tar
xz -T1 -k text
seq 1 150000 >large
xz -T1 -0 --block-size=100000 -c large >blocks.xz
zstd -q -T1 -1 -k large
touch -d @1000000000 archive.tar archive.tar.gz text.xz large blocks.xz large.zst .
