package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/tools/peers"
)

// onlyIfFirst is what the agent asks before it removes what a deleted pod has left. In a
// run the kubelet can be first each time, so that it has no cause to ask; that it does
// otherwise is what the tests of agent/node/beside and runtime/kube/e2e show.
const onlyIfFirst = "get /pods"

// rights compares what ebb asked the API server for with what its roles allow.
func (b *bed) rights() error {
	asked := map[string][]string{} // by account
	var refused []string
	const accounts = "system:serviceaccount:" + namespace + ":"
	_, err := peers.ReadAuditLog(logs+"/audit.log", 0, func(e peers.AuditEvent) {
		account, ours := strings.CutPrefix(e.User.Username, accounts)
		if !ours {
			return
		}
		request := strings.TrimSpace(e.Verb + " " + e.ObjectRef.APIGroup + "/" + e.ObjectRef.Resource)
		if e.ResponseStatus.Code == http.StatusForbidden || e.ResponseStatus.Code == http.StatusUnauthorized {
			refused = append(refused, account+": "+request)
		}
		if e.ObjectRef.Resource != "" && !slices.Contains(asked[account], request) {
			asked[account] = append(asked[account], request)
		}
	})
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("the API server refused: %q", refused)
	}
	granted, err := b.granted("ebb-agent")
	if err != nil {
		return err
	}
	for _, right := range granted {
		if !slices.Contains(asked["ebb-agent"], right) && right != onlyIfFirst {
			return fmt.Errorf("the agent may %s, and never did; it asked for %q", right, asked["ebb-agent"])
		}
	}
	b.notes.ok("the agent's role allows %s: what it asked for, and nothing else", strings.Join(granted, ", "))
	if len(asked["ebb-controller"]) == 0 {
		return fmt.Errorf("the audit log has nothing of the controller")
	}
	b.notes.ok("the controller made %d kinds of requests, none of which was refused", len(asked["ebb-controller"]))
	return nil
}

// granted lists what a ClusterRole allows, as "verb group/resource".
func (b *bed) granted(role string) ([]string, error) {
	var r struct {
		Rules []struct{ APIGroups, Resources, Verbs []string }
	}
	if err := b.get(&r, "clusterrole", role); err != nil {
		return nil, err
	}
	var all []string
	for _, rule := range r.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+group+"/"+resource)
				}
			}
		}
	}
	return all, nil
}

// doors looks at what ebb's processes listen on.
func (b *bed) doors() error {
	for name, want := range map[string][]string{
		"ebb-agent":      {"tcp :::9478"},
		"ebb-controller": {"tcp :::9479", "unix " + adminSocket},
	} {
		pids, err := processes(name)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return fmt.Errorf("no process of %s", name)
		}
		for _, pid := range pids {
			have, err := listeners(pid)
			if err != nil {
				return err
			}
			if !slices.Equal(have, want) {
				return fmt.Errorf("%s listens on %q, not on %q", name, have, want)
			}
			if err := private(pid, want); err != nil {
				return err
			}
		}
		b.notes.ok("%s listens on %s only", name, strings.Join(want, " and "))
	}
	return b.harmless()
}

// adminSocket takes what changes something, in the controller's own container.
const adminSocket = "/run/ebb/controller.sock"

// private looks whether the sockets of a process are for its own user alone.
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

// harmless tries to change something over TCP.
func (b *bed) harmless() error {
	pods, err := b.kubectl("--namespace", namespace, "get", "pods", "--selector=app.kubernetes.io/component=controller",
		"--output=jsonpath={.items[*].status.podIP}")
	if err != nil {
		return err
	}
	urls := []string{agentURL}
	for _, ip := range strings.Fields(pods) {
		urls = append(urls, "http://"+ip+":9479")
	}
	for _, url := range urls {
		for _, path := range []string{"/control/pause", "/control/resume", "/images", "/"} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				req, err := http.NewRequestWithContext(b, method, url+path, nil)
				if err != nil {
					return err
				}
				resp, err := plain.Do(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
					return fmt.Errorf("%s %s%s: %s", method, url, path, resp.Status)
				}
			}
		}
	}
	b.notes.ok("over TCP nothing can be changed: POST, PUT, DELETE and PATCH are refused")
	return nil
}
