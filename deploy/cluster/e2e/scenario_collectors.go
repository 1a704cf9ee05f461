package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/tools/peers"
)

const collectorsPage = "docs/collectors.md"

// garbage is one object for each of ebb's collectors that replaces one of Kubernetes: a Job that
// finishes soon, a Pod on a Node that never existed, and a CertificateSigningRequest.
const garbage = `
apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s, namespace: default, labels: {app: %[1]s}}
spec:
  ttlSecondsAfterFinished: 1
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      containers:
      - {name: main, image: "%[2]s", imagePullPolicy: Never, command: ["true"]}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-lost, namespace: default, labels: {app: %[1]s}}
spec:
  nodeName: lost
  automountServiceAccountToken: false
  containers:
  - {name: main, image: "%[2]s", imagePullPolicy: Never}
---
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec: {signerName: e2e.test/client, usages: [client auth], request: %[3]s}
`

// collectors moves the three jobs from the controller manager to ebb and back, in the order of the
// page.
func (b *fixture) collectors() {
	others := counterparts(string(need(os.ReadFile(collectorsPage))))
	b.managerRuns(others, false)
	b.notes.ok("the controller manager runs none of %s", strings.Join(others, ", "))
	// Requests are kept for at least a minute.
	b.collectorsAre("enforce", "pods.quarantine=2s", "csrs.signers[0].name=e2e.test/client", "csrs.signers[0].refused=1m")
	b.operate() // these are other pods
	b.discard("taken")
	b.decided("done: jobs, delete Job taken, ttl_after_finished", "done: pods, delete Pod taken-lost, node_gone",
		"done: csrs, delete CertificateSigningRequest taken, denied")
	b.vanishes("taken")
	b.notes.ok("ebb deleted the finished Job with its Pod, the Pod of the lost Node, and the denied request")
	b.discard("again") // a rate needs two
	b.vanishes("again")
	b.dashboards(drawnLater, "10m")

	b.provision("--controllers", "*,-garbage-collector-controller", "controller-manager")
	b.managerRuns(others, true)
	// It creates ServiceAccounts for them, which remain.
	b.before["objects"] = append(b.before["objects"], "ServiceAccount kube-system pod-garbage-collector", "ServiceAccount kube-system "+ttlController)
	b.collectorsAre("observe")
	b.discard("returned")
	b.decided("observed: pods, fail-pod Pod returned-lost, node_gone", "observed: csrs, delete CertificateSigningRequest returned, denied")
	b.onlyByOthers("returned")
	need(b.kubectl("delete", "pod", "returned-lost", "--force", "--ignore-not-found")) // otherwise it is deleted after 40 s
	need(b.kubectl("delete", "csr", "returned"))                                       // and the request after an hour
	b.vanishes("returned")
	b.notes.ok("given back: the controller manager deleted a Job, and ebb deletes nothing, but says what it would")
}

// counterparts returns the controller manager's controllers that the page says to switch off.
func counterparts(page string) (names []string) {
	for _, m := range aCounterpart.FindAllStringSubmatch(page, -1) {
		names = append(names, m[1])
	}
	return names
}

var aCounterpart = regexp.MustCompile("(?m)^ *\\| .* \\| `--controllers=\\*,-([a-z-]+)` \\|$")

// managerRuns waits until the controller manager runs all of these controllers, or none. The
// controller manager has a health check for each controller that runs.
func (b *fixture) managerRuns(names []string, all bool) {
	b.eventually("the controller manager", func() error {
		checks, err := b.kubectl("--server=https://127.0.0.1:10257", "--insecure-skip-tls-verify", "get", "--raw", "/healthz?verbose")
		if err != nil {
			return err
		}
		for _, name := range append([]string{"job-controller"}, names...) {
			want := all || name == "job-controller"
			if strings.Contains(checks, "[+]"+name+" ok") != want {
				err = fmt.Errorf("want %s to run: %t; it says %s", name, want, tail(checks))
			}
		}
		return err
	})
}

// collectorsAre sets the mode of the three collectors, and other values. It waits for a leader with
// that configuration.
func (b *fixture) collectorsAre(mode string, values ...string) {
	for _, name := range []string{"pods", "jobs", "csrs"} {
		values = append(values, name+".mode="+mode)
	}
	for i := range values {
		values[i] = "controller.config.collectors." + values[i]
	}
	b.upgrade(values...)
	b.ready()
	b.eventually("a leader with this configuration", func() error {
		var list []struct{ Collector, Mode string }
		err := b.control(&list, "collectors")
		for _, c := range list {
			if slices.Contains([]string{"pods", "jobs", "csrs"}, c.Collector) && c.Mode != mode {
				err = fmt.Errorf("%s: %s", c.Collector, c.Mode)
			}
		}
		return err
	})
}

// control runs "ebb control" and decodes the JSON that the leader returns.
func (b *fixture) control(out any, args ...string) error {
	output, err := b.run("bin/ebb", append([]string{"control"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(output), out)
}

// discard creates one garbage object of each kind.
func (b *fixture) discard(name string) {
	request := need(b.run("openssl", "req", "-new", "-batch", "-newkey", "ed25519", "-nodes", "-keyout", "/dev/null", "-subj", "/CN="+name))
	b.apply(fmt.Sprintf(garbage, name, appImage, base64.StdEncoding.EncodeToString([]byte(request))))
	need(b.kubectl("certificate", "deny", name))
	b.notes.line("  # a Job with ttlSecondsAfterFinished: 1, a Pod with nodeName: lost, a request for a certificate that is denied")
}

// decided waits until "ebb control decisions" lists all of want.
func (b *fixture) decided(want ...string) {
	b.eventually("the decisions of ebb", func() error {
		var list []struct {
			Result, Collector, Verb, Reason string
			Object                          struct{ Kind, Name string }
		}
		err := b.control(&list, "decisions")
		left := slices.Clone(want)
		for _, d := range list {
			has := fmt.Sprintf("%s: %s, %s %s %s, %s", d.Result, d.Collector, d.Verb, d.Object.Kind, d.Object.Name, d.Reason)
			left = slices.DeleteFunc(left, func(w string) bool { return w == has })
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("it has not %q", left)
		}
		return err
	})
	b.notes.command("ebb control decisions   # in short")
	b.notes.output(strings.Join(want, "\n"))
}

const ttlController = "ttl-after-finished-controller"

// onlyByOthers waits until the controller manager has deleted the Job. It fails if the audit log
// shows that ebb deleted any of that garbage.
func (b *fixture) onlyByOthers(name string) {
	var deleted []string
	b.eventually("the controller manager to delete the Job", func() error {
		deleted = nil
		_, err := peers.ReadAuditLog(logs+"/audit.log", 0, func(e peers.AuditEvent) {
			if o := e.ObjectRef; e.Verb == "delete" && (o.Name == name || o.Name == name+"-lost") {
				deleted = append(deleted, o.Resource+" by "+e.User.Username)
			}
		})
		if err == nil && !slices.Contains(deleted, "jobs by system:serviceaccount:kube-system:"+ttlController) {
			err = fmt.Errorf("deleted: %q", deleted)
		}
		return err
	})
	if strings.Contains(fmt.Sprint(deleted), ":"+namespace+":") {
		fail("ebb observes, and yet: %q", deleted)
	}
}
