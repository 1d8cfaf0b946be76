#!/bin/sh
# Two hosts, host-a and host-b: namespaces of their own on this machine, each with its end of a network (veth). This process and
# what enters its namespaces is on the first. /run/agent takes the place of ssh: agent [OPTIONS] HOST COMMAND.
# What Open MPI leaves has the host's name in it, so that must not look like ours.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --make-rprivate /
for place in /run /dev/shm; do
    mount -t tmpfs none "$place"
done
# As it is in this network.
mount -t sysfs none /sys
printf '127.0.0.1 localhost\n10.255.0.1 host-a\n10.255.0.2 host-b\n' >/run/hosts
mount --bind /run/hosts /etc/hosts
hostname host-a
ip link set lo up

unshare -m -n -u -i -p -f --mount-proc --kill-child /bin/sh -c '
    mount -t tmpfs none /dev/shm
    mount -t sysfs none /sys
    hostname host-b
    ip link set lo up
    : >/run/second
    exec sleep infinity' &
until [ -e /run/second ]; do sleep 0.1; done
second=$(tr -d " " </proc/$!/task/$!/children)

ip link add veth-a type veth peer name veth-b netns "$second"
ip address add 10.255.0.1/24 dev veth-a
ip link set veth-a up
nsenter -t "$second" -n ip address add 10.255.0.2/24 dev veth-b
nsenter -t "$second" -n ip link set veth-b up
until grep -q up /sys/class/net/veth-a/operstate && nsenter -t "$second" -m grep -q up /sys/class/net/veth-b/operstate; do
    sleep 0.1
done

cat >/run/agent <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
[ "\$1" = host-b ] || exit 1
shift
exec nsenter -t $second -m -u -i -p -n /bin/sh -c "cd \$PWD && \$*"
END
chmod 755 /run/agent
: >/run/ready
wait
