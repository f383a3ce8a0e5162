#!/usr/bin/env bash
# Runs a script of checks inside a small virtual machine with Debian's cloud kernel: the one place to try another kernel and a pure cgroup v2 tree. Emulated: a KVM device may be there and still not boot.
# Needs (as root: installs) qemu-system-x86, busybox-static, cpio and a linux-image-cloud-amd64.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:?usage: guest.sh RINGFENCE_BINARY CHECKS.sh}
checks=${2:?usage: guest.sh RINGFENCE_BINARY CHECKS.sh}
kernel=$(ls /boot/vmlinuz-*-cloud-amd64 | tail -1)
version=${kernel#/boot/vmlinuz-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib/x86_64-linux-gnu,usr/lib64,etc,proc,sys,dev,tmp,run,var/lib,root,home/user,new}
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root/"
cp "$(command -v busybox)" "$root/usr/bin/busybox"
for applet in $(busybox --list | grep -vx busybox); do ln -sf busybox "$root/usr/bin/$applet"; done
ln -sf ../bin/busybox "$root/usr/sbin/modprobe"
rm -f "$root/usr/bin/sh" && cp /usr/bin/bash "$root/usr/bin/bash" && ln -s bash "$root/usr/bin/sh"
strip -o "$root/usr/bin/ringfence" "$binary"
for program in "$binary" /usr/bin/bash; do # a static one names no library
    (ldd "$program" || true) | (grep -o '/[^ ]*' || true) | while read -r library; do cp -Ln "$library" "$root/usr/lib/x86_64-linux-gnu/"; done
done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/usr/lib64/"
cp "/lib/modules/$version/kernel/fs/overlayfs/overlay.ko" "$root/usr/lib/"
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' > "$root/etc/passwd"
printf 'ID=guest\n' > "$root/usr/lib/os-release"
cp "$checks" "$root/checks.sh"

cat > "$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t tmpfs tmpfs /new
cd / && for entry in usr bin sbin lib lib64 etc proc sys dev tmp run var root home checks.sh init2; do cp -a "/$entry" /new/; done
exec /bin/busybox switch_root /new /init2
INIT
cat > "$root/init2" <<'INIT'
#!/bin/busybox sh
export PATH=/usr/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
insmod /usr/lib/overlay.ko
ip link set lo up 2>/dev/null
chown -R 1000:1000 /home/user; chmod 1777 /tmp
bash /checks.sh; echo "GUEST EXIT $?"
reboot -f
INIT
chmod 755 "$root/init" "$root/init2"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$root.gz"
trap 'rm -rf "$root" "$root.gz"' EXIT
timeout 240 qemu-system-x86_64 -M microvm,acpi=off -accel tcg -cpu max -m 1024 -nodefaults -no-user-config -nographic -serial stdio -no-reboot \
    -kernel "$kernel" -initrd "$root.gz" -append "console=ttyS0 quiet panic=1 reboot=t lsm=landlock" </dev/null | tr -d '\r' | tee "${root}.log" | sed -un '/GUEST/p'
grep -q '^GUEST EXIT 0' "${root}.log"; status=$?; rm -f "${root}.log"; exit $status
