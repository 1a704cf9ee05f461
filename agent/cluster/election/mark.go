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

// markKey is the annotation that a Mark is.
const markKey = "ebb-agent.github.io/halted"

// ErrNoMark: this identity may not keep one.
var ErrNoMark = errors.New("not allowed to read the lease")

// Mark is a word that is kept on the Lease, for whoever leads next. It is there
// without an election, too: then the Lease has no holder. Writing it makes a renewal
// that is on its way fail once, which the library repeats at once.
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
func (m *Mark) Read(ctx context.Context) (string, error) {
	lease, err := m.client.Get(ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("%w %s/%s", ErrNoMark, m.namespace, m.name)
	}
	if err != nil {
		return "", fmt.Errorf("read the mark on lease %s/%s: %w", m.namespace, m.name, err)
	}
	return lease.Annotations[markKey], nil
}

// Write it; empty takes it away.
func (m *Mark) Write(ctx context.Context, word string) error {
	annotations := map[string]any{markKey: nil}
	if word != "" {
		annotations[markKey] = word
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("write the mark: %w", err)
	}
	_, err = m.client.Patch(ctx, m.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && word == "" {
		return nil
	}
	if apierrors.IsNotFound(err) {
		_, err = m.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: m.name, Namespace: m.namespace, Annotations: map[string]string{markKey: word}}}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the mark on lease %s/%s: %w", m.namespace, m.name, err)
	}
	return nil
}
