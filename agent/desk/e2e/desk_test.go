package e2e

import (
	"net/http"
	"os"
	"regexp"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/desk/desktest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a control plane with the nodes and the pods of desktest.
type fixture struct {
	*testing.T
	cp      *peers.ControlPlane
	admin   *http.Client
	kubelet *desktest.Kubelet
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	peerstest.Need(t)
	b := &fixture{T: t}
	b.cp = peerstest.StartControlPlane(t, peers.Config{})
	var err error
	b.admin, err = b.cp.Admin()
	b.must(err)
	b.kubelet, err = desktest.Join(t.Context(), b.cp, t.TempDir(), desktest.AllNodes())
	b.must(err)
	t.Cleanup(b.kubelet.Close)
	return b
}

func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) do(method, path string, in any) {
	b.Helper()
	b.must(peers.Request(b.Context(), b.admin, method, b.cp.URL()+path, in, nil))
}

type object = map[string]any

// role is that of docs/security.md.
func role(t *testing.T) (rules []any) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Rules    []any
		}
		if err := yaml.Unmarshal(block[1], &o); err == nil && o.Kind == "Role" && o.Metadata.Name == "ebb-desk" && o.Metadata.Namespace == desk.DefaultNamespace {
			return o.Rules
		}
	}
	t.Fatal("docs/security.md has no Role ebb-desk")
	return nil
}

// let gives a user rights in the agents' namespace.
func (b *fixture) let(user string, rules ...any) {
	b.Helper()
	rbac := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + desktest.Namespace
	b.do(http.MethodPost, rbac+"/roles", object{"metadata": object{"name": user}, "rules": rules})
	b.do(http.MethodPost, rbac+"/rolebindings", object{
		"metadata": object{"name": user}, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
		"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	})
}

// TestDesk: with exactly the rights that docs/security.md names, and with less.
func TestDesk(t *testing.T) {
	b := newFixture(t)
	verbs := func(resource string, verbs ...string) any {
		return object{"apiGroups": []string{""}, "resources": []string{resource}, "verbs": verbs}
	}
	list := verbs("pods", "list")
	b.let("admin", role(t)...)
	b.let("reader", list)
	b.let("creator", list, verbs("pods/exec", "create"))
	b.let("getter", list, verbs("pods/exec", "get"))
	c := &desktest.Cluster{Kubelet: b.kubelet}
	for name, config := range map[string]**rest.Config{"admin": &c.Admin, "reader": &c.Reader, "creator": &c.Creator, "getter": &c.Getter} {
		path, err := b.cp.Kubeconfig(name)
		b.must(err)
		*config, err = clientcmd.BuildConfigFromFlags("", path)
		b.must(err)
	}
	desktest.Run(t, c)
}
