# Runs a command where it can harm nothing: as a user that owns only the directory it is in, in namespaces of its own, with
# all else read-only. As root, process 1 of its namespace:
#   confined.sh TARGET SCRATCH COMMAND ARGUMENT...
# What the command leaves (processes, temporary files) is listed in SCRATCH/left.
set -e
target=$1 scratch=$2
shift 2
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/target /mnt/scratch
mount --bind "$target" /mnt/target
mount -o remount,bind,ro /mnt/target
mount --bind "$scratch" /mnt/scratch
for shared in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o mode=1777 none "$shared"; done
mount -o remount,bind,ro /
cd /mnt/scratch/cwd
status=0
setpriv --reuid=65533 --regid=65533 --clear-groups --no-new-privs -- "$@" || status=$?

# Processes that are neither this shell nor dead.
processes() {
    for process in /proc/[0-9]*; do
        { read -r stat < "$process/stat"; } 2> /dev/null || continue
        case $stat in
        "1 "* | *") Z "*) ;;
        *) echo "process ${stat%%)*})" ;;
        esac
    done
}

# What is killed takes a moment to go.
tries=0
while [ $tries -lt 1000 ]; do
    processes > /mnt/scratch/left
    [ -s /mnt/scratch/left ] || break
    tries=$((tries + 1))
    sleep 0.02
done
find /tmp /var/tmp /dev/shm /mnt/scratch/tmp -mindepth 1 >> /mnt/scratch/left
exit $status
