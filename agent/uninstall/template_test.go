package uninstall

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "--image",
		"kind: Deployment\napiVersion: v1":   "kind: Pod",
		"kind: Pod\napiVersion: v1":          "one container, got 0",
		"a: [":                               "template",
		"kind: Pod\nkind: Pod":               "template",
		strings.Repeat("#", maxTemplate+1):   "more than 256 KiB",
		"kind: Pod\napiVersion: v1\nspec: 7": "one container",
		"kind: Pod\napiVersion: v1\nspec: {containers: [7]}":      "no mapping",
		"kind: Pod\napiVersion: v1\nspec: {containers: [{}, {}]}": "got 2",
	} {
		if _, err := readTemplate(UnloadOptions{Template: []byte(text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// TestPodOf: a node's pod is bound to it, tolerates all, ends by itself, and is known
// by its label; everything else is the template's.
func TestPodOf(t *testing.T) {
	tpl, err := readTemplate(UnloadOptions{Image: "i", Template: []byte(
		`{apiVersion: v1, kind: Pod, metadata: {name: x, labels: {a: b}, annotations: {c: d}}, spec: {nodeName: other, containers: [{name: m, image: j}], dnsPolicy: None}}`)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(tpl.on("n1", "ns", 121))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"c":"d"},"labels":{"a":"b","ebb-agent.github.io/unload":"true"},"name":"ebb-unload-n1-676b8bb8","namespace":"ns"},` +
		`"spec":{"activeDeadlineSeconds":121,"containers":[{"image":"i","name":"m"}],"dnsPolicy":"None","nodeName":"n1","restartPolicy":"Never","tolerations":[{"operator":"Exists"}]}}`
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if tpl.spec()["nodeName"] != "other" {
		t.Error("the template itself was changed")
	}
}

var validName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

// TestPodNames: whatever a node is called, its pod can be, and no two nodes share one.
func TestPodNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?`).Draw(t, "node")
		other := rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?`).Draw(t, "other")
		name := podName(node)
		if !validName.MatchString(name) || len(name) > 63 {
			t.Errorf("%q", name)
		}
		if node != other && name == podName(other) {
			t.Errorf("%q and %q share %q", node, other, name)
		}
	})
}

// TestLost: only what had owners, all of which are known to be gone.
func TestLost(t *testing.T) {
	alive := map[string][]string{"DaemonSet": {"1"}, "Service": nil}
	for _, c := range []struct {
		owners string
		want   bool
	}{
		{`[]`, false},
		{`[{"kind":"DaemonSet","uid":"1"}]`, false},
		{`[{"kind":"DaemonSet","uid":"2"}]`, true},
		{`[{"kind":"DaemonSet","uid":"2"},{"kind":"Service","uid":"1"}]`, true},
		{`[{"kind":"DaemonSet","uid":"2"},{"kind":"DaemonSet","uid":"1"}]`, false},
		{`[{"kind":"Job","uid":"2"}]`, false},
		{`[{"kind":"DaemonSet","uid":"2"},{"kind":"Job","uid":"2"}]`, false},
	} {
		var m metadata
		if err := json.Unmarshal([]byte(`{"ownerReferences":`+c.owners+`}`), &m); err != nil {
			t.Fatal(err)
		}
		if got := lost(m, alive); got != c.want {
			t.Errorf("%s: %v", c.owners, got)
		}
	}
}
