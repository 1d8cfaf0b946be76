# Makes, in the current directory, what the commands of programs.tsv read.
# Everything is the same each time, times and modes included.
set -eu
umask 022
export LC_ALL=C TZ=UTC

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
printf 'all: one two\n\t@cat one two\none two: words\n\t@sort words >$@\n' >rules
mkdir -p tree/deep
cp text tree/text
cp words tree/deep/words
ln -s ../text tree/link
chmod 750 tree/deep
chmod 640 tree/text
find . -exec touch -h -d @1000000000 {} +
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf archive.tar tree
xz -T1 -k text
seq 1 150000 >large
xz -T1 -0 --block-size=100000 -c large >blocks.xz
zstd -q -T1 -1 -k large
touch -d @1000000000 archive.tar text.xz large blocks.xz large.zst .
