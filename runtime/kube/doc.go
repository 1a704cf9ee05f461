// Package kube tells which pods are bound to this node: what policy/container must know
// before anything counts as belonging to a pod that is gone, and which images are wanted by
// pods that have no container yet.
//
// There are two sources. [Kubelet] asks the node's kubelet, each time anew. [APIServer]
// lists and watches the node's pods. Both decode JSON into a few fields, one object at a
// time, with the standard library: the agent runs on every node, and typed clients cost tens
// of megabytes on each. docs/node-containers.md says what many nodes cost one API server.
//
// [APIServer.PostEvent] is the one thing that is written: Events about the node.
//
// # Invariants
//
// [Source.Pods] is complete, or an error. An answer that is cut off, too long, of another
// kind, without items or only a part of a list is an error, never a shorter list. So is any
// answer of somebody who is not Kubernetes. While there is an error, no pod may be taken for
// deleted. [Pass.Gone] asks afresh, and a bare 404, a refusal or silence proves nothing.
//
// The goroutine of [APIServer.Run] alone changes what a watch has reported; readers get a copy.
// Requests of [Kubelet] take turns.
//
// # Failure modes
//
// Errors carry one of the sentinels ([ErrUnauthorized], …), the address, the file and what a
// person can do about it. Tokens, certificates and authorities are read from their files
// again: tokens for each request, the others for each connection. No redirect is followed
// and no proxy used. All text of the other side is shortened, and cleaned of what a terminal
// would obey.
//
// # Sources
//
// k8s.io/kubernetes 1.36, pkg/kubelet: config/common.go (UIDs of static pods),
// pod/mirror_client.go, kubelet.go (syncLoopIteration), kubelet_pods.go (HandlePodCleanups),
// server/server.go (getPods), server/auth.go. "API concepts" of the Kubernetes documentation
// (watches, bookmarks, 410, resourceVersionMatch). k8s.io/apiserver 1.36: pkg/storage/cacher
// (waitUntilFreshAndBlock), pkg/storage/errors.go (NewTooLargeResourceVersionError).
// k8s.io/kubernetes 1.36, pkg/apis/core/validation/events.go; k8s.io/kubectl, pkg/describe
// (NodeDescriber), for Events.
package kube
