package peers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/yaml"
)

// Apply does what "kubectl apply --server-side --validate=strict -f FILE" does, for
// kinds with a regular plural, such as those that ebb deploys.
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
	var o metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &o); err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	path := "/apis/" + resource.Group
	if resource.Group == "" {
		path = "/api"
	}
	path += "/" + resource.Version
	if o.Namespace != "" {
		path += "/namespaces/" + o.Namespace
	}
	url := cp.url + path + "/" + resource.Resource + "/" + o.Name + "?fieldManager=peers&force=true&fieldValidation=Strict"
	if err := Request(ctx, admin, http.MethodPatch, url, Manifest(document), nil); err != nil {
		return fmt.Errorf("%s %q: %w", o.Kind, o.Name, err)
	}
	return nil
}
