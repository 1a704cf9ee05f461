package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// collections are the paths of the kinds that Apply knows: those of deploy/.
var collections = map[string]string{
	"Namespace":                        "/api/v1/namespaces",
	"ServiceAccount":                   "/api/v1/namespaces/%s/serviceaccounts",
	"ConfigMap":                        "/api/v1/namespaces/%s/configmaps",
	"Pod":                              "/api/v1/namespaces/%s/pods",
	"DaemonSet":                        "/apis/apps/v1/namespaces/%s/daemonsets",
	"Deployment":                       "/apis/apps/v1/namespaces/%s/deployments",
	"Job":                              "/apis/batch/v1/namespaces/%s/jobs",
	"PodDisruptionBudget":              "/apis/policy/v1/namespaces/%s/poddisruptionbudgets",
	"NetworkPolicy":                    "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies",
	"ClusterRole":                      "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding":               "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role":                             "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":                      "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"FlowSchema":                       "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
	"PriorityLevelConfiguration":       "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}

// Apply does what "kubectl apply --server-side --validate=strict -f FILE" does, for
// the kinds that ebb deploys.
func (cp *ControlPlane) Apply(ctx context.Context, file string) error {
	admin, err := cp.Admin()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		if err := cp.apply(ctx, admin, document); err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
	}
	return nil
}

func (cp *ControlPlane) apply(ctx context.Context, admin *http.Client, document []byte) error {
	var o struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(document, &o); err != nil {
		return err
	}
	path := collections[o.Kind]
	if path == "" {
		return fmt.Errorf("kind %q: its path is not known", o.Kind)
	}
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, o.Metadata.Namespace)
	}
	url := cp.url + path + "/" + o.Metadata.Name + "?fieldManager=peers&force=true&fieldValidation=Strict"
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(document))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	resp, err := admin.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err == nil && resp.StatusCode/100 != 2 {
		err = &StatusError{Code: resp.StatusCode, Body: strings.TrimSpace(string(body))}
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", o.Kind, o.Metadata.Name, err)
	}
	return nil
}
