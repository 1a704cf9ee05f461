package contender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/ebb-agent/ebb/tools/peers"
)

// perTransaction is how many objects are written in one transaction: etcd's default limit.
const perTransaction = 128

// put is an operation of a transaction, as etcd's JSON gateway expects it.
type put struct {
	Put struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	} `json:"requestPut"`
}

// Fill writes objects into etcd while the API server is stopped: a million creations would take
// half an hour. Objects of one transaction share a version, which no watch should see. The API
// server cannot distinguish these objects from its own.
func (b *Fixture) Fill(ctx context.Context, objects iter.Seq[runtime.Object]) error {
	if err := b.CP.APIServer.Stop(ctx); err != nil {
		return err
	}
	if err := load(ctx, b.CP, objects); err != nil {
		return err
	}
	began := time.Now()
	// The API server first lists all objects into its caches, which can take longer than one Start
	// waits.
	err := b.CP.APIServer.Start(ctx)
	for ; err != nil && ctx.Err() == nil && b.CP.APIServer.Running() && time.Since(began) < 10*time.Minute; err = b.CP.APIServer.Start(ctx) {
	}
	return err
}

func load(ctx context.Context, cp *peers.ControlPlane, objects iter.Seq[runtime.Object]) error {
	client := peers.UnixClient(cp.EtcdSocket())
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	batch := make([]put, 0, perTransaction)
	flush := func() {
		full := batch
		batch = make([]put, 0, perTransaction)
		group.Go(func() error { return commit(ctx, client, full) })
	}
	for o := range objects {
		key, value, err := stored(o)
		if err != nil {
			return err
		}
		var p put
		p.Put.Key, p.Put.Value = []byte(key), value
		if batch = append(batch, p); len(batch) == perTransaction {
			flush()
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(batch) > 0 {
		flush()
	}
	return group.Wait()
}

// loaders is how many transactions are in flight.
const loaders = 4

func commit(ctx context.Context, client *http.Client, batch []put) error {
	var done struct{ Succeeded bool }
	if err := peers.Request(ctx, client, http.MethodPost, "http://etcd/v3/kv/txn", map[string]any{"success": batch}, &done); err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	if !done.Succeeded {
		return errors.New("write to etcd: the transaction did not succeed")
	}
	return nil
}

var encoder = protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)

// stored returns the key and the value under which the API server stores an object in etcd.
func stored(o runtime.Object) (key string, value []byte, err error) {
	var out bytes.Buffer
	if err := encoder.Encode(o, &out); err != nil {
		return "", nil, err
	}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		key = "/registry/configmaps/" + o.Namespace + "/" + o.Name
	case *corev1.Pod:
		key = "/registry/pods/" + o.Namespace + "/" + o.Name
	case *corev1.Node:
		key = "/registry/minions/" + o.Name
	case *corev1.Namespace:
		key = "/registry/namespaces/" + o.Name
	case *batchv1.Job:
		key = "/registry/jobs/" + o.Namespace + "/" + o.Name
	case *certificatesv1.CertificateSigningRequest:
		key = "/registry/certificatesigningrequests/" + o.Name
	default:
		return "", nil, fmt.Errorf("nobody knows where a %T is kept", o)
	}
	return key, out.Bytes(), nil
}

// Namespace returns a Namespace as the API server stores it.
func Namespace(m metav1.ObjectMeta) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: m,
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}
