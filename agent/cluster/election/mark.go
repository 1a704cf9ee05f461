package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// The annotations that a Mark is.
const (
	haltedKey    = "ebb-agent.github.io/halted"
	deletionsKey = "ebb-agent.github.io/deletions"
)

// ErrNoMark: this identity may not keep one.
var ErrNoMark = errors.New("no lease that may be read and written")

// Kept is what one leader leaves to the next; empty is nothing.
type Kept struct {
	Halted    string // why it sends nothing
	Deletions string // how many there were
}

// Mark is what is kept on the Lease, for whoever leads next. It is there without an
// election, too: then the Lease has no holder. Writing it makes a renewal that is on its
// way fail once, which the library repeats at once.
type Mark struct {
	client          coordination.LeaseInterface
	namespace, name string
}

// NewMark asks nothing yet.
func NewMark(config *rest.Config, o Options) (*Mark, error) {
	client, err := coordination.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "mark"))
	if err != nil {
		return nil, fmt.Errorf("keep a mark: %w", err)
	}
	return &Mark{client.Leases(o.Namespace), o.Namespace, o.Name}, nil
}

// Read it; empty if there is none, or no Lease.
func (m *Mark) Read(ctx context.Context) (Kept, error) {
	lease, err := m.client.Get(ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Kept{}, nil
	}
	if err != nil {
		return Kept{}, m.failed("read", err)
	}
	return Kept{lease.Annotations[haltedKey], lease.Annotations[deletionsKey]}, nil
}

// Write it; what is empty is taken away.
func (m *Mark) Write(ctx context.Context, k Kept) error {
	annotations, set := map[string]any{}, map[string]string{}
	for key, word := range map[string]string{haltedKey: k.Halted, deletionsKey: k.Deletions} {
		annotations[key] = nil
		if word != "" {
			annotations[key], set[key] = word, word
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("write the mark: %w", err)
	}
	_, err = m.client.Patch(ctx, m.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && len(set) == 0 {
		return nil
	}
	if apierrors.IsNotFound(err) {
		_, err = m.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: m.name, Namespace: m.namespace, Annotations: set}}, metav1.CreateOptions{})
	}
	if err != nil {
		return m.failed("write", err)
	}
	return nil
}

func (m *Mark) failed(what string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // or no namespace for it
		err = errors.Join(ErrNoMark, err)
	}
	return fmt.Errorf("%s the mark on lease %s/%s: %w", what, m.namespace, m.name, err)
}
