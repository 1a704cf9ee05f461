package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/csi"
)

const (
	pvsPath    = "/api/v1/persistentvolumes"
	openDriver = "open.example.com"
	lockDriver = "locked.example.com"
	token      = "a-word-that-no-log-has"
	protection = "kubernetes.io/pv-protection"
)

// storage is a cluster with volumes in all states, each a directory of a driver that runs.
type storage struct {
	*fixture
	t         *testing.T
	namespace string
	drivers   map[string]*csi.Driver
	sockets   map[string]string
	ids       map[string]string // by the volume's name
}

// newStorage starts drivers; hook is called before and after what they do.
func (b *fixture) newStorage(t *testing.T, before, after func(context.Context, string) error) *storage {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebbv") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &storage{fixture: b, t: t, namespace: b.scenario(t).namespace, drivers: map[string]*csi.Driver{}, sockets: map[string]string{}, ids: map[string]string{}}
	for n, c := range []csi.Config{{Name: openDriver, Before: before, After: after}, {Name: lockDriver, Token: token}} {
		c.Socket, c.Root = filepath.Join(dir, fmt.Sprint("s", n)), filepath.Join(dir, fmt.Sprint("v", n))
		d, err := csi.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Stop)
		s.drivers[c.Name], s.sockets[c.Name] = d, c.Socket
	}
	return s
}

func (s *storage) claimsPath() string {
	return "/api/v1/namespaces/" + s.namespace + "/persistentvolumeclaims"
}

// volume is a PersistentVolume that a test makes: what it changes of one that is to go.
type volume struct {
	name, driver string
	by           string // provisioned-by; empty: the driver; "-": nobody
	policy       string
	ago          time.Duration // released; 0: two days
	annotations  object
	finalizers   []string
	source       object // instead of CSI
	claim        string // its name; empty: the volume's
	namespace    string // of the claim
	handle       string // instead of its own
}

// make a volume whose claim is gone, and wait until the real controller has released it.
func (s *storage) make(v volume) {
	s.t.Helper()
	or := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	or(&v.driver, openDriver)
	or(&v.by, v.driver)
	or(&v.policy, "Delete")
	or(&v.claim, v.name)
	or(&v.namespace, s.namespace)
	if v.finalizers == nil {
		v.finalizers = []string{protection, volumes.Finalizer}
	}
	if v.source == nil && v.handle == "" {
		id, err := s.drivers[v.driver].Make(v.name)
		if err != nil {
			s.t.Fatal(err)
		}
		v.handle, s.ids[v.name] = id, id
	}
	spec := object{"capacity": object{"storage": "1Mi"}, "accessModes": []any{"ReadWriteOnce"}, "persistentVolumeReclaimPolicy": v.policy,
		"claimRef": object{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": v.namespace, "name": v.claim, "uid": "0a0a0a0a-0000-4000-8000-000000000000"}}
	if v.source == nil {
		v.source = object{"csi": object{"driver": v.driver, "volumeHandle": v.handle}}
	}
	maps.Copy(spec, v.source)
	annotations := object{}
	if v.by != "-" {
		annotations["pv.kubernetes.io/provisioned-by"] = v.by
	}
	maps.Copy(annotations, v.annotations)
	s.Must(s.t, http.MethodPost, pvsPath, object{"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec,
		"metadata": object{"name": v.name, "finalizers": v.finalizers, "annotations": annotations}})
	if v.ago == 0 {
		v.ago = 48 * time.Hour
	}
	s.release(v.name, v.ago)
}

// drop the object of a volume.
func (s *storage) drop(name string) {
	s.t.Helper()
	var now object
	if err := s.Ask(s.t.Context(), http.MethodGet, pvsPath+"/"+name, nil, &now); err != nil {
		s.t.Fatal(err)
	}
	now["metadata"].(object)["finalizers"] = []string{}
	s.Must(s.t, http.MethodPut, pvsPath+"/"+name, now)
	s.Must(s.t, http.MethodDelete, pvsPath+"/"+name, nil)
	s.AwaitGone(s.t, pvsPath+"/"+name)
}

// release waits until a volume is, and has it be so for longer than it was.
func (s *storage) release(name string, ago time.Duration) {
	s.t.Helper()
	path := pvsPath + "/" + name
	await.Holds(s.t, patience, name+" to be released", func(ctx context.Context) error {
		var now object
		if err := s.Ask(ctx, http.MethodGet, path, nil, &now); err != nil {
			return err
		}
		st, _ := now["status"].(object)
		if st["phase"] != "Released" && st["phase"] != "Failed" {
			return fmt.Errorf("it is %v", st["phase"])
		}
		st["lastPhaseTransitionTime"] = stamp(time.Now().Add(-ago))
		return s.Ask(ctx, http.MethodPut, path+"/status", now, nil)
	})
}

func (s *storage) claim(name, volume string) {
	s.t.Helper()
	spec := object{"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "none", "resources": object{"requests": object{"storage": "1Mi"}}}
	if volume != "" {
		spec["volumeName"] = volume
	}
	s.Must(s.t, http.MethodPost, s.claimsPath(), object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": name}, "spec": spec})
}

func (s *storage) attach(name, volume, node string) {
	s.t.Helper()
	s.Must(s.t, http.MethodPost, "/apis/storage.k8s.io/v1/volumeattachments", object{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
		"metadata": object{"name": name}, "spec": object{"attacher": openDriver, "nodeName": node, "source": object{"persistentVolumeName": volume}}})
}

func secretOf(namespace, name string) object {
	return object{"volume.kubernetes.io/provisioner-deletion-secret-namespace": namespace, "volume.kubernetes.io/provisioner-deletion-secret-name": name}
}

// fill makes volumes that are to go, and of each other kind one that is not, with the
// reason. Where only a live read finds the reason, it is "released" in the loop first.
func (s *storage) fill() (goes []string, stays map[string]gc.Reason, live map[string]gc.Reason) {
	t := s.t
	s.Must(t, http.MethodPost, "/api/v1/namespaces/"+s.namespace+"/secrets", object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "deletion"}, "stringData": object{"token": token}})
	s.make(volume{name: "go-plain"})
	s.make(volume{name: "go-secret", driver: lockDriver, annotations: secretOf(s.namespace, "deletion")})
	s.make(volume{name: "go-no-finalizer", finalizers: []string{protection}})
	s.make(volume{name: "go-half-done", finalizers: []string{}, handle: "volume-of-no-more"})
	s.make(volume{name: "go-deleted"})
	s.Must(t, http.MethodDelete, pvsPath+"/go-deleted", nil)
	s.make(volume{name: "other-deleted", by: "elsewhere.example.com"})
	s.Must(t, http.MethodDelete, pvsPath+"/other-deleted", nil)
	s.make(volume{name: "retain", policy: "Retain"})
	s.make(volume{name: "young", ago: 23*time.Hour + 50*time.Minute})
	s.make(volume{name: "reborn"})
	s.claim("reborn", "")
	s.make(volume{name: "wanted"})
	s.claim("another", "wanted")
	s.make(volume{name: "twin-1"})
	s.make(volume{name: "twin-2", handle: s.ids["twin-1"]})
	s.make(volume{name: "attached"})
	s.attach("attachment", "attached", "some-node")
	s.make(volume{name: "other-maker", by: "elsewhere.example.com"})
	s.make(volume{name: "not-made", by: "-"})
	s.make(volume{name: "held", finalizers: []string{protection, volumes.Finalizer, "external-attacher/open-example-com"}})
	s.make(volume{name: "half-a-secret", annotations: object{"volume.kubernetes.io/provisioner-deletion-secret-name": "deletion"}})
	s.make(volume{name: "wrong-secret", driver: lockDriver})
	s.make(volume{name: "no-secret", driver: lockDriver, annotations: secretOf(s.namespace, "no-such")})
	s.make(volume{name: "elder"})
	s.make(volume{name: "elders-disk", policy: "Retain", source: object{"hostPath": object{"path": "/disks/" + s.ids["elder"]}}})
	s.make(volume{name: "in-use"})
	s.Must(t, http.MethodPost, "/api/v1/namespaces/"+s.namespace+"/serviceaccounts", object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}})
	s.Must(t, http.MethodPost, "/api/v1/namespaces/"+s.namespace+"/pods", object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "user"},
		"spec": object{"containers": podSpec["containers"], "volumes": []any{object{"name": "v", "persistentVolumeClaim": object{"claimName": "in-use"}}}}})
	s.make(volume{name: "kept-namespace", namespace: "kube-system"})
	return []string{"go-deleted", "go-half-done", "go-no-finalizer", "go-plain", "go-secret"},
		map[string]gc.Reason{
			"retain": volumes.Retained, "young": volumes.Released, "reborn": volumes.OtherClaim, "wanted": volumes.ClaimWants, "twin-1": volumes.Shared, "twin-2": volumes.Shared,
			"attached": volumes.Attached, "other-maker": volumes.ProvisionerGone, "other-deleted": volumes.ProvisionerGone, "not-made": volumes.ReclaimFailed, "held": volumes.HeldByFinalizers,
			"half-a-secret": volumes.SecretUnclear, "elders-disk": volumes.Retained,
		}, map[string]gc.Reason{
			"elder": volumes.Shared, "in-use": volumes.InUse, "no-secret": "read the deletion secret", "wrong-secret": "the driver refuses", "kept-namespace": "",
		}
}

func (s *storage) serving(m config.Mode) func(*config.Config) {
	return func(c *config.Config) {
		c.Collectors.Volumes.Mode, c.Collectors.Jobs.Mode = m, m
		for name, socket := range s.sockets {
			c.Collectors.Volumes.Drivers = append(c.Collectors.Volumes.Drivers, config.Driver{Name: name, Socket: socket})
		}
		c.Exclude.Namespaces = []string{"kube-system"}
	}
}

func (s *storage) left(ctx context.Context) (names []string, err error) {
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	err = s.Ask(ctx, http.MethodGet, pvsPath, nil, &list)
	for _, o := range list.Items {
		names = append(names, o.Metadata.Name)
	}
	return names, err
}

// decided waits until r has decided about volumes, each in one way.
func (s *storage) decided(r *running, result string, names ...string) {
	s.t.Helper()
	await.Holds(s.t, patience, fmt.Sprintf("%q to be %s", names, result), func(context.Context) error {
		got := map[string]bool{}
		for _, d := range r.Decisions() {
			if d.Verb == "delete-volume" && (d.Result == result || strings.Contains(d.Error, result)) {
				got[d.Object.Name] = true
			}
		}
		if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, slices.Sorted(slices.Values(names))) {
			return fmt.Errorf("%q are", have)
		}
		return nil
	})
}
