# Part of provision.sh: certificates. One authority signs all of them. There is no
# separate front-proxy authority, because a cluster without aggregated API servers needs
# none.

# key FILE: makes a private key, unless the file exists.
key() {
	[ -s "$1" ] || (umask 077 && openssl ecparam -name prime256v1 -genkey -noout -out "$1")
}

# certificate NAME SUBJECT [ALTERNATIVE-NAMES]: makes a client certificate. With
# alternative names it is a server certificate as well.
certificate() {
	local name=$pki/$1 usage=clientAuth
	[ ! -s "$name.crt" ] || return 0
	key "$name.key"
	[ -z "${3:-}" ] || usage=serverAuth,clientAuth
	{
		echo "extendedKeyUsage=$usage"
		[ -z "${3:-}" ] || echo "subjectAltName=$3"
	} >"$name.ext"
	openssl req -new -key "$name.key" -subj "$2" |
		openssl x509 -req -days 3650 -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial \
			-extfile "$name.ext" -out "$name.crt" 2>/dev/null
	rm "$name.ext"
}

# kubeconfig FILE NAME SUBJECT: makes a kubeconfig with its own client certificate.
kubeconfig() {
	certificate "$2" "$3"
	[ ! -s "/etc/kubernetes/$1" ] || return 0
	(
		umask 077
		cat >"/etc/kubernetes/$1" <<-EOF
			apiVersion: v1
			kind: Config
			clusters: [{name: ebb, cluster: {server: "$api", certificate-authority: $pki/ca.crt}}]
			users: [{name: $2, user: {client-certificate: $pki/$2.crt, client-key: $pki/$2.key}}]
			contexts: [{name: ebb, context: {cluster: ebb, user: $2}}]
			current-context: ebb
		EOF
	)
}

certificates() {
	mkdir -p $pki
	chmod 700 $pki
	key $pki/ca.key
	[ -s $pki/ca.crt ] || openssl req -x509 -new -key $pki/ca.key -days 3650 -subj /CN=ebb-cluster -out $pki/ca.crt
	key $pki/service-accounts.key
	certificate apiserver /CN=kube-apiserver \
		"IP:127.0.0.1,IP:$ip,IP:$first_service,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
	certificate apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
	certificate kubelet-server "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$ip,IP:127.0.0.1"
	kubeconfig admin.conf admin /O=system:masters/CN=admin
	kubeconfig controller-manager.conf controller-manager /CN=system:kube-controller-manager
	kubeconfig scheduler.conf scheduler /CN=system:kube-scheduler
	kubeconfig kubelet.conf kubelet "/O=system:nodes/CN=system:node:$node"
	kubeconfig proxy.conf proxy /CN=system:kube-proxy
}
