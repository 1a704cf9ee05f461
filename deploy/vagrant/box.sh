#!/usr/bin/env bash
# Makes a box for Vagrant and libvirt: Debian 12 for amd64, from Debian's packages alone,
# with the apt sources of this machine. It has all Debian packages that
# deploy/cluster/provision.sh and the node benchmark need, so that a machine made from it
# installs nothing.
#
# usage: deploy/vagrant/box.sh FILE
#        deploy/vagrant/box.sh --packages   lists its packages, besides those that Debian always has
#
# The ssh server's keys are made here, once: do not share the box.
set -euo pipefail

packages=(
	# a machine that boots, and that Vagrant can talk to
	linux-image-cloud-amd64 initramfs-tools systemd-sysv systemd-resolved dbus udev kmod
	openssh-server sudo rsync
	# deploy/cluster/provision.sh
	containerd runc containernetworking-plugins iptables nftables openssl iproute2 prometheus
	# a throwaway node, on which the benchmark runs
	busybox-static e2fsprogs xfsprogs btrfs-progs erofs-utils mount util-linux fio
)
# Units that are not needed here and take minutes on an emulated machine. provision.sh
# starts Prometheus itself, with another configuration.
disabled=(apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer prometheus)
readonly gib=20 # of the disk, which is sparse

fail() { echo "box.sh: $*" >&2; exit 1; }
[ $# = 1 ] || fail "which file? see the head of $0"
if [ "$1" = --packages ]; then
	printf '%s\n' "${packages[@]}"
	exit
fi
[ "$(id -u)" = 0 ] || fail "needs root"
[ "$(. /etc/os-release && echo "$VERSION_CODENAME")/$(dpkg --print-architecture)" = bookworm/amd64 ] ||
	fail "makes boxes on Debian 12 for amd64 only"

file=$(realpath "$1")
# Beside the file: the root is too large for a /tmp in memory.
work=$(mktemp -d "$file.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

# With this machine's mirrors, proxies, and patience with old indexes.
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
	'Created-By: Packages' 'Origin: Debian' 'Architecture: amd64')
[ -n "$sources" ] || fail "no index of Debian's packages; first: apt-get update"
apt-config dump Acquire >"$work/apt.conf"

echo "box.sh: ${#packages[@]} packages, and what they depend on"
# The initramfs gets only the kernel modules that read the disk.
mmdebstrap --quiet --variant=minbase --architectures=amd64 --include="${packages[*]}" \
	--aptopt="$work/apt.conf" --dpkgopt=force-unsafe-io \
	--essential-hook='cd "$1" && mkdir -p etc/initramfs-tools/conf.d usr/share/initramfs-tools/modules.d' \
	--essential-hook='echo MODULES=list >"$1/etc/initramfs-tools/conf.d/box"' \
	--essential-hook='printf "%s\n" virtio_pci virtio_blk ext4 >"$1/usr/share/initramfs-tools/modules.d/box"' \
	bookworm "$root" - <<<"$sources"
rm -f "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap

# As Vagrant requires of a base box
# (https://developer.hashicorp.com/vagrant/docs/boxes/base): a user with a public,
# well-known key, which Vagrant replaces, and with full sudo rights.
chroot "$root" useradd --create-home --shell /bin/bash vagrant
install -d -m 700 "$root/home/vagrant/.ssh"
cat "$(dpkg -L vagrant | grep '/keys/vagrant.pub$')" >"$root/home/vagrant/.ssh/authorized_keys"
chroot "$root" chown -R vagrant:vagrant /home/vagrant/.ssh
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/vagrant"
# The names of network cards depend on the machine. They do not match those of pods'
# interfaces.
printf '%s\n' '[Match]' 'Name=en* eth*' '[Network]' DHCP=ipv4 >"$root/etc/systemd/network/box.network"
ln -sf /run/systemd/resolve/resolv.conf "$root/etc/resolv.conf"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
echo bookworm >"$root/etc/hostname"
: >"$root/etc/machine-id" # each machine makes its own
: >"$root/etc/fstab"
chroot "$root" systemctl --quiet enable systemd-networkd
chroot "$root" systemctl --quiet disable "${disabled[@]}"

echo "box.sh: a disk of $gib GiB"
truncate -s ${gib}G "$work/disk"
sfdisk --quiet "$work/disk" <<<'2048,,83,*'
mke2fs -q -t ext4 -d "$root" -E offset=$((1 << 20)) "$work/disk" $(((gib << 20) - 1024))k
# Nothing is mounted, so grub-install cannot be used. boot.img goes into the first
# sector, which the firmware reads. The rest goes behind it, where boot.img looks for it.
# The console of a machine without a screen is its serial port.
cat >"$work/grub.cfg" <<-'EOT'
	serial --unit=0 --speed=115200
	terminal_output serial
	set root=(hd0,msdos1)
	linux /vmlinuz root=/dev/vda1 rw console=ttyS0 no_timer_check
	initrd /initrd.img
	boot
EOT
grub-mkimage --format=i386-pc --prefix='(hd0,msdos1)/boot/grub' --config="$work/grub.cfg" \
	--output="$work/core.img" biosdisk part_msdos ext2 linux serial terminal
dd if=/usr/lib/grub/i386-pc/boot.img of="$work/disk" bs=440 count=1 conv=notrunc status=none
dd if="$work/core.img" of="$work/disk" bs=512 seek=1 conv=notrunc status=none

qemu-img convert -O qcow2 "$work/disk" "$work/box.img"
echo "{\"provider\": \"libvirt\", \"format\": \"qcow2\", \"virtual_size\": $gib}" >"$work/metadata.json"
# The box records the driver that works on this machine, so that Vagrant need not boot a
# probe with each command. An emulated machine gets a simple CPU, without CMPXCHG16B:
# tools/vm says why.
driver=$("$(dirname "$0")/driver.sh" "$root/vmlinuz")
echo "box.sh: its machines run with libvirt's driver $driver"
{
	echo 'Vagrant.configure("2") do |config|'
	echo '  config.vm.provider "libvirt" do |libvirt|'
	echo "    libvirt.driver = \"$driver\""
	[ "$driver" = kvm ] || cat <<-'EOT'
		    libvirt.cpu_mode = "custom"
		    libvirt.cpu_model = "qemu64"
		    libvirt.cpu_feature name: "cx16", policy: "disable"
	EOT
	printf '%s\n' '  end' end
} >"$work/Vagrantfile"
tar --directory="$work" --use-compress-program='gzip -1' -cf "$file" metadata.json Vagrantfile box.img
