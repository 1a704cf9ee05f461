# Part of provision.sh: the services of the machine. Each service is a script in
# /etc/kubernetes/services, so that both ways of starting it run the same.

services() {
	mkdir -p /etc/kubernetes/services /var/log/kubernetes /var/lib/etcd /run/etcd
	chmod 700 /var/lib/etcd /run/etcd
	etcd_service
	apiserver_service
	controller-manager
	service kube-scheduler kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=false --bind-address=127.0.0.1
	if [ $start = systemd ]; then # Debian's service, with the configuration from here
		systemctl restart containerd
	else
		service containerd containerd
	fi
	kubelet_service
	service kube-proxy kube-proxy --config=/var/lib/kube-proxy/config.yaml
}

controller-manager() {
	service kube-controller-manager kube-controller-manager --kubeconfig=/etc/kubernetes/controller-manager.conf \
		"--controllers=$controllers" --use-service-account-credentials --leader-elect=false \
		--service-account-private-key-file=$pki/service-accounts.key --root-ca-file=$pki/ca.crt --bind-address=127.0.0.1
}

kubelet_service() {
	service kubelet kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
		"--hostname-override=$node" "--node-ip=$ip"
}

# kubelet restarts the kubelet with a new configuration.
kubelet() {
	kubelet_configuration
	kubelet_service
}

# etcd serves on a socket in a directory that only root can enter: no port, no
# certificates.
etcd_service() {
	local socket=unix:///run/etcd/client.sock peers=unix:///run/etcd/peers.sock
	service etcd etcd --name=node --data-dir=/var/lib/etcd --log-level=warn \
		--listen-client-urls=$socket --advertise-client-urls=$socket \
		--listen-peer-urls=$peers --initial-advertise-peer-urls=$peers --initial-cluster=node=$peers ${etcd_flags:-}
}

apiserver_service() {
	service kube-apiserver kube-apiserver --etcd-servers=unix:///run/etcd/client.sock \
		"--advertise-address=$ip" --secure-port=6443 "--service-cluster-ip-range=$services_net" \
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged \
		--tls-cert-file=$pki/apiserver.crt --tls-private-key-file=$pki/apiserver.key --client-ca-file=$pki/ca.crt \
		--kubelet-client-certificate=$pki/apiserver-kubelet-client.crt --kubelet-client-key=$pki/apiserver-kubelet-client.key \
		--kubelet-certificate-authority=$pki/ca.crt --kubelet-preferred-address-types=InternalIP \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=$pki/service-accounts.key \
		--service-account-signing-key-file=$pki/service-accounts.key \
		--audit-policy-file=/etc/kubernetes/audit.yaml --audit-log-path=/var/log/kubernetes/audit.log --audit-log-maxsize=1024
}

# service NAME COMMAND...: starts a service that is restarted whenever it ends, or
# restarts it with new arguments.
service() {
	local name=$1 script=/etc/kubernetes/services/$1
	shift
	{
		echo '#!/bin/sh'
		printf 'PATH=%q:$PATH exec' "$bin"
		printf ' %q' "$@"
		echo
	} >"$script"
	chmod 755 "$script"
	if [ $start = direct ]; then
		stop_direct "$name"
		# As systemd does: restarts it whenever it ends, in a process group of its own.
		setsid sh -c 'while :; do "$0"; sleep 1; done' "$script" >>"/var/log/kubernetes/$name.log" 2>&1 </dev/null &
		echo $! >"/run/$name.pid"
		return
	fi
	cat >"/etc/systemd/system/$name.service" <<-EOF
		[Unit]
		Description=$name, of a one-node cluster for ebb
		After=network-online.target
		[Service]
		ExecStart=$script
		RuntimeDirectory=$([ "$name" != etcd ] || echo etcd)
		RuntimeDirectoryMode=0700
		Restart=always
		RestartSec=2
		Delegate=yes
		KillMode=process
		LimitNOFILE=1048576
		[Install]
		WantedBy=multi-user.target
	EOF
	systemctl daemon-reload
	systemctl enable --quiet "$name"
	systemctl restart "$name"
}

# stop_direct NAME: ends the service that was started directly under that name, if any.
stop_direct() {
	local pid
	pid=$(cat "/run/$1.pid" 2>/dev/null) || return 0
	kill -- "-$pid" 2>/dev/null || return 0
	until_works 30 gone "$pid"
}

# gone GROUP: succeeds if the process group has no process left.
gone() { ! kill -0 -- "-$1" 2>/dev/null; }

# until_works SECONDS COMMAND...: repeats a command until it succeeds. After SECONDS it
# fails with the command's last output.
until_works() {
	local end=$((SECONDS + $1)) output
	shift
	until output=$("$@" 2>&1); do
		[ $SECONDS -lt $end ] || fail "$*: $output"
		sleep 0.2
	done
}
