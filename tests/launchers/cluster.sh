#!/bin/sh
# A cluster of Slurm with one node, in namespaces of its own (mounts, network, host name, processes): cluster.sh LOGS. All of it but
# what it writes into the directory LOGS is gone with this process.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --make-rprivate /
for place in /etc/slurm /run /dev/shm; do
    mount -t tmpfs none "$place"
done
mkdir /run/munge /run/state /run/spool /run/tmp
# Names are looked up only where there is an address that is not of the host itself (AI_ADDRCONFIG, getaddrinfo(3)).
address=10.255.255.1
ip link set lo up
ip address add "$address/32" dev lo
# What Open MPI leaves in /dev/shm has it in its name: it must not look like ours.
hostname host-test
echo "$address host-test" >/run/hosts
mount --bind /run/hosts /etc/hosts
cat >/etc/slurm/slurm.conf <<END
ClusterName=margay
SlurmctldHost=host-test($address)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/run/state
SlurmdSpoolDir=/run/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
TmpFS=/run/tmp
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
NodeName=host-test NodeAddr=$address CPUs=2 RealMemory=12000
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 DefMemPerNode=3000
END
head -c 128 /dev/urandom >/run/munge/key
chmod 600 /run/munge/key
munged --force --key-file=/run/munge/key --pid-file=/run/munge/pid --log-file="$1/munged.log" --seed-file=/run/munge/seed
slurmctld -D >"$1/slurmctld.log" 2>&1 &
slurmd -D >"$1/slurmd.log" 2>&1 &
wait
