# Sourced after same.sh: GROMACS's input, 216 molecules of water, as water.tpr in $folder, and what must be equal of its result.

# How many atoms there are, and which are elsewhere than on Linux: instructions that approximate do so differently on each
# processor. Positions, in nm, have three decimals.
positions() {
    awk 'function at(line, i) { return substr(line, 21 + 8 * i, 8) + 0 }
        FNR == NR { linux[FNR] = $0; next }
        length($0) > 44 {
            atoms++
            for (i = 0; i < 3; i++) {
                off = at(linux[FNR], i) - at($0, i)
                if (off > 0.002 || off < -0.002) print "off by " off ": " $0
            }
        }
        END { print atoms " atoms" }' "$folder/$name.linux/out.gro" out.gro
}
cp "$here"/water.* /usr/share/gromacs/top/spc216.gro "$folder"
cd "$folder" && gmx grompp -quiet -f water.mdp -c spc216.gro -p water.top -o water.tpr -maxwarn 2 >grompp 2>&1 ||
    { cat grompp; exit 1; }
