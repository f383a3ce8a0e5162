# Checks for another kernel and a pure cgroup v2 tree, as root and as an ordinary user, with and without a delegated cgroup.
fail=0
check() { # words expected, then a command
    local wanted=$1; shift
    local got; got=$("$@" 2>&1)
    case $got in
        *"$wanted"*) echo "GUEST ok: $wanted" ;;
        *) fail=1; echo "GUEST FAILED: wanted '$wanted' from: $*"; echo "$got" | sed 's/^/GUEST   /' ;;
    esac
}
as_user() { busybox su user -c "export RINGFENCE_HOME=/home/user/rf PATH=/usr/bin; cd /home/user; $*"; }
echo "GUEST kernel $(uname -r), $(ringfence doctor | grep -E 'landlock|cgroups' | tr -s ' ')"

check "version 2, in /sys/fs/cgroup/ringfence" ringfence doctor
check "grade kernel" ringfence doctor
check "hello" ringfence run -- echo hello
check "ended by the memory limit" ringfence run --limit memory=64MiB -- bash -c 'x=$(head -c 200m /dev/zero | tr "\0" x); echo ${#x}'
check "ended by the cpu limit" ringfence run --limit cpu=1s -- bash -c 'while :; do :; done'
check "ended by the wall limit" ringfence run --limit wall=1s -- sleep 20
check "limits reached: processes" ringfence run --limit processes=20 -- bash -c 'for i in $(seq 40); do sleep 3 & done 2>/dev/null; true'
check '"cpus": "kernel"' ringfence run --json --limit cpus=0.5 -- true
check "0" bash -c 'ls -d /sys/fs/cgroup/ringfence/*/ 2>/dev/null | wc -l'

mkdir -p /root/p; printf '1\n2\n' > /root/p/f; echo SECRET > /root/p/.env; chmod 600 /root/p/f
check "+3" bash -c 'ringfence run --project /root/p --export changes.patch --out /root/out -- bash -c "cat f >/dev/null && echo 3 >> f && mkdir d && echo n > d/n && rmdir /nothing 2>/dev/null; true" && cat /root/out/changes.patch'
check "new file mode" cat /root/out/changes.patch
check "NOTHERE" ringfence run --project /root/p -- bash -c 'cat .env 2>/dev/null || echo NOTHERE'
check "REPLACED" ringfence run --project /root/p -- bash -c 'rm f && mkdir f && echo REPLACED > f/g && cat f/g'

check "hello" as_user 'ringfence run -- echo hello'
check "grade watched" as_user 'ringfence doctor'
check "ended by the memory limit" as_user "ringfence run --limit memory=64MiB -- bash -c 'x=\$(head -c 60m /dev/zero | tr \"\\0\" x); y=\$x\$x; sleep 2; echo \${#y}'"
check "cannot be held here" as_user 'ringfence run --limit cpus=0.5 -- true'

# What a session manager delegates: a group of the user's own, with controllers handed down, the user's shell in a leaf of it.
mkdir -p /sys/fs/cgroup/user/shell
echo "+memory +pids +cpu" > /sys/fs/cgroup/cgroup.subtree_control
echo "+memory +pids +cpu" > /sys/fs/cgroup/user/cgroup.subtree_control
chown 1000:1000 /sys/fs/cgroup/user /sys/fs/cgroup/user/shell /sys/fs/cgroup/user/cgroup.* /sys/fs/cgroup/user/shell/cgroup.*
delegated() { sh -c "echo \$\$ > /sys/fs/cgroup/user/shell/cgroup.procs; exec busybox su user -c \"export RINGFENCE_HOME=/home/user/rf PATH=/usr/bin; cd /home/user; $*\""; }
check "version 2, in /sys/fs/cgroup/user/ringfence" delegated 'ringfence doctor'
check "hello" delegated 'ringfence run -- echo hello'
check '"memory": "kernel"' delegated 'ringfence run --json -- true'
check "ended by the memory limit" delegated "ringfence run --limit memory=64MiB -- tail -c 300m /dev/zero"
check "limits reached: processes" delegated "ringfence run --limit processes=10 -- bash -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 3 & done; true'"
exit $fail
