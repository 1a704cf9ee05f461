package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// desk queries and controls the agent as people do: with the command ebb and a kubeconfig, through
// an exec in the agent's pod.
func (b *fixture) desk() {
	b.ebb(0, "status")
	if output := b.follow("docs/chart.md", "Test the release"); !strings.Contains(output, "1 of 1 ready") {
		fail("the release's test does not say that the agent is ready")
	}
	b.ebb(0, "nodes")
	b.ebb(0, "images", "--node", nodeName)
	if !strings.Contains(b.ebb(0, "why", appImage, "--node", nodeName), "holds") {
		fail("no rule holds for %s, which the agent's pod uses", appImage)
	}
	b.ebb(0, "plan", "--free", "40Mi", "--node", nodeName)
	b.notes.ok("the command shows what would go, and nothing goes")

	b.ebb(0, "pause", "--for", "10m", "--reason", "a look first", "--node", nodeName)
	if !strings.Contains(b.ebb(3, "status"), "paused     1") {
		fail("the status does not say that the agent is paused")
	}
	b.ebb(1, "reclaim", "--free", "40Mi", "--node", nodeName, "--yes")
	b.ebb(0, "resume", "--node", nodeName)
	b.eventually("Events about the pause", func() error {
		text, err := b.kubectl("describe", "node", nodeName)
		if err == nil && !(strings.Contains(text, "EbbPaused") && strings.Contains(text, "EbbResumed")) {
			err = errors.New("kubectl describe node does not show them")
		}
		return err
	})
	b.notes.ok("a pause holds removals up, and Events about the Node show it")

	b.reclaimAsPlanned()
	b.ebb(0, "history", "--node", nodeName, "--limit", "5")
	b.ebb(0, "du", "--node", nodeName)
	b.ebb(-1, "doctor", "--node", nodeName) // its findings depend on this machine
	b.ebb(0, "version", "--agents")
	b.askController()
	b.watch()
	dump := filepath.Join(b.files, "sysdump.tar.gz")
	b.ebb(-1, "sysdump", "-o", dump)
	if info, err := os.Stat(dump); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		fail("the archive for a report: %v, %v", info, err)
	}
	b.notes.ok("one archive has what a report needs")
}

// askController runs the commands that ask and steer the controller.
func (b *fixture) askController() {
	b.ebb(0, "control", "ready")
	var types, cascades []map[string]any
	must(b.control(&types, "types"))
	must(b.control(&cascades, "cascades"))
	if len(types) == 0 {
		fail("the controller knows no type")
	}
	if s := b.quietly(0, "control", "explain", "daemonset/ebb-agent", "-n", namespace); !json.Valid([]byte(s)) || !strings.Contains(s, "ebb-agent") {
		fail("the controller explains the agents' DaemonSet as %s", s)
	}
	b.holdsStill()
	b.ebb(0, "orphans", "-A")
	file := filepath.Join(b.files, "agent.yaml")
	must(os.WriteFile(file, []byte(need(b.kubectl("-n", namespace, "get", "configmap", "ebb-agent", "-o", `jsonpath={.data.agent\.yaml}`))), 0o600))
	b.ebb(0, "config", "check", file)
	b.notes.ok("the controller answers from a desk")
}

// holdsStill pauses the controller, and deletes an owner: the dependent stays until the pause ends.
func (b *fixture) holdsStill() {
	prints := func(want string, args ...string) {
		b.eventually(want, func() error {
			if s := b.quietly(-1, args...); !strings.Contains(s, want) {
				return errors.New(s)
			}
			return nil
		})
	}
	need(b.kubectl("create", "configmap", "owner"))
	uid := need(b.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}"))
	b.apply(fmt.Sprintf(aDependent, uid))
	b.ebb(0, "control", "pause")
	prints("halted", "status")
	need(b.kubectl("delete", "configmap", "owner"))
	prints("owners_absent", "control", "explain", "configmap/dependent", "-n", "default")
	need(b.kubectl("get", "configmap", "dependent"))
	b.ebb(0, "control", "resume")
	need(b.kubectl("wait", "--for=delete", "configmap/dependent", "--timeout=1m"))
	b.notes.ok("while it is paused, a dependent outlives its owner")
}

const aDependent = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: dependent
  namespace: default
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]
`

// watch runs ebb top in a terminal, and ends it with a key.
func (b *fixture) watch() {
	out := need(b.pipe(strings.NewReader("q"), "script", "--quiet", "--return", "--command", "bin/ebb top --node "+nodeName, os.DevNull))
	if !strings.Contains(out, nodeName) {
		fail("ebb top shows %q", out)
	}
}

// reclaimAsPlanned frees an amount, and checks that exactly the planned images are removed.
func (b *fixture) reclaimAsPlanned() {
	var plans struct {
		Nodes []struct {
			Node string
			page.Plan
		}
	}
	amount := []string{"--free", "40Mi", "--node", nodeName}
	must(json.Unmarshal([]byte(b.quietly(0, append([]string{"plan", "-o", "json"}, amount...)...)), &plans))
	if len(plans.Nodes) != 1 || len(plans.Nodes[0].Remove) == 0 {
		fail("nothing would go: %+v", plans)
	}
	goes := plans.Nodes[0].Remove
	before := need(b.images())
	b.ebb(0, append([]string{"reclaim", "--yes"}, amount...)...)
	after := need(b.images())
	for _, i := range goes {
		if after.has(i.References[0]) {
			fail("%s was to go, and is there", i.References[0])
		}
	}
	if got, want := len(before.Store.Images)-len(after.Store.Images), len(goes); got != want {
		fail("%d images went, %d were planned", got, want)
	}
	b.notes.ok("what was planned went, and nothing else")
}

// ebb runs the command ebb and records its output. code is the expected exit code, or -1 for any.
func (b *fixture) ebb(code int, args ...string) string {
	b.notes.command("ebb " + strings.Join(args, " "))
	out := b.quietly(code, args...)
	b.notes.output(out)
	return out
}

func (b *fixture) quietly(code int, args ...string) string {
	out, err := b.run("bin/ebb", args...)
	got := 0
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		must(err)
	}
	if code >= 0 && got != code {
		fail("ebb %s: exit code %d, want %d: %v\n%s", strings.Join(args, " "), got, code, err, out)
	}
	return out
}
