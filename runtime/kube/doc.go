// Package kube reports which pods are bound to this node. policy/container must know this before
// it treats anything as belonging to a deleted pod. The pods also show which images are wanted by
// pods that have no container yet.
//
// There are two sources. [Kubelet] asks the node's kubelet on each call. [APIServer] lists and
// watches the node's pods. Both decode JSON into a few fields, one object at a time, with the
// standard library: the agent runs on every node, and typed clients cost tens of megabytes on
// each. docs/node-containers.md has the cost of many nodes for one API server.
//
// [APIServer.PostEvent] is the only write: it writes Events about the node.
//
// # Invariants
//
// [Source.Pods] returns all pods or an error. An answer that is cut off, too long, of another
// kind, without items or only a part of a list is an error, never a shorter list. So is any
// answer of a server that is not Kubernetes. During an error, no pod may be treated as deleted.
// [Pass.Gone] asks again, and a bare 404, a refusal or a timeout proves nothing.
//
// Only the goroutine of [APIServer.Run] changes what a watch has reported; readers get a copy.
// [Kubelet] reads one list at a time.
//
// # Failure modes
//
// Errors carry one of the sentinels ([ErrUnauthorized], …), the address, the file and a hint
// about the fix. Tokens, certificates and authorities are read from their files again: tokens for
// each request, the others for each connection. No redirect is followed and no proxy used. Text
// from the server is shortened, and cleaned of what a terminal would interpret.
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
