# Part of provision.sh: configuration files, at the paths that Debian and Kubernetes
# use.

configuration() {
	containerd_configuration
	network_configuration
	kubelet_configuration
	proxy_configuration
	audit_configuration
}

containerd_configuration() {
	# Critical pods lower oom_score_adj, which takes CAP_SYS_RESOURCE. Many containers
	# lack that capability, and the sandboxes of critical pods would not start in them.
	local restrict=false
	(echo -999 >/proc/self/oom_score_adj) 2>/dev/null || restrict=true
	mkdir -p /etc/containerd
	cat >/etc/containerd/config.toml <<-EOF
		version = 2
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "$sandbox"
		  restrict_oom_score_adj = $restrict
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "/etc/cni/net.d"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
		    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
		      SystemdCgroup = $([ $start = systemd ] && echo true || echo false)
	EOF
}

# One bridge connects all pods, which is enough for one node.
network_configuration() {
	mkdir -p /etc/cni/net.d
	cat >/etc/cni/net.d/10-ebb.conflist <<-EOF
		{
		  "cniVersion": "0.4.0",
		  "name": "ebb",
		  "plugins": [
		    {
		      "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
		      "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pods_net"}]], "routes": [{"dst": "0.0.0.0/0"}]}
		    },
		    {"type": "portmap", "capabilities": {"portMappings": true}}
		  ]
		}
	EOF
	if [ $start = systemd ]; then # also after the next boot
		modprobe -a br_netfilter overlay
		printf '%s\n' br_netfilter overlay >/etc/modules-load.d/ebb-cluster.conf
		printf '%s\n' net.bridge.bridge-nf-call-iptables=1 net.ipv4.ip_forward=1 >/etc/sysctl.d/90-ebb-cluster.conf
	fi
	# Replies from behind a Service return by the path that the request took.
	echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
	echo 1 >/proc/sys/net/ipv4/ip_forward
}

# The kubelet leaves image collection to ebb (docs/kubelet.md).
kubelet_configuration() {
	local driver=cgroupfs enforce='[]'
	[ $start = direct ] || driver=systemd enforce='[pods]'
	mkdir -p /var/lib/kubelet
	cat >/var/lib/kubelet/config.yaml <<-EOF
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		imageGCHighThresholdPercent: $image_gc
		imageMaximumGCAge: 0s
		address: $ip
		readOnlyPort: 0
		healthzBindAddress: 127.0.0.1
		tlsCertFile: $pki/kubelet-server.crt
		tlsPrivateKeyFile: $pki/kubelet-server.key
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
		authorization: {mode: Webhook}
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		cgroupDriver: $driver
		cgroupRoot: $root
		failCgroupV1: false
		enforceNodeAllocatable: $enforce
		failSwapOn: false
		# There is no DNS in this cluster: ebb needs none.
		resolvConf: ""
	EOF
}

proxy_configuration() {
	mkdir -p /var/lib/kube-proxy
	# The limits of connection tracking are the machine's: 0 leaves them.
	cat >/var/lib/kube-proxy/config.yaml <<-EOF
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		mode: nftables
		clientConnection: {kubeconfig: /etc/kubernetes/proxy.conf}
		clusterCIDR: $pods_net
		hostnameOverride: $node
		healthzBindAddress: 127.0.0.1:10256
		metricsBindAddress: 127.0.0.1:10249
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
	EOF
}

# Records all requests and their users, so that requests can be compared with ebb's
# roles.
audit_configuration() {
	cat >/etc/kubernetes/audit.yaml <<-EOF
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived, ResponseStarted]
		rules: [{level: Metadata}]
	EOF
}
