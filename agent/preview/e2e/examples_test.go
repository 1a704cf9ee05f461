package e2e

import (
	"net/http"
	"os/exec"
	"testing"

	"github.com/ebb-agent/ebb/tools/buildtest"
)

// testExamples runs the examples of the help. The fixture has the objects that they name.
func testExamples(t *testing.T, b *fixture) {
	labels, pods := object{"app": "web"}, object{"containers": []object{{"name": "main", "image": "web"}}}
	b.Must(t, http.MethodPost, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "shop"}})
	b.Must(t, http.MethodPost, "/api/v1/nodes", object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "worker-3"}})
	b.Must(t, http.MethodPost, "/apis/apps/v1/namespaces/shop/deployments", object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web"},
		"spec": object{"selector": object{"matchLabels": labels}, "template": object{"metadata": object{"labels": labels}, "spec": pods}}})
	ebb := buildtest.Program(t, "cmd/ebb")
	for _, args := range buildtest.Examples(t, ebb, "cascade") {
		out, errs, code := buildtest.Run(t, exec.CommandContext(t.Context(), ebb, append(args, "--kubeconfig", b.kubeconfig)...))
		if code != 0 || out == "" || errs != "" {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}
