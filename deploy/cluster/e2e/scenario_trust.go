package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/tools/peers"
)

// onlyIfFirst is the right that the agent uses before it removes the remains of a
// deleted pod. In a run the kubelet may always be first, so the agent need not use the
// right. The tests of agent/node/beside and runtime/kube/e2e show that it does.
const onlyIfFirst = "get /pods"

// unseen is what the account of "helm test" asks for and may not see: the kubelets, and the pods of other
// namespaces. ebb status shows both as unknown.
var unseen = []string{"ebb-test: get /nodes", "ebb-test: list /pods"}

// rights compares ebb's requests to the API server with what its roles allow.
func (b *fixture) rights() {
	asked := map[string][]string{} // by account
	var refused []string
	const accounts = "system:serviceaccount:" + namespace + ":"
	need(peers.ReadAuditLog(logs+"/audit.log", 0, func(e peers.AuditEvent) {
		account, ours := strings.CutPrefix(e.User.Username, accounts)
		if !ours {
			return
		}
		request := strings.TrimSpace(e.Verb + " " + e.ObjectRef.APIGroup + "/" + e.ObjectRef.Resource)
		if e.ResponseStatus.Code == http.StatusForbidden || e.ResponseStatus.Code == http.StatusUnauthorized {
			if r := account + ": " + request; !slices.Contains(unseen, r) {
				refused = append(refused, r)
			}
		}
		if e.ObjectRef.Resource != "" && !slices.Contains(asked[account], request) {
			asked[account] = append(asked[account], request)
		}
	}))
	if len(refused) > 0 {
		fail("the API server refused: %q", refused)
	}
	granted := b.granted("ebb-agent")
	for _, right := range granted {
		if !slices.Contains(asked["ebb-agent"], right) && right != onlyIfFirst {
			fail("the agent may %s, and never did; it asked for %q", right, asked["ebb-agent"])
		}
	}
	b.notes.ok("the agent's role allows %s: what it asked for, and nothing else", strings.Join(granted, ", "))
	if len(asked["ebb-controller"]) == 0 {
		fail("the audit log has nothing of the controller")
	}
	b.notes.ok("the controller made %d kinds of requests, none of which was refused", len(asked["ebb-controller"]))
}

// granted returns the rights of a ClusterRole, each as "verb group/resource".
func (b *fixture) granted(role string) (all []string) {
	var r struct {
		Rules []struct{ APIGroups, Resources, Verbs []string }
	}
	b.get(&r, "clusterrole", role)
	for _, rule := range r.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+group+"/"+resource)
				}
			}
		}
	}
	return all
}

// listeners checks the addresses and sockets on which ebb's processes listen.
func (b *fixture) listeners() {
	for name, want := range map[string][]string{
		"ebb-agent":      {"tcp " + b.agentAddress(), "tcp 127.0.0.1:9480", "unix " + agentSocket},
		"ebb-controller": {"tcp :::9479", "tcp :::9481", "unix " + adminSocket},
	} {
		slices.Sort(want)
		pids := need(processes(name))
		if len(pids) == 0 {
			fail("no process of %s", name)
		}
		for _, pid := range pids {
			have := need(listeners(pid))
			if !slices.Equal(have, want) {
				fail("%s listens on %q, not on %q", name, have, want)
			}
			must(private(pid, want))
		}
		b.notes.ok("%s listens on %s only", name, strings.Join(want, " and "))
	}
	b.harmless()
}

// adminSocket is where the controller accepts changes, in its own container.
const adminSocket = "/run/ebb/controller.sock"

// private returns an error if a Unix socket of a process is accessible to other users.
func private(pid int, listens []string) error {
	for _, l := range listens {
		path, is := strings.CutPrefix(l, "unix ")
		if !is {
			continue
		}
		info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", pid, path))
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s is for others, too: %s", path, info.Mode())
		}
	}
	return nil
}

// harmless checks that nothing can be changed over TCP.
func (b *fixture) harmless() {
	pods := need(b.kubectl("--namespace", namespace, "get", "pods", "--selector=app.kubernetes.io/component=controller",
		"--output=jsonpath={.items[*].status.podIP}"))
	urls := []string{"http://" + b.agentAddress()}
	for _, ip := range strings.Fields(pods) {
		urls = append(urls, "http://"+ip+":9479")
	}
	for _, url := range urls {
		for _, path := range []string{"/control/pause", "/control/resume", "/images", "/"} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				req := need(http.NewRequestWithContext(b, method, url+path, nil))
				resp := need(plain.Do(req))
				resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
					fail("%s %s%s: %s", method, url, path, resp.Status)
				}
			}
		}
	}
	b.notes.ok("over TCP nothing can be changed: POST, PUT, DELETE and PATCH are refused")
}
