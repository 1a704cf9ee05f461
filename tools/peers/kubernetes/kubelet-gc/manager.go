package main

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
)

// newManager makes the runtime manager as NewMainKubelet does: its collector is
// unexported. Arguments that the collector does not use are zero.
func newManager(ctx context.Context, scratch string, w *world) (kuberuntime.KubeGenericRuntime, error) {
	manager, _, err := kuberuntime.NewKubeGenericRuntimeManager(
		ctx,
		&record.FakeRecorder{}, // without a channel: it drops events
		nil, nil, nil,          // results of probes
		scratch, podLogs,
		nil, // the machine
		w,
		110, // pods; sizes caches of image pulls
		fileSystem{world: w},
		nil,                  // helper for starting containers
		nil,                  // HTTP client for hooks
		nil, true, nil, 0, 0, // image pulls: backoff, serialized, parallel, QPS, burst
		string(config.NeverVerify), nil, "", "", // credentials of images
		nil, false, metav1.Duration{}, // CPU and OOM
		containerRuntime{world: w}, imageService{},
		cm.NewFakeContainerManager(), logs.NewStubContainerLogManager(),
		nil,            // runtime classes
		false, "", nil, // seccomp, swap, allocatable
		0, "", // memory QoS
		nil, // times of pulls
		noop.NewTracerProvider(),
		nil, nil, nil, // tokens, service accounts, times of init containers
	)
	if err != nil {
		return nil, fmt.Errorf("make the kubelet's runtime manager: %w", err)
	}
	return manager, nil
}
