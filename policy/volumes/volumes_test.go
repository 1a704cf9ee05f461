package volumes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/volumes"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// good is a volume that is to go.
func good() volumes.Volume {
	v := volumes.Volume{Phase: "Released", Policy: "Delete", Driver: one, Handle: "h", ProvisionedBy: one, Since: noon.Add(-24 * time.Hour)}
	v.Claim.Namespace, v.Claim.Name, v.Claim.UID = "ns", "data", "uid-1"
	return v
}

func object(kind, name, uid string) gc.Object {
	t := typeOf(kind)
	o := gc.Object{APIVersion: t.APIVersion, Kind: kind, Name: name, UID: uid, ResourceVersion: "7"}
	if t.Namespaced {
		o.Namespace = "ns"
	}
	if kind == "Lease" {
		o.Namespace = "kube-node-lease"
	}
	return o
}

// cluster is what a collector observes.
type cluster struct {
	volume  volumes.Volume
	object  gc.Object
	unread  string // a type that cannot be read
	others  []thing
	changed func(*volumes.Config)
}

func (c *cluster) add(kind, name, uid string, fields any) {
	c.others = append(c.others, thing{object(kind, name, uid), fields})
}

func (c *cluster) collector(config volumes.Config) *volumes.Collector {
	if c.changed != nil {
		c.changed(&config)
	}
	to := volumes.New(config)
	for kind := range resources {
		to.Listing(noon, typeOf(kind))
	}
	to.Observe(noon, typeOf("PersistentVolume"), c.object, c.volume)
	for _, o := range c.others {
		to.Observe(noon, typeOf(o.Kind), o.Object, o.fields)
	}
	for kind := range resources {
		if to.Synced(noon, typeOf(kind)); kind == c.unread {
			to.Unreadable(noon, typeOf(kind))
		}
	}
	return to
}

func volumeAction(c *cluster) gc.Action {
	return gc.Action{Verb: gc.DeleteVolume, Driver: c.volume.Driver, ResourceVersion: c.object.ResourceVersion,
		Object: gc.Coordinates{APIVersion: "v1", Kind: "PersistentVolume", Resource: "persistentvolumes", Name: "pv", UID: "uid-pv"}}
}

// deletedByHand: somebody deleted the volume, and its provisioner's finalizer holds it.
func deletedByHand(c *cluster) {
	c.object.Terminating, c.object.Finalizers = true, []string{volumes.Finalizer}
}

// TestRules: one thing is otherwise than with a volume that goes, and it stays. Each is a
// way in which live data could be deleted, or a right to delete is missing.
func TestRules(t *testing.T) {
	config := volumes.Config{Serve: []string{one}}
	for name, test := range map[string]struct {
		change func(c *cluster)
		want   gc.Reason
	}{
		"nothing":               {func(*cluster) {}, volumes.Released},
		"retained":              {func(c *cluster) { c.volume.Policy = "Retain" }, volumes.Retained},
		"a policy nobody knows": {func(c *cluster) { c.volume.Policy = "" }, volumes.Retained},
		"bound":                 {func(c *cluster) { c.volume.Phase = "Bound" }, volumes.NotReleased},
		"no phase":              {func(c *cluster) { c.volume.Phase = "" }, volumes.NotReleased},
		"failed":                {func(c *cluster) { c.volume.Phase = "Failed" }, volumes.ReclaimFailed},
		"deleted already":       {func(c *cluster) { c.object.Terminating = true }, volumes.Terminating},
		"deleted by hand":       {deletedByHand, volumes.Released},
		"deleted, and retained": {func(c *cluster) { deletedByHand(c); c.volume.Policy = "Retain" }, volumes.Retained},
		"deleted, driver gone": {func(c *cluster) {
			deletedByHand(c)
			c.changed = func(c *volumes.Config) { c.Serve = nil }
		}, volumes.DriverGone},
		"released when?":           {func(c *cluster) { c.volume.Since = time.Time{} }, volumes.SinceUnknown},
		"the claim is there":       {func(c *cluster) { c.add("PersistentVolumeClaim", "data", "uid-1", volumes.Claim{}) }, volumes.ClaimThere},
		"the claim was made anew":  {func(c *cluster) { c.add("PersistentVolumeClaim", "data", "uid-2", volumes.Claim{}) }, volumes.OtherClaim},
		"whose claim?":             {func(c *cluster) { c.volume.Claim.UID = "" }, volumes.ClaimUnknown},
		"no claim":                 {func(c *cluster) { c.volume.Claim.Name = "" }, volumes.ClaimUnknown},
		"another claim names it":   {func(c *cluster) { c.add("PersistentVolumeClaim", "new", "uid-2", volumes.Claim{Volume: "pv"}) }, volumes.ClaimWants},
		"a claim that is garbled":  {func(c *cluster) { c.add("PersistentVolumeClaim", "new", "uid-2", nil) }, volumes.OtherUnread},
		"claims are not read":      {func(c *cluster) { c.unread = "PersistentVolumeClaim" }, volumes.OtherUnread},
		"another has the data":     {func(c *cluster) { c.add("PersistentVolume", "b", "b", volumes.Volume{Driver: one, Handle: "h"}) }, volumes.Shared},
		"by another driver":        {func(c *cluster) { c.add("PersistentVolume", "b", "b", volumes.Volume{Driver: two, Handle: "h"}) }, volumes.Shared},
		"another is garbled":       {func(c *cluster) { c.add("PersistentVolume", "b", "b", nil) }, volumes.OtherUnread},
		"volumes are not read":     {func(c *cluster) { c.unread = "PersistentVolume" }, volumes.Unread},
		"attached":                 {func(c *cluster) { c.add("VolumeAttachment", "a", "a", volumes.Attachment{Volume: "pv", Node: "n"}) }, volumes.Attached},
		"attached inline":          {func(c *cluster) { c.add("VolumeAttachment", "a", "a", volumes.Attachment{Handle: "h", Node: "n"}) }, volumes.Attached},
		"an attachment is garbled": {func(c *cluster) { c.add("VolumeAttachment", "a", "a", nil) }, volumes.OtherUnread},
		"attachments are not read": {func(c *cluster) { c.unread = "VolumeAttachment" }, volumes.OtherUnread},
		"somebody holds it":        {func(c *cluster) { c.object.Finalizers = []string{volumes.Finalizer, "example.com/keep"} }, volumes.HeldByFinalizers},
		"nobody made it":           {func(c *cluster) { c.volume.ProvisionedBy = "" }, volumes.NotProvisioned},
		"another made it":          {func(c *cluster) { c.volume.ProvisionedBy = two }, volumes.ProvisionerGone},
		"another who is there":     {func(c *cluster) { c.volume.ProvisionedBy = two; c.add("CSIDriver", two, "d", nil) }, volumes.LeftToProvisioner},
		"another who has a class":  {func(c *cluster) { c.volume.ProvisionedBy = two; c.add("StorageClass", "c", "c", volumes.Class(two)) }, volumes.LeftToProvisioner},
		"moved to another":         {func(c *cluster) { c.volume.MigratedTo = two }, volumes.ProvisionerGone},
		"taken over from another":  {func(c *cluster) { c.volume.ProvisionedBy, c.volume.MigratedTo = two, one }, volumes.DriverGone},
		"moved to itself":          {func(c *cluster) { c.volume.MigratedTo = one }, volumes.Released},
		"no CSI":                   {func(c *cluster) { c.volume.Driver, c.volume.Handle, c.volume.Other = "", "", "disk" }, volumes.ProvisionerGone},
		"no handle":                {func(c *cluster) { c.volume.Handle = "" }, volumes.NotProvisioned},
		"not served":               {func(c *cluster) { c.changed = func(c *volumes.Config) { c.Serve = []string{two} } }, volumes.DriverGone},
		"not served, on a node": {func(c *cluster) {
			c.changed = func(c *volumes.Config) { c.Serve = nil }
			c.add("CSINode", "n", "n", volumes.Drivers{one})
		}, volumes.LeftToProvisioner},
		"not served, drivers unread":  {func(c *cluster) { c.changed = func(c *volumes.Config) { c.Serve = nil }; c.unread = "CSIDriver" }, volumes.OtherUnread},
		"a secret without a place":    {func(c *cluster) { c.volume.Secret.Name = "s" }, volumes.SecretUnclear},
		"a secret without a name":     {func(c *cluster) { c.volume.Secret.Namespace = "n" }, volumes.SecretUnclear},
		"a Node's list is irrelevant": {func(c *cluster) { c.unread = "Node" }, volumes.Released},
	} {
		c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
		test.change(c)
		to := c.collector(config)
		f, _ := to.Explain(gc.Coordinates{UID: "uid-pv"})
		if f.Reason != test.want || f.Due.IsZero() == (test.want == volumes.Released) {
			t.Errorf("%s: %+v, not %s", name, f, test.want)
		}
		if got := to.Ready(noon.AddDate(9, 0, 0), 10); len(got) > 0 != (test.want == volumes.Released) {
			t.Errorf("%s: asks for %v", name, got)
		}
		proof := c.collector(config)
		if _, why, ok := proof.Confirm(noon, volumeAction(c)); ok != (test.want == volumes.Released) || why != test.want && why != volumes.Changed {
			t.Errorf("%s: confirmed: %v, %s", name, ok, why)
		}
	}
}

// TestReleasedFor: a day at least, by the API server's time.
func TestReleasedFor(t *testing.T) {
	for _, test := range []struct {
		config, since, due time.Duration
	}{
		{0, -24 * time.Hour, 0}, {time.Hour, -23 * time.Hour, time.Hour}, {-5, 0, 24 * time.Hour}, {48 * time.Hour, -24 * time.Hour, 24 * time.Hour},
		{0, 5 * time.Hour, 29 * time.Hour}, // in the future: somebody's clock is wrong
	} {
		c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
		c.volume.Since = noon.Add(test.since)
		to := c.collector(volumes.Config{Serve: []string{one}, ReleasedFor: test.config})
		if next := to.Next(); !next.Equal(noon.Add(test.due)) {
			t.Errorf("%+v: next at %v", test, next)
		}
		if got := to.Ready(noon.Add(test.due-1), 1); len(got) > 0 {
			t.Errorf("%+v: too early: %v", test, got)
		}
		if _, _, ok := to.Confirm(noon.Add(test.due-1), volumeAction(c)); ok {
			t.Errorf("%+v: confirmed too early", test)
		}
	}
}

// TestConfirm: what is confirmed is that very volume, in that very version, and nothing
// else names its data.
func TestConfirm(t *testing.T) {
	config := volumes.Config{Serve: []string{one}}
	c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	c.object.Finalizers = []string{"kubernetes.io/pv-protection", volumes.Finalizer}
	c.volume.Secret.Namespace, c.volume.Secret.Name = "n", "s"
	live, _, ok := c.collector(config).Confirm(noon, volumeAction(c))
	if !ok || live.Driver != one || live.Handle != "h" || live.Namespace != "ns" || live.Claim != "data" || live.Finalizer != 1 || live.Secret != c.volume.Secret {
		t.Errorf("%+v, %v", live, ok)
	}
	for name, change := range map[string]func(a *gc.Action, c *cluster){
		"another version": func(a *gc.Action, _ *cluster) { a.ResourceVersion = "6" },
		"another UID":     func(a *gc.Action, _ *cluster) { a.Object.UID = "uid" },
		"another name":    func(a *gc.Action, _ *cluster) { a.Object.Name = "b" },
		"another driver":  func(a *gc.Action, _ *cluster) { a.Driver = two },
		"no driver":       func(a *gc.Action, _ *cluster) { a.Driver = "" },
		"a disk of old": func(_ *gc.Action, c *cluster) {
			c.add("PersistentVolume", "b", "b", volumes.Volume{Other: "\x0a\x10aws://zone/h"})
		},
	} {
		c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
		a := volumeAction(c)
		change(&a, c)
		if _, why, ok := c.collector(config).Confirm(noon, a); ok {
			t.Errorf("%s is confirmed: %s", name, why)
		}
	}
}

// TestResting: a driver that cannot serve is left alone, with all its volumes, ever longer;
// another goes on. A volume that it will not delete is tried again ever more seldom.
func TestResting(t *testing.T) {
	c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	other := good()
	other.Driver, other.ProvisionedBy, other.Handle = two, two, "h-2"
	c.add("PersistentVolume", "b", "uid-b", other)
	to := c.collector(volumes.Config{Serve: []string{one, two}})
	now := noon
	finish := func(uid string, r gc.Result) time.Duration {
		t.Helper()
		asked := false
		for _, a := range to.Ready(now, 10) {
			if a.Object.UID != uid {
				to.Finished(now, a.ID, gc.Withheld)
				continue
			}
			asked = true
			to.Finished(now, a.ID, r)
		}
		if !asked {
			t.Fatalf("%s is not asked for", uid)
		}
		f, _ := to.Explain(gc.Coordinates{UID: uid})
		return f.Due.Sub(now)
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 600, 600} {
		if got := finish("uid-pv", gc.TooMany); got != want*time.Second {
			t.Errorf("a rest of %v, not %v", got, want*time.Second)
		}
		now = now.Add(want * time.Second)
	}
	to.Release(now)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := finish("uid-b", gc.Forbidden); got != want*time.Minute {
			t.Errorf("a pause of %v, not %v", got, want*time.Minute)
		}
		now = now.Add(want * time.Minute)
		to.Release(now)
	}
	changed := object("PersistentVolume", "b", "uid-b")
	changed.ResourceVersion = "8"
	finish("uid-b", gc.Forbidden)
	to.Observe(now, typeOf("PersistentVolume"), changed, other)
	if f, _ := to.Explain(gc.Coordinates{UID: "uid-b"}); f.Due.After(now) {
		t.Errorf("it changed, and is due at %v", f.Due)
	}
}

// TestAtOnce: so many volumes are on their way at most.
func TestAtOnce(t *testing.T) {
	c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		v := good()
		v.Handle = name
		c.add("PersistentVolume", name, name, v)
	}
	to := c.collector(volumes.Config{Serve: []string{one}})
	got := to.Ready(noon, 10)
	if len(got) != 4 || !to.Next().IsZero() || len(to.Ready(noon, 10)) > 0 {
		t.Fatalf("%d are asked for, next %v", len(got), to.Next())
	}
	to.Finished(noon, got[0].ID, gc.Done)
	if to.Next().IsZero() || len(to.Ready(noon, 10)) != 1 {
		t.Error("an answer makes no room")
	}
}

// TestDriversDoNotWaitForEachOther: a driver that hangs delays neither the volumes of another driver nor what
// Nodes have left. Its own volumes go on, in turn, as it answers.
func TestDriversDoNotWaitForEachOther(t *testing.T) {
	c := &cluster{volume: good(), object: object("PersistentVolume", "a-pv", "uid-pv")}
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		v := good()
		v.Handle = name
		c.add("PersistentVolume", name, name, v)
	}
	v := good()
	v.Handle, v.Driver, v.ProvisionedBy = "other", two, two
	c.add("PersistentVolume", "other", "other", v)
	c.add("VolumeAttachment", "left", "left", volumes.Attachment{Volume: "gone", Node: "gone"})
	to := c.collector(volumes.Config{Serve: []string{one, two}, Attachments: true, Quarantine: time.Second, AtOnce: 2})
	later := noon.Add(time.Minute)
	calls, others := map[string][]gc.Action{}, 0
	ready := func(most int) {
		for _, a := range to.Ready(later, most) {
			if a.Verb != gc.DeleteVolume {
				others++
				continue
			}
			calls[a.Driver] = append(calls[a.Driver], a)
		}
	}
	ready(10)
	if len(calls[one]) != 2 || len(calls[two]) != 1 || others != 1 {
		t.Fatalf("%d and %d volumes are asked for, and %d others", len(calls[one]), len(calls[two]), others)
	}
	if _, all := to.Planned(later, 10); all < 7 {
		t.Errorf("%d are planned", all)
	}
	for i := range 7 {
		to.Finished(later, calls[one][i].ID, gc.Done)
		ready(1)
		if want := min(i+3, 7); len(calls[one]) != want {
			t.Fatalf("%d are asked for after %d answers, want %d", len(calls[one]), i+1, want)
		}
	}
}

// TestVolumeThatStaysLeavesItsTurn: the first that waits for its driver is not due any more, and another one
// has its turn.
func TestVolumeThatStaysLeavesItsTurn(t *testing.T) {
	c := &cluster{volume: good(), object: object("PersistentVolume", "a-pv", "uid-pv")}
	for _, name := range []string{"b", "c"} {
		v := good()
		v.Handle = name
		c.add("PersistentVolume", name, name, v)
	}
	to := c.collector(volumes.Config{Serve: []string{one}, AtOnce: 1})
	first := to.Ready(noon, 10)
	if len(first) != 1 {
		t.Fatalf("%d are asked for", len(first))
	}
	var waits []gc.Object
	for _, uid := range []string{"uid-pv", "b", "c"} {
		if o := (gc.Object{APIVersion: "v1", Kind: "PersistentVolume", Name: map[string]string{"uid-pv": "a-pv"}[uid], UID: uid}); uid != first[0].Object.UID {
			waits = append(waits, o)
		}
	}
	to.Forget(noon, typeOf("PersistentVolume"), waits[0])
	to.Finished(noon, first[0].ID, gc.Done)
	if next := to.Ready(noon, 10); len(next) != 1 || next[0].Object.UID != waits[1].UID {
		t.Errorf("then %v", next)
	}
}

// TestRestored: nothing is known any more, and nothing asked for.
func TestRestored(t *testing.T) {
	c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	c.add("VolumeAttachment", "a", "a", nil)
	c.add("CSINode", "n", "n", volumes.Drivers{two})
	to := c.collector(volumes.Config{Serve: []string{one}})
	to.Restored(noon)
	if to.Len() != 0 || !to.Next().IsZero() {
		t.Errorf("%d are known, next %v", to.Len(), to.Next())
	}
	for why, n := range to.Counts(noon) {
		t.Errorf("%d are counted as %s", n, why)
	}
	to.Observe(noon, typeOf("PersistentVolume"), c.object, c.volume)
	to.Synced(noon, typeOf("PersistentVolume"))
	if f, _ := to.Explain(gc.Coordinates{UID: "uid-pv"}); f.Reason != volumes.OtherUnread {
		t.Errorf("%+v", f)
	}
}

// TestResultOfAnotherVersion: a failed deletion is no result for a later version of the volume.
func TestResultOfAnotherVersion(t *testing.T) {
	c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	to := c.collector(volumes.Config{Serve: []string{one}})
	list := to.Ready(noon, 1)
	if len(list) != 1 {
		t.Fatalf("%+v is due", list)
	}
	to.Forget(noon, typeOf("PersistentVolume"), c.object)
	c.object.ResourceVersion = "8"
	to.Observe(noon, typeOf("PersistentVolume"), c.object, c.volume)
	to.Finished(noon, list[0].ID, gc.Failed)
	if next := to.Ready(noon, 1); len(next) != 1 || next[0].ResourceVersion != "8" {
		t.Errorf("%+v is due, the next at %v", next, to.Next())
	}
}

// TestHeldVolume: a volume that stays although somebody deleted it is reported, with its size and what
// holds it.
func TestHeldVolume(t *testing.T) {
	const protection = "kubernetes.io/pv-protection"
	for name, c := range map[string]struct {
		deleted    bool
		finalizers []string
		change     func(*volumes.Volume)
		want       gc.Reason // reported; "": it is not
		detail     string
	}{
		"nobody deleted it": {false, []string{volumes.Finalizer, "example.com/keep"}, nil, "", ""},
		"another finalizer": {true, []string{volumes.Finalizer, "example.com/keep", "x"}, nil, volumes.HeldByFinalizers, "10Gi, held by example.com/keep, x"},
		"only another one":  {true, []string{"example.com/keep", protection}, nil, volumes.Terminating, "10Gi, held by example.com/keep"},
		"policy Retain":     {true, []string{protection}, func(v *volumes.Volume) { v.Policy = "Retain" }, volumes.Terminating, "10Gi"},
		"it is bound":       {true, []string{volumes.Finalizer, protection}, func(v *volumes.Volume) { v.Phase = "Bound" }, volumes.NotReleased, "10Gi"},
		"unknown size":      {true, []string{"x"}, func(v *volumes.Volume) { v.Size = "" }, volumes.Terminating, "held by x"},
		"ebb deletes it":    {true, []string{volumes.Finalizer, protection}, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
			if k.volume.Size = "10Gi"; c.change != nil {
				c.change(&k.volume)
			}
			k.object.Terminating, k.object.Finalizers = c.deleted, c.finalizers
			list := k.collector(volumes.Config{Serve: []string{one}}).Reported(9)
			if c.want == "" && len(list) > 0 || c.want != "" && (len(list) != 1 || list[0].Reason != c.want || list[0].Detail != c.detail) {
				t.Errorf("reported is %+v, want %s: %q", list, c.want, c.detail)
			}
		})
	}
}

// TestLeft: what a Node has left goes after the quarantine and a live read, if that is
// wanted.
func TestLeft(t *testing.T) {
	for kind, fields := range map[string]any{"VolumeAttachment": volumes.Attachment{Volume: "pv", Node: "n"}, "CSINode": volumes.Drivers{one}} {
		left := object(kind, "n", "uid-n")
		collectorOf := func(config volumes.Config, o gc.Object, fields any, nodes ...string) *volumes.Collector {
			c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
			c.others = []thing{{o, fields}}
			for _, n := range nodes {
				c.add("Node", n, n, nil)
			}
			return c.collector(config)
		}
		wanted := volumes.Config{Attachments: true, CSINodes: true, Quarantine: time.Minute}
		owned, going := left, left
		owned.Owners = []gc.Reference{{Kind: "Node", Name: "n"}}
		going.Terminating = true
		for _, test := range []struct {
			to   *volumes.Collector
			want gc.Reason
		}{
			{collectorOf(volumes.Config{}, left, fields), volumes.NodeGone}, // reported
			{collectorOf(wanted, left, fields, "n"), volumes.NodeThere},
			{collectorOf(wanted, owned, fields), volumes.Owned},
			{collectorOf(wanted, going, fields), volumes.Terminating},
		} {
			if f, _ := test.to.Explain(gc.Coordinates{UID: "uid-n"}); f.Reason != test.want || !f.Due.IsZero() || len(test.to.Ready(noon.AddDate(1, 0, 0), 9)) > 0 {
				t.Errorf("%s: %+v, not %s", kind, f, test.want)
			}
		}
		to := collectorOf(wanted, left, fields)
		if next := to.Next(); !next.Equal(noon.Add(time.Minute)) {
			t.Fatalf("%s: next at %v", kind, next)
		}
		now := noon.Add(time.Minute)
		read := to.Ready(now, 9)
		if len(read) != 1 || read[0].Verb != gc.Verify || read[0].Object.Kind != "Node" || read[0].Object.Name != "n" {
			t.Fatalf("%s: %+v", kind, read)
		}
		to.Answered(now, now, read[0].ID, gc.Answer{State: gc.Exists})
		if next := to.Next(); !next.Equal(now.Add(time.Minute)) {
			t.Errorf("%s: the Node is there after all, and next is %v", kind, next)
		}
		now = now.Add(time.Minute)
		to.Answered(now, now, to.Ready(now, 9)[0].ID, gc.Answer{State: gc.Absent})
		bound := to.Ready(now, 9)
		if len(bound) != 1 || bound[0].Verb != gc.Bound || bound[0].Object.Kind != "Node" || bound[0].Object.Name != "n" {
			t.Fatalf("%s: %+v", kind, bound)
		}
		to.Answered(now, now, bound[0].ID, gc.Answer{State: gc.Unknown})
		for to.Next().After(now) {
			now = to.Next()
			for _, a := range to.Ready(now, 9) {
				if a.Verb == gc.Delete {
					t.Fatalf("%s goes, and whether Pods are bound to its Node is not known", kind)
				}
				to.Answered(now, now, a.ID, gc.Answer{State: map[gc.Verb]gc.State{gc.Verify: gc.Absent, gc.Bound: gc.Exists}[a.Verb]})
			}
			if to.Next().Equal(now.Add(time.Minute)) {
				break // a Pod is bound: the quarantine begins anew
			}
		}
		now = now.Add(time.Minute)
		to.Answered(now, now, to.Ready(now, 9)[0].ID, gc.Answer{State: gc.Absent})
		if list := to.Reported(9); len(list) != 1 || list[0].Reason != volumes.PodsBound {
			t.Errorf("%s: a Pod was bound to its Node, and reported is %+v", kind, list)
		}
		if list, n := to.Planned(now.AddDate(1, 0, 0), 9); n > 0 {
			t.Errorf("%s: a Pod was bound to its Node, and planned is %+v", kind, list)
		}
		left.ResourceVersion = "8"
		to.Observe(now, typeOf(kind), left, fields) // its status was written
		if list := to.Reported(9); len(list) != 1 || list[0].Reason != volumes.PodsBound {
			t.Errorf("%s: it was written, and reported is %+v", kind, list)
		}
		to.Answered(now, now, to.Ready(now, 9)[0].ID, gc.Answer{State: gc.Absent})
		to.Answered(now, now, to.Ready(now, 9)[0].ID, gc.Answer{State: gc.Absent})
		if list := to.Reported(9); len(list) > 0 {
			t.Errorf("%s: the Pods are gone, and reported is %+v", kind, list)
		}
		if got := to.Ready(now, 9); len(got) != 1 || got[0].Verb != gc.Delete || got[0].Object.UID != "uid-n" || got[0].ResourceVersion != "8" || got[0].Owner.Name != "n" {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	// A kubelet renews its Lease while its Node is gone: the machine runs.
	alive := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	alive.add("VolumeAttachment", "a", "uid-n", volumes.Attachment{Volume: "pv", Node: "n"})
	alive.add("Lease", "n", "uid-l", leases.Lease{Holder: "n", Expires: noon.Add(40 * time.Second)})
	to := alive.collector(volumes.Config{Attachments: true, Quarantine: time.Minute})
	if next := to.Next(); !next.Equal(noon.Add(100 * time.Second)) {
		t.Errorf("a Lease expires at 40 s, and next is %v", next)
	}
	renewed := object("Lease", "n", "uid-l")
	renewed.ResourceVersion = "8"
	to.Observe(noon.Add(90*time.Second), typeOf("Lease"), renewed, leases.Lease{Holder: "n", Expires: noon.Add(-time.Hour)}) // by a clock that is behind
	if next := to.Next(); !next.Equal(noon.Add(150 * time.Second)) {
		t.Errorf("a Lease was written at 90 s, and next is %v", next)
	}
	to.Unreadable(noon.Add(91*time.Second), typeOf("Lease"))
	if f, _ := to.Explain(gc.Coordinates{UID: "uid-n"}); f.Reason != volumes.OtherUnread || !to.Next().IsZero() {
		t.Errorf("Leases cannot be read: %+v", f)
	}
	garbled := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	garbled.add("VolumeAttachment", "a", "uid-n", nil)
	if f, _ := garbled.collector(volumes.Config{Attachments: true}).Explain(gc.Coordinates{UID: "uid-n"}); f.Reason != volumes.Unread {
		t.Errorf("garbled: %+v", f)
	}
}

// attachedTo has n Nodes, n0 and so on, and an attachment to each.
func attachedTo(n int) *cluster {
	c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv")}
	for i := range n {
		name := fmt.Sprint("n", i)
		c.add("Node", name, name, nil)
		c.add("VolumeAttachment", "a"+name, "uid-"+name, volumes.Attachment{Volume: "pv", Node: name})
	}
	return c
}

// TestManyNodesLost: what Nodes have left stays if too many were lost at once, until a person confirms, or
// they are there again.
func TestManyNodesLost(t *testing.T) {
	to := attachedTo(10).collector(volumes.Config{Attachments: true, Quarantine: time.Minute})
	reason := func(name string) gc.Reason {
		f, _ := to.Explain(gc.Coordinates{UID: "uid-" + name})
		return f.Reason
	}
	lose := func(at time.Time, names ...string) {
		for _, name := range names {
			to.Forget(at, typeOf("Node"), object("Node", name, name))
		}
	}
	lose(noon, "n0", "n1", "n2", "n3")
	if held := to.Held(); len(held) > 0 || reason("n0") != volumes.NodeGone || !to.Next().Equal(noon.Add(time.Minute)) {
		t.Errorf("four of ten: held %v, %s", held, reason("n0"))
	}
	lose(noon.Add(time.Second), "n4")
	if held := to.Held(); len(held) != 5 || held["n4"] != 1 || reason("n0") != volumes.TooManyLost || !to.Next().IsZero() {
		t.Errorf("five of ten: held %v, %s, next at %v", held, reason("n0"), to.Next())
	}
	if n := to.Counts(noon)[volumes.TooManyLost]; n != 5 || len(to.Reported(9)) != 5 {
		t.Errorf("%d are counted, %d reported", n, len(to.Reported(9)))
	}
	now := noon.Add(time.Hour)
	if to.ConfirmLost(now, "n9") || !to.ConfirmLost(now, "n4") || reason("n0") != volumes.TooManyLost {
		t.Errorf("confirmed: n0 is %s", reason("n0"))
	}
	if got := to.Ready(now, 9); len(got) != 1 || got[0].Verb != gc.Verify || got[0].Object.Name != "n4" {
		t.Errorf("confirmed: %+v", got)
	}
	// Too many are gone in the list of a new watch, too; and those that came back make room.
	to.Listing(now, typeOf("Node"))
	if reason("n0") != volumes.NodesUnread {
		t.Errorf("in a list: %s", reason("n0"))
	}
	for _, name := range []string{"n2", "n3", "n5", "n6", "n7", "n8", "n9"} {
		to.Observe(now, typeOf("Node"), object("Node", name, name), nil)
	}
	to.Synced(now, typeOf("Node"))
	if held := to.Held(); len(held) > 0 || reason("n0") != volumes.NodeGone || reason("n2") != volumes.NodeThere {
		t.Errorf("two came back: held %v, %s, %s", held, reason("n0"), reason("n2"))
	}
	to.Restored(now)
	if held := to.Held(); len(held) > 0 || to.Len() > 0 {
		t.Errorf("restored: held %v", held)
	}
}

// TestNodesAreListedAnew while some are held: those that were confirmed, and have nothing left, count with
// the others.
func TestNodesAreListedAnew(t *testing.T) {
	to := attachedTo(18).collector(volumes.Config{Attachments: true, Quarantine: time.Minute})
	for i := range 8 {
		name := fmt.Sprint("n", i)
		to.Forget(noon, typeOf("Node"), object("Node", name, name))
	}
	for _, name := range []string{"n0", "n1", "n2"} {
		to.ConfirmLost(noon, name)
		to.Forget(noon, typeOf("VolumeAttachment"), object("VolumeAttachment", "a"+name, "uid-"+name))
	}
	for range 2 {
		to.Listing(noon, typeOf("Node"))
		for i := 8; i < 18; i++ {
			name := fmt.Sprint("n", i)
			to.Observe(noon, typeOf("Node"), object("Node", name, name), nil)
		}
		to.Synced(noon, typeOf("Node"))
		if held := to.Held(); len(held) != 5 {
			t.Errorf("held: %v, want five Nodes", held)
		}
	}
}

// TestLostNodesAreReckonedAgain: which Nodes count as lost follows whatever happens to what they have left,
// and to Nodes that have nothing left.
func TestLostNodesAreReckonedAgain(t *testing.T) {
	csiNode := func(i int) gc.Object { return object("CSINode", fmt.Sprint("n", i), fmt.Sprint("uid-n", i)) }
	node := func(i int) gc.Object { return object("Node", fmt.Sprint("n", i), fmt.Sprint("node-n", i)) }
	gone := object("Node", "gone", "node-gone")
	// lose "gone" and five of ten Nodes at noon, and of so many more, which have nothing left, none.
	lose := func(spare int) *volumes.Collector {
		c := &cluster{volume: good(), object: object("PersistentVolume", "pv", "uid-pv"), others: []thing{{gone, nil}}}
		for i := range 10 + spare {
			c.others = append(c.others, thing{node(i), nil})
		}
		for i := range 10 {
			c.others = append(c.others, thing{csiNode(i), volumes.Drivers{one}})
		}
		c.add("VolumeAttachment", "a", "uid-a", volumes.Attachment{Node: "gone"})
		to := c.collector(volumes.Config{CSINodes: true, Attachments: true, Quarantine: time.Minute})
		to.Forget(noon, typeOf("Node"), gone)
		for i := range 5 {
			to.Forget(noon, typeOf("Node"), node(i))
		}
		return to
	}
	to := lose(0)
	if held := to.Held(); len(held) != 6 || !to.ConfirmLost(noon, "n1") {
		t.Fatalf("held %v", held)
	}
	again := csiNode(1)
	again.ResourceVersion = "8"
	to.Observe(noon, typeOf("CSINode"), again, volumes.Drivers{two})
	if held := to.Held(); len(held) != 5 || held["n1"] != 0 {
		t.Errorf("n1 is confirmed, and has another driver; held %v", held)
	}
	garbled := object("VolumeAttachment", "a", "uid-a")
	garbled.ResourceVersion = "8"
	to.Observe(noon, typeOf("VolumeAttachment"), garbled, nil)
	if held := to.Held(); len(held) != 4 || held["gone"] != 0 {
		t.Errorf("nobody knows whose attachment it is; held %v", held)
	}
	to.Observe(noon, typeOf("Node"), gone, nil)
	for i := range 5 { // those that are held come back
		to.Observe(noon, typeOf("Node"), node(i), nil)
	}
	if held := to.Held(); len(held) > 0 {
		t.Errorf("all are there; held %v", held)
	}

	to = lose(9)
	if held := to.Held(); len(held) > 0 {
		t.Errorf("6, and 14 are there: held %v", held)
	}
	for i := 10; i < 17; i++ {
		to.Forget(noon, typeOf("Node"), node(i))
	}
	if held := to.Held(); len(held) != 6 {
		t.Errorf("6, and 7 are there: held %v", held)
	}
	to.Forget(noon, typeOf("CSINode"), csiNode(0))
	to.Observe(noon, typeOf("Node"), node(0), nil) // whatever it had left is gone
	if held := to.Held(); len(held) > 0 {
		t.Errorf("5, and 8 are there: held %v", held)
	}
}
