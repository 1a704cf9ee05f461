// Package kube tells which pods are bound to this node: what policy/container
// must know before anything counts as belonging to a pod that is gone, and which
// images are wanted by pods that have no container yet.
//
// There are two sources. [Kubelet] asks the node's kubelet, each time anew.
// [APIServer] lists and watches the node's pods. Both decode JSON into a few
// fields, one object at a time, with the standard library: the agent runs on
// every node, and typed clients cost tens of megabytes on each.
//
// # What is promised
//
// [Source.Pods] is complete, or an error. An answer that is cut off, too long,
// of another kind, without items or only a part of a list is an error, never a
// shorter list, and so is any answer of somebody who is not Kubernetes. While
// there is an error, no pod may be taken for deleted.
//
// [Source.Gone] asks afresh. A pod is gone if the source that has all pods does
// not name it; if the API server says, in so many words, that this pod does not
// exist; or if another pod has its name. A bare 404, a refusal or silence says
// nothing.
//
// # Who is who
//
// A static pod is a file on the node. Its containers carry a UID that the
// kubelet computes from the file, or the one written in it. The API server
// knows a mirror pod with a UID of its own and that one in the annotation
// kubernetes.io/config.hash, some time later or never. So from the API server
// [Pods].StaticKnown is false. The annotation is believed of a mirror pod only:
// anybody can write it into a pod.
//
// # When the kubelet knows its pods
//
// A kubelet that has just started answers /pods with what it has: first
// nothing, then static pods, and those of the API server only once that is
// reached, which may take hours. Nothing in the answer tells. The kubelet itself
// waits for every source before it removes anything (sourcesReady.AllReady),
// and what it does then for the first time is to set the metric
// kubelet_desired_pods, even for no pods. So its /metrics are read first; the
// metric proves that this process knows all its pods from then on. That it is
// still the same process is proven by the connection: the pods must come over
// the one on which the metric came, else both are read again. (Through a proxy
// that keeps connections open over a restart this proof would not hold.)
//
// The metric is alpha, of Kubernetes 1.27 and newer. Without it, or without
// permission to read it (nodes/metrics), the pods count as not known.
//
// # When the API server is trusted
//
// From a list on, and as long as the watch after it lives or can be begun anew
// at the first attempt. A watch that says nothing for 70 seconds (bookmarks come
// about every minute) is begun anew, and one on a dead connection fails within 15
// more; HTTP/2 pings notice it in 45. After anything else the pods are not
// known until a watch from where they were last known has gone on for a second,
// or until they have been listed anew.
//
// A list is not older than the newest version there was when it was asked for. That
// version is asked for first, by a list of one pod by its name: one key of
// etcd. So a list has every pod that was there, and yet comes from the server's
// cache. A list without a version would be read from etcd before Kubernetes 1.31,
// one with the version 0 could be of any age. An answer that is older than what was seen is
// refused once; then etcd is taken for one from a backup. Versions are
// compared as numbers where both are (KEP-5504).
//
// # What many nodes cost
//
// There are thousands of nodes and one API server. Small requests (a watch from a
// version, the newest version) are repeated within seconds, a list when its turn comes: at a
// random moment within [ListSpread], if the server was away or has forgotten
// what it told. The first list of a process comes at once. What failed
// doubles pauses, lists' four times over, and Retry-After is obeyed.
//
// The name of the node is the caller's word, and a wrong one gives empty lists.
// [APIServer.Gone] notices if the pod it is asked about is bound elsewhere. The
// credentials of a kubelet may not do: nodes may only ask for pods that exist,
// and get 403 for one that went.
//
// # Who owns what
//
// The goroutine of [APIServer.Run] alone changes what a watch has told. Readers
// get a copy. Requests of [Kubelet] take turns.
//
// # Failure modes
//
// Errors carry one of the sentinels ([ErrUnauthorized], …), the address, the
// file and what a person can do about it. Tokens, certificates and authorities
// are read from their files again: tokens for each request, the others for each
// connection. No redirect is followed and no proxy used. All text of the other
// side is shortened, and cleaned of what a terminal would obey.
//
// # Sources
//
// k8s.io/kubernetes 1.36: pkg/kubelet/config/common.go (applyDefaults: UIDs of
// static pods), pkg/kubelet/pod/mirror_client.go, pkg/kubelet/kubelet.go
// (syncLoopIteration: AddSource after a source's first pods, housekeeping only
// when all are there), kubelet_pods.go (HandlePodCleanups: the metric),
// pkg/kubelet/server/server.go (getPods), server/auth.go (nodes/pods, nodes/proxy,
// nodes/metrics). Watches, bookmarks and 410: "Efficient detection of changes" in
// the API concepts of the Kubernetes documentation, as are the meanings of
// resourceVersion and resourceVersionMatch. k8s.io/apiserver 1.36:
// pkg/storage/cacher (waitUntilFreshAndBlock: what a list waits for),
// pkg/storage/errors.go (NewTooLargeResourceVersionError).
package kube
