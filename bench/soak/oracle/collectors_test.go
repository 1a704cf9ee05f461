package oracle

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// An object that a collector must delete is outstanding, and its deletion is right. Any other deletion is wrong.
func TestCollectors(t *testing.T) {
	const (
		pod     = `Pod space/p {"nodeName":"n"}`
		node    = `Node /n {}`
		csi     = `CSINode /n {}`
		lease   = `Lease kube-node-lease/n {"holderIdentity":"n","renewTime":"2001-09-09T01:46:40Z","leaseDurationSeconds":1}`
		alive   = `Lease kube-node-lease/n {"holderIdentity":"n","renewTime":"2001-09-09T01:46:40Z","leaseDurationSeconds":86400}`
		elected = `Lease space/l {"holderIdentity":"p_1","renewTime":"2001-09-09T01:46:40Z","leaseDurationSeconds":1}`
		attach  = `VolumeAttachment /a {"nodeName":"n","source":{"persistentVolumeName":"v"}}`
		volume  = `PersistentVolume /v {"csi":{"driver":"` + Driver + `"},"persistentVolumeReclaimPolicy":"Delete"} {"phase":"Released","lastPhaseTransitionTime":"2001-09-08T01:46:40Z"} {"annotations":{"pv.kubernetes.io/provisioned-by":"` + Driver + `"}}`
		request = `CertificateSigningRequest /r {"signerName":"example.com/soak"}`
		retired = `Node /n {} {} {"labels":{"` + RetiredLabel + `":"` + NoMachine + `"}}`
		ended   = ` {} {"phase":"Failed"}`
	)
	for _, c := range []struct {
		name    string
		objects []string // those with a minus go at once, the first one after some time
		after   time.Duration
		may     bool
		excused bool // it may go, and need not
	}{
		{"a Pod of a lost Node", []string{pod, "-" + node}, time.Minute, true, false},
		{"too early", []string{pod, "-" + node}, 5 * time.Second, false, false},
		{"its Node is there", []string{pod, node}, time.Minute, false, false},
		{"its Node came a moment ago", []string{pod, node}, time.Second, true, true},
		{"a Pod that is not bound", []string{`Pod space/p {}`}, time.Hour, false, false},
		{"Pods within the limits", []string{"Pod space/p1" + ended, "Pod space/p2" + ended}, time.Minute, false, false},
		{"too many", []string{"Pod space/p1" + ended, "Pod space/p2" + ended, "Pod space/p3" + ended}, time.Minute, true, false},
		{"too many until a moment ago", []string{"Pod space/p1" + ended, "Pod space/p2" + ended, "-Pod space/p3" + ended}, time.Second, true, true},
		{"too many until a minute ago", []string{"Pod space/p1" + ended, "Pod space/p2" + ended, "-Pod space/p3" + ended}, time.Minute, false, false},
		{"too many, and it is younger", []string{"Pod space/p3" + ended, "Pod space/p2" + ended, "Pod space/p1" + ended}, time.Minute, false, false},
		{"a Lease of a lost Node", []string{lease, "-" + node}, time.Minute, true, false},
		{"one that is renewed", []string{alive, "-" + node}, time.Minute, false, false},
		{"one of a Node", []string{lease, node}, time.Minute, false, false},
		{"an election", []string{elected}, 2 * time.Minute, true, false},
		{"its holder lives", []string{elected, `Pod space/p {}`}, 2 * time.Minute, false, false},
		{"a CSINode", []string{csi, "-" + node}, time.Minute, true, false},
		{"a CSINode of a Node with a Pod", []string{csi, pod, "-" + node}, time.Minute, false, false},
		{"an attachment", []string{attach, lease, "-" + node}, time.Minute, true, false},
		{"an attachment of a machine that lives", []string{attach, alive, "-" + node}, time.Minute, false, false},
		{"a volume", []string{volume}, time.Minute, true, false},
		{"a volume of another driver", []string{strings.ReplaceAll(volume, Driver, "other")}, time.Minute, false, false},
		{"a volume that is kept", []string{strings.Replace(volume, "Delete", "Retain", 1)}, time.Minute, false, false},
		{"a volume that is attached", []string{volume, attach}, time.Minute, false, false},
		{"a request", []string{request}, 2 * time.Minute, true, false},
		{"a request too early", []string{request}, 50 * time.Second, false, false},
		{"a request for which nobody hurries", []string{strings.Replace(request, "example.com/soak", PatientSigner, 1)}, time.Hour, false, false},
		{"a Node without a machine", []string{retired, lease}, 11 * time.Minute, true, false},
		{"it has an attachment", []string{retired, attach}, 11 * time.Minute, false, false},
		{"it has a Lease", []string{retired, alive}, 11 * time.Minute, false, false},
		{"a Node with a machine", []string{node}, time.Hour, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.put("ns/"+nodeLeases, "")
			first := ""
			for _, text := range c.objects {
				text, gone := strings.CutPrefix(text, "-")
				x := decoded(t, text)
				first = cmp.Or(first, x.Key)
				w.rev++
				if w.oracle.Put(w.rev, w.now, x); gone {
					w.oracle.Deleting(x.UID, "")
					w.oracle.Delete(w.rev, w.now, x.Key)
				}
			}
			w.pass(c.after)
			must := slices.ContainsFunc(w.oracle.Outstanding(w.now), func(d Due) bool { return d.What == "collect" && "/registry/"+d.UID == first })
			w.oracle.Delete(w.rev+1, w.now, first)
			if wrong := w.oracle.Violations(); (len(wrong) == 0) != c.may || must != c.may && !c.excused {
				t.Errorf("it must go: %v; violations: %v", must, wrong)
			}
		})
	}
}

// decoded is an object from its kind, namespace/name, spec, status, and what else its metadata has.
func decoded(t *testing.T, text string) *Object {
	f := append(strings.Fields(text), "{}", "{}", "{}")
	namespace, name, _ := strings.Cut(f[1], "/")
	group := map[string]string{"Lease": "coordination.k8s.io/", "CSINode": "storage.k8s.io/", "VolumeAttachment": "storage.k8s.io/"}[f[0]]
	metadata := map[string]any{"namespace": namespace, "name": name, "uid": f[0] + f[1], "creationTimestamp": "2001-09-09T01:46:40Z"}
	spec, status := json.RawMessage(f[2]), json.RawMessage(f[3])
	if err := json.Unmarshal([]byte(f[4]), &metadata); err != nil {
		t.Fatal(err)
	}
	value, err := json.Marshal(map[string]any{"apiVersion": group + "v1", "kind": f[0], "spec": spec, "status": status, "metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	x, err := Decode("/registry/"+f[0]+f[1], value)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
