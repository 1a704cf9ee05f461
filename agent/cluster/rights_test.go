package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/policy/volumes"
)

// withEverything has the API server serve what any collector reads.
func withEverything(f *fake) {
	withNodes(f)
	withVolumes(f)
	f.types = append(f.types, gc.Type{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"}, gc.Type{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespaced: true},
		gc.Type{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest", Resource: "certificatesigningrequests"},
		gc.Type{APIVersion: "certificates.k8s.io/v1", Kind: "PodCertificateRequest", Resource: "podcertificaterequests", Namespaced: true})
}

// garbage makes something for each collector to delete.
func (f *fake) garbage() {
	defer f.lock()()
	put := func(apiVersion, kind, namespace, name string, fields any) {
		f.fields[kind+name] = fields
		f.store(gc.Object{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name, UID: kind + name})
	}
	old, ttl := time.Now().AddDate(0, -1, 0), int32(1)
	put("v1", "Pod", "b", "of-lost-node", pods.Pod{Phase: "Running", Node: "lost", Created: old})
	put("batch/v1", "Job", "a", "done", jobs.Job{TTL: &ttl, Ended: true, Finished: old})
	put("certificates.k8s.io/v1", "CertificateSigningRequest", "", "request", csrs.Request{Created: old})
	put("certificates.k8s.io/v1", "PodCertificateRequest", "a", "pod-request", csrs.PodRequest{Created: old})
	put("coordination.k8s.io/v1", "Lease", "kube-node-lease", "lost", leases.Lease{Holder: "lost", Expires: old})
	put("coordination.k8s.io/v1", "Lease", "a", "election", leases.Lease{Holder: "gone-pod", Expires: old})
	v := volumes.Volume{Phase: "Released", Policy: "Delete", Driver: "d.example.com", ProvisionedBy: "d.example.com", Handle: "h", Since: old}
	v.Claim.Namespace, v.Claim.Name, v.Claim.UID, v.Secret.Namespace, v.Secret.Name = "a", "claim", "old", "a", "secret"
	f.fields["volume"] = v
	f.store(gc.Object{APIVersion: "v1", Kind: "PersistentVolume", Name: "volume", UID: "volume", Finalizers: []string{volumes.Finalizer}})
	put("v1", "Secret", "a", "secret", map[string]string{})
	put("storage.k8s.io/v1", "VolumeAttachment", "", "attachment", volumes.Attachment{Volume: "another", Node: "empty"}) // and no Pod is bound to it
	put("storage.k8s.io/v1", "CSINode", "", "empty", volumes.Drivers{"d.example.com"})
}

// TestRights: each collector, with everything on, asks for what Rights has, and for no more. In mode
// observe it reads alone.
func TestRights(t *testing.T) {
	for _, r := range registry {
		for _, mode := range []config.Mode{config.Observe, config.Enforce} {
			t.Run(fmt.Sprint(r.name, " ", mode), func(t *testing.T) {
				var cfg config.Config
				inBubble(t, func(c *config.Config) {
					of := &c.Collectors
					for _, other := range Collectors() {
						of.SetMode(other, config.Off)
					}
					of.SetMode(r.name, mode)
					of.Nodes.Label, of.Nodes.Inventory.File = "decommissioned", "/inventory"
					of.Volumes.Drivers, of.Volumes.Attachments, of.Volumes.CSINodes = []config.Driver{{Name: "d.example.com", Socket: "/s"}}, true, true
					of.Leases.Elections = []config.Election{{Names: []string{"*"}, After: config.Duration(time.Hour), Delete: true}}
					cfg = *c
				}, withEverything, func(b *fixture) {
					b.machinesThere()
					b.driver = &driver{}
					b.api.garbage()
					b.after(12 * time.Hour)
					// What it follows it may read in any way.
					follows := func(right Right, _ bool) bool {
						return slices.ContainsFunc(r.types, func(t watched) bool {
							return right.Group == t.resource().Group && right.Resource == t.resource().Resource && right.Verb != "delete" && right.Verb != "patch"
						})
					}
					want := map[Right]bool{}
					for _, right := range Rights(cfg) {
						right.Namespace = "" // which the fake does not distinguish
						want[right] = true
					}
					b.api.mu.Lock()
					asked := maps.Clone(b.api.asked)
					b.api.mu.Unlock()
					maps.DeleteFunc(want, follows)
					maps.DeleteFunc(asked, follows)
					if diff := cmp.Diff(want, asked); diff != "" {
						t.Errorf("its rights, and what it asked for (-rights +asked):\n%s", diff)
					}
					for right := range asked {
						if mode == config.Observe && (right.Verb == "delete" || right.Verb == "patch") {
							t.Errorf("while it observes: %v", right)
						}
					}
				})
			})
		}
	}
}
