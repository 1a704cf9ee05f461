package volumes_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
)

// TestBytesPerObject: of a cluster whose volumes are all bound, each with its claim and its
// attachment. Nothing of them is to be looked at again.
func TestBytesPerObject(t *testing.T) {
	const many = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	c := volumes.New(volumes.Config{Serve: []string{one}})
	for i := range many {
		id := fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", uint32(i*2654435761), i)
		name := "pvc-" + id
		v := volumes.Volume{Phase: "Bound", Policy: "Delete", Driver: one, ProvisionedBy: one, Handle: "vol-0" + id[:16], Since: noon}
		v.Claim.Namespace, v.Claim.Name, v.Claim.UID = "shop", fmt.Sprint("data-db-", i), id
		o := object("PersistentVolume", name, "v"+id)
		o.Finalizers = []string{"kubernetes.io/pv-protection", volumes.Finalizer}
		c.Observe(noon, typeOf("PersistentVolume"), o, v)
		claim := object("PersistentVolumeClaim", fmt.Sprint("data-db-", i), id)
		c.Observe(noon, typeOf("PersistentVolumeClaim"), claim, volumes.Claim{Volume: name})
		c.Observe(noon, typeOf("VolumeAttachment"), object("VolumeAttachment", "csi-"+id+id, "a"+id), volumes.Attachment{Volume: name, Node: fmt.Sprint("node-", i%500)})
	}
	for kind := range resources {
		c.Synced(noon, typeOf(kind))
	}
	took := time.Since(began) / many
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / many
	if t.Logf("%.0f bytes and %v for a volume, its claim and its attachment", bytes, took); bytes > 3000 || c.Len() != 3*many {
		t.Errorf("%.0f bytes, %d objects", bytes, c.Len())
	}
	if f, _ := c.Explain(gc.Coordinates{UID: fmt.Sprintf("v%08x-89ab-4cde-8f01-%012x", 0, 0)}); f.Reason != volumes.NotReleased {
		t.Errorf("%+v", f)
	}
}
